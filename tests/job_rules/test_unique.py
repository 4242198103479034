"""Unique keys: one open task of a queue holds a key."""

from __future__ import annotations

import pytest

from tests.conformance.test_kept_versions import call_and_replace, version_of
from tests.conformance.test_mending import call, lineage
from tests.conformance.wire import SECOND, T0
from tests.job_rules.wire import JobWire, job_creation

DEADLINE = T0 + 10 * SECOND
POLICIES = ["existing", "reject", "replace", "debounce"]


def again(wire: JobWire, policy: str, name: str = "new", **more: object) -> tuple[int, str | None]:
    answer = wire.enqueue(name, unique="k", onUnique=policy, **more)
    return answer.status, answer.promise["id"] if answer.status == 200 else None


@pytest.mark.parametrize("state", ["PENDING", "delayed", "retry wait", "CLAIMED", "RUNNING", "halted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_second_open_task_with_the_key(wire: JobWire, policy: str, state: str) -> None:
    delay = T0 + SECOND if state == "delayed" else None
    wire.enqueue("old", unique="k", retry={"delays": [500]}, delay=delay)
    if state in ("CLAIMED", "RUNNING", "retry wait"):
        wire.take(start=state != "CLAIMED")
    if state == "retry wait":
        wire.fail("old")
    if state == "halted":
        wire.halt("old")
    found = again(wire, policy)
    running = state == "RUNNING"
    if policy == "existing":
        assert found == (200, "old")
    elif policy == "reject" or (policy == "replace" and running):
        assert found == (409, None)
    else:
        assert found == (200, "new")
        assert wire.status("old") == ("RUNNING" if running else "CANCELLED")
        assert again(wire, "existing", "third") == (200, "new"), "the key has passed on"
        if running:
            assert "unique" not in wire.job("old")
            assert wire.fulfill("old").status == 200
    if found != (200, "new"):
        assert wire.send("promise.get", {"id": "new"}).status == 404
        assert again(wire, "existing", "third") == (200, "old")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_key_that_another_task_holds_is_a_conflict(wire: JobWire, policy: str) -> None:
    wire.enqueue("old", unique="k", tags={"holdfast:task": "fetch"})
    assert again(wire, policy, tags={"holdfast:task": "send"}) == (409, None)
    assert wire.status("old") == "PENDING"
    assert again(wire, "existing", tags={"holdfast:task": "fetch"}) == (200, "old")
    assert again(wire, "existing") == (200, "old"), "who says no name is not known to be another"


def test_a_refusal_names_the_holder(wire: JobWire) -> None:
    wire.enqueue("old", unique="k")
    answer = wire.enqueue("new", unique="k", onUnique="reject")
    assert (answer.status, "'k'" in answer.data, "'old'" in answer.data) == (409, True, True)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_ended_task_holds_nothing(wire: JobWire, policy: str) -> None:
    wire.running("old", unique="k")
    wire.fulfill("old")
    assert again(wire, policy) == (200, "new")


@pytest.mark.parametrize("deadline", ["goodUntil", "timeout_at"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_holder_past_its_deadline_is_expired_first(wire: JobWire, policy: str, deadline: str) -> None:
    wire.enqueue("old", unique="k", **{deadline: DEADLINE})
    wire.now = DEADLINE
    assert again(wire, policy) == (200, "new")
    assert wire.status("old") == "EXPIRED"
    assert wire.stored("promises", "old")["state"] != "pending", "it is written, or the key were held twice"


def test_the_same_id_is_the_same_task_whatever_its_key(wire: JobWire) -> None:
    wire.enqueue("a", unique="k")
    assert wire.enqueue("a", unique="k", onUnique="reject").status == 200
    assert wire.status("a") == "PENDING"


def test_keys_belong_to_their_queues(wire: JobWire) -> None:
    wire.enqueue("a", unique="k", queue="one")
    assert wire.enqueue("b", unique="k", queue="two", onUnique="reject").promise["id"] == "b"


def test_within_one_commit_a_key_passes_from_task_to_task(wire: JobWire) -> None:
    wire.running("a", unique="k")
    settle = {"id": "a", "state": "resolved"}
    replies = wire.batch(
        ("promise.create", job_creation("b", unique="k", onUnique="debounce")),
        ("promise.create", job_creation("c", unique="k", onUnique="replace")),
        ("promise.settle", settle),
        ("promise.create", job_creation("d", unique="k", onUnique="reject")),
        ("task.cancel", {"id": "c"}),
        ("promise.create", job_creation("e", unique="k", onUnique="reject")),
    )
    assert [reply.status for reply in replies] == [200, 200, 200, 409, 200, 200]
    assert {name: wire.status(name) for name in "abce"} == {
        "a": "COMPLETED",
        "b": "CANCELLED",
        "c": "CANCELLED",
        "e": "PENDING",
    }
    assert again(wire, "existing") == (200, "e")


def test_within_one_commit_an_ended_task_hands_its_key_on(wire: JobWire) -> None:
    """The one that ends was stored before, the one that takes the key is new."""
    wire.running("a", unique="k")
    replies = wire.batch(
        ("task.heartbeat", {"pid": "w", "tasks": [{"id": "a", "version": 1}]}),
        ("promise.settle", {"id": "a", "state": "resolved"}),
        ("promise.create", job_creation("b", unique="k", onUnique="reject")),
    )
    assert [reply.status for reply in replies] == [200, 200, 200]


def test_a_retry_keeps_its_key(wire: JobWire) -> None:
    wire.running("old", unique="k", retry={"delays": [5]})
    wire.fail("old")
    assert again(wire, "reject") == (409, None)


def test_debounce_runs_once_after_the_last_send(wire: JobWire) -> None:
    for number in range(5):
        wire.now += 100
        wire.enqueue(f"j{number}", unique="k", onUnique="debounce", delay=wire.now + SECOND)
    wire.tick(wire.now + SECOND)
    assert wire.take(10) == ["j4"]


def test_a_task_born_expired_takes_nothing(wire: JobWire) -> None:
    wire.enqueue("old", unique="k")
    assert again(wire, "replace", "late", goodUntil=T0) == (200, "late")
    assert wire.status("late") == "EXPIRED"
    assert again(wire, "reject") == (200, "new")


def test_a_task_that_is_not_created_leaves_the_version_that_is_kept_under_its_id(wire: JobWire) -> None:
    """Of a call that an execution made before it was replaced."""
    call_and_replace(wire)
    wire.enqueue("holder", unique="k")
    assert wire.enqueue("w:1", unique="k", tags=lineage("w")).promise["id"] == "holder"
    call(wire, "w:1")
    assert version_of(wire, "w:1") == 2
