"""Bad input: always a refusal with a sentence, never a failure of the server, never a changed state.

First every field of every kind as JSON values, then the limits from both sides, then bodies as bytes, and
last a seeded storm of random damage.
"""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.every_kind import EVERY_KIND, furnish
from tests.conformance.wire import (
    FAR,
    INT_MAX,
    T0,
    WORKERS,
    A,
    Json,
    Wire,
    answer_of,
    creation,
    is_array,
    is_object,
    schedule_of,
    sub,
    suspension,
)
from tests.counts import count_of
from tests.seeds import seed_for_test

# -- every field of every kind -----------------------------------------------------------------------------

NOT_TEXT: list[Any] = [1, 1.5, True, [], {}]
NOT_OBJECT: list[Any] = [None, 1, "x", True, []]
NOT_ARRAY: list[Any] = [None, 1, "x", True, {}]
DAMAGED = count_of("HOLDFAST_DAMAGED", quick=300, full=1_500)
BIG = "x" * 1_025
WIDE = {f"k{number}": "v" for number in range(65)}
NOT_TAGS: list[Any] = [
    *NOT_OBJECT,
    {"k": 1},
    {"k": None},
    {"k": ["v"]},
    {"k": "a\0b"},
    {"k": "v" * 4_097},
    {"k" * 1_025: "v"},
    {"k": "v" * 1_000_000},
    WIDE,
    {f"k{number}": "v" for number in range(10_000)},
]
NOT_INTEGER: list[Any] = [
    None,
    "1",
    "",
    1.5,
    True,
    False,
    [],
    {},
    -1,
    INT_MAX + 1,
    2**63,
    -(2**63),
    2**64,
    1e300,
]

WRONG: dict[str, list[Any]] = {
    "id": [None, *NOT_TEXT, "", "a\0b", BIG, "é" * 513, "x" * 1_000_000],
    "template": [None, *NOT_TEXT, "", "a\0b", BIG],
    "key": [*NOT_TEXT, BIG],
    "text": NOT_TEXT,
    "address": [None, *NOT_TEXT, "", "nowhere", "poll://any@" + BIG],
    "integer": NOT_INTEGER,
    "optional integer": NOT_INTEGER[1:],
    "ttl": [*NOT_INTEGER, 0, 86_400_001],
    "count": [*NOT_INTEGER, 0, 1_001],
    "limit": [*NOT_INTEGER[1:], 0, 1_001, 10**9],
    "settled state": [None, *NOT_TEXT, "", "pending", "rejected_timedout", "done", "RESOLVED"],
    "promise state": [*NOT_TEXT, "", "done", "acquired"],
    "task state": [*NOT_TEXT, "", "done", "resolved"],
    "tags": NOT_TAGS,
    "filter": NOT_TAGS[1:],
    "payload": [
        *NOT_OBJECT,
        {"data": 1},
        {"data": {}},
        {"data": ["eA=="]},
        {"data": True},
        {"headers": 1},
        {"headers": []},
        {"headers": {"k": 1}},
        {"headers": {"k": None}},
        {"headers": WIDE},
        {"headers": {"k" * 1_025: "v"}},
        {"headers": {"k": "v" * 4_097}},
        {"data": "x" * 1_048_577},
    ],
    "object": NOT_OBJECT,
    "action": [
        *NOT_OBJECT,
        {},
        {"kind": "promise.create", "head": {}},
        {"kind": "promise.settle", "data": []},
    ],
    "actions": [*NOT_ARRAY, [], [1], [None], ["x"], [{}], [[]], [{"kind": "promise.register_callback"}]],
    "pairs": [*NOT_ARRAY, [1], [None], [[]], [{}], [{"id": "t"}], [{"version": 1}]],
    "groups": [*NOT_ARRAY, [], [1], [None], [[]], ["a\0b"], [BIG], ["workers", 1], ["workers"] * 65],
    "retry": [1, "x", True, [], {}, {"error": "no delay"}],
    "error": [*NOT_TEXT, "x" * 4_097, "é" * 2_049],
    "optional payload": [1, "x", True, [], {"data": 1}, {"headers": {"k": 1}}, {"data": "x" * 1_048_577}],
    "catch up": [*NOT_INTEGER[1:], 1_001, 10**9],
    "optional template": [*NOT_TEXT, "", "a\0b", BIG],
    "optional cron": [*NOT_TEXT, "", "banana"],
    "cron": [None, *NOT_TEXT, "", "banana", "* * * *", "0," * 127 + "0 * * * *", "0," * 10_000 + "0 * * * *"],
    "timezone": [*NOT_TEXT, "", "Mars/Olympus", "../../etc/passwd", "x" * 5_000],
    "overlap": [*NOT_TEXT, "", "queue"],
    "stream": [None, *NOT_TEXT, "", "a\0b", "inn", "in.1", "out", "out.", "out.a b", "value.é", BIG],
    "stream key": [*NOT_TEXT, "", "a\0b", "x" * 257],
    "number": [*NOT_INTEGER, 0, 1_000_001],
    "answer": [1, "x", True, [], {}],
    "flag": [1, "x", [], {}],
    "known": [1, "x", True, {}, [1], [""], ["a\0b"], [None]],
    "instant": [None, "1", "", 1.5, True, [], {}, -1],
}


