"""task.restart: an execution goes on under its id."""

import json
from typing import Any

import pytest

from tests.conformance.wire import FAR, HOUR, Wire

TARGET = "poll://any@g"
MINUTE = 60_000


def running(wire: Wire, name: str = "x", **tags: str) -> None:
    """An execution that p holds at version 1."""
    entries = {"resonate:target": TARGET, "resonate:branch": name, "resonate:origin": name, **tags}
    wire.send(
        "promise.create", {"id": name, "timeoutAt": 2**53 - 1, "param": {"data": "MQ=="}, "tags": entries}
    )
    assert wire.send("task.acquire", {"id": name, "version": 0, "pid": "p", "ttl": 60_000}).status == 200


def restart(wire: Wire, name: str = "x", generation: int = 0, **more: Any) -> Any:
    data = {"id": name, "version": 1, "generation": generation, "param": {"data": "Mg=="}, **more}
    return wire.send("task.restart", data)


def generation_of(promise: Any) -> Any:
    return json.loads(promise["value"]["headers"]["holdfast:generation"])


def record(wire: Wire, name: str, *, generation: int = 0, settle: bool = True, **tags: str) -> Any:
    branch = "x" if generation == 0 else f"x:g{generation}"
    data: Any = {
        "id": name,
        "timeoutAt": 2**53 - 1,
        "tags": {"resonate:branch": branch, "resonate:parent": "x", "resonate:origin": "x", **tags},
    }
    if settle:
        data["settle"] = {"state": "resolved"}
    action: Any = {"kind": "promise.create", "head": {}, "data": data}
    return wire.send("task.fence", {"id": "x", "version": 1, "generation": generation, "action": action})


def test_the_promise_stays_pending_and_keeps_the_arguments_of_the_first_start(wire: Wire) -> None:
    running(wire)
    promise = restart(wire).data["promise"]
    assert promise["state"] == "pending"
    assert promise["param"] == {"data": "MQ=="}
    assert promise["value"]["data"] == "Mg=="
    assert generation_of(promise) == {"number": 1}
    assert wire.send("promise.get", {"id": "x"}).data["promise"] == promise


def test_the_claim_stays_as_it_is(wire: Wire) -> None:
    running(wire)
    before = wire.send("task.get", {"id": "x"}).data["task"]
    restart(wire)
    assert wire.send("task.get", {"id": "x"}).data["task"] == before


def test_what_was_written_for_the_generation_before_is_refused(wire: Wire) -> None:
    running(wire)
    restart(wire)
    assert record(wire, "x:1").status == 409
    suspend = {"id": "x", "version": 1, "actions": [callback("x:1")]}
    assert wire.send("task.suspend", suspend).status == 409
    settle = {"kind": "promise.settle", "head": {}, "data": {"id": "x", "state": "resolved"}}
    assert wire.send("task.fulfill", {"id": "x", "version": 1, "action": settle}).status == 409
    assert record(wire, "x:g1.1", generation=1).status == 200
    done = wire.send("task.fulfill", {"id": "x", "version": 1, "generation": 1, "action": settle})
    assert done.status == 200
    assert generation_of(done.data["promise"]) == {"number": 1}


def callback(awaited: str) -> Any:
    return {"kind": "promise.register_callback", "head": {}, "data": {"awaiter": "x", "awaited": awaited}}


def test_a_restart_that_is_sent_again_is_answered_as_the_first_was(wire: Wire) -> None:
    running(wire)
    first = restart(wire)
    assert restart(wire).data == first.data
    assert restart(wire, generation=1).status == 200
    assert restart(wire).status == 409  # that one is long over
    assert generation_of(wire.send("promise.get", {"id": "x"}).data["promise"]) == {"number": 2}


