"""Events that executions wait for by name. Each sentence of docs/reference/protocol.md about them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.protocol import limits
from tests.conformance.test_streams import fenced, is_refused
from tests.conformance.wire import FAR, HOUR, MINUTE, T0, WORKERS, Answer, Json, Wire
from tests.model.events import EventMachine

BUCKET = 128
AT_ONCE = 256  # waits that the commit of an event wakes, and each sweep


def executions(wire: Wire, *names: str, **more: Any) -> None:
    for name in names:
        wire.acquired(name, **more)


def send(wire: Wire, name: str = "verified", data: str = "x", **more: Any) -> Json:
    answer = wire.send("event.send", {"name": name, "value": {"data": data}, **more})
    assert answer.status == 200, answer
    event: Json = answer.data["event"]
    return event


def await_event(wire: Wire, execution: str, wait: str, name: str = "verified", **more: Any) -> Answer:
    return fenced(wire, "event.await", {"id": wait, "name": name, "timeoutAt": FAR, **more}, execution)


def wait(wire: Wire, execution: str, promise: str, name: str = "verified", **more: Any) -> None:
    answer = await_event(wire, execution, promise, name, **more)
    assert (answer.status, answer.promise["state"]) == (200, "pending"), answer


def subscribe(wire: Wire, name: str = "verified", subscription: str = "greet") -> None:
    tags = {"resonate:target": WORKERS, "holdfast:workflow": "greet"}
    data = {"name": name, "id": subscription, "workflow": "greet", "promiseTags": tags}
    assert wire.send("event.subscribe", {**data, "promiseTimeout": HOUR}).status == 200


def test_an_event_wakes_every_execution_that_waits_for_it(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    for name in "ab":
        wait(wire, name, f"{name}:1")
        wire.suspend(name, f"{name}:1")
    wait(wire, "c", "c:1", "other")
    event = send(wire, data="hello")
    assert (event["name"], event["number"], event["at"]) == ("verified", 1, T0)
    for name in "ab":
        value = {"headers": {"holdfast:event": "event@verified@1"}, "data": "hello"}
        assert wire.get(f"{name}:1").promise["value"] == value
        assert wire.task(name)["state"] == "pending"
    assert wire.get("c:1").promise["state"] == "pending"


def test_an_event_wakes_only_those_whose_attributes_it_has(wire: Wire) -> None:
    executions(wire, "a", "b", "c", "d")
    wait(wire, "a", "a:1", match={"user": "ada"})
    wait(wire, "b", "b:1", match={"user": "bob"})
    wait(wire, "c", "c:1", match={"user": "ada", "plan": "pro"})
    wait(wire, "d", "d:1")
    send(wire, match={"user": "ada", "plan": "free"})
    states = [wire.get(f"{name}:1").promise["state"] for name in "abcd"]
    assert states == ["resolved", "pending", "pending", "resolved"]


def test_whoever_waits_after_an_event_does_not_see_it(wire: Wire) -> None:
    executions(wire, "a")
    send(wire)
    wait(wire, "a", "a:1")
    send(wire, data="second")
    assert wire.get("a:1").promise["value"]["data"] == "second"


def test_whoever_looks_back_is_given_the_first_event_that_counts(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    send(wire, data="long ago", match={"user": "ada"})
    wire.now = T0 + HOUR
    send(wire, data="first", match={"user": "ada"})
    send(wire, data="other", match={"user": "bob"})
    send(wire, data="second", match={"user": "ada"})
    wire.heartbeat()
    wire.now += MINUTE
    for name in "abc":
        wire.send("task.release", {"id": name, "version": 1})
    executions(wire, "d")
    answer = await_event(wire, "d", "d:1", match={"user": "ada"}, lookBack=10 * MINUTE)
    assert (answer.promise["state"], answer.promise["value"]["data"]) == ("resolved", "first")
    wait(wire, "d", "d:2", match={"user": "ada"}, lookBack=MINUTE - 1)


def test_an_event_is_sent_once_under_an_id(wire: Wire) -> None:
    executions(wire, "a")
    first = send(wire, id="evt-9", data="x")
    wait(wire, "a", "a:1")
    assert send(wire, id="evt-9", data="other") == first
    assert wire.get("a:1").promise["state"] == "pending"
    assert send(wire, "other", id="evt-9")["number"] == 1


def test_asking_twice_for_one_wait_is_asking_once(wire: Wire) -> None:
    executions(wire, "a")
    wait(wire, "a", "a:1")
    wait(wire, "a", "a:1")
    send(wire)
    assert await_event(wire, "a", "a:1").promise["state"] == "resolved"
    wire.create("other")
    assert is_refused(await_event(wire, "a", "other"), 409, "HF1202")


def test_a_wait_times_out_and_others_go_on(wire: Wire) -> None:
    executions(wire, "a", "b")
    wait(wire, "a", "a:1", timeoutAt=T0 + MINUTE)
    wait(wire, "b", "b:1")
    wire.tick(T0 + MINUTE)
    assert wire.get("a:1").promise["state"] == "rejected_timedout"
    send(wire)
    assert wire.get("a:1").promise["state"] == "rejected_timedout"
    assert wire.get("b:1").promise["state"] == "resolved"


def test_a_wait_past_its_deadline_is_not_resolved_though_nothing_was_swept(wire: Wire) -> None:
    executions(wire, "a")
    wait(wire, "a", "a:1", timeoutAt=T0 + MINUTE)
    wire.now = T0 + MINUTE
    send(wire)
    assert wire.get("a:1").promise["state"] == "rejected_timedout"


def test_a_wait_ends_with_its_execution(wire: Wire) -> None:
    executions(wire, "a")
    wait(wire, "a", "a:1")
    wire.fulfill("a")
    assert wire.get("a:1").promise["state"] == "rejected_canceled"
    send(wire)
    assert wire.get("a:1").promise["state"] == "rejected_canceled"


def test_a_wait_born_past_its_deadline_has_timed_out(wire: Wire) -> None:
    executions(wire, "a")
    assert await_event(wire, "a", "a:1", timeoutAt=T0).promise["state"] == "rejected_timedout"


def test_a_wait_that_was_cancelled_leaves_room(wire: Wire) -> None:
    executions(wire, "a", "b")
    wait(wire, "a", "a:1")
    wire.settle("a:1", "rejected_canceled")
    wait(wire, "b", "b:1")
    send(wire)
    assert wire.get("b:1").promise["state"] == "resolved"


@pytest.mark.slow
def test_many_waits_are_woken_in_portions(wire: Wire) -> None:
    executions(wire, "a", "b")
    waits = 3 * BUCKET + 5
    for number in range(waits):
        wait(wire, "a", f"a:{number}")
    send(wire)
    wait(wire, "b", "b:late")

    def woken() -> int:
        return sum(promise["state"] == "resolved" for promise in _waits(wire))

    assert woken() == AT_ONCE
    wire.tick(T0 + 1)
    assert woken() == waits
    assert wire.get("event@verified@1").promise["state"] == "resolved"
    assert wire.get("b:late").promise["state"] == "pending"
    send(wire)
    assert wire.get("b:late").promise["state"] == "resolved"


def test_of_a_large_event_each_commit_writes_so_many_values_and_all_that_wait_wake_in_the_end(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "event_wake_bytes_max", 5_000)
    monkeypatch.setattr(EventMachine, "WAKE_CHARS", 5_000)
    executions(wire, "a", timeoutAt=T0 + HOUR)
    for number in range(9):
        wait(wire, "a", f"a:{number}")
    wait(wire, "a", "a:soon", timeoutAt=T0 + 1)
    wire.suspend("a", "a:8")
    event = send(wire, data="x" * 2_400)

    def woken() -> int:
        return sum(promise["state"] == "resolved" for promise in _waits(wire))

    assert woken() == 2
    assert wire.task("a")["state"] == "suspended"
    counts: list[int] = []
    for later in range(1, 6):
        wire.tick(T0 + later)
        counts.append(woken())
    assert counts == [4, 6, 8, 9, 9]
    assert wire.get("a:soon").promise["state"] == "rejected_timedout"
    assert wire.get("a:8").promise["value"]["data"] == "x" * 2_400
    assert wire.task("a")["state"] == "pending"
    assert wire.get(f"event@verified@{event['number']}").promise["state"] == "resolved"


def _waits(wire: Wire) -> list[Json]:
    promises: list[Json] = wire.snap()["promises"]
    return [each for each in promises if "holdfast:wait" in each["tags"]]


def test_an_event_starts_an_execution_for_each_subscription_once(wire: Wire) -> None:
    subscribe(wire)
    subscribe(wire)
    send(wire, id="evt.9", data="hello")
    send(wire, id="evt.9", data="hello")
    started = wire.get("greet-evt_9").promise
    assert started["param"] == {"headers": {"holdfast:on": "greet"}, "data": "hello"}
    assert started["timeoutAt"] == T0 + HOUR
    assert started["tags"]["resonate:origin"] == "greet-evt_9"
    assert wire.task("greet-evt_9")["state"] == "pending"
    send(wire, data="without an id")
    assert wire.get("greet-2").status == 200


def test_a_subscription_that_is_gone_starts_nothing(wire: Wire) -> None:
    subscribe(wire)
    wire.send("event.unsubscribe", {"name": "verified", "id": "greet"})
    send(wire, id="e")
    assert wire.get("greet-e").status == 404


def test_a_name_starts_so_many_workflows_and_no_more(wire: Wire) -> None:
    for number in range(16):
        subscribe(wire, subscription=f"s{number}")
    data = {"name": "verified", "id": "more", "workflow": "w", "promiseTimeout": 1}
    tags = {"resonate:target": WORKERS}
    assert is_refused(wire.send("event.subscribe", {**data, "promiseTags": tags}), 409, "HF1602")


def test_a_subscription_has_so_many_bytes_because_each_event_writes_it_again(wire: Wire) -> None:
    rest = len("resonate:target") + len(WORKERS) + len("greet") + len("w") + len("note")
    for more, status in ((0, 200), (1, 400)):
        notes = {f"note{number}": "x" * 2_000 for number in range(4)}
        used = rest + sum(map(len, (*notes, *notes.values())))
        tags = {"resonate:target": WORKERS, **notes, "note": "x" * (8_192 - used + more)}
        data = {"name": "verified", "id": "greet", "workflow": "w", "promiseTimeout": 1, "promiseTags": tags}
        assert wire.send("event.subscribe", data).status == status


def test_events_are_awaited_by_so_many_sets_of_attributes_and_no_more(wire: Wire) -> None:
    executions(wire, "a")
    for number in range(16):
        wait(wire, "a", f"a:{number}", match={f"k{number}": "v"})
    assert is_refused(await_event(wire, "a", "a:x", match={"more": "v"}), 409, "HF1601")


def test_an_event_is_sent_under_a_claim(wire: Wire) -> None:
    executions(wire, "a", "b")
    wait(wire, "b", "b:1")
    assert fenced(wire, "event.send", {"name": "verified", "id": "a:1"}, "a").status == 200
    assert wire.get("b:1").promise["state"] == "resolved"
    assert wire.fence("a", "event.send", {"name": "verified"}, version=2).status == 409


def test_an_event_that_is_refused_under_a_claim_has_changed_nothing(wire: Wire) -> None:
    executions(wire, "a", "b")
    wait(wire, "b", "b:1")
    wire.create("event@verified@1")
    before = wire.snap()
    refused = fenced(wire, "event.send", {"name": "verified"}, "a")
    assert is_refused(refused, 409, "HF1202")
    assert wire.snap() == before


def test_events_are_listed_newest_first(wire: Wire) -> None:
    for number in range(5):
        send(wire, id=f"e{number}", match={"n": str(number)})
    found = wire.send("event.search", {"name": "verified", "limit": 2}).data
    assert found["count"] == 5
    assert [(each["number"], each["id"], each["match"]) for each in found["events"]] == [
        (5, "e4", {"n": "4"}),
        (4, "e3", {"n": "3"}),
    ]
    rest = wire.send("event.search", {"name": "verified", "before": 4}).data["events"]
    assert [each["number"] for each in rest] == [3, 2, 1]
    assert wire.send("event.search", {"name": "nobody"}).data == {"events": [], "count": 0}


def test_the_records_of_events_are_settled_by_nobody(wire: Wire) -> None:
    executions(wire, "a")
    wait(wire, "a", "a:1")
    for record in [
        each["id"] for each in wire.snap()["promises"] if each["id"].startswith(("topic@", "waits@"))
    ]:
        assert wire.settle(record).status == 400
    assert wire.create("x", tags={"holdfast:event": "x"}).status == 400


def test_a_page_of_events_ends_where_it_becomes_too_large_and_its_number_goes_on(wire: Wire) -> None:
    large = "x" * 400_000
    for _ in range(6):
        send(wire, data=large)
    page = wire.send("event.search", {"name": "verified"}).data
    assert [event["number"] for event in page["events"]] == [6, 5]
    assert page["count"] == 6
    page = wire.send("event.search", {"name": "verified", "before": 5}).data
    assert [event["number"] for event in page["events"]] == [4, 3]
    send(wire, data="x" * 1_048_576)
    page = wire.send("event.search", {"name": "verified"}).data
    assert [event["number"] for event in page["events"]] == [7], "one that is larger by itself goes alone"


def test_a_wait_looks_back_at_so_many_bytes_of_events(wire: Wire) -> None:
    executions(wire, "a", "b", "c")
    send(wire, match={"user": "ada"})
    send(wire, data="x" * 1_000_000, match={"user": "bob"})
    for _ in range(3):
        send(wire, data="x" * 1_000_000)
    found = await_event(wire, "a", "a:1", match={"user": "bob"}, lookBack=HOUR).promise
    assert found["state"] == "resolved", "four times a megabyte is looked at"
    found = await_event(wire, "b", "b:1", match={"user": "ada"}, lookBack=HOUR).promise
    assert found["state"] == "resolved", "and what is small behind it"
    send(wire, data="x" * 1_000_000)
    wait(wire, "c", "c:1", match={"user": "bob"}, lookBack=HOUR)