@dataclass(frozen=True)
class Field:
    kind: str
    path: tuple[str | int, ...]
    sort: str
    required: bool = True

    @property
    def may_be_missed(self) -> bool:
        """An element that is missing is only a shorter list."""
        return self.required and isinstance(self.path[-1], str)

    def __str__(self) -> str:
        return f"{self.kind}:{'.'.join(str(step) for step in self.path)}"


def fields(kind: str, required: str, optional: str = "") -> Iterator[Field]:
    """Fields from a compact notation, `path=sort` separated by semicolons."""
    for text, needed in ((required, True), (optional, False)):
        for item in filter(None, text.split(";")):
            path, sort = item.strip().split("=")
            steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))
            yield Field(kind, steps, sort, needed)


CREATION = "{0}id=id;{0}timeoutAt=integer"
CREATION_OPTIONAL = "{0}param=payload;{0}tags=tags;{0}ikc=key"
SETTLEMENT = "{0}id=id;{0}state=settled state"
SETTLEMENT_OPTIONAL = "{0}value=payload;{0}iku=key"
INNER = "action.data."

FIELDS: list[Field] = [
    *fields("promise.get", "id=id"),
    *fields("promise.create", CREATION.format(""), CREATION_OPTIONAL.format("")),
    *fields("promise.settle", SETTLEMENT.format(""), SETTLEMENT_OPTIONAL.format("")),
    *fields("promise.register", "awaited=id;awaiter=id"),
    *fields("promise.register_callback", "awaited=id;awaiter=id"),
    *fields("promise.subscribe", "awaited=id;address=address"),
    *fields("promise.register_listener", "awaited=id;address=address"),
    *fields("promise.search", "", "state=promise state;tags=filter;limit=limit;cursor=text;prefix=text"),
    *fields("task.get", "id=id"),
    *fields(
        "task.create",
        f"pid=id;ttl=ttl;action=action;action.data=object;{CREATION.format(INNER)}",
        CREATION_OPTIONAL.format(INNER),
    ),
    *fields("task.acquire", "id=id;version=integer;pid=id;ttl=ttl"),
    *fields("task.claim", "groups=groups;count=count;pid=id;ttl=ttl", "known=known"),
    *fields("task.start", "id=id;version=integer"),
    *fields("task.release", "id=id;version=integer", "retry=retry"),
    *fields(
        "task.fulfill",
        f"id=id;version=integer;action=action;action.data=object;{SETTLEMENT.format(INNER)}",
        SETTLEMENT_OPTIONAL.format(INNER),
    ),
    *fields(
        "task.suspend",
        "id=id;version=integer;actions=actions;actions.0=action;actions.0.data=object;"
        "actions.0.data.awaited=id;actions.0.data.awaiter=id",
    ),
    *fields(
        "task.fence",
        f"id=id;version=integer;action=action;action.kind=id;action.data=object;{CREATION.format(INNER)}",
        CREATION_OPTIONAL.format(INNER),
    ),
    *fields("task.restart", "id=id;version=integer", "param=payload"),
    *fields("task.heartbeat", "pid=id;tasks=pairs;tasks.0=object;tasks.0.id=id;tasks.0.version=integer"),
    *fields("task.halt", "id=id", "version=optional integer;reason=error"),
    *fields("task.continue", "id=id", "version=optional integer"),
    *fields(
        "task.search",
        "",
        "state=task state;tags=filter;limit=limit;cursor=text;prefix=text;target=text;group=text;pid=text",
    ),
    *fields(
        "stream.append",
        "id=id;stream=stream;answer.timeoutAt=integer",
        "value=payload;key=stream key;answer=answer;answer.id=text;answer.param=payload;answer.tags=tags;"
        "expect=filter",
    ),
    *fields("stream.next", "id=id;stream=stream;number=number"),
    *fields("stream.read", "id=id;stream=stream", "after=optional integer;limit=limit;last=flag"),
    *fields("stream.list", "id=id"),
    *fields("lock.get", "name=id"),
    *fields("lock.search", "", "prefix=text;limit=limit;cursor=text;used=flag"),
    *fields("lock.release", "name=id;id=id", "reason=error"),
    *fields("event.send", "name=id", "id=optional template;value=payload;match=tags"),
    *fields("event.search", "name=id", "before=optional integer;limit=limit"),
    *fields("event.subscribe", "name=id;id=id;workflow=id;promiseTags=tags;promiseTimeout=integer"),
    *fields("event.unsubscribe", "name=id;id=id"),
    *fields("schedule.get", "id=id"),
    *fields(
        "schedule.create",
        "id=id;cron=cron;promiseId=template;promiseTimeout=integer",
        "promiseParam=payload;promiseTags=tags;timezone=timezone;overlap=overlap;catchUp=catch up",
    ),
    *fields("schedule.delete", "id=id"),
    *fields(
        "schedule.update",
        "id=id",
        "cron=optional cron;promiseId=optional template;promiseTimeout=optional integer;"
        "promiseParam=optional payload;promiseTags=filter;timezone=timezone;overlap=overlap;catchUp=catch up",
    ),
    *fields("schedule.pause", "id=id", "paused=flag"),
    *fields("schedule.trigger", "id=id"),
    *fields("schedule.backfill", "id=id;since=integer;until=integer"),
    *fields("schedule.search", "", "tags=filter;limit=limit;cursor=text;prefix=text"),
    *fields("debug.tick", "time=instant"),
]


