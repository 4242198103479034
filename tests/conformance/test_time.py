"""The view of time: at its timeout a promise is settled, for all to see, and no request writes it down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import HOUR, T0, WORKERS, Answer, Json, Wire, creation, ids

DEADLINE = T0 + 10
LATER = T0 + HOUR


@pytest.fixture
def expired(wire: Wire) -> Wire:
    """A plain promise, a timer, and an acquired task past their timeout; a live task that holds on."""
    wire.create("plain", timeout_at=DEADLINE)
    wire.create("timer", timeout_at=DEADLINE, tags={"resonate:timer": "true"})
    wire.acquired("dead", timeout_at=DEADLINE, tags={"resonate:branch": "live"})
    wire.create("halted", target=WORKERS, timeout_at=DEADLINE)
    wire.halt("halted")
    wire.create("offered", target=WORKERS, timeout_at=DEADLINE)
    wire.acquired("live", timeout_at=LATER, tags={"resonate:branch": "live"})
    wire.create("again", target=WORKERS, tags={"resonate:branch": "live"})
    wire.now = DEADLINE
    return wire


TIMED_OUT: Json = {
    "id": "plain",
    "state": "rejected_timedout",
    "param": {},
    "value": {},
    "tags": {},
    "timeoutAt": DEADLINE,
    "createdAt": T0,
    "settledAt": DEADLINE,
}


def test_a_promise_is_pending_one_millisecond_before_its_timeout(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE)
    wire.now = DEADLINE - 1
    assert wire.get("p").promise["state"] == "pending"


def test_the_settlement_instant_is_the_timeout_however_late_one_looks(expired: Wire) -> None:
    expired.now = LATER
    assert expired.get("plain").promise["settledAt"] == DEADLINE


def test_get_sees_the_timeout(expired: Wire) -> None:
    assert expired.get("plain").promise == TIMED_OUT


def test_get_sees_a_timer_resolve(expired: Wire) -> None:
    promise = expired.get("timer").promise
    assert (promise["state"], promise["settledAt"], promise["value"]) == ("resolved", DEADLINE, {})


def test_create_of_an_existing_promise_sees_the_timeout(expired: Wire) -> None:
    assert expired.create("plain").promise == TIMED_OUT


def test_settle_sees_the_timeout(expired: Wire) -> None:
    assert expired.settle("plain", value={"data": "x"}).promise == TIMED_OUT


def test_a_late_settle_of_a_timer_finds_it_resolved(expired: Wire) -> None:
    promise = expired.settle("timer", "rejected", value={"data": "x"}).promise
    assert (promise["state"], promise["value"]) == ("resolved", {})


def test_register_callback_sees_the_timeout_of_the_awaited(expired: Wire) -> None:
    assert expired.callback("plain", "live").promise == TIMED_OUT
    assert expired.snap()["callbacks"] == []


def test_register_callback_sees_the_timeout_of_the_awaiter(expired: Wire) -> None:
    expired.create("open")
    assert expired.callback("open", "dead").status == 200
    assert expired.snap()["callbacks"] == []


def test_register_listener_sees_the_timeout(expired: Wire) -> None:
    assert expired.listen("plain").promise == TIMED_OUT
    assert expired.snap()["listeners"] == []


def test_promise_search_shows_the_timeout(expired: Wire) -> None:
    assert expired.send("promise.search", {"prefix": "plain"}).data["promises"] == [TIMED_OUT]


def test_task_get_sees_the_timeout(expired: Wire) -> None:
    assert expired.task("dead") == {"id": "dead", "state": "fulfilled", "version": 1, "resumes": 0}


def test_task_get_shows_no_resumes_past_the_timeout(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t", timeout_at=DEADLINE)
    wire.callback("dep", "t")
    wire.settle("dep")
    wire.now = DEADLINE
    assert wire.task("t")["resumes"] == 0


def test_task_create_sees_the_timeout(expired: Wire) -> None:
    answer = expired.task_create("offered")
    assert (answer.status, answer.task["state"], answer.task["version"]) == (200, "fulfilled", 0)
    assert (answer.promise["state"], answer.data["preload"]) == ("rejected_timedout", [])


CONFLICTS: dict[str, Callable[[Wire], Answer]] = {
    "task.acquire": lambda wire: wire.acquire("offered"),
    "task.release": lambda wire: wire.release("dead"),
    "task.fulfill": lambda wire: wire.fulfill("dead"),
    "task.suspend": lambda wire: wire.suspend("dead", "again"),
    "task.fence": lambda wire: wire.fence("dead", "promise.create", creation("x")),
    "task.start": lambda wire: wire.start("dead"),
    "task.halt": lambda wire: wire.halt("dead"),
    "task.halt, halted": lambda wire: wire.halt("halted"),
    "task.continue": lambda wire: wire.resume("halted"),
}


@pytest.mark.parametrize("operation", CONFLICTS)
def test_an_operation_on_a_task_past_its_timeout_conflicts(expired: Wire, operation: str) -> None:
    before = expired.snap()
    assert CONFLICTS[operation](expired).status == 409
    assert expired.snap() == before


def test_a_replayed_acquire_conflicts_past_the_timeout(wire: Wire) -> None:
    wire.create("t", target=WORKERS, timeout_at=DEADLINE)
    wire.acquire("t", corr_id="once")
    wire.now = DEADLINE
    assert wire.acquire("t", corr_id="once").status == 409


def test_a_heartbeat_past_the_timeout_refreshes_nothing(expired: Wire) -> None:
    before = expired.snap()
    assert expired.heartbeat(("dead", 1)).data == {"lost": [{"id": "dead", "version": 1}]}
    assert expired.snap() == before


def test_an_empty_heartbeat_skips_a_task_past_its_timeout(expired: Wire) -> None:
    due = expired.due("dead")
    expired.heartbeat()
    assert expired.due("dead") == due
    assert expired.due("live") != due


def test_a_claim_skips_a_task_past_its_timeout(expired: Wire) -> None:
    assert [item["task"]["id"] for item in expired.claim("workers", count=10)] == ["again"]


def test_suspending_on_a_promise_past_its_timeout_goes_on(expired: Wire) -> None:
    assert expired.suspend("live", "plain").status == 300
    assert expired.snap()["callbacks"] == []


def test_preloads_show_the_timeout(expired: Wire) -> None:
    preload = expired.acquire("again").data["preload"]
    assert [(promise["id"], promise["state"]) for promise in preload] == [
        ("dead", "rejected_timedout"),
        ("live", "pending"),
    ]


def test_a_fenced_settle_sees_the_timeout(expired: Wire) -> None:
    action = expired.fence("live", "promise.settle", {"id": "plain", "state": "resolved"}).data["action"]
    assert action["data"]["promise"] == TIMED_OUT


def test_a_fenced_create_sees_the_timeout(expired: Wire) -> None:
    action = expired.fence("live", "promise.create", creation("plain")).data["action"]
    assert action["data"]["promise"] == TIMED_OUT


def test_task_search_shows_the_timeout(expired: Wire) -> None:
    found = expired.send("task.search", {"state": "fulfilled"}).data["tasks"]
    assert ids(found) == ["dead", "halted", "offered"]


QUIET: dict[str, Callable[[Wire], Answer]] = {
    "promise.get": lambda wire: wire.get("plain"),
    "promise.create": lambda wire: wire.create("plain"),
    "promise.settle": lambda wire: wire.settle("plain"),
    "promise.settle, task": lambda wire: wire.settle("dead"),
    "promise.settle, timer": lambda wire: wire.settle("timer"),
    "promise.register_callback": lambda wire: wire.callback("plain", "live"),
    "promise.register_listener": lambda wire: wire.listen("dead"),
    "promise.search": lambda wire: wire.send("promise.search", {}),
    "task.get": lambda wire: wire.send("task.get", {"id": "dead"}),
    "task.create": lambda wire: wire.task_create("offered"),
    "task.heartbeat": lambda wire: wire.heartbeat(("dead", 1)),
    "task.search": lambda wire: wire.send("task.search", {}),
    "task.suspend": lambda wire: wire.suspend("live", "dead"),
    "task.fence": lambda wire: wire.fence("live", "promise.settle", {"id": "dead", "state": "rejected"}),
}


@pytest.mark.parametrize("operation", QUIET)
def test_no_request_writes_a_timeout_down(expired: Wire, operation: str) -> None:
    before = expired.snap()
    assert QUIET[operation](expired).status in (200, 300)
    assert expired.snap() == before


def test_the_settle_key_of_a_late_settle_is_not_kept(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE)
    wire.now = DEADLINE
    assert wire.settle("p", iku="one").status == 200
    assert wire.settle("p", iku="two").status == 200


def test_two_looks_at_the_same_promise_agree_before_and_after_the_sweep(wire: Wire) -> None:
    wire.create("p", target=WORKERS, timeout_at=DEADLINE)
    wire.now = DEADLINE + 5
    before = (wire.get("p").promise, wire.task("p"))
    wire.tick()
    assert (wire.get("p").promise, wire.task("p")) == before
