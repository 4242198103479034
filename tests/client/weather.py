"""Bad weather between a client and a server: a TCP proxy that loses replies, hangs or talks nonsense."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Weather:
    """Passes bytes through, except for the next few requests, to which something happens."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._host, self._port = parts.hostname, parts.port
        self.url = ""
        self.posts = 0
        self.replies_to_lose = 0
        self.answers: list[bytes] = []  # said instead of what the server would say
        self.hangs = False
        self._writers: set[asyncio.StreamWriter] = set()

    def break_all(self) -> None:
        """Every connection ends at once."""
        for writer in [*self._writers]:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, upstream}
        downward = asyncio.create_task(self._downward(upstream_reader, writer))
        try:
            while data := await reader.read(1_048_576):
                if data.startswith(b"POST"):
                    self.posts += 1
                    if self.answers:
                        await reader.readexactly(_missing(data))
                        writer.write(self.answers.pop(0))
                        continue
                if not self.hangs:
                    upstream.write(data)
        except ConnectionError:
            pass
        finally:
            downward.cancel()
            self._writers -= {writer, upstream}
            for stream in (upstream, writer):
                stream.transport.abort()
                with suppress(OSError):
                    await stream.wait_closed()

    async def _downward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1_048_576):
            if self.replies_to_lose and data.startswith(b"HTTP/"):
                self.replies_to_lose -= 1
                break
            writer.write(data)
        writer.transport.abort()


def _missing(data: bytes) -> int:
    """How much of a request is still to come."""
    head, _, body = data.partition(b"\r\n\r\n")
    [size] = [int(line.split()[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
    return size - len(body)


@asynccontextmanager
async def weather(server_url: str) -> AsyncGenerator[Weather]:
    """A proxy in front of a server, for the time of a block."""
    proxy = Weather(server_url)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listener.close()
        proxy.break_all()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)


def refusal(status: int, sentence: str, code: str | None = None) -> bytes:
    """Without a code in its head it is an older server's."""
    head = {"corrId": "0", "status": status, "version": "2026-04-01"} | ({"code": code} if code else {})
    return json.dumps({"kind": "unknown", "head": head, "data": sentence}).encode()


def reply(status: int, body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers, len(body), body)