def damaged(data: Json, path: tuple[str | int, ...], change: Callable[[Any, str | int], None]) -> Json:
    """A copy of `data` whose field at `path` was changed."""
    result = copy.deepcopy(data)
    place: Any = result
    for step in path[:-1]:
        place = place[step]
    change(place, path[-1])
    return result


def assign(value: Any) -> Callable[[Any, str | int], None]:
    def change(place: Any, step: str | int) -> None:
        place[step] = value

    return change


def remove(place: Any, step: str | int) -> None:
    del place[step]


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:60] + "..."


def of_kind(kind: str) -> list[Field]:
    return [field for field in FIELDS if field.kind == kind]


def test_every_kind_has_its_fields_listed() -> None:
    silent = {"debug.start", "debug.reset", "debug.snap"}
    assert {field.kind for field in FIELDS} == set(EVERY_KIND) - silent


@pytest.mark.parametrize("kind", [*dict.fromkeys(field.kind for field in FIELDS)])
def test_every_wrong_value_of_a_field_is_refused_and_changes_nothing(wire: Wire, kind: str) -> None:
    furnish(wire)
    before = wire.snap()
    accepted: list[str] = []
    for field in of_kind(kind):
        for value in WRONG[field.sort]:
            answer = wire.send(kind, damaged(EVERY_KIND[kind], field.path, assign(value)))
            if not (answer.status == 400 and answer.refused):
                accepted.append(f"{field}: {brief(value)} -> {answer.status}")
    assert accepted == []
    assert wire.snap() == before


@pytest.mark.parametrize("kind", [*dict.fromkeys(field.kind for field in FIELDS if field.may_be_missed)])
def test_a_required_field_that_is_missing_is_refused_and_changes_nothing(wire: Wire, kind: str) -> None:
    furnish(wire)
    before = wire.snap()
    for field in of_kind(kind):
        if field.may_be_missed:
            answer = wire.send(kind, damaged(EVERY_KIND[kind], field.path, remove))
            assert (answer.status, answer.refused) == (400, True), field
    assert wire.snap() == before


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_data_that_is_no_object_is_refused_and_changes_nothing(wire: Wire, kind: str) -> None:
    furnish(wire)
    before = wire.snap()
    values: list[Any] = [None, 1, 1.5, True, "x", [], [{}]]
    for data in values:
        answer = wire.send(kind, data)
        assert (answer.status, answer.refused) == (400, True), data
    assert wire.snap() == before


