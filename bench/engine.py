"""What durability costs on SQLite: the node against the bare database, in one run, on one disk.

Every figure is a ratio of two rates measured in turns, and the median over the turns: machines are noisy.
"""

import asyncio
import os
import random
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.table import Row, print_table
from holdfast.node import Node
from holdfast.node.clock import wall_clock
from holdfast.protocol.records import NOTHING, Promise, Value
from holdfast.protocol.requests import PromiseCreate, Request
from holdfast.store import rows
from holdfast.store.sqlite import SqliteFile, SqliteStore, cache_bytes, checkpoint_pages

CALLERS = 64
TURNS = 7
GROUPED = 6_400
SINGLE = 400
STORED = 1_000_000
FAR = 2**52

PARAM = Value(data="eyJvcmRlciI6IDE3LCAidG90YWwiOiA0Mn0=")
PLACES = ", ".join("?" * len(rows.PROMISE_COLUMNS))
INSERT = f"INSERT INTO promises ({', '.join(rows.PROMISE_COLUMNS)}) VALUES ({PLACES})"


def create(name: str) -> Request:
    return Request("promise.create", "c", "2026-04-01", "A", PromiseCreate(name, FAR, PARAM))


def row(name: str) -> rows.Row:
    return rows.promise_row(Promise(name, "pending", PARAM, NOTHING, {}, FAR, wall_clock()), watched=False)


class Bare:
    """The same file, the same settings, and nothing of ours but the schema."""

    def __init__(self, path: Path) -> None:
        file = SqliteFile(path)
        file.open()
        file.close()
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(f"PRAGMA cache_size=-{cache_bytes // 1024}")
        self.connection.execute(f"PRAGMA wal_autocheckpoint={checkpoint_pages}")

    def one_by_one(self, names: list[str]) -> float:
        """What a server without groups does: look the id up, insert it, commit."""
        began = time.perf_counter()
        for name in names:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("SELECT state FROM promises WHERE id = ?", (name,)).fetchall()
            self.connection.execute(INSERT, row(name))
            self.connection.execute("COMMIT")
        return len(names) / (time.perf_counter() - began)

    def in_groups(self, names: list[str]) -> float:
        began = time.perf_counter()
        for start in range(0, len(names), CALLERS):
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany(INSERT, [row(name) for name in names[start : start + CALLERS]])
            self.connection.execute("COMMIT")
        return len(names) / (time.perf_counter() - began)


async def through_node(node: Node, names: list[str], callers: int) -> float:
    async def caller(mine: list[str]) -> None:
        for name in mine:
            [reply] = await node.request([create(name)])
            assert reply.status == 200

    began = time.perf_counter()
    await asyncio.gather(*(caller(names[index::callers]) for index in range(callers)))
    return len(names) / (time.perf_counter() - began)


def ordered(count: int) -> list[str]:
    """Ids that grow with time, as Holdfast makes them when the user gives none."""
    start = time.time_ns()
    return [f"{start + index:x}" for index in range(count)]


def roots(count: int) -> list[str]:
    """Ids as users make them: every one at another place of the index."""
    return [f"{random.getrandbits(64):016x}" for _ in range(count)]


async def rates(folder: Path) -> list[Row]:
    bare = Bare(folder / "bare.db")
    grouped = 0.0
    against_single: list[float] = []
    against_bulk: list[float] = []
    latency: list[float] = []
    async with Node(SqliteStore(folder / "node.db")) as node:
        await through_node(node, ordered(GROUPED), CALLERS)
        bare.in_groups(ordered(GROUPED))
        for _ in range(TURNS):
            single = bare.one_by_one(ordered(SINGLE * 4))
            grouped = await through_node(node, ordered(GROUPED), CALLERS)
            bulk = bare.in_groups(ordered(GROUPED))
            alone = await through_node(node, ordered(SINGLE), 1)
            plain = bare.one_by_one(ordered(SINGLE))
            against_single.append(grouped / single)
            against_bulk.append(grouped / bulk)
            latency.append(plain / alone)
    ten, third, one = (statistics.median(series) for series in (against_single, against_bulk, latency))
    return [
        Row(
            "64 callers, against one transaction each", f"{ten:.1f}x ({grouped:,.0f}/s)", ">= 10x", ten >= 10
        ),
        Row("64 callers, against executemany by 64", f"{third:.2f}x", ">= 0.6x", third >= 0.6),
        Row("a group of one, latency against a plain transaction", f"{one:.2f}x", "<= 1.5x", one <= 1.5),
    ]


