"""Measures the server against what was promised of it: `make bench-server`.

Server and load generator are processes of their own. The constant is the same server (same parser, same
checks, same encoding) whose node answers at once without a store. Rounds alternate, so that a noisy machine
disturbs all alike; ratios are taken within a round and their median counts.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop

from bench.load import Outcome, create_envelope, far_ms, post
from bench.table import Row, print_table
from holdfast.protocol.records import NOTHING, Promise
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import Request
from holdfast.server import Settings, running, serve

rust_creates_per_s = 2_800  # the published server of this protocol, as measured on such a machine
constant = Reply(200, PromiseReply(Promise("constant", "pending", NOTHING, NOTHING, {}, far_ms, 1)))


def _answer_a_constant(requests: Sequence[Request]) -> asyncio.Future[list[Reply]]:
    answered: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
    answered.set_result([constant] * len(requests))
    return answered


async def _serve_constant(port: int) -> None:
    async with running(Settings(port=port, store="memory:")) as server:
        server.node.submit = _answer_a_constant  # type: ignore[method-assign]
        sys.stdout.write(f"ready at {server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


class Served(NamedTuple):
    url: str
    pid: int

    def cpu_s(self) -> float:
        """CPU time of the server so far; 0 where there is no /proc."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.exists():
            return 0.0
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(what: str) -> AsyncGenerator[Served]:
    command = [sys.executable, "-m", "bench.server", "--serve", what]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().rsplit(" ", 1)[1].strip()
    try:
        yield Served(url, process.pid)
    finally:
        process.kill()
        await process.wait()


async def load(server: Served, batch: int, seconds: float) -> tuple[Outcome, float]:
    """What the generator saw, and the CPU time that the server spent on one envelope, in microseconds."""
    before = server.cpu_s()
    command = [
        sys.executable,
        "-m",
        "bench.load",
        server.url,
        "--batch",
        str(batch),
        "--seconds",
        str(seconds),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output, _ = await process.communicate()
    outcome = msgspec.json.decode(output, type=Outcome)
    assert outcome.statuses.keys() == {"200"}, outcome.statuses
    envelopes = outcome.envelopes_per_s * (seconds + min(0.5, seconds / 4))  # the warm-up counts as well
    return outcome, (server.cpu_s() - before) / envelopes * 1e6


async def throughput(folder: str, rounds: int, seconds: float) -> list[Row]:
    seen: dict[str, list[tuple[Outcome, float]]] = {"constant": [], "single": [], "array": []}
    async with serving("constant") as still, serving(f"sqlite:///{folder}/throughput.db") as durable:
        for _ in range(rounds):
            seen["constant"].append(await load(still, 1, seconds))
            seen["single"].append(await load(durable, 1, seconds))
            seen["array"].append(await load(durable, 32, seconds))
    rates = {name: [outcome.envelopes_per_s for outcome, _ in runs] for name, runs in seen.items()}
    cpu = {name: f"{min(cpu_us for _, cpu_us in runs):.0f} us CPU" for name, runs in seen.items()}
    share = _median_ratio(rates["single"], rates["constant"])
    gain = _median_ratio(rates["array"], rates["single"])
    best = max(rates["single"])
    p50 = min(outcome.p50_ms for outcome, _ in seen["single"])
    goal = 4 * rust_creates_per_s
    return [
        Row(
            "constant, no storage, 64 connections",
            f"{max(rates['constant']):,.0f}/s, {cpu['constant']}",
            "-",
            True,
        ),
        Row("durable promise.create against that", f"{share:.0%}, {cpu['single']}", ">= 65%", share >= 0.65),
        Row(
            "the same in arrays of 32",
            f"{gain:.1f}x, {max(rates['array']):,.0f}/s, {cpu['array']}",
            ">= 3x",
            gain >= 3,
        ),
        Row(
            "durable promise.create, best round",
            f"{best:,.0f}/s, p50 {p50:.1f} ms",
            f">= {goal:,}/s",
            best >= goal,
        ),
    ]


def _median_ratio(these: list[float], those: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(these, those, strict=True))


async def latency(folder: str, count: int) -> Row:
    """From sending a create to reading its execute message, one at a time, on an idle server."""
    async with serving(f"sqlite:///{folder}/latency.db") as server:
        host, port = server.url.removeprefix("http://").split(":")
        events, ask = await asyncio.open_connection(host, int(port))
        ask.write(f"GET /poll/bench/w HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        await events.readuntil(b"\r\n\r\n")
        answers, send = await asyncio.open_connection(host, int(port))
        took: list[float] = []
        for number in range(count):
            envelope = json.loads(create_envelope(f"l{number}"))
            envelope["data"]["tags"]["resonate:target"] = "poll://any@bench"
            request = post(host, json.dumps(envelope).encode())
            started = time.perf_counter()
            send.write(request)
            await events.readuntil(b"\n\n")
            took.append((time.perf_counter() - started) * 1000)
            head = (await answers.readuntil(b"\r\n\r\n")).lower()
            await answers.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        ask.close()
        send.close()
    p50 = statistics.median(took)
    return Row("create -> execute at a connected worker, p50", f"{p50:.2f} ms", "<= 3 ms", p50 <= 3)


async def start_to_ready(folder: str, promises: int) -> Row:
    path = f"{folder}/start.db"
    async with serving(f"sqlite:///{path}"):
        pass  # makes the file
    _fill(path, promises)
    started = time.perf_counter()
    async with serving(f"sqlite:///{path}"):
        took = time.perf_counter() - started
    return Row(f"start to ready with {promises:,} promises", f"{took:.2f} s", "< 2 s", took < 2)


def _fill(path: str, promises: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(
            "INSERT INTO promises (id, state, param, value, tags, timeout_at, created_at, watched) "
            "VALUES (?, 'pending', '{}', '{}', '{}', ?, 1, ?)",
            ((f"p{number}", far_ms, number % 2) for number in range(promises)),
        )
    connection.close()


async def measure(rounds: int, seconds: float) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("HOLDFAST_BENCH_DIR", ".")) as folder:
        rows = await throughput(folder, rounds, seconds)
        return [*rows, await latency(folder, 300), await start_to_ready(folder, 100_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--serve", help="constant, or the URL of a store: be the server that is measured")
    given = parser.parse_args()
    if given.serve == "constant":
        uvloop.run(_serve_constant(0))
    elif given.serve:
        serve(Settings(port=0, store=given.serve, log_level="error"))
    else:
        rows = uvloop.run(measure(given.rounds, given.seconds))
        print_table(f"server, {os.cpu_count()} cores, Python {sys.version.split()[0]}", rows)


if __name__ == "__main__":
    main()