@pytest.mark.parametrize("delay", [None, "1", 1.5, True, [], {}, -1, INT_MAX + 1, 2**64])
def test_a_retry_delay_that_is_no_duration_is_refused(wire: Wire, delay: Any) -> None:
    wire.acquired("t")
    before = wire.snap()
    assert wire.release("t", retry={"delay": delay}).status == 400
    assert wire.snap() == before


@pytest.mark.parametrize("error", WRONG["error"], ids=brief)
def test_a_retry_error_that_is_no_short_text_is_refused(wire: Wire, error: Any) -> None:
    wire.acquired("t")
    before = wire.snap()
    assert wire.release("t", retry={"delay": 0, "error": error}).status == 400
    assert wire.snap() == before


@pytest.mark.parametrize("time", ["1", "", 1.5, True, [], {}, -1])
def test_a_debug_time_that_is_no_instant_is_refused(wire: Wire, time: Any) -> None:
    before = wire.snap()
    request = wire.envelope("promise.create", creation("p"))
    request["head"]["resonate:debug_time"] = time
    answer = answer_of(wire.backend.handle(request))
    assert (answer.status, answer.refused) == (400, True)
    assert wire.snap() == before


@pytest.mark.parametrize(
    "kind", ["", " ", "promise", "promise.", ".get", "PROMISE.GET", "task.steal", "x" * 10_000]
)
def test_an_unknown_kind_is_refused(wire: Wire, kind: str) -> None:
    answer = wire.raw_value(wire.envelope(kind, {}))
    assert (answer.status, answer.refused) == (400, True)


# -- the limits, from both sides ---------------------------------------------------------------------------

EDGES: dict[str, tuple[str, Callable[[int], Json], int]] = {
    "an id in bytes": ("promise.create", lambda size: creation("x" * size), 1_024),
    "an id of wide characters": ("promise.create", lambda size: creation("é" * size), 512),
    "an idempotency key": ("promise.create", lambda size: creation("p1", ikc="x" * size), 1_024),
    "tags": ("promise.create", lambda size: creation("p1", tags={f"k{n}": "" for n in range(size)}), 64),
    "a tag key": ("promise.create", lambda size: creation("p1", tags={"k" * size: ""}), 1_024),
    "a tag value": ("promise.create", lambda size: creation("p1", tags={"k": "v" * size}), 4_096),
    "headers": (
        "promise.create",
        lambda size: creation("p1", param={"headers": {f"k{n}": "" for n in range(size)}}),
        64,
    ),
    "a header key": (
        "promise.create",
        lambda size: creation("p1", param={"headers": {"k" * size: ""}}),
        1_024,
    ),
    "a header value": (
        "promise.create",
        lambda size: creation("p1", param={"headers": {"k": "v" * size}}),
        4_096,
    ),
    "data of a param": ("promise.create", lambda size: creation("p1", param={"data": "x" * size}), 1_048_576),
    "data of a value": (
        "promise.settle",
        lambda size: {"id": "p", "state": "resolved", "value": {"data": "x" * size}},
        1_048_576,
    ),
    "a timeout": ("promise.create", lambda size: creation("p1", timeout_at=size), INT_MAX),
    "a ttl": ("task.acquire", lambda size: {"id": "u", "version": 0, "pid": "p", "ttl": size}, 86_400_000),
    "a pid": ("task.acquire", lambda size: {"id": "u", "version": 0, "pid": "x" * size, "ttl": 1}, 1_024),
    "a target": (
        "promise.create",
        lambda size: creation("p1", target="poll://any@".ljust(size, "g")),
        1_024,
    ),
    "a listener address": (
        "promise.register_listener",
        lambda size: {"awaited": "p", "address": "http://h/".ljust(size, "x")},
        1_024,
    ),
    "a group": ("task.claim", lambda size: {"groups": ["g" * size], "count": 1, "pid": "p", "ttl": 1}, 1_024),
    "groups": (
        "task.claim",
        lambda size: {"groups": [f"g{n}" for n in range(size)], "count": 1, "pid": "p", "ttl": 1},
        64,
    ),
    "a known task": (
        "task.claim",
        lambda size: {"groups": ["g"], "count": 1, "pid": "p", "ttl": 1, "known": ["t" * size]},
        1_024,
    ),
    "known tasks": (
        "task.claim",
        lambda size: {"groups": ["g"], "count": 1, "pid": "p", "ttl": 1, "known": ["t"] * size},
        64,
    ),
    "a claim": ("task.claim", lambda size: {"groups": ["g"], "count": size, "pid": "p", "ttl": 1}, 1_000),
    "a retry delay": (
        "task.release",
        lambda size: {"id": "t", "version": 1, "retry": {"delay": size}},
        INT_MAX,
    ),
    "a retry error": (
        "task.release",
        lambda size: {"id": "t", "version": 1, "retry": {"delay": 0, "error": "x" * size}},
        4_096,
    ),
    "suspend actions": ("task.suspend", lambda size: suspension("t", *["p"] * size), 10_000),
    "heartbeat pairs": (
        "task.heartbeat",
        lambda size: {"pid": "p", "tasks": [{"id": "t", "version": 1}] * size},
        10_000,
    ),
    "a promise timeout": ("schedule.create", lambda size: schedule_of("s1", promiseTimeout=size), INT_MAX),
    "a cron expression": (
        "schedule.create",
        lambda size: schedule_of("s1", ("0," * 200)[: size - 9] + "0 * * * *"),
        255,
    ),
    "a page": ("promise.search", lambda size: {"limit": size}, 1_000),
}


