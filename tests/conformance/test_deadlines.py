"""An execution with `holdfast:grace` is asked to cancel so long before its timeout, and ended at it."""

from __future__ import annotations

import pytest

from tests.conformance.test_executions import look
from tests.conformance.wire import FAR, SECOND, WORKERS, Wire

GRACE = {"holdfast:grace": str(5 * SECOND)}
LATE = {"headers": {"holdfast-code": "HF5103"}}


def start(wire: Wire, after: int = 20 * SECOND, name: str = "wf") -> int:
    """Answers with the instant at which it is ended."""
    ends_at = wire.now + after
    wire.create(name, target=WORKERS, tags=GRACE, timeout_at=ends_at)
    return ends_at


def test_the_promise_that_asks_it_to_cancel_is_a_timer_that_rings_a_grace_before_its_timeout(
    wire: Wire,
) -> None:
    ends_at = start(wire)
    asked = wire.get("wf:cancel").promise
    assert (asked["state"], asked["timeoutAt"]) == ("pending", ends_at - 5 * SECOND)
    wire.tick(ends_at - 5 * SECOND)
    asked = wire.get("wf:cancel").promise
    assert (asked["state"], asked["settledAt"]) == ("resolved", ends_at - 5 * SECOND)
    assert wire.get("wf").promise["state"] == "pending"
    wire.tick(ends_at)
    assert wire.get("wf").promise["state"] == "rejected_timedout"


def test_a_suspended_one_is_woken_by_its_deadline(wire: Wire) -> None:
    ends_at = start(wire)
    wire.create("p", timeout_at=FAR)
    wire.acquire("wf")
    wire.suspend("wf", "p")
    assert look(wire, "wf")["status"] == "suspended"
    wire.tick(ends_at - 5 * SECOND)
    assert look(wire, "wf")["status"] == "pending"
    reply = wire.acquire("wf", version=1)
    assert reply.data["kind"] == "resume"


def test_one_that_is_held_notes_that_it_is_to_look(wire: Wire) -> None:
    ends_at = start(wire)
    wire.acquire("wf")
    wire.tick(ends_at - 5 * SECOND)
    assert wire.task("wf")["resumes"] == 1


def test_whoever_cancels_it_before_resolves_the_same_promise(wire: Wire) -> None:
    start(wire)
    assert wire.send("execution.cancel", {"id": "wf"}).status == 200
    asked = wire.get("wf:cancel").promise
    assert (asked["state"], asked["settledAt"]) == ("resolved", wire.now)
    assert asked["settledAt"] < asked["timeoutAt"]


def test_one_that_cancels_itself_at_its_deadline_has_timed_out(wire: Wire) -> None:
    ends_at = start(wire)
    start(wire, name="other")
    for name, value in (("wf", LATE), ("other", {})):
        wire.tick(ends_at - 5 * SECOND)
        version = wire.task(name)["version"]
        wire.acquire(name, version=version)
        settle = {"id": name, "state": "rejected_canceled", "value": value}
        action = {"kind": "promise.settle", "data": settle}
        fulfil = {"id": name, "version": version + 1, "action": action}
        assert wire.send("task.fulfill", fulfil).status == 200
    assert look(wire, "wf")["status"] == "timed_out"
    assert look(wire, "other")["status"] == "cancelled"
    found = wire.send("execution.search", {"status": ["timed_out"]}).data["executions"]
    assert [each["id"] for each in found] == ["wf"]


def test_where_the_deadline_has_passed_already_it_is_asked_at_once(wire: Wire) -> None:
    wire.create("wf", target=WORKERS, tags=GRACE, timeout_at=wire.now + SECOND)
    assert wire.get("wf:cancel").promise["state"] == "resolved"
    assert wire.get("wf").promise["state"] == "pending"


def test_where_something_has_the_id_already_nothing_is_made(wire: Wire) -> None:
    wire.create("wf:cancel", timeout_at=FAR)
    start(wire)
    assert wire.get("wf:cancel").promise["timeoutAt"] == FAR


def test_a_retry_sets_the_deadline_again(wire: Wire) -> None:
    ends_at = start(wire)
    wire.tick(ends_at)
    assert look(wire, "wf")["status"] == "timed_out"
    again = wire.now + 60 * SECOND
    assert wire.send("execution.retry", {"id": "wf", "timeoutAt": again}).status == 200
    assert wire.get("wf").promise["timeoutAt"] == again + 5 * SECOND
    asked = wire.get("wf:cancel").promise
    assert (asked["state"], asked["timeoutAt"]) == ("pending", again)
    version = wire.task("wf")["version"]
    wire.acquire("wf", version=version, ttl=120 * SECOND)
    wire.tick(again)
    assert wire.get("wf:cancel").promise["state"] == "resolved"
    assert wire.task("wf")["resumes"] == 1, "it is woken again"


@pytest.mark.parametrize("on_existing", ["again_if_failed", "replace"])
def test_one_that_begins_anew_is_woken_by_its_own_deadline(wire: Wire, on_existing: str) -> None:
    start(wire)
    if on_existing == "again_if_failed":
        wire.settle("wf", "rejected")
    ends_at = wire.now + 60 * SECOND
    tags = {"resonate:target": WORKERS, **GRACE}
    data = {"id": "wf", "timeoutAt": ends_at, "tags": tags}
    action = {"kind": "promise.create", "head": {}, "data": data}
    assert wire.send("execution.start", {"action": action, "onExisting": on_existing}).status == 200
    version = wire.task("wf")["version"]
    wire.acquire("wf", version=version, ttl=120 * SECOND)
    wire.tick(ends_at - 5 * SECOND)
    assert wire.task("wf")["resumes"] == 1


def test_a_schedule_gives_each_run_its_deadline(wire: Wire) -> None:
    wire.send(
        "schedule.create",
        {
            "id": "s",
            "cron": "* * * * *",
            "promiseId": "run",
            "promiseTimeout": 20 * SECOND,
            "promiseTags": {"resonate:target": WORKERS, **GRACE},
        },
    )
    due = wire.send("schedule.get", {"id": "s"}).data["schedule"]["nextRunAt"]
    wire.tick(due)
    assert wire.get("run:cancel").promise["timeoutAt"] == due + 15 * SECOND


@pytest.mark.parametrize(
    "tags",
    [
        {"resonate:target": WORKERS, "holdfast:grace": "0"},
        {"resonate:target": WORKERS, "holdfast:grace": "soon"},
        {"resonate:target": WORKERS, "holdfast:grace": "86400001"},
        {"resonate:target": WORKERS, "holdfast:grace": "5", "resonate:timer": "true"},
        {"holdfast:grace": "5"},
    ],
)
def test_a_grace_is_for_executions_and_a_whole_number_of_milliseconds(
    wire: Wire, tags: dict[str, str]
) -> None:
    reply = wire.send("promise.create", {"id": "p", "timeoutAt": FAR, "tags": tags})
    assert reply.status == 400
