"""Measures entities, locks and generations against what was promised of them: `make bench-entities`.

On SQLite, embedded, on the disk of the machine. Ratios are taken within one run: calls against Restate's
virtual objects (bench/peers installs it), calls one after the other against plain durable creates, a lock
and its release against two of them, an await in an asyncio workflow against one in a fiber.
"""

import argparse
import asyncio
import gc
import resource
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import holdfast as hf
from bench import peers
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import PromiseCreate
from holdfast.store.sqlite import cache_bytes, checkpoint_pages
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
    async def locking(count: int) -> None:
        for number in range(count):
            async with hf.lock(f"lock-{number}"):
                pass

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


class Reached(NamedTuple):
    """What it took to come to a generation. The log of the store grows to a fixed length once, and is then
    written again from its beginning, so it is counted apart."""

    at_s: float
    resident_bytes: int
    stored_bytes: int
    log_bytes: int


def reach(path: Path) -> Reached:
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        (size,), (pages,), (free,) = (
            store.execute(f"PRAGMA {name}").fetchone()
            for name in ("page_size", "page_count", "freelist_count")
        )
    log = path.with_name(f"{path.name}-wal")
    return Reached(time.perf_counter(), resident, size * (pages - free), log.stat().st_size)


async def generations(path: Path, count: int) -> list[Reached]:
    """One execution of so many generations, looked at after each tenth of them."""
    app, reached = App(f"sqlite:///{path}"), list[Reached]()

    def look() -> None:
        reached.append(reach(path))

    @app.workflow
    async def turning(number: int = 0) -> None:
        if number % (count // 10) == 0:
            await hf.run(look)
        if number < count:
            hf.continue_as_new(number + 1)

    async with app:
        await app.start(turning)
    return reached


async def ordinary(path: Path, count: int) -> list[Reached]:
    """So many instances, each begun by a call; looked at after each tenth. Then some are called again."""
    app, account = app_of(f"sqlite:///{path}")
    reached: list[Reached] = []

    async def call_some(first: int, last: int) -> None:
        for number in range(first, last, callers):
            await app.entity(account, f"n{number}").deposit(number)

    async with app:
        for tenth in range(10):
            begun, ends = count * tenth // 10, count * (tenth + 1) // 10
            await asyncio.gather(*(call_some(begun + caller, ends) for caller in range(callers)))
            gc.collect()
            reached.append(reach(path))
        for number in range(0, count, max(1, count // 500)):
            assert await app.entity(account, f"n{number}").deposit(1) == number + 1
    return reached


class Measured(NamedTuple):
    calls: list[float]  # a second
    one_by_one: float  # of a durable create
    task: float  # of an await in a fiber
    lock: float  # of two durable creates
    kept: int  # idle entities in memory


async def measure(folder: Path, calls: int) -> Measured:
    app, account = app_of(f"sqlite:///{folder / 'entities.db'}")
    async with app:
        await many(app, account, keys)  # every key begins
        embedded = [await many(app, account, calls) for _ in range(3)]
        ones: list[float] = []
        locks: list[float] = []
        tasks: list[float] = []
        for _ in range(5):
            created = await creates(app, 300)
            ones.append(await one(app, account, 300) / created)
            locks.append(2 / created / await awaits(app, "locking", 300))
            tasks.append(await awaits(app, "tasks", 300) / await awaits(app, "fibers", 300))
        await asyncio.sleep(1)
        gc.collect()
        kept = sum(isinstance(it, Execution) and it.id.startswith("Account/") for it in gc.get_objects())
    return Measured(embedded, median(ones), median(tasks), median(locks), kept)


def show_generations(reached: list[Reached]) -> list[Row]:
    """The last tenth against the second: in the first one everything is made that is there afterwards."""
    first, second, before, last = reached[1], reached[2], reached[-2], reached[-1]
    times = (last.at_s - before.at_s) / (second.at_s - first.at_s)
    rows = [Row("the last 1,000 of 10,000 generations: time", f"{times:.2f}x", "<= 1.5x", times <= 1.5)]
    for name, then, now in (
        ("resident memory", first.resident_bytes, last.resident_bytes),
        ("store", first.stored_bytes, last.stored_bytes),
    ):
        row = f"{name} after 10,000 generations, against 1,000"
        rows.append(Row(row, f"{now / then:.2f}x ({now:,} bytes)", "<= 1.1x", now <= 1.1 * then))
    log, most = last.log_bytes, int(1.1 * checkpoint_pages * 4096)
    rows.append(Row("log of the store then", f"{log:,} bytes", f"<= {most:,}", log <= most))
    return rows


def show_ordinary(reached: list[Reached], count: int) -> list[Row]:
    first, second, before, last = reached[0], reached[1], reached[-2], reached[-1]
    times = (last.at_s - before.at_s) / (second.at_s - first.at_s)
    # SQLite keeps pages of the file in memory, up to a bound that is reached in the first half.
    half = reached[len(reached) // 2 - 1]
    each = max(0, last.resident_bytes - half.resident_bytes) / (count * 0.5)
    is_full = half.stored_bytes > 2 * cache_bytes
    rate = count / 10 / (last.at_s - before.at_s)
    stored = (last.stored_bytes - first.stored_bytes) / (count * 0.9)
    return [
        Row(
            f"the last tenth of {count:,} entities begun, against the second: time", f"{times:.2f}x", "", True
        ),
        Row("entities begun a second, the last tenth", f"{rate:,.0f}", "", True),
        Row(
            "resident memory for each entity more, in the second half",
            f"{each:,.0f} bytes",
            "<= 10 bytes" if is_full else "",
            each <= 10 or not is_full,
        ),
        Row("store for each entity more", f"{stored:,.0f} bytes", "", True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=6_400)
    parser.add_argument("--generations", type=int, default=10_000)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--only-entities", action="store_true", help="that many of them, and nothing else")
    given = parser.parse_args()
    if given.only_entities:
        with tempfile.TemporaryDirectory() as text:
            begun = asyncio.run(ordinary(Path(text) / "ordinary.db", given.entities))
        print_table("entities", show_ordinary(begun, given.entities))
        return
    missing = peers.install()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        ours = asyncio.run(measure(folder, given.calls))
        theirs: list[float] = []
        if missing is None:
            with peers.restate(folder) as url:
                peers.run_restate_objects(url, keys, callers, keys)
                theirs = [peers.run_restate_objects(url, keys, callers, given.calls // 2) for _ in range(3)]
        reached = asyncio.run(generations(folder / "generations.db", given.generations))
        begun = asyncio.run(ordinary(folder / "ordinary.db", given.entities))
    calls, peer = median(ours.calls), median(theirs) if theirs else 0.0
    compared = f"{calls / peer:.2f}x ({calls:,.0f} to {peer:,.0f} calls/s)" if peer else f"{missing}"
    rows = [
        Row(
            f"calls to {keys:,} entities by {callers} callers, against Restate's virtual objects",
            compared,
            ">= 5x",
            bool(peer) and calls >= 5 * peer,
        ),
        Row(
            "calls to one entity, one after the other, against durable creates",
            f"{ours.one_by_one:.2f}x",
            ">= 0.4x",
            ours.one_by_one >= 0.4,
        ),
        Row(
            "one await in an asyncio workflow against a fiber",
            f"{ours.task:.2f}x",
            "<= 1.5x",
            ours.task <= 1.5,
        ),
        Row("executions of idle entities in memory", str(ours.kept), "0", ours.kept == 0),
        Row(
            "lock and unlock, uncontended, against two durable creates",
            f"{ours.lock:.2f}x",
            ">= 0.5x",
            ours.lock >= 0.5,
        ),
        *show_generations(reached),
        *show_ordinary(begun, given.entities),
    ]
    print_table("entities", rows)


if __name__ == "__main__":
    main()