@pytest.mark.parametrize("edge", EDGES)
def test_a_request_at_a_limit_is_served(wire: Wire, edge: str) -> None:
    furnish(wire)
    kind, request, most = EDGES[edge]
    assert wire.send(kind, request(most)).status == 200


@pytest.mark.parametrize("edge", EDGES)
def test_a_request_past_a_limit_is_refused_and_changes_nothing(wire: Wire, edge: str) -> None:
    furnish(wire)
    before = wire.snap()
    kind, request, most = EDGES[edge]
    past = most + 2 if edge == "a cron expression" else most + 1
    answer = wire.send(kind, request(past))
    assert (answer.status, answer.refused) == (400, True)
    assert wire.snap() == before


def test_the_largest_version_is_read_and_conflicts(wire: Wire) -> None:
    wire.create("t", target=WORKERS)
    assert wire.acquire("t", INT_MAX).status == 409


@pytest.mark.parametrize(("size", "status"), [(1_024, 404), (1_025, 400)])
def test_a_correlation_id_has_a_limit(wire: Wire, size: int, status: int) -> None:
    body = wire.envelope("promise.get", {"id": "p"}, corr_id="x" * size)
    assert wire.raw_value(body).status == status


def test_a_lease_that_would_outlast_the_largest_instant_is_no_failure(wire: Wire) -> None:
    wire.now = INT_MAX - 5
    wire.create("t", target=WORKERS, timeout_at=INT_MAX)
    assert wire.acquire("t", ttl=86_400_000).status < 500
    assert wire.snap()


@pytest.mark.parametrize("refs", [10_001, 40_000])
def test_a_flood_of_references_is_refused(wire: Wire, refs: int) -> None:
    furnish(wire)
    before = wire.snap()
    assert wire.heartbeat(*[("t", 1)] * refs).status == 400
    assert wire.suspend("t", *["p"] * refs).status == 400
    assert wire.snap() == before


# -- bodies as bytes ---------------------------------------------------------------------------------------

HEAD = b'{"kind":"%s","head":{"corrId":"c","version":"2026-04-01","resonate:debug_time":%d},"data":%s}'


def create_with(name: bytes = b'"p"', timeout_at: bytes = b"%d" % FAR, tags: bytes = b"{}") -> bytes:
    data = b'{"id":%s,"timeoutAt":%s,"param":{},"tags":%s}' % (name, timeout_at, tags)
    return HEAD % (b"promise.create", T0, data)


def acquire_with(version: bytes = b"0", ttl: bytes = b"60000") -> bytes:
    data = b'{"id":"u","version":%s,"pid":"p","ttl":%s}' % (version, ttl)
    return HEAD % (b"task.acquire", T0, data)


def test_the_bytes_the_cases_below_are_made_of_are_valid(wire: Wire) -> None:
    furnish(wire)
    assert wire.raw(acquire_with()).status == 200
    assert wire.raw(create_with()).status == 200


GOOD = create_with()
DEEP = 100_000

