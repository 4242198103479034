"""The versions of an id never repeat, whatever an execution that is replaced creates under it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.test_mending import (
    call,
    execution,
    exists,
    fail,
    fork,
    lineage,
    record,
    retry,
    start,
)
from tests.conformance.wire import FAR, HOUR, WORKERS, Wire

Deed = Callable[[Wire], None]
SUPERSEDED = {"headers": {"holdfast:superseded": "true"}}


def version_of(wire: Wire, name: str) -> int:
    version: int = wire.send("task.get", {"id": name}).task["version"]
    return version


def claim(wire: Wire) -> dict[str, int]:
    """Whoever asks gets all that is on offer."""
    claimed = wire.send("task.claim", {"groups": ["workers"], "count": 9, "pid": "q", "ttl": HOUR})
    return {each["task"]["id"]: each["task"]["version"] for each in claimed.data["tasks"]}


def settled_step(wire: Wire) -> None:
    record(wire, "w:1", "step a", 1)


def open_step(wire: Wire) -> None:
    wire.create("w:1", tags=lineage("w"), param={"headers": {"holdfast:op": "step a"}})


def call_and_replace(wire: Wire) -> None:
    """`w` has called `w:1`, which somebody holds at version 1, and begins anew."""
    execution(wire)
    call(wire, "w:1")
    assert wire.acquire("w:1").task["version"] == 1
    start(wire, "replace")


def test_a_call_of_an_execution_that_began_again_says_at_which_version_it_did(wire: Wire) -> None:
    call_and_replace(wire)
    call(wire, "w:1")
    assert wire.get("w:1").promise["tags"]["holdfast:run"] == str(version_of(wire, "w:1")) == "2"


@pytest.mark.parametrize("create", [settled_step, open_step])
def test_who_held_a_call_can_write_nothing_after_a_step_and_a_call_took_its_place(
    wire: Wire, create: Deed
) -> None:
    call_and_replace(wire)
    create(wire)
    start(wire, "replace")
    call(wire, "w:1")
    assert claim(wire)["w:1"] == 3
    action = {"kind": "promise.settle", "data": {"id": "w:1", "state": "resolved"}}
    assert wire.send("task.fulfill", {"id": "w:1", "version": 1, "action": action}).status == 409
    assert wire.get("w:1").promise["state"] == "pending"


def test_the_version_is_kept_however_often_a_step_is_replaced(wire: Wire) -> None:
    call_and_replace(wire)
    for _ in range(3):
        settled_step(wire)
        start(wire, "replace")
    start(wire, "replace")
    call(wire, "w:1")
    assert version_of(wire, "w:1") == 2


def test_the_version_is_kept_if_the_step_is_taken_out_of_the_record_by_a_retry(wire: Wire) -> None:
    call_and_replace(wire)
    assert claim(wire)["w"] == 3
    record(wire, "w:1", "step a", 1, state="rejected")
    fail(wire, point="1 1 w:1", version=3)
    retry(wire)
    call(wire, "w:1")
    assert version_of(wire, "w:1") == 2


def test_the_version_is_kept_if_an_execution_continues_without_the_step(wire: Wire) -> None:
    call_and_replace(wire)
    assert claim(wire)["w"] == 3
    settled_step(wire)
    wire.send("task.restart", {"id": "w", "version": 3, "forget": ["w:1"]})
    start(wire, "replace")
    call(wire, "w:1")
    assert version_of(wire, "w:1") == 2


def test_the_version_is_kept_by_a_task_that_is_created_and_acquired_at_once(wire: Wire) -> None:
    call_and_replace(wire)
    settled_step(wire)
    start(wire, "replace")
    creation = {"id": "w:1", "timeoutAt": FAR, "tags": {"resonate:target": "poll://any@workers"}}
    action = {"kind": "promise.create", "data": creation}
    answer = wire.send("task.create", {"pid": "q", "ttl": HOUR, "action": action})
    assert answer.task["version"] == 3


def ask_for_lock(wire: Wire, version: int) -> Any:
    asked = {"id": "w:1", "name": "printer", "timeoutAt": FAR, "tags": lineage("w")}
    return wire.fence("w", "lock.acquire", asked, version).data["action"]


def wait_for_event(wire: Wire, version: int) -> Any:
    asked = {"id": "w:1", "name": "paid", "timeoutAt": FAR, "tags": lineage("w")}
    return wire.fence("w", "event.await", asked, version).data["action"]


def ask_another(wire: Wire, version: int) -> Any:
    wire.create("other", target=WORKERS)
    answer = {"id": "w:1", "timeoutAt": FAR, "tags": lineage("w")}
    asked = {"id": "other", "stream": "in", "answer": answer}
    return wire.fence("w", "stream.append", asked, version).data["action"]


@pytest.mark.parametrize("deed", [ask_for_lock, wait_for_event, ask_another])
def test_the_version_is_kept_by_a_lock_an_event_and_a_question_where_a_call_was(
    wire: Wire, deed: Callable[[Wire, int], Any]
) -> None:
    call_and_replace(wire)
    assert claim(wire)["w"] == 3
    assert deed(wire, 3)["head"]["status"] == 200
    assert wire.get("w:1").promise["value"] != SUPERSEDED
    start(wire, "replace")
    call(wire, "w:1")
    assert version_of(wire, "w:1") == 2


@pytest.mark.parametrize("deed", [ask_for_lock, wait_for_event, ask_another])
def test_a_lock_an_event_and_a_question_take_the_place_of_a_step_that_took_that_of_a_call(
    wire: Wire, deed: Callable[[Wire, int], Any]
) -> None:
    call_and_replace(wire)
    settled_step(wire)
    start(wire, "replace")
    assert claim(wire)["w"] == 4
    assert deed(wire, 4)["head"]["status"] == 200
    assert wire.get("w:1").promise["tags"]["holdfast:next-version"] == "2"


def test_what_is_only_kept_for_its_version_is_no_record_that_a_call_under_a_chosen_id_is_over(
    wire: Wire,
) -> None:
    call_and_replace(wire)
    own = dict.fromkeys(lineage("own"), "own")
    wire.create("own", target=WORKERS, tags=own | {"holdfast:caller": "w:1"})
    wire.send("promise.register_callback", {"awaited": "own", "awaiter": "w"})
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert wire.get("own").promise["state"] == "rejected_canceled"


def test_what_is_only_kept_for_its_version_is_not_preloaded(wire: Wire) -> None:
    call_and_replace(wire)
    settled_step(wire)
    start(wire, "replace")
    claimed = wire.send("task.claim", {"groups": ["workers"], "count": 9, "pid": "q", "ttl": HOUR})
    assert [each["preload"] for each in claimed.data["tasks"]] == [[]]


def test_nobody_but_the_node_says_where_versions_begin(wire: Wire) -> None:
    creation = {"id": "p", "timeoutAt": FAR, "tags": {"holdfast:next-version": "9"}}
    assert wire.send("promise.create", creation).status == 400


def test_a_step_says_nothing_of_versions_where_no_task_was(wire: Wire) -> None:
    execution(wire)
    settled_step(wire)
    assert "holdfast:next-version" not in wire.get("w:1").promise["tags"]
    start(wire, "replace")
    assert not exists(wire, "w:1")


# --- mending one that was replaced -------------------------------------------------------------------------


def test_one_that_was_replaced_is_retried_though_it_has_not_come_to_what_it_had_called(wire: Wire) -> None:
    call_and_replace(wire)
    assert claim(wire)["w"] == 3
    fail(wire, point="0 0 ", version=3)
    assert retry(wire).promise["state"] == "pending"


def test_a_call_of_the_run_before_is_not_retried_with_one_that_was_replaced(wire: Wire) -> None:
    call_and_replace(wire)
    wire.send("execution.cancel", {"id": "w", "now": True})
    retry(wire)
    assert wire.get("w:1").promise["state"] == "rejected_canceled"


def test_a_call_of_the_run_before_is_not_copied_into_a_fork(wire: Wire) -> None:
    call_and_replace(wire)
    record(wire, "w:2", "step b", 1)
    assert fork(wire, "step b").status == 200
    assert not exists(wire, "f:1")
