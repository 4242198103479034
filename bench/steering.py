"""What a claim costs behind a long backlog, a start in a queue, and looking and mending among many.

`make bench-steering`. Every figure is a ratio of two medians that were measured in turns, because machines
are noisy. Backlogs are copied by the database itself. `--scale 0.1` makes them a tenth as long.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import many
from bench.table import Row, print_table
from holdfast.app import App
from holdfast.node import Node
from holdfast.protocol.records import TaskRef
from holdfast.protocol.requests import PromiseCreate, QueueSet, RequestData, TaskCancel, TaskClaim
from holdfast.store import rows
from holdfast.store.urls import open_store
from tests.postgres import PostgresServer, database_url, execute
from tests.requests import FAR, ask

saturated_count: Final = 500_000
fair_count: Final = 1_000_000
fair_keys: Final = 1_000
rounds: Final = 60
start_rounds: Final = 15
starts_at_once: Final = 100
start_ratio_min: Final = 0.8
ratio_max: Final = 2.0
step: Final = 1_000_000

Run = Callable[[str], None]  # a statement, on the store's own database


def columns_with(names: tuple[str, ...], **changed: str) -> str:
    return ", ".join(changed.get(name, f"old.{name}") for name in names)


def copy(run: Run, series: str, template: str, name: str, key: str, turn: str) -> None:
    """Copies of one task, by the database: `series` has numbers `n`; the others are expressions of it."""
    for table, names, changed in (
        ("promises", rows.PROMISE_COLUMNS, {"id": name}),
        ("tasks", rows.TASK_COLUMNS, {"id": name, "job_key": key, "turn": turn, "job": _with_key(key)}),
    ):
        run(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {columns_with(names, **changed)} "
            f"FROM {table} old CROSS JOIN {series} WHERE old.id = '{template}'"
        )


def _with_key(key: str) -> str:
    return f"replace(old.job, 'TEMPLATE', {key})"


class MeasuredNode:
    """A node on a store, and the database below it."""

    def __init__(self, url: str, run: Run, series: Callable[[int], str]) -> None:
        self.url = url
        self.run = run
        self.series = series

    async def ask(self, node: Node, *asked: RequestData) -> list[object]:
        replies = await node.request([ask(data) for data in asked])
        assert all(reply.status == 200 for reply in replies), replies
        return [reply.data for reply in replies]

    async def send(self, node: Node, name: str, queue: str, key: str) -> None:
        tags = {"resonate:target": f"poll://any@queue.{queue}", "holdfast:job": json.dumps({"key": key})}
        await self.ask(node, PromiseCreate(name, FAR, tags=tags))

    async def claim(self, node: Node, queue: str) -> tuple[float, list[TaskRef]]:
        began = time.perf_counter()
        [reply] = await self.ask(node, TaskClaim([f"queue.{queue}"], 1, "w", 3_600_000, start=True))
        took = time.perf_counter() - began
        return took, [TaskRef(it.task.id, it.task.version) for it in reply.tasks]  # type: ignore[attr-defined]

    async def compare(self, node: Node, one: str, other: str, *, granted: int) -> float:
        """The median of a claim from one queue over that of a claim from the other."""
        times: dict[str, list[float]] = {one: [], other: []}
        for number in range(rounds + 5):
            for queue in (one, other):
                took, tasks = await self.claim(node, queue)
                assert len(tasks) == granted, (queue, tasks)
                if number >= 5:
                    times[queue].append(took)
        return statistics.median(times[one]) / statistics.median(times[other])

    async def saturated(self, scale: float) -> float:
        async with Node(open_store(self.url)) as node:
            for queue in ("full", "empty"):
                await self.ask(node, QueueSet(queue, key_concurrency=1))
                await self.send(node, f"first-{queue}", queue, "acme")
                assert (await self.claim(node, queue))[1]
            await self.send(node, "template", "full", "TEMPLATE")
            count = int(saturated_count * scale)
            copy(self.run, self.series(count), "template", "'s' || n", "'acme'", "0")
            await self.ask(node, TaskCancel("template"))
            for number in range(rounds + 5):
                for queue in ("full", "empty"):
                    await self.send(node, f"{queue}-{number:05}", queue, f"key-{number:05}")
            return await self.compare(node, "full", "empty", granted=1)

    async def fair(self, scale: float) -> float:
        async with Node(open_store(self.url)) as node:
            for queue in ("many", "one"):
                await self.ask(node, QueueSet(queue, fair=True))
            await self.send(node, "many", "many", "TEMPLATE")
            await self.send(node, "one", "one", "TEMPLATE")
            count = int(fair_count * scale)
            key, turn = f"'key-' || (n % {fair_keys})", f"(n / {fair_keys}) * {step}"
            copy(self.run, self.series(count), "many", "'m' || n", key, turn)
            copy(self.run, self.series(1_000), "one", "'o' || n", "'key-0'", f"n * {step}")
            return await self.compare(node, "many", "one", granted=1)

    async def starts(self) -> float:
        """How many executions are started in a second with queue, priority and key, over plain ones."""
        app = App(self.url, worker=False)

        @app.workflow
        async def report(number: int) -> int:
            return number

        rates: dict[bool, list[float]] = {True: [], False: []}
        async with app:
            for _ in range(start_rounds):
                for queued in (True, False):
                    flow = (
                        report.with_options(queue="starts", priority=3, limit_key="acme")
                        if queued
                        else report
                    )
                    began = time.perf_counter()
                    handles = [flow.start(number) for number in range(starts_at_once)]
                    await asyncio.gather(*(handle.started() for handle in handles))
                    rates[queued].append(starts_at_once / (time.perf_counter() - began))
        return statistics.median(rates[True]) / statistics.median(rates[False])


def sqlite_node(folder: Path, name: str = "steering") -> MeasuredNode:
    path = folder / f"{name}.db"

    def run(statement: str) -> None:
        connection = sqlite3.connect(path, timeout=60)
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(statement)
        connection.commit()
        connection.close()

    def series(count: int) -> str:
        return (
            "(WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
            f"WHERE n < {count}) SELECT n FROM numbers) series"
        )

    return MeasuredNode(f"sqlite:///{path}", run, series)


def postgres_node(url: str) -> MeasuredNode:
    def series(count: int) -> str:
        return f"generate_series(1, {count}) AS series (n)"

    def run(statement: str) -> None:
        execute(url, statement)

    return MeasuredNode(url, run, series)


def measure_many(name: str, large: MeasuredNode, small: MeasuredNode, scale: float) -> list[Row]:
    count, few = int(many.newest_count * scale), many.newest_few
    for measured, stored in ((large, count), (small, few)):
        asyncio.run(many.fill(measured.url, measured.run, measured.series, stored))
    ratio = asyncio.run(many.newest(large.url, small.url))
    row = f"{name}: newest 50 of a status with {count:,} stored, against {few:,}"
    table = [Row(row, f"{ratio:.2f}x", f"<= {many.newest_ratio_max:g}x", ratio <= many.newest_ratio_max)]
    count = int(many.cancelled_count * scale)
    share = asyncio.run(many.slowed(small.url, small.run, small.series, count))
    row = f"{name}: how much a bulk cancel of {count:,} slows the creates of others"
    return [*table, Row(row, f"{share:.0%}", f"<= {many.slowed_max:.0%}", share <= many.slowed_max)]


def measure(name: str, measured: MeasuredNode, scale: float) -> list[Row]:
    table: list[Row] = []
    for what, measuring in (
        (f"claim behind {saturated_count * scale:,.0f} of a saturated key, against none", measured.saturated),
        (
            f"claim with {fair_keys:,} fair keys, {fair_count * scale:,.0f} pending, against one",
            measured.fair,
        ),
    ):
        ratio = asyncio.run(measuring(scale))
        table.append(Row(f"{name}: {what}", f"{ratio:.2f}x", f"<= {ratio_max:g}x", ratio <= ratio_max))
    ratio = asyncio.run(measured.starts())
    is_ok = ratio >= start_ratio_min
    name = f"{name}: start with queue, priority and key, against a plain one"
    table.append(Row(name, f"{ratio:.2f}x", f">= {start_ratio_min:g}x", is_ok))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    scale = parser.parse_args().scale
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        table += measure("SQLite", sqlite_node(Path(folder)), scale)
        large, small = (sqlite_node(Path(folder), each) for each in ("large", "small"))
        table += measure_many("SQLite", large, small, scale)
    server = PostgresServer(durable=True).create()
    try:
        os.environ["HOLDFAST_TEST_POSTGRES"] = server.url()  # where database_url makes its schemas
        table += measure("PostgreSQL", postgres_node(database_url()), scale)
        large, small = postgres_node(database_url()), postgres_node(database_url())
        table += measure_many("PostgreSQL", large, small, scale)
    finally:
        server.remove()
    print_table("Steering", table)


if __name__ == "__main__":
    main()