@pytest.mark.parametrize("state", ["pending", "suspended", "halted", "fulfilled"])
def test_only_whoever_holds_the_claim_restarts_an_execution(wire: Wire, state: str) -> None:
    running(wire)
    record(wire, "x:1", settle=False)
    settle = {"kind": "promise.settle", "head": {}, "data": {"id": "x", "state": "resolved"}}
    last = {
        "pending": ("task.release", {"id": "x", "version": 1}),
        "suspended": ("task.suspend", {"id": "x", "version": 1, "actions": [callback("x:1")]}),
        "halted": ("task.halt", {"id": "x"}),
        "fulfilled": ("task.fulfill", {"id": "x", "version": 1, "action": settle}),
    }[state]
    assert wire.send(*last).status == 200
    assert restart(wire).status == 409
    assert wire.send("task.restart", {"id": "no", "version": 1}).status == 404


def test_a_claim_preloads_the_records_of_its_generation_and_the_request_to_cancel(wire: Wire) -> None:
    running(wire)
    record(wire, "x:1")
    record(wire, "x:cancel")
    restart(wire)
    record(wire, "x:g1.1", generation=1)
    assert wire.send("task.release", {"id": "x", "version": 1}).status == 200
    claimed = wire.send("task.acquire", {"id": "x", "version": 1, "pid": "q", "ttl": 60_000})
    assert [each["id"] for each in claimed.data["preload"]] == ["x:cancel", "x:g1.1"]
    assert claimed.data["kind"] == "invoke"


def test_only_records_of_the_execution_itself_are_deleted(wire: Wire) -> None:
    running(wire)
    record(wire, "x:1")
    called = {"resonate:target": TARGET, "resonate:parent": "x"}
    wire.send("promise.create", {"id": "x:2", "timeoutAt": 2**53 - 1, "tags": called})
    wire.send("stream.append", {"id": "x", "stream": "in", "value": {"data": "MQ=="}, "key": "k"})
    wire.send("promise.create", {"id": "y", "timeoutAt": 2**53 - 1, "tags": {"resonate:parent": "x"}})
    named = ["x:1", "x:2", "x:in.1", "x:in~k", "x", "y", "nothing"]
    assert restart(wire, forget=named).status == 200
    left = [name for name in named if wire.send("promise.get", {"id": name}).status == 200]
    assert left == ["x:2", "x:in.1", "x:in~k", "x", "y"]


def test_whoever_waits_for_a_record_that_is_deleted_is_told(wire: Wire) -> None:
    running(wire)
    record(wire, "x:1", settle=False)
    running(wire, "other")
    action = {"kind": "promise.register_callback", "head": {}, "data": {"awaiter": "other", "awaited": "x:1"}}
    assert wire.send("task.suspend", {"id": "other", "version": 1, "actions": [action]}).status == 200
    restart(wire, forget=["x:1"])
    assert wire.send("task.get", {"id": "other"}).data["task"]["state"] == "pending"


def test_an_execution_that_waits_for_a_record_that_it_deletes_is_woken_as_well(wire: Wire) -> None:
    running(wire)
    record(wire, "x:1", settle=False)
    wire.callback("x:1", "x")
    assert restart(wire, forget=["x:1"]).status == 200
    assert wire.task("x")["resumes"] == 1


def test_an_id_that_was_deleted_can_be_used_again_in_the_same_commit(wire: Wire) -> None:
    running(wire)
    record(wire, "x:cancel")
    again = {"id": "x:cancel", "timeoutAt": 5_000_000_000_000, "param": {"data": "OA=="}}
    restarted, created = wire.batch(
        ("task.restart", {"id": "x", "version": 1, "forget": ["x:cancel"]}), ("promise.create", again)
    )
    assert (restarted.status, created.status) == (200, 200)
    found = wire.send("promise.get", {"id": "x:cancel"}).data["promise"]
    assert (found["state"], found["param"]) == ("pending", {"data": "OA=="})


