"""Workflows in queues, later, and at an instant, as an app starts them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.client.errors import Refused
from holdfast.jobs.errors import BadOption
from holdfast.workflow.errors import BadStartOption, ExecutionCancelled


def reports(path: Path, **limits: Any) -> tuple[hf.App, Any, dict[str, Any]]:
    app = hf.App(f"sqlite:///{path / 'queues.db'}")
    app.queue("reports", **limits)
    seen: dict[str, Any] = {"open": Counter(), "most": 0, "order": []}

    @app.workflow
    async def report(tenant: str, number: int) -> int:
        seen["open"][tenant] += 1
        seen["most"] = max(seen["most"], sum(seen["open"].values()))
        seen["order"].append(number)
        await hf.sleep("50ms")  # it is suspended, and counts
        seen["open"][tenant] -= 1
        return number

    return app, report, seen


async def test_the_limits_of_a_queue_hold_for_executions_while_they_are_suspended(tmp_path: Path) -> None:
    app, report, seen = reports(tmp_path, concurrency=2, per_key=1)
    async with app:
        placed = [
            report.with_options(id=f"r{number}", queue="reports", limit_key=f"t{number % 3}")
            for number in range(6)
        ]
        handles = [each.start(f"t{number % 3}", number) for number, each in enumerate(placed)]
        assert [await handle for handle in handles] == [*range(6)]
    assert seen["most"] == 2


async def test_a_workflow_calls_others_in_queues_and_later(tmp_path: Path) -> None:
    app, report, seen = reports(tmp_path, concurrency=1)

    @app.workflow
    async def parent() -> list[int]:
        first = hf.call(report.with_options(queue="reports", limit_key="a"), "a", 1)
        other = hf.call(report.with_options(queue="reports", delay="100ms", priority=3), "b", 2)
        return [await first, await other]

    async with app:
        assert await parent.start() == [1, 2]
    assert seen["most"] == 1


async def test_tasks_and_workflows_share_a_queue(tmp_path: Path) -> None:
    app, report, _ = reports(tmp_path, concurrency=2)

    @app.task(queue="reports")
    async def mail(number: int) -> int:
        return number

    async with app:
        flow = report.with_options(queue="reports").start("a", 1)
        task = await mail.send_async(2)
        assert (await flow, (await task).ok_value) == (1, 2)


async def test_what_is_replaced_is_asked_to_cancel(tmp_path: Path) -> None:
    app = hf.App(f"sqlite:///{tmp_path / 'replace.db'}")
    app.queue("builds", per_key=1)
    cleaned: list[str] = []
    begun = asyncio.Event()

    @app.workflow
    async def build(commit: str) -> str:
        begun.set()
        try:
            await hf.sleep("1h" if commit == "old" else "1ms")
        except hf.Cancelled:
            cleaned.append(commit)
            raise
        return commit

    branch = build.with_options(queue="builds", limit_key="main")
    async with app:
        old = branch.with_options(id="old").start("old")
        await begun.wait()
        with pytest.raises(Refused, match="HF1209"):
            await branch.with_options(id="no", overlap="reject").start("no").started()
        new = branch.with_options(id="new", overlap="replace").start("new")
        assert await new == "new"
        with pytest.raises(ExecutionCancelled):
            await old
    assert cleaned == ["old"]


async def test_nothing_begins_before_its_instant(tmp_path: Path) -> None:
    app, report, _ = reports(tmp_path)
    began: list[float] = []

    @app.task
    def note() -> None:
        began.append(datetime.now(UTC).timestamp())

    @app.workflow
    async def noted() -> None:
        await hf.run(note.function)

    async with app:
        at = datetime.now(UTC) + timedelta(milliseconds=300)
        await noted.with_options(at=at).start()
        await (await note.with_options(at=at).send_async())
        await noted.with_options(at=at - timedelta(days=1)).start()  # long past: at once
        assert await report.with_options(delay="50ms").start("a", 1) == 1
    assert len(began) == 3
    assert min(began) >= at.timestamp() - 0.001


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "a/b"}, "queue"),
        ({"queue": ""}, "queue"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"limit_key": "k"}, "give queue="),
        ({"queue": "q", "limit_key": ""}, "limit_key"),
        ({"queue": "q", "overlap": "reject"}, "give limit_key="),
        ({"queue": "q", "limit_key": "k", "overlap": "perhaps"}, "overlap must be one of"),
        ({"queue": "q", "group": "g"}, "give one of them"),
        ({"delay": "1s", "at": datetime.now(UTC)}, "give one of them"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"at": "tomorrow"}, "datetime"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_are_written(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    _, report, _ = reports(tmp_path)
    with pytest.raises(BadStartOption, match=sentence):
        report.with_options(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"weights": {"a": 2}},
        {"fair": True, "weights": {"a": 0}},
        {"fair": True, "weights": {"a": "2"}},
        {"fair": True, "weights": ["a"]},
        {"fair": "yes"},
        {"running": 0},
    ],
)
def test_a_queue_that_makes_no_sense_is_refused_where_it_is_declared(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        hf.App("memory:").queue("q", **options)
