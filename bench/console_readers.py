"""Readers of the console without a browser: each holds the stream of changes and reads the list as tabs do.

Run as `python -m bench.console_readers URL --tabs 50`. It says "ready" when every reader has its stream and
its first list, and prints one JSON object with what was read when its input ends. Fifty browsers would need
more processors than the server that is measured; what they ask of it is the same. A reader keeps the pace of
`js/live.js` (five readings at once, then four a second) and of `js/views/executions.js` (counts every four
seconds).
"""

import argparse
import asyncio
import json
import sys
from typing import Final
from urllib.parse import urlsplit

import uvloop
from msgspec import Struct

credits_max: Final = 5.0
credits_per_s: Final = 4.0
apart_s: Final = 0.05
count_every_s: Final = 4.0
LIST: Final = "/v1/executions?limit=60"
COUNTS: Final = "/v1/counts"


class Seen(Struct):
    frames: int = 0
    bytes: int = 0
    lists: int = 0
    counts: int = 0


class Reader:
    def __init__(self, host: str, port: int, seen: Seen) -> None:
        self._host, self._port, self._seen = host, port, seen
        self._changed = asyncio.Event()

    def _ask(self, path: str, accept: str) -> bytes:
        lines = (
            f"GET {path} HTTP/1.1", f"Host: {self._host}:{self._port}", f"Accept: {accept}",
            "Cache-Control: max-age=1",
        )  # fmt: skip
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def follow(self, ready: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=4_194_304)
        writer.write(self._ask("/v1/changes", "text/event-stream"))
        while line := await reader.readline():
            self._seen.bytes += len(line)
            if line.startswith(b"event: hello"):
                ready.set()
            elif line.startswith((b"event: changes", b"event: reload")):
                self._seen.frames += 1
                self._changed.set()

    async def read(self, ready: asyncio.Event) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=4_194_304)
        loop = asyncio.get_running_loop()
        left, at_s, counted_s = credits_max, loop.time(), 0.0
        await self._get(reader, writer, LIST)
        ready.set()
        while True:
            await self._changed.wait()
            left = min(credits_max, left + (loop.time() - at_s) * credits_per_s)
            at_s = loop.time()
            await asyncio.sleep(max(apart_s, (1 - left) / credits_per_s))
            left -= 1
            self._changed.clear()
            await self._get(reader, writer, LIST)
            self._seen.lists += 1
            if loop.time() - counted_s >= count_every_s:
                counted_s = loop.time()
                await self._get(reader, writer, COUNTS)
                self._seen.counts += 1

    async def _get(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(self._ask(path, "application/json"))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{path} was answered with {head[:200]!r}")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        self._seen.bytes += len(await reader.readexactly(int(length.partition(b":")[2])))


async def run(url: str, tabs: int) -> None:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    seen = Seen()
    work: list[asyncio.Task[None]] = []
    for _ in range(tabs):
        reader, opened, listed = Reader(host, port, seen), asyncio.Event(), asyncio.Event()
        work += [asyncio.create_task(reader.follow(opened)), asyncio.create_task(reader.read(listed))]
        async with asyncio.timeout(30):
            await opened.wait()
            await listed.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for each in work:
        if each.done() and (error := each.exception()) is not None:
            raise error
        each.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    json.dump({name: getattr(seen, name) for name in seen.__struct_fields__}, sys.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--tabs", type=int, default=50)
    given = parser.parse_args()
    uvloop.run(run(given.url, given.tabs))


if __name__ == "__main__":
    main()