BODIES: dict[str, bytes] = {
    "nothing": b"",
    "white space": b" \r\n\t ",
    "a NUL": b"\0",
    "a NUL after": GOOD + b"\0",
    "a NUL before": b"\0" + GOOD,
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "gzip": gzip.compress(GOOD),
    "half of it": GOOD[: len(GOOD) // 2],
    "all but the last byte": GOOD[:-1],
    "two of them": GOOD + GOOD,
    "something behind": GOOD + b"x",
    "a trailing comma": GOOD[:-1] + b",}",
    "single quotes": GOOD.replace(b'"', b"'"),
    "a comment": b"/* hello */" + GOOD,
    "a form": b"kind=promise.create&id=p",
    "xml": b"<?xml version='1.0'?><kind>promise.get</kind>",
    "a number": b"1",
    "a big number": b"1" * 5_000,
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "text": b'"promise.create"',
    "true": b"true",
    "null": b"null",
    "deep arrays": b"[" * DEEP + b"]" * DEEP,
    "deep arrays left open": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep objects left open": b'{"a":' * DEEP,
    "deep data": HEAD % (b"promise.create", T0, b"[" * DEEP + b"]" * DEEP),
    "deep tags": create_with(tags=b'{"a":' * DEEP + b"{}" + b"}" * DEEP),
    "deep id": create_with(name=b"[" * DEEP + b"]" * DEEP),
    "a raw control character": create_with(name=b'"a\nb"'),
    "a raw NUL in text": create_with(name=b'"a\x00b"'),
    "an escaped NUL": create_with(name=b'"a\\u0000b"'),
    "a bad escape": create_with(name=b'"\\x41"'),
    "half an escape": create_with(name=b'"\\u12"'),
    "a lone byte": create_with(name=b'"\xff"'),
    "a cut sequence": create_with(name=b'"\xe2\x82"'),
    "an overlong sequence": create_with(name=b'"\xc0\xaf"'),
    "an encoded surrogate": create_with(name=b'"\xed\xa0\x80"'),
    "past the last character": create_with(name=b'"\xf5\x80\x80\x80"'),
    "a lone high surrogate": create_with(name=b'"\\ud800"'),
    "a lone low surrogate": create_with(name=b'"\\udc00"'),
    "surrogates the wrong way round": create_with(name=b'"\\udc00\\ud800"'),
    "a high surrogate before a letter": create_with(name=b'"\\ud800x"'),
    "a lone surrogate in a tag": create_with(tags=b'{"k":"\\ud800"}'),
    "an escaped NUL in a tag": create_with(tags=b'{"k":"\\u0000"}'),
    "a tag that is a number": create_with(tags=b'{"k":1}'),
    "a million-character id": create_with(name=b'"' + b"x" * 1_000_000 + b'"'),
}

NUMBERS: list[bytes] = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e400",
    b"-1e400",
    b"1e309",
    b"9" * 5_000,
    b"-" + b"9" * 5_000,
    b"9007199254740992",
    b"9007199254740993",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-1",
    b"1.5",
    b"0.1",
    b"1e-1",
    b'"1"',
    b'""',
    b"true",
    b"false",
    b"null",
    b"[]",
    b"{}",
    b"[1]",
    b"0x10",
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"--1",
    b"1_000",
    b"",
]


def test_a_bad_body_is_refused_and_changes_nothing(wire: Wire) -> None:
    before = wire.snap()
    for case, body in BODIES.items():
        answer = wire.raw(body)
        assert (answer.status, answer.refused) == (400, True), case
    assert wire.snap() == before


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:24].decode() or "nothing")
def test_a_number_that_is_no_count_is_refused_wherever_a_count_is_due(wire: Wire, number: bytes) -> None:
    furnish(wire)
    before = wire.snap()
    for body in (create_with(timeout_at=number), acquire_with(version=number), acquire_with(ttl=number)):
        answer = wire.raw(body)
        assert (answer.status, answer.refused) == (400, True), body[:200]
    assert wire.snap() == before


@pytest.mark.parametrize("zero", [b"0", b"-0", b"0.0", b"-0.0", b"0e5"])
def test_any_way_to_write_zero_is_served_or_refused_but_no_failure(wire: Wire, zero: bytes) -> None:
    answer = wire.raw(create_with(timeout_at=zero))
    assert answer.status in (200, 400)
    assert answer.status == 400 or answer.promise["timeoutAt"] == 0


@pytest.mark.parametrize(
    "body",
    [
        create_with().replace(b'"id":"p"', b'"id":"p","id":"q"'),
        create_with().replace(b'"kind":"promise.create"', b'"kind":"promise.get","kind":"promise.create"'),
        create_with(tags=b'{"k":"1","k":"2"}'),
        create_with().replace(b'"corrId":"c"', b'"corrId":"c","corrId":"d"'),
    ],
)
def test_a_name_given_twice_is_no_failure(wire: Wire, body: bytes) -> None:
    assert wire.raw(body).status in (200, 400)


