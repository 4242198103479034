"""What many nodes on PostgreSQL cost: against the bare database, in one run, on one disk.

A server of its own with `fsync` on. Every figure is a ratio of two rates measured in turns, and the median
over the turns: machines are noisy.
"""

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench import peers
from bench.executions import be_sequences
from bench.table import Row, print_table
from holdfast.node import Node
from holdfast.node.clock import wall_clock
from holdfast.protocol.messages import Execute
from holdfast.protocol.records import NOTHING, Promise, Value
from holdfast.protocol.requests import PromiseCreate, Request, TaskClaim
from holdfast.store import rows
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres_connection import Connector
from holdfast.store.postgres_statements import array_text, save_statement
from tests.postgres import PostgresServer, execute

CALLERS: Final = 64
TURNS: Final = 7
GROUPED: Final = 6_400
STORED: Final = 1_000_000
FAR: Final = 2**52
DBOS_STEPS_PER_S: Final = 191.0  # on such a machine, when it cannot be installed
PARAM: Final = Value(data="eyJvcmRlciI6IDE3LCAidG90YWwiOiA0Mn0=")
INSERT: Final = "INSERT INTO promises ({}) VALUES ({})".format(
    ", ".join(rows.PROMISE_COLUMNS), ", ".join(f"${index + 1}" for index in range(len(rows.PROMISE_COLUMNS)))
)

_numbers = count()


def create(name: str, **tags: str) -> Request:
    entries = {f"resonate:{tag}": value for tag, value in tags.items()}
    return Request("promise.create", "c", "2026-04-01", "A", PromiseCreate(name, FAR, PARAM, entries))


def claim(group: str) -> Request:
    data = TaskClaim([group], 1, "bench", 3_600_000)
    return Request("task.claim", "c", "2026-04-01", "A", data)


def row(name: str) -> rows.Row:
    return rows.promise_row(Promise(name, "pending", PARAM, NOTHING, {}, FAR, wall_clock()), watched=False)


def steps(count: int) -> list[str]:
    """Ids as executions make them: a root for each caller, and a counter."""
    roots = [f"{random.getrandbits(64):016x}" for _ in range(CALLERS)]
    return [f"{roots[index % CALLERS]}:{index // CALLERS}" for index in range(count)]


class Bare:
    """The same tables and the same driver, and nothing of ours but the schema."""

    def __init__(self, url: str) -> None:
        self._connector = Connector(url)

    async def open(self) -> None:
        self.connections = [await self._connector.connect() for _ in range(CALLERS)]

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()

    async def one_by_one(self, names: list[str]) -> float:
        """What a server without groups does: a transaction per create, as many as there are callers."""

        async def caller(connection: Any, mine: list[str]) -> None:
            for name in mine:
                await connection.execute(INSERT, *row(name))

        began = time.perf_counter()
        await asyncio.gather(
            *(caller(each, names[index::CALLERS]) for index, each in enumerate(self.connections))
        )
        return len(names) / (time.perf_counter() - began)

    async def in_groups(self, names: list[str]) -> float:
        statement = save_statement(("insert_promises",))
        connection = self.connections[0]
        began = time.perf_counter()
        for start in range(0, len(names), CALLERS):
            records = [row(name) for name in names[start : start + CALLERS]]
            await connection.execute("BEGIN")
            await connection.execute(statement, *map(array_text, zip(*records, strict=True)))
            await connection.execute("COMMIT")
        return len(names) / (time.perf_counter() - began)


async def through_node(node: Node, names: list[str]) -> float:
    async def caller(mine: list[str]) -> None:
        for name in mine:
            [reply] = await node.request([create(name)])
            assert reply.status == 200

    began = time.perf_counter()
    await asyncio.gather(*(caller(names[index::CALLERS]) for index in range(CALLERS)))
    return len(names) / (time.perf_counter() - began)


async def rates(url: str) -> list[Row]:
    bare = Bare(url)
    async with Node(PostgresStore(url)) as node:
        await bare.open()
        await through_node(node, steps(GROUPED))
        await bare.one_by_one(steps(GROUPED))
        against_single: list[float] = []
        against_bulk: list[float] = []
        durable: list[float] = []
        for _ in range(TURNS):
            single = await bare.one_by_one(steps(GROUPED))
            grouped = await through_node(node, steps(GROUPED))
            bulk = await bare.in_groups(steps(GROUPED))
            durable.append(grouped)
            against_single.append(grouped / single)
            against_bulk.append(grouped / bulk)
        await bare.close()
    rate, single, bulk = (statistics.median(series) for series in (durable, against_single, against_bulk))
    return [
        Row(
            "64 callers, against one bare insert transaction each on 64 connections",
            f"{single:.2f}x ({rate:,.0f}/s)",
            ">= 1.3x",
            single >= 1.3,
        ),
        Row(
            "64 callers, against bare inserts by 64 on one connection", f"{bulk:.2f}x", ">= 0.3x", bulk >= 0.3
        ),
    ]


