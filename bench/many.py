"""Looking and mending among many executions: two tables of `make bench-steering`.

The newest of a status with many stored against few, each on a store of its own, asked in turns; and how much
a bulk cancel slows the creates of others. Executions are copied by the database itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

from holdfast.app import App
from holdfast.node import Node
from holdfast.protocol.requests import ExecutionSearch, PromiseCreate, PromiseSettle, RequestData
from holdfast.store import rows
from holdfast.store.urls import open_store
from tests.requests import FAR, ask

newest_count: Final = 1_000_000
newest_few: Final = 1_000
newest_rounds: Final = 100
newest_ratio_max: Final = 1.5
cancelled_count: Final = 100_000
creates: Final = 300
cancel_rounds: Final = 3
slowed_max: Final = 0.2

Run = Callable[[str], None]  # a statement, on the store's own database
Series = Callable[[int], str]  # a table of that many numbers `n`


def copy_executions(run: Run, series: str, template: str, name: str) -> None:
    """Copies of one execution, each created a millisecond after the one before."""
    younger = {"id": name, "created_at": "old.created_at + n"}
    for table, names in (("promises", rows.PROMISE_COLUMNS), ("tasks", rows.TASK_COLUMNS)):
        values = ", ".join(younger.get(each, f"old.{each}") for each in names)
        run(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
            f"FROM {table} old CROSS JOIN {series} WHERE old.id = '{template}'"
        )


async def fill(url: str, run: Run, series: Series, count: int) -> None:
    """So many executions that are completed."""
    async with Node(open_store(url)) as node:
        tags = {"resonate:target": "poll://any@default", "holdfast:workflow": "report"}
        await _ask(node, PromiseCreate("template", FAR, tags=tags), PromiseSettle("template", "resolved"))
    copy_executions(run, series(count), "template", "'e' || n")


async def newest(many: str, few: str) -> float:
    """The newest 50 that are completed: the median of the one store over that of the other."""
    wanted = ExecutionSearch("execution", ["completed"], limit=50)
    times: dict[str, list[float]] = {many: [], few: []}
    async with Node(open_store(many)) as first, Node(open_store(few)) as second:
        for number in range(newest_rounds + 5):
            for url, node in ((many, first), (few, second)):
                began = time.perf_counter()
                [reply] = await _ask(node, wanted)
                if number >= 5:
                    times[url].append(time.perf_counter() - began)
                assert len(reply.executions) == 50  # type: ignore[attr-defined]
    return statistics.median(times[many]) / statistics.median(times[few])


async def slowed(url: str, run: Run, series: Series, count: int) -> float:
    """By how much creates take longer while so many executions are cancelled: a share."""
    app = App(url, worker=False)

    @app.workflow
    async def report(number: int) -> int:
        return number

    async def median_create() -> float:
        taken: list[float] = []
        for _ in range(creates):
            began = time.perf_counter()
            await report.with_options(tags={"kind": "other"}).start(len(taken)).started()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    async with app:
        await report.with_options(id="waiting").start(0).started()
        copy_executions(run, series(count), "waiting", "'c' || n")
        shares: list[float] = []
        before = await median_create()
        for _ in range(cancel_rounds):
            operation = await app.find(report, prefix="c").cancel_async(now=True)
            beside = await median_create()
            progress = await operation.progress_async()
            assert not progress.is_over, "it was done before the creates were: cancel more"
            assert progress.done, "it did nothing meanwhile"
            await operation.cancel()
            after = await median_create()
            shares.append(beside / ((before + after) / 2) - 1)
            before = after
    return statistics.median(shares)


async def _ask(node: Node, *asked: RequestData) -> list[object]:
    replies = await node.request([ask(data) for data in asked])
    assert all(reply.status == 200 for reply in replies), replies
    return [reply.data for reply in replies]
