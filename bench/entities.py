"""Measures entities and generations against what was promised of them: `make bench-entities`.

On SQLite, embedded, on the disk of the machine. Ratios are taken within one run: calls against Restate's
virtual objects (bench/peers installs it), calls one after the other against plain durable creates, an await
in an asyncio workflow against one in a fiber.
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from bench import peers
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import PromiseCreate
from holdfast.workflow.execution import Execution

keys: Final = 1_000
callers: Final = 32
far: Final = 2**52


def app_of(url: str) -> tuple[App, type[Any]]:
    app = App(url)

    @app.entity
    class Account(hf.Entity):
        balance: int = 0

        async def deposit(self, cents: int) -> int:
            self.balance += cents
            return self.balance

    @app.workflow
    async def fibers(count: int) -> None:
        for _ in range(count):
            await hf.sleep(0)

    @app.workflow(loop="asyncio")
    async def tasks(count: int) -> None:
        for _ in range(count):
            await hf.sleep(0)

    @app.workflow
    async def turning(last: int, number: int = 0) -> int:
        if number == last:
            return number
        return hf.continue_as_new(last, number + 1)

    return app, Account


async def many(app: App, account: type[Any], calls: int) -> float:
    """Calls a second, to all keys, by callers that make one after the other each."""

    async def call_some(caller: int) -> None:
        for number in range(calls // callers):
            await app.entity(account, f"k{(caller + number * callers) % keys}").deposit(1)

    started = time.perf_counter()
    await asyncio.gather(*map(call_some, range(callers)))
    return calls / (time.perf_counter() - started)


async def one(app: App, account: type[Any], calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        await app.entity(account, "one").deposit(1)
    return calls / (time.perf_counter() - started)


async def creates(app: App, count: int) -> float:
    caller = app.session.executions.caller
    started = time.perf_counter()
    for number in range(count):
        await caller.ask(PromiseCreate(f"plain-{time.time_ns()}-{number}", far), PromiseReply)
    return count / (time.perf_counter() - started)


async def awaits(app: App, name: str, count: int) -> float:
    started = time.perf_counter()
    await app.start(name, count)
    return (time.perf_counter() - started) / count


async def generations(app: App, count: int) -> float:
    started = time.perf_counter()
    await app.start("turning", count)
    return (time.perf_counter() - started) / count


async def measure(folder: Path, calls: int) -> tuple[list[float], list[float], float, list[float], int]:
    app, account = app_of(f"sqlite:///{folder / 'entities.db'}")
    async with app:
        await many(app, account, keys)  # every key begins
        embedded = [await many(app, account, calls) for _ in range(3)]
        pairs = [(await one(app, account, 300), await creates(app, 300)) for _ in range(3)]
        fiber, task = await awaits(app, "fibers", 300), await awaits(app, "tasks", 300)
        turns = [await generations(app, count) for count in (100, 1_000)]
        await asyncio.sleep(1)
        gc.collect()
        kept = sum(isinstance(it, Execution) and it.id.startswith("Account/") for it in gc.get_objects())
    return embedded, [call / create for call, create in pairs], task / fiber, turns, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=6_400)
    calls = parser.parse_args().calls
    missing = peers.install()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        embedded, single, ratio, turns, kept = asyncio.run(measure(folder, calls))
        theirs: list[float] = []
        if missing is None:
            with peers.restate(folder) as url:
                peers.run_restate_objects(url, keys, callers, keys)
                theirs = [peers.run_restate_objects(url, keys, callers, calls // 2) for _ in range(3)]
    ours, one_by_one = statistics.median(embedded), statistics.median(single)
    peer = statistics.median(theirs) if theirs else 0.0
    compared = f"{ours / peer:.2f}x ({ours:,.0f} to {peer:,.0f} calls/s)" if peer else f"{missing}"
    rows = [
        Row(
            f"calls to {keys:,} entities by {callers} callers, against Restate's virtual objects",
            compared,
            ">= 5x",
            bool(peer) and ours >= 5 * peer,
        ),
        Row(
            "calls to one entity, one after the other, against durable creates",
            f"{one_by_one:.2f}x",
            ">= 0.4x",
            one_by_one >= 0.4,
        ),
        Row("one await in an asyncio workflow against a fiber", f"{ratio:.2f}x", "<= 1.5x", ratio <= 1.5),
        Row("executions of idle entities in memory", str(kept), "0", kept == 0),
        Row(
            "a generation after 1,000 of them, against one after 100",
            f"{turns[1] / turns[0]:.2f}x ({turns[1] * 1000:.1f} ms)",
            "<= 1.5x",
            turns[1] <= 1.5 * turns[0],
        ),
    ]
    print_table("entities", rows)


if __name__ == "__main__":
    main()