FILL: Final = """
INSERT INTO promises (id, state, param, value, tags, timeout_at, created_at, watched)
SELECT '{group}' || n, 'pending', '{{}}', '{{}}', '{{}}', {far}, n, true FROM generate_series(1, {count}) n;
INSERT INTO tasks (id, state, version, target, dialect, timer, priority, timeout_at, created_at, resumes,
  due_at, parked, bounces, retries, poll_group, claim_group)
SELECT '{group}' || n, 'pending', 0, 'poll://any@{group}', 'A', false, 0, {far}, n, 0, {far}, false, 0, 0,
  '{group}', '{group}' FROM generate_series(1, {count}) n;
"""


async def claims(url: str) -> list[Row]:
    """One task claimed at a time, from a backlog of 1,000 and from one of 1,000,000, in turns."""
    async with Node(PostgresStore(url)) as node:
        for group, size in (("few", 1_000), ("many", STORED)):
            execute(url, FILL.format(group=group, count=size, far=FAR))
        execute(url, "ANALYZE")

        async def cost_ms(group: str) -> float:
            began = time.perf_counter()
            for _ in range(50):
                [reply] = await node.request([claim(group)])
                assert len(reply.data.tasks) == 1, reply  # type: ignore[union-attr]
            return (time.perf_counter() - began) * 20

        for group in ("few", "many"):
            await cost_ms(group)
        ratios: list[float] = []
        few = many = 0.0
        for _ in range(TURNS):
            few, many = await cost_ms("few"), await cost_ms("many")
            ratios.append(many / few)
    ratio = statistics.median(ratios)
    return [
        Row(
            "claim of one task, 1,000,000 pending against 1,000",
            f"{ratio:.2f}x ({few:.1f} and {many:.1f} ms)",
            "<= 1.5x",
            ratio <= 1.5,
        )
    ]


async def wake_up(url: str) -> list[Row]:
    """Created at node A, acquired by a worker that is connected to node B."""
    delays: list[float] = []
    async with Node(PostgresStore(url)) as here, Node(PostgresStore(url)) as there:
        mailbox = there.connect("far", "w1")
        for index in range(100):
            began = time.perf_counter()
            await here.request([create(f"far{index}-{next(_numbers)}", target="poll://any@far")])
            [message] = await mailbox.receive()
            assert isinstance(message, Execute)
            [reply] = await there.request([claim("far")])
            assert reply.status == 200
            delays.append((time.perf_counter() - began) * 1000)
    median = statistics.median(delays)
    return [
        Row("created at A, claimed at B, p50", f"{median:.1f} ms", "<= 10 ms", median <= 10),
    ]


async def workflows(url: str) -> list[Row]:
    """32 workflows of 100 no-op steps, an embedded node each time, against DBOS on the same server."""
    lacking = peers.install()
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        for _ in range(5):
            ours.append(await be_sequences(url, 100, 32))
            if peers.has_dbos():
                dbos = await asyncio.to_thread(peers.run_dbos, Path(folder), 32, 25, url)
                theirs.append(ours[-1] / dbos)
    ratio = statistics.median(theirs or [each / DBOS_STEPS_PER_S for each in ours])
    note = "" if theirs else f" (against an earlier figure: {lacking})"
    return [
        Row(
            "32 workflows of 100 steps, embedded, against DBOS on the same PostgreSQL",
            f"{ratio:.1f}x ({statistics.median(ours):,.0f} steps/s){note}",
            ">= 30x",
            ratio >= 30,
        )
    ]


def main(names: Sequence[str]) -> None:
    parts: dict[str, Callable[[str], Awaitable[list[Row]]]] = {
        "rates": rates,
        "wake_up": wake_up,
        "claims": claims,
        "workflows": workflows,
    }
    table = [row for name in names or parts for row in measure(parts[name])]
    print_table("cluster: durable promises on PostgreSQL, synchronous_commit=on, fsync=on", table)


def measure(part: Callable[[str], Awaitable[list[Row]]]) -> list[Row]:
    """One part, on a database server of its own."""
    server = PostgresServer(durable=True, shared_buffers="256MB", max_wal_size="4GB").create()
    try:
        return asyncio.run(_awaited(part(server.url())))
    finally:
        server.remove()


async def _awaited(work: Awaitable[list[Row]]) -> list[Row]:
    return await work


if __name__ == "__main__":
    main(sys.argv[1:])
