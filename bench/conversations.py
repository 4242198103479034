"""Measures conversations against what was promised of them: `make bench-conversations`.

On SQLite, embedded and through HTTP (a server in a process of its own, on the same disk). Ratios are taken
within one run: messages against plain durable creates by as many callers, chunks that a step emits against
Redis (`redis-server` of the system, with `appendfsync always`), a long mailbox against a short one.
"""

import argparse
import asyncio
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.payloads.messages import encode_message
from holdfast.protocol.replies import PromiseReply, StreamAppendReply
from holdfast.protocol.requests import PromiseCreate, StreamAppend
from tests.processes import Server

senders: Final = 32
sent: Final = 3_200
latencies: Final = 200
chunk: Final = "x" * 100
chunks: Final = 2_000
at_once: Final = 500  # of the messages that fill a mailbox
far: Final = 2**52

seen: list[float] = []
heard: list[asyncio.Event] = []  # that of the loop which is measured


def app_of(url: str) -> App:
    app = App(url)

    @app.workflow
    async def sink() -> None:
        await hf.promise(name="end")

    @app.workflow
    async def echo() -> None:
        async for message in hf.mailbox(int):
            message.answer(message.value)

    @app.workflow
    async def note() -> None:
        async for message in hf.mailbox(int):
            note_time(message.value)

    @app.workflow
    async def speak() -> float:
        return await hf.run(_emit_chunks)

    return app


def note_time(number: int) -> None:
    if number >= 0:
        with hf.unguarded():  # the code does not depend on what time it is
            seen.append(time.perf_counter())
            heard[-1].set()


def _emit_chunks() -> float:
    began = time.perf_counter()
    for _ in range(chunks):
        hf.emit("chunks", chunk)
    return began


async def rate(each: Callable[[int], Awaitable[object]], count: int) -> float:
    """Calls a second by as many callers as there are senders."""

    async def caller(start: int) -> None:
        for number in range(start, count, senders):
            await each(number)

    began = time.perf_counter()
    await asyncio.gather(*[caller(start) for start in range(senders)])
    return count / (time.perf_counter() - began)


async def p50_ms(each: Callable[[int], Awaitable[float]], count: int = latencies) -> float:
    return statistics.median([await each(number) for number in range(count)]) * 1000


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


class Bench:
    def __init__(self, app: App, name: str) -> None:
        self.app = app
        self.name = name
        self._caller = app.session.executions.caller

    async def create(self, promise_id: str) -> None:
        await self._caller.ask(PromiseCreate(promise_id, far), PromiseReply)

    async def throughput(self) -> list[Row]:
        app = self.app
        await asyncio.gather(*[app.start("sink", id=f"{self.name}-{n}").started() for n in range(senders)])
        creates = [await rate(lambda n: self.create(f"{self.name}-plain-{n}"), sent)]
        many = await rate(lambda n: app.tell(f"{self.name}-{n % senders}", n), sent)
        creates.append(await rate(lambda n: self.create(f"{self.name}-again-{n}"), sent))
        one = await rate(lambda n: app.tell(f"{self.name}-0", n), sent)
        plain = statistics.mean(creates)
        return [
            self.row(f"tell, {senders} senders to {senders} executions, to creates", many / plain, 0.7, "x"),
            self.row(f"tell, {senders} senders to one execution, to creates", one / plain, 0.5, "x"),
        ]

    async def latency(self) -> list[Row]:
        app, name = self.app, f"{self.name}-note"
        await app.start("note", id=name).started()
        plain = await p50_ms(lambda n: timed(self.create(f"{self.name}-one-{n}")))
        received = await p50_ms(lambda n: self.until_seen(name, n))
        await app.start("echo", id=f"{self.name}-echo").started()
        asked = await p50_ms(lambda n: timed(app.ask(f"{self.name}-echo", n, timeout="30s")))
        most = 5.0 if self.name == "embedded" else 8.0
        return [
            self.row("tell to the code's next line, p50, to a create", received / plain, 3.0, "x", most=True),
            self.row("ask and answer, p50", asked, most, " ms", most=True),
        ]

    async def until_seen(self, name: str, number: int) -> float:
        """From before the call to the line after the `receive`."""
        heard[-1].clear()
        began = time.perf_counter()
        await self.app.tell(name, number)
        await heard[-1].wait()
        return seen[-1] - began

    async def long_mailbox(self, messages: int) -> Row:
        """The next messages of an execution that has received very many, against its first ones."""
        name = f"{self.name}-long"
        await self.app.start("note", id=name).started()
        first = await p50_ms(lambda n: self.until_seen(name, n), 100)
        silent = encode_message(self.app.payloads, -1)
        for start in range(0, messages, at_once):
            asked = [StreamAppend(name, "in", silent, f"m{start + n}") for n in range(at_once)]
            await self._caller.ask_all(asked, StreamAppendReply)
            await self.until_seen(name, 0)  # a mailbox holds only so many that are unread
        later = await p50_ms(lambda n: self.until_seen(name, n), 100)
        return self.row(f"after {messages:,} messages, to the first 100", later / first, 1.3, "x", most=True)

    async def emitting(self) -> tuple[float, list[Row]]:
        handle = self.app.start("speak", id=f"{self.name}-speak")
        began = await handle
        per_s = chunks / (time.perf_counter() - began)
        redis = await asyncio.to_thread(redis_per_s)
        if redis is None:
            missing = "redis-server is not installed"
            return per_s, [Row(f"{self.name}: emit against Redis XADD", missing, ">= 1x", ok=False)]
        return per_s, [self.row("emit from one step, 100 bytes, to Redis XADD", per_s / redis, 1.0, "x")]

    def row(self, what: str, value: float, bound: float, unit: str, *, most: bool = False) -> Row:
        ok = value <= bound if most else value >= bound
        sign = "<=" if most else ">="
        return Row(f"{self.name}: {what}", f"{value:.2f}{unit}", f"{sign} {bound:g}{unit}", ok)


def redis_per_s() -> float | None:
    """XADD of the same chunks, one after the other, each on disk before the next."""
    program = shutil.which("redis-server")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "redis.sock"
        options = ["--port", "0", "--unixsocket", str(place), "--dir", folder, "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "always"]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            while not place.exists():
                time.sleep(0.01)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(place))
                return _add_all(client)
        finally:
            process.terminate()
            process.wait()


def _add_all(client: socket.socket) -> float:
    words = ("XADD", "chunks", "*", "chunk", chunk)
    command = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    began = time.perf_counter()
    for _ in range(chunks):
        client.sendall(command.encode())
        if not client.recv(4_096).startswith(b"$"):
            raise RuntimeError("Redis refused an XADD")
    return chunks / (time.perf_counter() - began)


async def measure(url: str, name: str, messages: int) -> list[Row]:
    async with app_of(url) as app:
        heard.append(asyncio.Event())
        bench = Bench(app, name)
        rows: list[Any] = [*await bench.throughput(), *await bench.latency()]
        _, emitted = await bench.emitting()
        return [*rows, *emitted, await bench.long_mailbox(messages)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000, help="of the long mailbox (50,000)")
    parser.add_argument("--only", choices=("embedded", "http"))
    options = parser.parse_args()
    rows: list[Row] = []
    if options.only != "http":
        with tempfile.TemporaryDirectory() as folder:
            rows += asyncio.run(measure(f"sqlite:///{folder}/bench.db", "embedded", options.messages))
    if options.only != "embedded":
        with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server:
            rows += asyncio.run(measure(server.url, "http", options.messages))
    print_table("conversations", rows)


if __name__ == "__main__":
    main()
