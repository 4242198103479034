"""What a settlement sets in motion, whoever brings it about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.wire import CLIENT, MINUTE, RETRY_MS, SECOND, T0, WORKERS, Wire, creation

DEADLINE = T0 + 10


def by_settle(wire: Wire) -> None:
    wire.settle("dep")


def by_fulfill(wire: Wire) -> None:
    wire.acquire("dep")
    wire.fulfill("dep")


def by_fence(wire: Wire) -> None:
    wire.acquired("fencer")
    wire.fence("fencer", "promise.settle", {"id": "dep", "state": "resolved"})


def by_time(wire: Wire) -> None:
    wire.tick(DEADLINE)


WAYS = pytest.mark.parametrize("settle", [by_settle, by_fulfill, by_fence, by_time])


def awaited(wire: Wire) -> None:
    """The promise the ways above settle."""
    wire.create("dep", target="poll://any@deps", timeout_at=DEADLINE)


def waiter(wire: Wire, name: str = "t") -> None:
    wire.task_create(name)
    assert wire.suspend(name, "dep").status == 200


@WAYS
def test_the_own_task_is_fulfilled_in_the_same_step(wire: Wire, settle: Callable[[Wire], None]) -> None:
    awaited(wire)
    settle(wire)
    task = wire.stored("tasks", "dep")
    assert (task["state"], task["resumes"]) == ("fulfilled", 0)
    assert wire.due("dep") is None


@WAYS
def test_a_suspended_awaiter_becomes_pending_and_is_offered(
    wire: Wire, settle: Callable[[Wire], None]
) -> None:
    awaited(wire)
    waiter(wire)
    settle(wire)
    assert wire.stored("tasks", "t") == {"id": "t", "state": "pending", "version": 1, "resumes": 1}
    assert wire.offers("t") == [1]
    assert wire.due("t") == (0, wire.now + RETRY_MS)


@WAYS
def test_callbacks_are_consumed(wire: Wire, settle: Callable[[Wire], None]) -> None:
    awaited(wire)
    waiter(wire)
    settle(wire)
    assert wire.snap()["callbacks"] == []


@WAYS
def test_every_awaiter_is_woken(wire: Wire, settle: Callable[[Wire], None]) -> None:
    awaited(wire)
    for name in ("t1", "t2", "t3"):
        waiter(wire, name)
    settle(wire)
    assert [wire.task(name)["state"] for name in ("t1", "t2", "t3")] == ["pending"] * 3


@WAYS
def test_every_listener_is_told_once_and_forgotten(wire: Wire, settle: Callable[[Wire], None]) -> None:
    awaited(wire)
    addresses = ["https://example.com/hook", CLIENT]
    for address in addresses:
        wire.listen("dep", address)
    settle(wire)
    record = wire.stored("promises", "dep")
    for address in addresses:
        assert wire.messages(address) == [{"kind": "unblock", "head": {}, "data": {"promise": record}}]
    assert wire.snap()["listeners"] == []


@WAYS
def test_the_promise_leaves_the_timeouts(wire: Wire, settle: Callable[[Wire], None]) -> None:
    awaited(wire)
    settle(wire)
    assert "dep" not in [row["id"] for row in wire.snap()["promiseTimeouts"]]


@pytest.mark.parametrize("state", ["pending", "acquired", "suspended", "halted"])
def test_settling_a_promise_fulfils_its_task_whatever_it_was_doing(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.create("t", target=WORKERS)
    if state in ("acquired", "suspended"):
        wire.acquire("t")
    if state == "suspended":
        wire.suspend("t", "dep")
    if state == "halted":
        wire.halt("t")
    version = wire.task("t")["version"]
    wire.settle("t")
    assert wire.stored("tasks", "t") == {"id": "t", "state": "fulfilled", "version": version, "resumes": 0}


@pytest.mark.parametrize("state", ["pending", "acquired", "halted"])
def test_an_awaiter_that_is_not_suspended_has_its_resumes_counted(wire: Wire, state: str) -> None:
    for name in ("one", "two"):
        wire.create(name)
    wire.create("t", target=WORKERS)
    if state == "acquired":
        wire.acquire("t")
    if state == "halted":
        wire.halt("t")
    for name in ("one", "two"):
        wire.callback(name, "t")
        wire.settle(name)
    task = wire.task("t")
    assert (task["state"], task["resumes"]) == (state, 2)


def test_a_second_settlement_after_the_wake_is_counted(wire: Wire) -> None:
    wire.suspended("t", "one", "two")
    wire.settle("one")
    due = wire.due("t")
    wire.now = T0 + SECOND
    wire.settle("two")
    task = wire.task("t")
    assert (task["state"], task["resumes"]) == ("pending", 2)
    assert wire.due("t") == due


def test_an_awaiter_that_is_fulfilled_is_left_alone(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.settle("t")
    before = wire.stored("tasks", "t")
    wire.settle("dep")
    assert wire.stored("tasks", "t") == before


def test_the_callbacks_of_a_settled_awaiter_stay_until_their_promises_settle(wire: Wire) -> None:
    wire.suspended("t", "one", "two")
    wire.settle("t")
    assert len(wire.snap()["callbacks"]) == 2
    wire.settle("one")
    assert wire.snap()["callbacks"] == [{"awaiter": "t", "awaited": "two"}]


@pytest.mark.parametrize("settle", [by_settle, by_fulfill, by_fence])
def test_an_awaiter_past_its_own_deadline_is_not_woken_by_a_request(
    wire: Wire, settle: Callable[[Wire], None]
) -> None:
    """Rule C6: the awaiter is dead in the view, though no sweep has said so yet."""
    wire.create("dep", target="poll://any@deps", timeout_at=T0 + MINUTE)
    wire.task_create("t", timeout_at=DEADLINE)
    wire.suspend("t", "dep")
    wire.now = DEADLINE
    settle(wire)
    assert wire.stored("tasks", "t")["state"] == "suspended"
    assert wire.task("t")["state"] == "fulfilled"
    assert wire.offers("t") == []


def test_an_awaiter_past_its_own_deadline_is_not_woken_by_the_sweep_of_the_same_instant(wire: Wire) -> None:
    """Rule C6: both die in one sweep, and the awaiter goes from suspended straight to fulfilled."""
    wire.create("dep", timeout_at=DEADLINE)
    wire.task_create("t", timeout_at=DEADLINE)
    wire.suspend("t", "dep")
    wire.tick(DEADLINE)
    assert wire.stored("tasks", "t") == {"id": "t", "state": "fulfilled", "version": 1, "resumes": 0}
    assert wire.offers("t") == []


@pytest.mark.parametrize(("awaiter", "other"), [("a", "z"), ("z", "a")])
def test_the_order_of_ids_does_not_decide_who_is_woken_in_a_sweep(
    wire: Wire, awaiter: str, other: str
) -> None:
    """Rule C6 again: whichever of the two comes first."""
    wire.create(other, timeout_at=T0 + 5)
    wire.task_create(awaiter, timeout_at=T0 + 8)
    wire.suspend(awaiter, other)
    wire.tick(DEADLINE)
    assert wire.stored("tasks", awaiter)["state"] == "fulfilled"
    assert wire.offers(awaiter) == []


def test_an_awaiter_past_its_own_deadline_counts_no_resumes(wire: Wire) -> None:
    wire.create("dep")
    wire.acquired("t", timeout_at=DEADLINE)
    wire.callback("dep", "t")
    wire.now = DEADLINE
    before = wire.stored("tasks", "t")
    wire.settle("dep")
    assert wire.stored("tasks", "t") == before


def test_a_chain_of_awaiters_is_woken_one_link_at_a_time(wire: Wire) -> None:
    wire.acquired("bottom")
    wire.acquired("middle")
    wire.acquired("top")
    wire.suspend("top", "middle")
    wire.suspend("middle", "bottom")
    wire.fulfill("bottom")
    assert [wire.task(name)["state"] for name in ("middle", "top")] == ["pending", "suspended"]
    wire.acquire("middle", 1)
    wire.fulfill("middle", 2)
    assert wire.task("top")["state"] == "pending"


def test_a_settlement_that_was_already_there_sets_nothing_in_motion(wire: Wire) -> None:
    wire.create("dep")
    wire.settle("dep")
    wire.create("t", target=WORKERS)
    wire.callback("dep", "t")
    wire.listen("dep")
    before = wire.snap()
    wire.settle("dep", "rejected")
    assert wire.snap() == before


def test_a_late_settle_is_answered_with_the_timeout_and_stores_nothing(wire: Wire) -> None:
    wire.create("p", timeout_at=DEADLINE)
    wire.now = DEADLINE
    before = wire.snap()
    answer = wire.settle("p", value={"data": "bGF0ZQ=="})
    assert (answer.status, answer.promise["state"], answer.promise["value"]) == (200, "rejected_timedout", {})
    assert wire.snap() == before


def test_a_task_may_be_fenced_and_woken_in_one_array(wire: Wire) -> None:
    wire.suspended("t", "dep")
    wire.acquired("fencer")
    answers = wire.batch(
        ("task.fence", {"id": "fencer", "version": 1, "action": fenced_settle()}),
        ("task.acquire", {"id": "t", "version": 1, "pid": "q", "ttl": MINUTE}),
        ("promise.create", creation("last")),
    )
    assert [answer.status for answer in answers] == [200, 200, 200]


def fenced_settle() -> dict[str, object]:
    return {"kind": "promise.settle", "head": {}, "data": {"id": "dep", "state": "resolved"}}
