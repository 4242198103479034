"""Background tasks are found by their status, however many there are of another one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from holdfast.protocol.jobs import JobStatus
from tests.conformance.wire import SECOND, T0
from tests.job_rules.wire import JobWire, job_creation

STATUSES: tuple[JobStatus, ...] = get_args(JobStatus)


def found(wire: JobWire, **filters: Any) -> list[str]:
    """All ids that a search finds, page by page."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        answer = wire.send("task.search", {**filters, **more})
        assert answer.status == 200, answer
        ids += [task["id"] for task in answer.data["tasks"]]
        cursor = answer.data.get("cursor")
        if cursor is None:
            return ids


def fill(wire: JobWire, tag: str = "", **more: Any) -> None:
    """One in each state, and a workflow's task."""
    wire.send("promise.create", job_creation(f"pending{tag}", **more))
    for name, act in (
        ("completed", lambda: wire.fulfill(f"completed{tag}", 1, "resolved")),
        ("failed", lambda: wire.fail(f"failed{tag}")),
        ("running", lambda: None),
    ):
        wire.send("promise.create", job_creation(f"{name}{tag}", priority=9, **more))
        assert wire.take(start=True, **more) == [f"{name}{tag}"]
        act()
    wire.send("promise.create", job_creation(f"claimed{tag}", priority=9, **more))
    assert wire.take(**more) == [f"claimed{tag}"]
    wire.send("promise.create", job_creation(f"cancelled{tag}", **more))
    wire.cancel(f"cancelled{tag}")
    wire.send("promise.create", job_creation(f"expired{tag}", goodUntil=T0 - 1, **more))
    wire.send("promise.create", job_creation(f"halted{tag}", **more))
    wire.send("task.halt", {"id": f"halted{tag}"})


@pytest.mark.parametrize("status", STATUSES)
def test_a_search_by_status_finds_those_and_no_other(wire: JobWire, status: JobStatus) -> None:
    wire.create("workflow", target="poll://any@queue.mail")
    fill(wire)
    fill(wire, "-b", queue="slow")
    wire.tick()
    expected = [status.lower(), f"{status.lower()}-b"]
    if status == "PENDING":
        expected = ["halted", "halted-b", *expected]
    assert found(wire, status=status) == expected
    assert found(wire, status=status, limit=1) == expected
    assert found(wire, status=status, group="queue.slow") == [name for name in expected if "-b" in name]
    assert found(wire, status=status, prefix=expected[-1]) == expected[-1:]
    assert found(wire, status=status, tags={"no": "such"}) == []
    assert {wire.status(name) for name in expected} == {status}


def test_a_status_that_a_deadline_has_changed_is_not_shown_as_the_old_one(wire: JobWire) -> None:
    wire.enqueue("j", goodUntil=T0 + SECOND)
    wire.now = T0 + SECOND
    assert found(wire, status="PENDING") == []
    wire.tick()
    assert found(wire, status="EXPIRED") == ["j"]


def test_a_status_goes_together_with_a_state(wire: JobWire) -> None:
    fill(wire)
    assert found(wire, status="PENDING", state="halted") == ["halted"]
    assert found(wire, status="PENDING", state="acquired") == []


def test_an_unknown_status_is_refused(wire: JobWire) -> None:
    assert wire.send("task.search", {"status": "DONE"}).status == 400
