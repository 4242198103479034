"""Envelopes, versions, arrays of envelopes and the debug operations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.wire import (
    CLIENT,
    FAR,
    MINUTE,
    T0,
    WORKERS,
    A,
    B,
    Json,
    Wire,
    answer_of,
    creation,
    ids,
)

# -- what can be read is echoed ----------------------------------------------------------------------------


def test_the_kind_that_was_sent_comes_back(wire: Wire) -> None:
    assert wire.send("promise.get", {"id": "p"}).kind == "promise.get"


def test_an_unknown_kind_is_refused_and_echoed(wire: Wire) -> None:
    answer = wire.send("promise.dream", {})
    assert (answer.status, answer.kind) == (400, "promise.dream")


def test_unknown_head_fields_are_ignored(wire: Wire) -> None:
    wire.create("p")
    request = wire.envelope("promise.get", {"id": "p"})
    request["head"] |= {"resonate:origin": "p", "x": {"y": [1, None]}}
    assert answer_of(wire.backend.handle(request)).status == 200


BROKEN: dict[str, tuple[Any, str, str]] = {
    "a number": (7, "unknown", "0"),
    "a string": ("promise.get", "unknown", "0"),
    "null": (None, "unknown", "0"),
    "an empty object": ({}, "unknown", "0"),
    "no kind": ({"head": {"corrId": "c", "version": A}, "data": {}}, "unknown", "c"),
    "a kind that is no text": (
        {"kind": 7, "head": {"corrId": "c", "version": A}, "data": {}},
        "unknown",
        "c",
    ),
    "no head": ({"kind": "promise.get", "data": {}}, "promise.get", "0"),
    "a head that is null": ({"kind": "promise.get", "head": None, "data": {}}, "promise.get", "0"),
    "a head that is a list": ({"kind": "promise.get", "head": [], "data": {}}, "promise.get", "0"),
    "no corrId": ({"kind": "promise.get", "head": {"version": A}, "data": {}}, "promise.get", "0"),
    "a corrId that is no text": (
        {"kind": "promise.get", "head": {"corrId": 7, "version": A}, "data": {}},
        "promise.get",
        "0",
    ),
    "no version": ({"kind": "promise.get", "head": {"corrId": "c"}, "data": {}}, "promise.get", "c"),
    "a version that is no text": (
        {"kind": "promise.get", "head": {"corrId": "c", "version": 20260401}, "data": {}},
        "promise.get",
        "c",
    ),
    "no data": ({"kind": "promise.get", "head": {"corrId": "c", "version": A}}, "promise.get", "c"),
    "data that is null": (
        {"kind": "promise.get", "head": {"corrId": "c", "version": A}, "data": None},
        "promise.get",
        "c",
    ),
    "data that is a list": (
        {"kind": "promise.get", "head": {"corrId": "c", "version": A}, "data": []},
        "promise.get",
        "c",
    ),
    "data that is text": (
        {"kind": "promise.get", "head": {"corrId": "c", "version": A}, "data": "x"},
        "promise.get",
        "c",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_envelope_is_refused_with_what_could_be_read_of_it(wire: Wire, case: str) -> None:
    body, kind, corr_id = BROKEN[case]
    answer = wire.raw_value(body)
    assert (answer.status, answer.kind, answer.head["corrId"]) == (400, kind, corr_id)
    assert answer.refused


def test_a_body_that_is_not_json_is_refused_as_unknown(wire: Wire) -> None:
    answer = wire.raw(b"{kind: promise.get}")
    assert (answer.status, answer.kind, answer.head["corrId"]) == (400, "unknown", "0")


def test_an_empty_kind_is_refused(wire: Wire) -> None:
    body = {"kind": "", "head": {"corrId": "c", "version": A}, "data": {}}
    answer = wire.raw_value(body)
    assert (answer.status, answer.head["corrId"]) == (400, "c")


# -- versions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [A, B, "2026-03-31", "2024-02-29"])
def test_the_current_version_and_every_earlier_date_are_served_and_repeated(wire: Wire, version: str) -> None:
    answer = wire.send("promise.create", creation("p"), version=version)
    assert (answer.status, answer.head["version"]) == (200, version)


@pytest.mark.parametrize(
    "version",
    ["2026-04-02", "2099-01-01", "", "1", "latest", "2025-1-15", "2025-01-15T00:00:00Z", "20250115"],
)
def test_any_other_version_is_refused(wire: Wire, version: str) -> None:
    assert wire.send("promise.create", creation("p"), version=version).status == 400
    assert wire.get("p").status == 404


# -- arrays ------------------------------------------------------------------------------------------------


def test_an_array_is_applied_in_order_and_answered_in_order(wire: Wire) -> None:
    answers = wire.batch(
        ("promise.get", {"id": "p"}),
        ("promise.create", creation("p")),
        ("promise.settle", {"id": "p", "state": "resolved"}),
        ("promise.get", {"id": "p"}),
    )
    assert [answer.status for answer in answers] == [404, 200, 200, 200]
    assert answers[-1].promise["state"] == "resolved"


def test_a_refused_element_changes_nothing_for_the_others(wire: Wire) -> None:
    answers = wire.batch(
        ("promise.create", creation("a")),
        ("promise.create", {"id": ""}),
        ("promise.settle", {"id": "missing", "state": "resolved"}),
        ("promise.create", creation("b")),
    )
    assert [answer.status for answer in answers] == [200, 400, 404, 200]
    assert ids(wire.snap()["promises"]) == ["a", "b"]


def test_an_element_that_is_no_envelope_has_a_status_of_its_own(wire: Wire) -> None:
    good = wire.envelope("promise.create", creation("p"))
    replies = [answer_of(reply) for reply in wire.backend.handle([7, good, None, []])]
    assert [reply.status for reply in replies] == [400, 200, 400, 400]
    assert replies[0].kind == "unknown"
    assert wire.get("p").status == 200


def test_elements_of_one_array_may_speak_different_dialects(wire: Wire) -> None:
    elements = [wire.envelope("promise.create", creation(v), version=v) for v in (A, B)]
    replies = [answer_of(reply) for reply in wire.backend.handle(elements)]
    assert [reply.head["version"] for reply in replies] == [A, B]
    assert [reply.promise["param"] for reply in replies] == [{}, {"headers": {}, "data": ""}]


def test_of_two_acquires_in_one_array_one_wins(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    data: Json = {"id": "t", "version": 0, "ttl": MINUTE}
    answers = wire.batch(("task.acquire", {**data, "pid": "p"}), ("task.acquire", {**data, "pid": "q"}))
    assert [answer.status for answer in answers] == [200, 409]


def test_an_array_of_the_largest_size_is_served(wire: Wire) -> None:
    answers = wire.batch(*[("promise.get", {"id": "p"})] * 1_000)
    assert {answer.status for answer in answers} == {404}


def test_an_array_beyond_the_largest_size_is_refused_whole(wire: Wire) -> None:
    before = wire.snap()
    elements = [wire.envelope("promise.create", creation(f"p{number}")) for number in range(1_001)]
    answer = answer_of(wire.backend.handle(elements))
    assert answer.status == 400
    assert answer.refused
    assert wire.snap() == before


# -- debug -------------------------------------------------------------------------------------------------


def test_reset_forgets_everything(wire: Wire) -> None:
    empty = wire.snap()
    wire.suspended("t", "dep")
    wire.listen("dep")
    wire.schedule("s")
    assert wire.send("debug.reset", {}).data == {}
    assert wire.snap() == empty


def test_an_empty_snapshot_has_every_list(wire: Wire) -> None:
    assert wire.snap() == {
        "promises": [],
        "promiseTimeouts": [],
        "callbacks": [],
        "listeners": [],
        "tasks": [],
        "taskTimeouts": [],
        "messages": [],
        "schedules": [],
    }


def test_a_snapshot_shows_what_is_stored(wire: Wire) -> None:
    wire.create("dep", timeout_at=T0 + 10)
    wire.listen("dep")
    wire.task_create("t", ttl=7)
    wire.suspend("t", "dep")
    wire.task_create("u", ttl=7)
    snap = wire.snap()
    assert ids(snap["promises"]) == ["dep", "t", "u"]
    assert snap["promiseTimeouts"] == [
        {"id": "dep", "timeout": T0 + 10},
        {"id": "t", "timeout": FAR},
        {"id": "u", "timeout": FAR},
    ]
    assert snap["callbacks"] == [{"awaiter": "t", "awaited": "dep"}]
    assert snap["listeners"] == [{"id": "dep", "address": CLIENT}]
    assert ids(snap["tasks"]) == ["t", "u"]
    assert snap["taskTimeouts"] == [{"id": "u", "type": 1, "timeout": T0 + 7}]


def test_a_snapshot_lists_schedules(wire: Wire) -> None:
    schedule = wire.schedule("s").schedule
    assert wire.snap()["schedules"] == [schedule]


def test_a_snapshot_is_sorted_whatever_the_order_of_arrival(wire: Wire) -> None:
    for name in ("c", "a", "b"):
        wire.create(name, target=WORKERS)
    snap = wire.snap()
    for table in ("promises", "promiseTimeouts", "tasks", "taskTimeouts"):
        assert ids(snap[table]) == ["a", "b", "c"]


def test_a_snapshot_shows_the_stored_state_and_not_the_view(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10)
    wire.now = T0 + 10
    assert wire.stored("promises", "p")["state"] == "pending"


def test_a_tick_answers_with_an_empty_list(wire: Wire) -> None:
    assert wire.send("debug.tick", {"time": T0}).data == []


def test_a_tick_at_another_instant_than_its_debug_time_is_refused(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, target=WORKERS)
    assert wire.send("debug.tick", {"time": T0 + 10}).status == 400
    assert wire.stored("promises", "p")["state"] == "pending"


def test_a_tick_without_a_debug_time_sweeps_at_its_own_instant(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, target=WORKERS)
    body = {"kind": "debug.tick", "head": {"corrId": "c", "version": A}, "data": {"time": T0 + 10}}
    assert answer_of(wire.backend.handle(body)).status == 200
    assert wire.stored("promises", "p")["state"] == "rejected_timedout"


def test_a_second_tick_at_the_same_instant_does_nothing(wire: Wire) -> None:
    wire.create("p", timeout_at=T0 + 10, target=WORKERS)
    wire.acquired("t")
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    before = wire.snap()
    wire.tick(T0 + MINUTE)
    assert wire.snap() == before


@pytest.mark.parametrize("kind", ["debug.start", "debug.stop", "debug.reset"])
def test_the_debug_switches_answer_with_an_empty_object(wire: Wire, kind: str) -> None:
    answer = wire.send(kind, {})
    assert (answer.status, answer.data) == (200, {})


@pytest.mark.parametrize("kind", ["debug.start", "debug.stop", "debug.reset", "debug.tick", "debug.snap"])
def test_without_debug_mode_the_debug_operations_are_forbidden(plain_wire: Wire, kind: str) -> None:
    answer = plain_wire.send(kind, {"time": plain_wire.now})
    assert (answer.status, answer.refused) == (403, True)


def test_without_debug_mode_a_debug_time_is_ignored(plain_wire: Wire) -> None:
    plain_wire.now = 1_000
    assert plain_wire.create("p", timeout_at=2**53 - 1).promise["createdAt"] != 1_000