def fill(path: Path, count: int) -> None:
    bare = Bare(path)
    bare.connection.execute("PRAGMA synchronous=OFF")
    for _ in range(0, count, 10_000):
        bare.connection.execute("BEGIN")
        bare.connection.executemany(INSERT, [row(name) for name in sorted(roots(10_000))])
        bare.connection.execute("COMMIT")
    bare.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    bare.connection.close()


async def growth(folder: Path) -> list[Row]:
    fill(folder / "full.db", STORED)
    ratios: list[float] = []
    async with Node(SqliteStore(folder / "empty.db")) as empty, Node(SqliteStore(folder / "full.db")) as full:
        for node in (empty, full):
            await through_node(node, roots(GROUPED), CALLERS)
        for _ in range(TURNS):
            few = await through_node(empty, roots(GROUPED), CALLERS)
            many = await through_node(full, roots(GROUPED), CALLERS)
            ratios.append(few / many)
    cost = statistics.median(ratios)
    return [
        Row("create with 1,000,000 stored, against an empty store", f"{cost:.2f}x", "<= 1.5x", cost <= 1.5)
    ]


def task_create(name: str, timeout_at: int) -> Request:
    return Request(
        "promise.create",
        "c",
        "2026-04-01",
        "A",
        PromiseCreate(name, timeout_at, PARAM, {"resonate:timer": "true"}),
    )


async def timers(folder: Path) -> list[Row]:
    """100,000 timers far ahead, then a few soon: how late is each, and what does waiting cost?"""
    lateness: list[float] = []
    async with Node(SqliteStore(folder / "timers.db")) as node:
        for start in range(0, 100_000, 500):
            await node.request([task_create(f"t{start + index}", FAR + index) for index in range(500)])
        mailbox = node.connect("bench", "me")
        busy = _cpu_s()
        began = time.perf_counter()
        for index in range(10):
            due = wall_clock() + 300
            listen = _listen(f"soon{index}")
            await node.request([task_create(f"soon{index}", due), listen])
            await mailbox.receive()
            lateness.append(time.time() * 1000 - due)
        await asyncio.sleep(2)
        idle = (_cpu_s() - busy) / (time.perf_counter() - began)
    late = max(lateness)
    return [
        Row("a timer among 100,000: latest of 10", f"{late:.1f} ms late", "<= 20 ms", late <= 20),
        Row("CPU while waiting for timers", f"{idle:.2%}", "< 1 %", idle < 0.01),
    ]


def _listen(name: str) -> Request:
    from holdfast.protocol.requests import PromiseRegisterListener

    data = PromiseRegisterListener(name, "poll://uni@bench/me")
    return Request("promise.register_listener", "c", "2026-04-01", "A", data)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(work: Callable[[Path], "asyncio.Future[list[Row]]"]) -> list[Row]:
    with tempfile.TemporaryDirectory(
        prefix="holdfast-bench-", dir=os.environ.get("HOLDFAST_BENCH_DIR")
    ) as folder:
        return asyncio.run(work(Path(folder)))  # type: ignore[arg-type]


if __name__ == "__main__":
    table = [row for work in (rates, growth, timers) for row in measure(work)]  # type: ignore[arg-type]
    print_table("engine: durable promises on SQLite, synchronous=FULL", table)