def test_messages_that_were_not_read_stay_and_those_that_were_go_after_a_while(wire: Wire) -> None:
    running(wire)
    for number in range(1, 4):
        asked = {"id": "x", "stream": "in", "key": f"k{number}", "answer": {"timeoutAt": 2**53 - 1}}
        assert wire.send("stream.append", asked).data["number"] == number
    wire.send("promise.settle", {"id": "x:in.1.answer", "state": "resolved"})
    assert restart(wire, read=2).status == 200
    assert names(wire) == [1, 2, 3]
    wire.now += 10 * MINUTE
    restart(wire, generation=1, read=2)
    assert names(wire) == [2, 3]  # the second was read, and whoever asked it still waits for an answer
    for gone in ("x:in~k1", "x:in.1.answer"):
        assert wire.send("promise.get", {"id": gone}).status == 404
    wire.send("promise.settle", {"id": "x:in.2.answer", "state": "resolved"})
    wire.now += 10 * MINUTE
    restart(wire, generation=2, read=2)
    assert names(wire) == [3]
    assert wire.send("stream.read", {"id": "x", "stream": "in"}).data["number"] == 3


def test_messages_that_were_not_read_stay_however_old_they_are(wire: Wire) -> None:
    running(wire)
    for key in ("a", "b"):
        assert wire.send("stream.append", {"id": "x", "stream": "in", "key": key}).status == 200
    wire.now += HOUR
    assert restart(wire, read=1).status == 200
    assert wire.get("x:in.1").status == 404
    assert wire.get("x:in.2").promise["state"] == "resolved"
    assert wire.send("stream.append", {"id": "x", "stream": "in", "key": "b"}).data["number"] == 2


def test_what_somebody_else_wrote_under_a_number_takes_no_key_of_a_message_along(wire: Wire) -> None:
    running(wire)
    foreign = {"headers": {"holdfast:answer": "x:in.2.answer"}}
    settle = {"state": "resolved", "value": foreign}
    wire.create("x:in.1", settle=settle, ikc="k")
    wire.now += HOUR
    asked = {"id": "x", "stream": "in", "key": "k", "answer": {"timeoutAt": FAR}}
    assert wire.send("stream.append", asked).data["number"] == 2
    assert wire.settle("x:in.2.answer").status == 200
    assert restart(wire, read=2).status == 200
    again = wire.send("stream.append", asked)
    assert (again.data["number"], again.data["answer"]["state"]) == (2, "resolved"), "it was sent twice"


def names(wire: Wire) -> list[int]:
    found = [1, 2, 3]
    return [number for number in found if wire.send("promise.get", {"id": f"x:in.{number}"}).status == 200]


def test_published_values_that_were_replaced_go_and_what_was_emitted_stays(wire: Wire) -> None:
    running(wire)
    for stream in ("value.stage", "out.log"):
        for _ in range(3):
            append = {"kind": "stream.append", "head": {}, "data": {"id": "x", "stream": stream}}
            assert wire.send("task.fence", {"id": "x", "version": 1, "action": append}).status == 200
    wire.now += 10 * MINUTE
    restart(wire)
    last = wire.send("stream.read", {"id": "x", "stream": "value.stage", "last": True}).data
    assert [each["id"] for each in last["promises"]] == ["x:value.stage.3"]
    assert wire.send("promise.get", {"id": "x:value.stage.2"}).status == 404
    assert len(wire.send("stream.read", {"id": "x", "stream": "out.log"}).data["promises"]) == 3


def test_read_lies_within_the_mailbox_and_never_falls(wire: Wire) -> None:
    running(wire)
    wire.send("stream.append", {"id": "x", "stream": "in"})
    assert restart(wire, read=2).status == 400
    assert restart(wire, read=1).status == 200
    assert restart(wire, generation=1, read=0).status == 400


def test_an_execution_past_its_deadline_says_in_which_generation_it_was(wire: Wire) -> None:
    tags = {"resonate:target": TARGET}
    wire.send("promise.create", {"id": "x", "timeoutAt": wire.now + MINUTE, "tags": tags})
    wire.send("task.acquire", {"id": "x", "version": 0, "pid": "p", "ttl": 60_000})
    restart(wire)
    wire.now += 2 * MINUTE
    promise = wire.send("promise.get", {"id": "x"}).data["promise"]
    assert promise["state"] == "rejected_timedout"
    assert promise["value"].get("data") is None
    assert generation_of(promise) == {"number": 1}


def test_what_an_execution_looks_like_has_its_generation(wire: Wire) -> None:
    running(wire)
    restart(wire)
    assert wire.send("execution.get", {"id": "x"}).data["execution"]["generation"] == 1
