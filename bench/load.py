"""A lean load generator: many connections, one request at a time on each, in a process of its own.

Run as `python -m bench.load URL --connections 64 --seconds 3 --batch 1`; prints one JSON object with the rate
and the latencies, so that the process that is measured never shares an interpreter with the one that asks.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop
from msgspec import Struct

far_ms = 4_102_444_800_000


class Outcome(Struct, frozen=True):
    """What one run of the generator saw."""

    requests_per_s: float
    envelopes_per_s: float
    p50_ms: float
    p99_ms: float
    statuses: dict[str, int]


def create_envelope(promise_id: str) -> bytes:
    """About 300 bytes, as an SDK would send them."""
    return json.dumps(
        {
            "kind": "promise.create",
            "head": {"corrId": promise_id, "version": "2026-04-01"},
            "data": {
                "id": promise_id,
                "timeoutAt": far_ms,
                "param": {"data": "eyJmdW5jIjoiZm9vIiwiYXJncyI6WzEsMiwzXX0="},
                "tags": {"resonate:scope": "global", "resonate:branch": promise_id, "app": "bench"},
            },
        }
    ).encode()


def post(host: str, body: bytes, token: str | None = None) -> bytes:
    auth = f"Authorization: Bearer {token}\r\n" if token else ""
    head = (
        f"POST / HTTP/1.1\r\nHost: {host}\r\n{auth}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Caller(asyncio.Protocol):
    """Sends, waits for the whole answer, sends again."""

    def __init__(self, make: Callable[[], bytes], latencies: list[float], statuses: dict[str, int]) -> None:
        self.make = make
        self.latencies = latencies
        self.statuses = statuses
        self.buffer = b""
        self.needed = 0
        self.stopped = False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self.buffer = b""
        self.needed = 0
        self.sent_at = time.perf_counter()
        self.transport.write(self.make())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.needed:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            at = head.index(b"content-length:") + 15
            stop = head.find(b"\r\n", at)
            self.needed = end + 4 + int(head[at : stop if stop >= 0 else end])
        if len(self.buffer) >= self.needed:
            self.latencies.append(time.perf_counter() - self.sent_at)
            status = self.buffer[9:12].decode()
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if self.stopped:
                self.transport.close()
            else:
                self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def load(
    url: str, connections: int, seconds: float, batch: int, token: str | None, tag: str
) -> Outcome:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    numbers = count()
    latencies: list[float] = []
    statuses: dict[str, int] = {}

    def make() -> bytes:
        if batch == 1:
            return post(f"{host}:{port}", create_envelope(f"{tag}.{next(numbers)}"), token)
        bodies = b",".join(create_envelope(f"{tag}.{next(numbers)}") for _ in range(batch))
        return post(f"{host}:{port}", b"[" + bodies + b"]", token)

    loop = asyncio.get_running_loop()
    callers: list[Caller] = []
    for _ in range(connections):
        _, caller = await loop.create_connection(lambda: Caller(make, latencies, statuses), host, port)
        callers.append(caller)
    await asyncio.sleep(min(0.5, seconds / 4))  # warm up
    latencies.clear()
    statuses.clear()
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    took = time.perf_counter() - started
    seen = sorted(latencies)
    rate = len(seen) / took
    counted = dict(statuses)
    for caller in callers:
        caller.stopped = True
    await asyncio.wait([caller.closed for caller in callers], timeout=5)
    return Outcome(rate, rate * batch, _quantile(seen, 0.5), _quantile(seen, 0.99), counted)


def _quantile(seen: list[float], share: float) -> float:
    return seen[min(len(seen) - 1, int(len(seen) * share))] * 1000 if seen else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--token")
    parser.add_argument("--tag", default=f"load-{os.getpid()}-{time.time_ns()}")
    given = parser.parse_args()
    run = load(given.url, given.connections, given.seconds, given.batch, given.token, given.tag)
    outcome = uvloop.run(run)
    sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")


if __name__ == "__main__":
    main()
