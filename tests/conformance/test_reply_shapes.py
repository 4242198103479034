"""The hard rules of the published client parsers, each with a test.

`Wire.send` holds every reply of the suite against these rules (`check_reply`); here each is stated once.
A client that sees one of them broken treats the server as down.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.every_kind import EVERY_KIND, furnish
from tests.conformance.wire import (
    MINUTE,
    T0,
    WORKERS,
    A,
    Answer,
    B,
    Json,
    Wire,
    check_reply,
    creation,
    is_array,
    is_object,
)

SETTLEMENT: Json = {"kind": "promise.settle", "head": {}, "data": {"id": "t", "state": "resolved"}}
DIALECTS = pytest.mark.parametrize("dialect", [A, B])


@DIALECTS
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_reply_repeats_the_kind_and_the_correlation_id(wire: Wire, kind: str, dialect: str) -> None:
    furnish(wire)
    answer = wire.send(kind, EVERY_KIND[kind], version=dialect, corr_id="x y z")
    assert answer.status == 200
    assert (answer.kind, answer.head["corrId"], answer.head["version"]) == (kind, "x y z", dialect)


@DIALECTS
def test_a_refusal_repeats_the_kind_and_the_correlation_id_and_is_a_text(wire: Wire, dialect: str) -> None:
    for kind, fields in EVERY_KIND.items():
        data: Json = dict.fromkeys(fields) or {"limit": 0, "time": "x"}
        answer = wire.send(kind, data, version=dialect)
        if answer.status == 200:
            assert kind.startswith("debug.")
        else:
            assert (answer.status, answer.refused) == (400, True), kind


@DIALECTS
@pytest.mark.parametrize(
    ("kind", "data", "code"),
    [
        ("promise.get", {"id": "nobody"}, "HF1101"),
        ("task.get", {"id": "nobody"}, "HF1102"),
        ("schedule.get", {"id": "nobody"}, "HF1103"),
        ("promise.get", {"id": 7}, "HF1001"),
        ("promise.what", {}, "HF1003"),
        ("task.fulfill", {"id": "t", "version": 9, "action": SETTLEMENT}, "HF1201"),
    ],
)
def test_the_head_of_a_refusal_has_its_code(
    wire: Wire, kind: str, data: Json, code: str, dialect: str
) -> None:
    wire.acquired("t")
    answer = wire.send(kind, data, version=dialect)
    assert (answer.status >= 400, answer.head["code"]) == (True, code)


def test_the_head_of_a_success_has_no_code(wire: Wire) -> None:
    wire.create("p")
    assert "code" not in wire.send("promise.get", {"id": "p"}).head


def field_names(value: Any) -> set[str]:
    if is_object(value):
        return set(value).union(*(field_names(part) for part in value.values()))
    if is_array(value):
        return set[str]().union(*(field_names(part) for part in value))
    return set()


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        ("promise.get", {"settledAt", "headers"}),
        ("promise.search", {"cursor"}),
        ("task.search", {"cursor", "startedAt", "retries", "error"}),
        ("schedule.search", {"cursor", "lastRunAt", "timezone", "overlap", "catchUp"}),
        ("schedule.get", {"lastRunAt"}),
        ("task.heartbeat", {"lost"}),
    ],
)
def test_a_field_without_a_value_is_left_out(wire: Wire, kind: str, absent: set[str]) -> None:
    furnish(wire)
    assert not field_names(wire.send(kind, EVERY_KIND[kind]).data) & absent


@pytest.mark.parametrize("state", ["pending", "suspended", "halted", "fulfilled"])
def test_a_task_that_nobody_holds_has_neither_pid_nor_ttl(wire: Wire, state: str) -> None:
    wire.create("dep")
    wire.acquired("t")
    if state == "suspended":
        wire.suspend("t", "dep")
    else:
        {"pending": wire.release, "halted": wire.halt, "fulfilled": wire.fulfill}[state]("t")
    assert wire.task("t").keys() == {"id", "state", "version", "resumes"}


@pytest.mark.parametrize("data", [None, ""])
def test_data_is_a_text_or_absent(wire: Wire, data: str | None) -> None:
    wire.create("p", param={"data": data}, tags={})
    wire.settle("p", value={"data": data})
    promise = wire.get("p").promise
    for payload in (promise["param"], promise["value"]):
        assert payload == ({} if data is None else {"data": ""})


def test_every_task_record_has_state_version_and_a_count_of_resumes(wire: Wire) -> None:
    furnish(wire)
    for task in wire.send("task.search", {}).data["tasks"]:
        assert {"id", "state", "version", "resumes"} <= task.keys()
        assert type(task["resumes"]) is int


@DIALECTS
def test_preload_is_a_list_wherever_a_client_looks_for_it(wire: Wire, dialect: str) -> None:
    furnish(wire)
    wire.create("done")
    wire.settle("done")
    wire.version = dialect
    answers: list[Answer] = [
        wire.task_create("fresh"),
        wire.acquire("u"),
        wire.fence("t", "promise.create", creation("x")),
        wire.suspend("t", "done"),
    ]
    assert [answer.status for answer in answers] == [200, 200, 200, 300]
    assert all(answer.data["preload"] == [] for answer in answers)


def test_preload_is_a_list_when_task_create_did_not_acquire(wire: Wire) -> None:
    wire.acquired("t")
    wire.fulfill("t")
    assert wire.task_create("t").data["preload"] == []


@DIALECTS
@pytest.mark.parametrize(
    "kind",
    ["task.release", "task.suspend", "task.heartbeat", "task.halt", "task.continue", "schedule.delete"],
)
def test_a_reply_with_nothing_to_say_carries_an_empty_object(wire: Wire, kind: str, dialect: str) -> None:
    furnish(wire)
    assert wire.send(kind, EVERY_KIND[kind], version=dialect).data == {}


def test_a_settled_promise_has_its_instant_as_an_integer(wire: Wire) -> None:
    wire.create("p")
    assert type(wire.settle("p").promise["settledAt"]) is int


def test_a_schedule_that_ran_has_its_instant_as_an_integer(wire: Wire) -> None:
    wire.schedule("s")
    wire.tick(T0 + MINUTE)
    assert type(wire.send("schedule.get", {"id": "s"}).schedule["lastRunAt"]) is int


def test_the_status_is_an_integer(wire: Wire) -> None:
    assert type(wire.get("missing").head["status"]) is int


@DIALECTS
def test_messages_are_understood_by_the_clients_they_go_to(wire: Wire, dialect: str) -> None:
    wire.version = dialect
    wire.create("t", target=WORKERS)
    wire.listen("t")
    wire.settle("t")
    kinds = {message["kind"] for message in wire.messages()}
    assert kinds <= ({"execute", "unblock"} if dialect == A else {"invoke", "notify"})


BAD_REPLIES: dict[str, Json] = {
    "another kind": {"kind": "promise.set"},
    "another correlation id": {"head": {"corrId": "d", "status": 200, "version": A}},
    "a null": {"data": {"promise": None}},
    "a missing object": {"data": []},
    "an error that is an object": {"head": {"corrId": "c", "status": 404, "version": A}, "data": {}},
    "a task without resumes": {"data": {"task": {"id": "t", "state": "pending", "version": 0}}},
    "a holder on a pending task": {
        "data": {"task": {"id": "t", "state": "pending", "version": 0, "resumes": 0, "pid": "p", "ttl": 1}}
    },
}


@pytest.mark.parametrize("case", BAD_REPLIES)
def test_the_suite_itself_notices_a_reply_that_breaks_a_rule(case: str) -> None:
    request: Json = {"kind": "promise.get", "head": {"corrId": "c", "version": A}, "data": {}}
    reply: Json = {"kind": "promise.get", "head": {"corrId": "c", "status": 200, "version": A}, "data": {}}
    check_reply(request, Answer(**reply))
    with pytest.raises((AssertionError, KeyError)):
        check_reply(request, Answer(**(reply | BAD_REPLIES[case])))


@DIALECTS
def test_tags_and_headers_may_have_the_names_of_fields(wire: Wire, dialect: str) -> None:
    names: Json = dict.fromkeys(
        ("timeoutAt", "promiseTimeout", "param", "value", "promiseParam", "tags"), "x"
    )
    payload: Json = {"headers": names, "data": "eA=="}
    with wire.dialect(dialect):
        created = wire.create("p", tags=names, param=payload)
        assert (created.promise["tags"], created.promise["param"]) == (names, payload)
        settled = wire.settle("p", value=payload)
        assert (settled.promise["tags"], settled.promise["value"]) == (names, payload)
        scheduled = wire.schedule("s", promiseTags=names, promiseParam=payload).schedule
        assert (scheduled["promiseTags"], scheduled["promiseParam"]) == (names, payload)


def test_a_message_in_the_other_dialect_may_tell_of_such_tags(wire: Wire) -> None:
    with wire.dialect(B):
        wire.create("p", tags={"timeoutAt": "soon", "value": "high"})
        wire.listen("p")
        wire.settle("p")
    [message] = wire.messages()
    assert message["data"]["promise"]["tags"] == {"timeoutAt": "soon", "value": "high"}
