"""Executions that are started under a taken id, cancelled, retried and forked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from holdfast.protocol import limits
from tests.conformance.wire import CLIENT, FAR, HOUR, T0, WORKERS, Json, Wire

OP, PLACE, OBSERVED, FAILED = "holdfast:op", "holdfast:place", "holdfast:observed", "holdfast:failed-at"


def lineage(parent: str, branch: str | None = None) -> dict[str, str]:
    return {"resonate:origin": parent, "resonate:branch": branch or parent, "resonate:parent": parent}


def execution(wire: Wire, name: str = "w", **more: Any) -> Json:
    """One that is acquired at version 1."""
    tags = {**lineage(name), "holdfast:workflow": "order", **more.pop("tags", {})}
    wire.create(name, target=WORKERS, tags=tags, **more)
    return wire.acquire(name).task


def record(
    wire: Wire, name: str, label: str, place: int | None = None, *, state: str = "resolved", **headers: str
) -> None:
    found = {} if place is None else {PLACE: str(place)}
    settle = {"state": state, "value": {"headers": {**found, **headers}, "data": "x"}}
    parent = name.partition(":")[0]
    wire.create(name, tags=lineage(parent), param={"headers": {OP: label}}, settle=settle)


def call(wire: Wire, name: str, label: str = "call pay", parent: str = "w") -> None:
    tags = lineage(parent, branch=name)
    wire.create(name, target=WORKERS, tags=tags, param={"headers": {OP: label}})


def fail(wire: Wire, name: str = "w", point: str | None = None, version: int = 1) -> None:
    headers = {} if point is None else {FAILED: point}
    value = {"state": "rejected", "value": {"headers": headers, "data": "e"}}
    action = {"kind": "promise.settle", "data": {"id": name, **value}}
    assert wire.send("task.fulfill", {"id": name, "version": version, "action": action}).status == 200


def retry(wire: Wire, name: str = "w", **more: Any) -> Any:
    return wire.send("execution.retry", {"id": name, **more})


def exists(wire: Wire, name: str) -> bool:
    return wire.get(name).status == 200


# --- retry -------------------------------------------------------------------------------------------------


def test_a_retry_takes_the_failed_step_out_of_the_record_and_nothing_before_it(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1)
    record(wire, "w:2", "step ship", 2, state="rejected")
    fail(wire, point="2 2 w:2")
    answer = retry(wire)
    assert answer.promise["state"] == "pending"
    assert exists(wire, "w:1")
    assert not exists(wire, "w:2")
    assert wire.get("w:1").promise["value"]["headers"] == {PLACE: "1"}


def test_a_retried_execution_is_on_offer_one_version_above(wire: Wire) -> None:
    execution(wire)
    fail(wire)
    retry(wire)
    task = wire.send("task.get", {"id": "w"}).task
    assert (task["state"], task["version"]) == ("pending", 2)
    claimed = wire.send("task.claim", {"groups": ["workers"], "count": 1, "pid": "q", "ttl": 1_000})
    assert claimed.data["tasks"][0]["task"]["version"] == 3


def test_whoever_held_it_before_can_write_nothing_after_a_retry(wire: Wire) -> None:
    execution(wire)
    wire.send("execution.cancel", {"id": "w", "now": True})
    retry(wire)
    wire.send("task.claim", {"groups": ["workers"], "count": 1, "pid": "q", "ttl": HOUR})
    action = {"kind": "promise.create", "data": {"id": "w:1", "timeoutAt": FAR}}
    for version in (1, 2):
        assert wire.send("task.fence", {"id": "w", "version": version, "action": action}).status == 409
    assert wire.send("task.fence", {"id": "w", "version": 3, "action": action}).status == 200


def test_a_failure_that_the_code_has_caught_before_stays(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1, state="rejected")
    record(wire, "w:2", "step other", 2)
    record(wire, "w:3", "step ship", 3, state="rejected")
    fail(wire, point="3 3 w:3")
    retry(wire)
    assert exists(wire, "w:1")
    assert not exists(wire, "w:3")


def test_a_result_that_came_in_after_the_failure_stays_without_its_place(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step a", 1, state="rejected")
    record(wire, "w:2", "step b", 2, **{"holdfast:ran": "1 2 3 w"})
    fail(wire, point="1 2 w:1")
    retry(wire)
    assert not exists(wire, "w:1")
    assert wire.get("w:2").promise["value"] == {"headers": {"holdfast:ran": "1 2 3 w"}, "data": "x"}


def test_what_was_seen_after_the_failure_is_seen_anew(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step a", 1, state="rejected")
    wire.create("w:2", tags=lineage("w"), param={"headers": {OP: "promise"}})
    wire.settle("w:2")
    record(wire, "w:0~2", "", 2, **{OBSERVED: "w:2"})
    fail(wire, point="1 2 w:1")
    retry(wire)
    assert not exists(wire, "w:0~2")
    assert wire.get("w:2").promise["state"] == "resolved"


def test_an_execution_that_did_more_after_it_had_failed_is_not_retried(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step ship", 1, state="rejected")
    record(wire, "w:2", "step refund", 2)
    fail(wire, point="1 1 w:1")
    answer = retry(wire)
    assert (answer.status, answer.head["code"]) == (409, "HF1704")
    assert exists(wire, "w:1")
    assert wire.get("w").promise["state"] == "rejected"


def test_notes_after_the_failure_are_taken_back(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step ship", 1, state="rejected")
    record(wire, "w:2", "note publish value.stage", 2)
    append = {"id": "w", "stream": "value.stage", "value": {"data": "failed"}, "key": "w:2"}
    fence = {"id": "w", "version": 1, "action": {"kind": "stream.append", "data": append}}
    assert wire.send("task.fence", fence).status == 200
    fail(wire, point="1 1 w:1")
    retry(wire)
    assert not exists(wire, "w:2")
    assert not exists(wire, "w:value.stage~w:2")
    assert exists(wire, "w:value.stage.1")


def test_a_call_that_failed_is_retried_with_its_caller(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1")
    wire.acquire("w:1")
    record_below = {"state": "rejected", "value": {"headers": {PLACE: "1"}}}
    wire.create("w:1.1", tags=lineage("w:1"), param={"headers": {OP: "step pay"}}, settle=record_below)
    fail(wire, "w:1", point="1 1 w:1.1")
    fail(wire, point="1 1 w:1")
    retry(wire)
    assert [wire.get(name).promise["state"] for name in ("w", "w:1")] == ["pending", "pending"]
    assert not exists(wire, "w:1.1")


def test_what_another_execution_called_is_not_retried_by_itself(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1")
    wire.acquire("w:1")
    fail(wire, "w:1")
    answer = retry(wire, "w:1")
    assert (answer.status, answer.head["code"]) == (409, "HF1703")


def test_what_was_only_started_is_retried_by_itself(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1", "start pay")
    wire.acquire("w:1")
    fail(wire, "w:1")
    assert retry(wire, "w:1").promise["state"] == "pending"


def test_one_that_timed_out_gets_as_long_again_and_so_does_what_it_waited_for(wire: Wire) -> None:
    execution(wire, timeout_at=T0 + HOUR)
    wire.create("w:1", timeout_at=T0 + HOUR, tags=lineage("w"), param={"headers": {OP: "promise"}})
    wire.now = T0 + 2 * HOUR
    answer = retry(wire)
    assert answer.promise["timeoutAt"] == T0 + 3 * HOUR
    assert not exists(wire, "w:1")


def test_what_got_more_time_by_a_retry_is_still_settled_at_its_deadline(wire: Wire) -> None:
    """Somebody else listens to what the execution waits for."""
    execution(wire, timeout_at=T0 + HOUR)
    wire.create("w:1", timeout_at=T0 + HOUR, tags=lineage("w"), param={"headers": {OP: "promise"}})
    wire.listen("w:1", CLIENT)
    fail(wire)
    wire.tick(T0 + 1)
    assert retry(wire).status == 200
    later = wire.get("w:1").promise["timeoutAt"]
    assert later > T0 + HOUR
    wire.tick(later)
    assert wire.get("w:1").promise["state"] == "rejected_timedout"
    told = [message["data"]["promise"]["id"] for message in wire.messages(CLIENT)]
    assert "w:1" in told, told


def test_a_retry_may_bring_its_own_deadline(wire: Wire) -> None:
    execution(wire)
    fail(wire)
    assert retry(wire, timeoutAt=T0 + 5).promise["timeoutAt"] == T0 + 5
    assert retry(wire, timeoutAt=T0).status == 200  # it is under way
    wire.settle("w", "rejected")
    assert retry(wire, timeoutAt=T0).status == 400


def test_one_that_is_open_stays_as_it_is_and_one_that_has_completed_is_refused(wire: Wire) -> None:
    execution(wire)
    assert retry(wire).promise["state"] == "pending"
    assert wire.send("task.get", {"id": "w"}).task["version"] == 1
    wire.settle("w")
    answer = retry(wire)
    assert (answer.status, answer.head["code"]) == (409, "HF1702")


def test_whoever_listened_is_told_once_of_the_failure_and_not_of_what_comes_after(wire: Wire) -> None:
    execution(wire)
    wire.listen("w")
    fail(wire)
    retry(wire)
    wire.settle("w")
    told = wire.messages(CLIENT)
    assert [each["data"]["promise"]["state"] for each in told] == ["rejected"]


def test_a_mailbox_goes_on_after_a_retry(wire: Wire) -> None:
    execution(wire)
    wire.send("stream.append", {"id": "w", "stream": "in", "value": {"data": "one"}})
    wire.send("stream.next", {"id": "w", "stream": "in", "number": 2})
    fail(wire)
    assert wire.get("w:in.2").promise["state"] == "rejected_canceled"
    retry(wire)
    appended = wire.send("stream.append", {"id": "w", "stream": "in", "value": {"data": "two"}})
    assert appended.data["number"] == 2
    read = wire.send("stream.read", {"id": "w", "stream": "in"})
    assert [each["value"]["data"] for each in read.data["promises"]] == ["one", "two"]


def hold(wire: Wire, ticket: str = "w:1") -> None:
    asked = {"id": ticket, "name": "printer", "timeoutAt": FAR, "tags": lineage("w")}
    answer = wire.fence("w", "lock.acquire", {**asked, "param": {"headers": {OP: "lock printer"}}})
    assert answer.data["action"]["data"]["promise"]["state"] == "resolved"


def test_one_that_held_a_lock_when_it_failed_is_not_retried(wire: Wire) -> None:
    """The lock was released when it ended, and the code would go on as if it held it."""
    execution(wire)
    hold(wire)
    fail(wire)
    answer = retry(wire)
    assert (answer.status, answer.head["code"]) == (409, "HF1704")
    assert wire.get("w").promise["state"] == "rejected"


def test_one_that_had_released_its_lock_is_retried(wire: Wire) -> None:
    execution(wire)
    hold(wire)
    record(wire, "w:2", "note release printer")
    assert wire.fence("w", "lock.release", {"id": "w:1", "name": "printer"}).status == 200
    fail(wire)
    assert retry(wire).promise["state"] == "pending"


def test_a_request_to_cancel_is_forgotten_by_a_retry(wire: Wire) -> None:
    execution(wire)
    wire.send("execution.cancel", {"id": "w"})
    settle = {"state": "resolved", "value": {"headers": {"holdfast:canceled-after": "0"}}}
    wire.create("w:0~cancel", tags=lineage("w"), settle=settle)
    action = {"id": "w", "state": "rejected_canceled", "value": {"headers": {FAILED: "1 0 "}}}
    wire.send("task.fulfill", {"id": "w", "version": 1, "action": {"kind": "promise.settle", "data": action}})
    retry(wire)
    assert not exists(wire, "w:cancel")
    assert not exists(wire, "w:0~cancel")


def test_a_retry_tells_who_waits_for_what_it_takes_back(wire: Wire) -> None:
    """The request to cancel it is made anew; nobody would settle the old one any more."""
    execution(wire, tags={"holdfast:grace": "5000"}, timeout_at=wire.now + 60_000)
    wire.create("other", target=WORKERS)
    wire.acquire("other")
    wire.suspend("other", "w:cancel")
    fail(wire)
    assert wire.task("other")["state"] == "suspended"
    retry(wire)
    assert wire.task("other")["state"] == "pending"
    assert wire.acquire("other", version=1).data["kind"] == "resume"


# --- cancel ------------------------------------------------------------------------------------------------


def test_cancelling_at_once_ends_what_it_called_and_not_what_it_started(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1")
    call(wire, "w:1.1", parent="w:1")
    call(wire, "w:2", "start pay")
    answer = wire.send("execution.cancel", {"id": "w", "now": True})
    assert answer.promise["state"] == "rejected_canceled"
    states = [wire.get(name).promise["state"] for name in ("w:1", "w:1.1", "w:2")]
    assert states == ["rejected_canceled", "rejected_canceled", "pending"]


def call_by_name(wire: Wire, name: str, caller: str, *, awaiter: str = "w") -> None:
    """An execution with an id of its own, which `awaiter` waits for."""
    tags = {**lineage(name), "holdfast:caller": caller}
    wire.create(name, target=WORKERS, tags=tags)
    assert wire.callback(name, awaiter).status == 200


def states_of(wire: Wire, *names: str) -> list[str]:
    return [wire.get(name).promise["state"].removeprefix("rejected_") for name in names]


def test_cancelling_at_once_ends_what_it_called_under_an_id_of_its_own(wire: Wire) -> None:
    """And what that called, whichever way; also in a later generation."""
    execution(wire)
    call(wire, "w:1")
    call_by_name(wire, "a", "w:2")
    call_by_name(wire, "b", "w:g1.1")
    call_by_name(wire, "a2", "a:1", awaiter="a")
    call_by_name(wire, "n", "w:1.4", awaiter="w:1")
    call(wire, "n:1", parent="n")
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert states_of(wire, "w", "w:1", "a", "b", "a2", "n", "n:1") == ["canceled"] * 7


def test_cancelling_at_once_ends_what_an_id_below_its_own_names(wire: Wire) -> None:
    execution(wire)
    call_by_name(wire, "w.sub", "w:1")
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert states_of(wire, "w.sub") == ["canceled"]


def test_cancelling_at_once_leaves_what_others_have_called_or_it_has_only_started(wire: Wire) -> None:
    execution(wire)
    execution(wire, "other")
    call_by_name(wire, "theirs", "other:1", awaiter="other")
    call_by_name(wire, "below", "w:1.1")  # by something that it started
    wire.callback("theirs", "w")
    call_by_name(wire, "seen", "w:2")
    record(wire, "w:2", "start pay", 1)
    wire.create("started", target=WORKERS, tags={**lineage("started"), "holdfast:caller": "w:3"})
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert states_of(wire, "w", "theirs", "below", "seen", "started") == ["canceled", *["pending"] * 4]


def test_cancelling_at_once_ends_what_was_called_in_the_same_commit(wire: Wire) -> None:
    execution(wire)
    tags = {**lineage("a"), "resonate:target": WORKERS, "holdfast:caller": "w:1"}
    wire.batch(
        ("promise.create", {"id": "a", "timeoutAt": FAR, "tags": tags}),
        ("promise.register_callback", {"awaited": "a", "awaiter": "w"}),
        ("execution.cancel", {"id": "w", "now": True}),
    )
    assert states_of(wire, "a") == ["canceled"]


def test_what_one_that_was_cancelled_has_left_running_is_ended_when_it_is_cancelled_again(wire: Wire) -> None:
    execution(wire)
    call_by_name(wire, "a", "w:1")
    wire.send("promise.settle", {"id": "w", "state": "rejected_canceled"})
    assert states_of(wire, "a") == ["pending"]
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert states_of(wire, "a") == ["canceled"]


def test_calls_one_below_the_other_are_ended_to_a_depth_and_from_there_on_asked(wire: Wire) -> None:
    execution(wire)
    names = ["w", *(f"c{number}" for number in range(limits.called_depth_max + 1))]
    for caller, name in pairwise(names):
        call_by_name(wire, name, f"{caller}:1", awaiter=caller)
    wire.send("execution.cancel", {"id": "w", "now": True})
    assert states_of(wire, *names) == [*["canceled"] * (len(names) - 2), "pending", "pending"]
    assert states_of(wire, f"{names[-2]}:cancel") == ["resolved"]
    assert not exists(wire, f"{names[-1]}:cancel")


def test_cancelling_asks_an_execution_and_ends_what_nobody_works_on(wire: Wire) -> None:
    execution(wire)
    wire.create("x")
    assert wire.send("execution.cancel", {"id": "w"}).promise["state"] == "pending"
    assert wire.get("w:cancel").promise["state"] == "resolved"
    assert wire.send("execution.cancel", {"id": "x"}).promise["state"] == "rejected_canceled"


def test_one_that_is_suspended_is_woken_by_the_request_to_cancel(wire: Wire) -> None:
    execution(wire)
    wire.create("p")
    wire.suspend("w", "p")
    wire.send("execution.cancel", {"id": "w"})
    assert wire.send("task.get", {"id": "w"}).task["state"] == "pending"


# --- start -------------------------------------------------------------------------------------------------


def start(wire: Wire, how: str | None, name: str = "w", **more: Any) -> Any:
    tags = {**lineage(name), "resonate:target": WORKERS}
    creation = {"id": name, "timeoutAt": FAR, "tags": tags, **more}
    data: Json = {"action": {"kind": "promise.create", "data": creation}}
    return wire.send("execution.start", data if how is None else {**data, "onExisting": how})


def test_what_becomes_of_an_open_one_under_the_same_id(wire: Wire) -> None:
    for how in (None, "return", "again_if_failed"):
        execution(wire, f"w{how}")
        answer = start(wire, how, f"w{how}")
        assert answer.promise["createdAt"] == T0
        assert wire.send("task.get", {"id": f"w{how}"}).task["state"] == "acquired"
    execution(wire, "r")
    assert start(wire, "reject", "r").head["code"] == "HF1701"


def test_one_that_is_replaced_ends_as_cancelled_and_begins_anew(wire: Wire) -> None:
    execution(wire)
    wire.listen("w")
    record(wire, "w:1", "step a", 1)
    wire.now = T0 + 5
    answer = start(wire, "replace", param={"data": "new"})
    assert (answer.promise["state"], answer.promise["createdAt"]) == ("pending", T0 + 5)
    assert answer.promise["param"] == {"data": "new"}
    assert not exists(wire, "w:1")
    told = wire.messages(CLIENT)
    assert [each["data"]["promise"]["state"] for each in told] == ["rejected_canceled"]
    assert wire.send("task.get", {"id": "w"}).task["version"] == 2


def test_what_begins_again_says_at_which_version(wire: Wire) -> None:
    """So its steps can be told from those of the run before."""
    execution(wire)
    assert "holdfast:run" not in wire.get("w").promise["tags"]
    for version in ("2", "3"):
        assert start(wire, "replace").promise["tags"]["holdfast:run"] == version
    wire.settle("w", "rejected")
    assert start(wire, "again_if_failed").promise["tags"]["holdfast:run"] == "4"
    record(wire, "w:1", "step a", 1)
    assert "holdfast:run" not in fork(wire, "w:1").promise["tags"]


def test_one_that_failed_begins_anew_and_one_that_completed_is_answered(wire: Wire) -> None:
    execution(wire)
    fail(wire)
    assert start(wire, "again_if_failed").promise["state"] == "pending"
    wire.settle("w")
    assert start(wire, "again_if_failed").promise["state"] == "resolved"
    assert start(wire, "replace").promise["state"] == "pending"


def test_the_same_start_sent_again_starts_nothing(wire: Wire) -> None:
    first = start(wire, "reject", ikc="k")
    assert start(wire, "reject", ikc="k").promise == first.promise
    wire.settle("w", "rejected")
    assert start(wire, "again_if_failed", ikc="k").promise["state"] == "rejected"


def test_who_held_what_it_called_can_write_nothing_after_it_began_anew(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1")
    wire.acquire("w:1")
    start(wire, "replace")
    assert wire.get("w:1").promise["state"] == "rejected_canceled"
    call(wire, "w:1")
    claimed = wire.send("task.claim", {"groups": ["workers"], "count": 9, "pid": "q", "ttl": HOUR})
    versions = {each["task"]["id"]: each["task"]["version"] for each in claimed.data["tasks"]}
    assert versions == {"w": 3, "w:1": 3}
    action = {"kind": "promise.settle", "data": {"id": "w:1", "state": "resolved"}}
    assert wire.send("task.fulfill", {"id": "w:1", "version": 1, "action": action}).status == 409


def test_what_another_execution_called_does_not_begin_anew(wire: Wire) -> None:
    execution(wire)
    call(wire, "w:1")
    assert start(wire, "replace", "w:1").head["code"] == "HF1703"


# --- fork --------------------------------------------------------------------------------------------------


def fork(wire: Wire, before: str, new: str = "f", **more: Any) -> Any:
    return wire.send("execution.fork", {"id": "w", "newId": new, "before": before, **more})


def test_a_fork_has_the_records_before_a_step(wire: Wire) -> None:
    execution(wire, param={"data": "input"})
    record(wire, "w:1", "step charge", 1)
    record(wire, "w:2", "step ship", 2, state="rejected")
    fail(wire, point="2 2 w:2")
    answer = fork(wire, "ship")
    assert (answer.promise["state"], answer.promise["param"]) == ("pending", {"data": "input"})
    assert answer.promise["tags"]["holdfast:fork-of"] == "w"
    copied = wire.get("f:1").promise
    assert (copied["value"], copied["tags"]["resonate:branch"]) == (
        {"headers": {PLACE: "1"}, "data": "x"},
        "f",
    )
    assert not exists(wire, "f:2")
    assert wire.get("w").promise["state"] == "rejected"


def test_what_a_fork_has_seen_is_its_own(wire: Wire) -> None:
    execution(wire)
    wire.create("w:1", tags=lineage("w"), param={"headers": {OP: "promise"}})
    wire.settle("w:1")
    record(wire, "w:0~1", "", 1, **{OBSERVED: "w:1"})
    record(wire, "w:2", "step ship", 2)
    assert fork(wire, "ship").status == 200
    assert wire.get("f:0~1").promise["value"]["headers"] == {PLACE: "1", OBSERVED: "f:1"}
    assert exists(wire, "f:1")


def test_a_fork_may_have_other_input(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1)
    assert fork(wire, "charge", param={"data": "other"}).promise["param"] == {"data": "other"}


def test_a_call_is_copied_as_a_result_and_a_start_is_not_started_again(wire: Wire) -> None:
    execution(wire)
    for name, label in (("w:1", "call pay"), ("w:2", "start pay")):
        wire.create(
            f"{name}~", tags=lineage("w"), param={"headers": {OP: label}}, settle={"state": "resolved"}
        )
        call(wire, name, label)
    wire.settle("w:1", value={"data": "paid"})
    record(wire, "w:3", "step ship", 1)
    fork(wire, "ship")
    for name in ("f:1", "f:2"):
        assert wire.get(name).promise["state"] == "resolved"
        assert wire.send("task.get", {"id": name}).status == 404
    assert wire.get("f:1").promise["value"] == {"data": "paid"}
    assert exists(wire, "f:1~")


def test_a_fork_has_the_messages_up_to_the_step_and_what_was_published(wire: Wire) -> None:
    execution(wire)
    wire.send("stream.append", {"id": "w", "stream": "in", "value": {"data": "one"}})
    append = {"id": "w", "stream": "value.stage", "value": {"data": "early"}}
    wire.send("task.fence", {"id": "w", "version": 1, "action": {"kind": "stream.append", "data": append}})
    wire.now = T0 + 10
    record(wire, "w:1", "step charge", 1)
    wire.now = T0 + 20
    wire.send("stream.append", {"id": "w", "stream": "in", "value": {"data": "two"}})
    fork(wire, "charge")
    read = wire.send("stream.read", {"id": "f", "stream": "in"})
    assert [each["value"]["data"] for each in read.data["promises"]] == ["one"]
    assert wire.get("f:value.stage.1").promise["value"] == {"data": "early"}


def test_the_same_fork_again_is_the_same_execution_and_an_id_that_is_taken_is_refused(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1)
    first = fork(wire, "charge")
    assert fork(wire, "charge").promise == first.promise
    wire.create("taken")
    assert fork(wire, "charge", "taken").head["code"] == "HF1701"
    wire.create("g:0~1")
    assert fork(wire, "nothing", "h").head["code"] == "HF1707"


def test_another_fork_under_the_id_of_one_is_refused(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1)
    record(wire, "w:2", "step ship", 2)
    first = fork(wire, "ship").promise
    assert first["tags"]["holdfast:fork-before"] == "ship"
    assert fork(wire, "charge").head["code"] == "HF1701"
    assert fork(wire, "nothing").head["code"] == "HF1701"
    assert fork(wire, "ship").promise == first
    other = fork(wire, "ship", "other", param={"data": "b3RoZXI="}).promise
    assert fork(wire, "ship", "other").head["code"] == "HF1701"
    assert fork(wire, "ship", "other", param={"data": "b3RoZXI="}).promise == other


def test_a_fork_of_a_fork_is_one_before_its_own_operation(wire: Wire) -> None:
    execution(wire)
    record(wire, "w:1", "step charge", 1)
    record(wire, "w:2", "step ship", 2)
    fork(wire, "ship")
    again = wire.send("execution.fork", {"id": "f", "newId": "g", "before": "charge"})
    assert again.promise["tags"]["holdfast:fork-of"] == "f"
    assert again.promise["tags"]["holdfast:fork-before"] == "charge"


# --- under a claim -----------------------------------------------------------------------------------------


def test_whoever_holds_a_task_steers_others_under_its_fence(wire: Wire) -> None:
    execution(wire)
    execution(wire, "x")
    wire.send("execution.cancel", {"id": "x", "now": True})

    def fenced(version: int, kind: str, **data: Any) -> Any:
        action = {"kind": kind, "data": {"id": "x", **data}}
        return wire.send("task.fence", {"id": "w", "version": version, "action": action})

    assert fenced(2, "execution.retry").status == 409
    assert wire.get("x").promise["state"] == "rejected_canceled"
    assert fenced(1, "execution.retry").data["action"]["data"]["promise"]["state"] == "pending"
    assert fenced(1, "task.halt", reason="by hand").data["action"]["head"]["status"] == 200
    assert fenced(1, "task.continue").data["action"]["head"]["status"] == 200
    cancelled = fenced(1, "execution.cancel", now=True)
    assert cancelled.data["action"]["data"]["promise"]["state"] == "rejected_canceled"
