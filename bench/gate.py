"""Does a step, an HTTP create or a background task cost more than it did? `make bench-gate`; .ci/run has it.

Two figures for each, both on the memory store, where nothing waits for a disk: how many functions are called
for it, in Python and in C, which is the same on every machine and at every load; and the CPU time that it
takes, in units of a fixed loop of plain Python that is timed between the rounds in the same process. The
budget is bench/budget.json, for each version of Python; `--record` writes it anew.

1. Calls may exceed the budget by 10 %: grouping and timers move them a little.
2. CPU time may be three times as much, since a busy machine takes more for the same. It is there for what
   no count of calls shows, such as a quadratic loop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

import holdfast as hf
from bench.load import create_envelope, post
from bench.table import Row, print_table
from holdfast.server import Settings, running

budget_path = Path(__file__).parent / "budget.json"
calls_tolerance, cpu_tolerance = 1.1, 3.0
rounds = 5

Run = Callable[[], Awaitable[int]]  # how many units it has done
Journey = Callable[[], AbstractAsyncContextManager[Run]]


async def no_op() -> None:
    pass


def steps(workflows: int, each: int) -> Journey:
    @asynccontextmanager
    async def journey() -> AsyncGenerator[Run]:
        app = hf.App("memory:")

        @app.workflow
        async def sequence(count: int) -> int:
            for _ in range(count):
                await hf.run(no_op)
            return count

        async def run() -> int:
            handles = [app.start(sequence, each) for _ in range(workflows)]
            return sum([await handle for handle in handles])

        async with app:
            yield run

    return journey


@asynccontextmanager
async def tasks() -> AsyncGenerator[Run]:
    app, at_once = hf.App("memory:"), 32

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async def run() -> int:
        for _ in range(10):
            sent = [await double.send_async(number) for number in range(at_once)]
            for each in sent:
                assert (await each).is_ok
        return 10 * at_once

    async with app:
        yield run


@asynccontextmanager
async def creates() -> AsyncGenerator[Run]:
    """The server has this thread and its loop; who asks has a thread of his own, which nobody counts."""
    async with running(Settings(port=0, store="memory:")) as server:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made = 0

        def ask(count: int) -> int:
            nonlocal made
            for _ in range(count):
                made += 1
                connection.sendall(post(host, create_envelope(f"gate-{made}")))
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            return count

        async def run() -> int:
            return await asyncio.to_thread(ask, 500)

        try:
            yield run
        finally:
            connection.close()


journeys: dict[str, Journey] = {
    "a step, 32 executions at once": steps(32, 50),
    "a step, one execution alone": steps(1, 200),
    "an HTTP create": creates,
    "a background task": tasks,
}


class Calls:
    """Counts every call of a function on this thread while it is on."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, _: FrameType, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            self.count += 1


def calibrate() -> float:
    """Seconds of CPU for what any Python program does: calls, attributes, dicts, texts."""

    class Thing:
        def __init__(self, number: int) -> None:
            self.number = number

        def doubled(self) -> int:
            return self.number * 2

    def work() -> int:
        found: dict[str, int] = {}
        for number in range(5_000):
            thing = Thing(number)
            found[f"key {number % 100}"] = thing.doubled() + len(found)
        return len(found)

    began = process_time()
    work()
    return process_time() - began


async def measure(journey: Journey) -> tuple[float, float]:
    """Calls for one unit; and its CPU time, in thousandths of the calibration loop: the least of each."""
    async with journey() as run:
        await run()
        calls: list[float] = []
        loops: list[float] = []
        times: list[float] = []
        gc.collect()
        gc.disable()
        for _ in range(3):
            counter = Calls()
            sys.setprofile(counter.note)
            units = await run()
            sys.setprofile(None)
            calls.append(counter.count / units)
        for _ in range(rounds):
            loops.append(calibrate())
            began = process_time()
            units = await run()
            times.append((process_time() - began) / units)
        gc.enable()
    return min(calls), min(times) / min(loops) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="take today's figures as the budget")
    arguments = parser.parse_args()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    budget: dict[str, dict[str, list[float]]] = json.loads(budget_path.read_text())
    measured = {name: asyncio.run(measure(journey)) for name, journey in journeys.items()}
    if arguments.record:
        budget[version] = {name: [round(calls, 1), round(cpu, 2)] for name, (calls, cpu) in measured.items()}
        budget_path.write_text(json.dumps(dict(sorted(budget.items())), indent=2) + "\n")
    if version not in budget:
        print(f"There is no budget for Python {version}: {measured}")
        return
    rows: list[Row] = []
    for name, found in measured.items():
        allowed = zip(
            ("calls", "CPU"), found, budget[version][name], (calls_tolerance, cpu_tolerance), strict=True
        )
        for what, figure, planned, tolerance in allowed:
            most = planned * tolerance
            rows.append(Row(f"{name}: {what}", f"{figure:.1f}", f"<= {most:.1f}", figure <= most))
    print_table("Against the budget (bench/budget.json)", rows)
    if not all(row.ok for row in rows):
        sys.exit("More than was planned. Find out why; or say why, and record it: --record")


if __name__ == "__main__":
    main()
