"""A server of its own for each attack: `holdfast serve` with default settings, in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

token = "bench-attacks-token"


class Victim:
    def __init__(self, pid: int, host: str, port: int) -> None:
        self.pid = pid
        self.host = host
        self.port = port

    @property
    def peak_bytes(self) -> int:
        """The most memory that was ever resident."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1_024
        raise RuntimeError("the server is dead")

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**20)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def post(self, body: bytes, *, authorized: bool = True) -> tuple[int, bytes]:
        async with self.connect() as (reader, writer):
            return await exchange(reader, writer, body, authorized=authorized)


Attack = Callable[[Victim], Awaitable[None]]


def post_head(length: int | None, *, authorized: bool = True) -> bytes:
    """The head of `POST /`; with no length the body is chunked."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    auth = f"authorization: Bearer {token}\r\n" if authorized else ""
    return f"POST / HTTP/1.1\r\nhost: localhost\r\n{auth}{framing}\r\n\r\n".encode()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes, *, authorized: bool = True
) -> tuple[int, bytes]:
    writer.write(post_head(len(body), authorized=authorized) + body)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


def stop_reading(writer: asyncio.StreamWriter) -> None:
    cast("asyncio.Transport", writer.transport).pause_reading()


def envelope(kind: str, data: object, corr_id: str = "c") -> dict[str, object]:
    return {"kind": kind, "head": {"corrId": corr_id, "version": "2026-04-01"}, "data": data}


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


@asynccontextmanager
async def victim(store: str) -> AsyncGenerator[Victim]:
    """Default settings, but for the port, the store and one token that may do everything."""
    given = {"HOLDFAST_TOKENS": token, "HOLDFAST_LOG_LEVEL": "error"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", store),
        stdout=subprocess.PIPE,
        env=os.environ | given,
    )
    assert process.stdout is not None
    url = urlsplit((await process.stdout.readline()).decode().rsplit(" ", 1)[1].strip())
    try:
        yield Victim(process.pid, url.hostname or "127.0.0.1", url.port or 0)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