def test_depth_where_nobody_looks_is_no_failure(wire: Wire) -> None:
    deep = b"[" * DEEP + b"]" * DEEP
    body = create_with().replace(b'"corrId":"c"', b'"corrId":"c","x":' + deep)
    assert wire.raw(body).status in (200, 400)


@pytest.mark.parametrize("corr_id", [b'"\\ud800"', b'"\xff"', b"null", b"{}", b"1e400"])
def test_a_correlation_id_that_cannot_be_echoed_is_refused(wire: Wire, corr_id: bytes) -> None:
    before = wire.snap()
    answer = wire.raw(create_with().replace(b'"corrId":"c"', b'"corrId":' + corr_id))
    assert (answer.status, answer.refused) == (400, True)
    assert wire.snap() == before


def test_an_array_of_a_hundred_thousand_numbers_is_refused(wire: Wire) -> None:
    answer = wire.raw(b"[" + b",".join([b"1"] * 100_000) + b"]")
    assert (answer.status, answer.refused) == (400, True)


def test_escaped_and_plain_text_are_the_same_text(wire: Wire) -> None:
    assert wire.raw(create_with(name=b'"\\u00e9\\ud83e\\udd80"')).promise["id"] == "é🦀"
    assert wire.get("é🦀").status == 200


# -- a storm of damage -------------------------------------------------------------------------------------

JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**53,
    2**64,
    "",
    "t",
    "\0",
    "x" * 2_000,
    [],
    {},
    [[]],
    {"": None},
    {"id": {"id": 1}},
    "2026-04-01",
    WORKERS,
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field and element inside a value."""
    if is_object(value):
        for name, part in value.items():
            yield (*path, name)
            yield from places(part, (*path, name))
    elif is_array(value):
        for index, part in enumerate(value):
            yield (*path, index)
            yield from places(part, (*path, index))


def damage(chance: random.Random, request: Json) -> Json:
    """One random thing goes wrong somewhere in the request."""
    path = chance.choice(list(places(request)))
    action = chance.choice(["assign", "assign", "remove", "wrap", "swap"])
    if action == "remove":
        return damaged(request, path, remove)
    junk = chance.choice(JUNK)
    if action == "wrap":
        return damaged(request, path, lambda place, step: assign([place[step]])(place, step))
    if action == "swap":
        other = chance.choice(list(EVERY_KIND.values()))
        return damaged(request, path, assign(copy.deepcopy(other)))
    return damaged(request, path, assign(junk))


@pytest.mark.sized
def test_random_damage_is_never_a_failure_and_a_refusal_never_a_change(wire: Wire, backend_name: str) -> None:
    seed = seed_for_test()
    chance = random.Random(seed)
    refused = 0
    storm = DAMAGED // 3 if backend_name == "postgres" else DAMAGED  # there a snapshot is eight trips
    for _ in range(storm):
        if chance.random() < 0.02:
            wire.send("debug.reset", {})
            furnish(wire)
        kind = chance.choice([kind for kind in EVERY_KIND if not kind.startswith("debug.")])
        request = damage(chance, wire.envelope(kind, copy.deepcopy(EVERY_KIND[kind])))
        for _ in range(chance.choice([0, 0, 1, 2])):
            request = damage(chance, request)
        before = wire.snap()
        answer = wire.raw_value(request)
        context = f"seed {seed}: {json.dumps(request)[:500]} -> {answer}"
        assert answer.status < 500, context
        if answer.status >= 400:
            refused += 1
            assert isinstance(answer.data, str), context
            assert answer.data, context
            assert wire.snap() == before, context
    assert refused > storm // 3, "the storm must refuse something to prove something"


def test_the_server_still_works_after_all_of_it(wire: Wire) -> None:
    for body in BODIES.values():
        wire.raw(body)
    assert wire.create("p").status == 200
    assert wire.task_create("t").task["state"] == "acquired"
    answers = wire.batch(("promise.get", {"id": "p"}), ("task.get", {"id": "t"}))
    assert [answer.status for answer in answers] == [200, 200]
    assert wire.send("task.create", {"pid": "p", "ttl": 1, "action": sub("x", {})}, version=A).status == 400
