"""Bodies and raw requests that a server must survive, most of which hurt some server somewhere."""

import json
from typing import Any

from holdfast.protocol.requests import KINDS
from tests.server.http import FAR, create, envelope

_good = envelope("promise.create", create("p"))
_text = json.dumps(_good)

VERSIONS = ("", "2026-04-02", "2026-4-1", "9999-99-99", "2025-01-15\n", "../x", "\u2028")
INSTANTS = (-1, 2**53, 2**63, 2**64, 1.5, "1", True, None, -0.0)
IDS: list[Any] = [
    *("", "x" * 2_000, "../", "%00", "%2e%2e", "a\r\nb", "{{.id}}", "\"'", "\u202e", "<img onerror=x>"),
    *(1, None, {}),
]
TAGS: tuple[Any, ...] = (
    None,
    [],
    {"a": 1},
    {f"k{number}": "v" for number in range(10_000)},
    {"k": "x" * 100_000},
    {"__proto__": "x"},
)
TARGETS = [
    "",
    "poll://",
    "poll://x@g",
    "poll://any@",
    "poll://uni@g",
    "poll://any@g/",
    "http://",
    "bash://x",
    "x",
]
CRONS = ["* * * *", "61 * * * *", "0 0 30 2 *", "*/0 * * * *", "1," * 10_000 + "1 * * * *", "@", "a b c d e"]
CURSORS = ("\x00", "%" * 1_000, "(" * 500, 1, "zzz")


def _broken_json() -> list[bytes]:
    in_place_of_the_id = ['"\\ud800"', '"\\u0000"']
    in_place_of_the_instant = ["NaN", "Infinity", "1e400", "9" * 5_000]
    return [
        *(
            b"",
            b" ",
            b"\x00",
            b"\xff\xfe",
            b"null",
            b"true",
            b"1",
            b'"x"',
            b"[]",
            b"[[]]",
            b"[null]",
            b"{}",
            b"{",
        ),
        b"\xef\xbb\xbf" + _text.encode(),
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"[" * 500 + b"]" * 500,
        b'{"kind":"promise.get"}',
        *(_text.replace('"p"', other).encode() for other in in_place_of_the_id),
        _text.replace('"p"', '"\xe9"').encode("latin-1"),
        *(_text.replace(str(FAR), other).encode() for other in in_place_of_the_instant),
        _text.replace("{", '{"kind":"x",', 1).encode(),
        _text.encode() + b"{}",
        b"[" + b",".join([_text.encode()] * 1_001) + b"]",
    ]


def _broken_envelopes() -> list[Any]:
    no_data: tuple[Any, ...] = (None, [], "x")
    return [
        [_good, None],
        [_good, []],
        {"kind": "promise.create"},
        {"kind": 1, "head": 2, "data": 3},
        *(_good | {"head": head} for head in (None, {}, {"corrId": 1, "version": "2026-04-01"})),
        *(_good | {"data": data} for data in no_data),
        *(_good | {"kind": kind} for kind in ("", "x" * 10_000)),
        *(envelope("promise.get", {"id": "x"}, version) for version in VERSIONS),
        *(envelope(kind, {}) for kind in KINDS),
        *(envelope(kind, {"id": [], "tasks": {}, "action": 1, "actions": 2, "groups": 3}) for kind in KINDS),
    ]


def _broken_fields() -> list[Any]:
    lease = {"id": "x", "version": 0, "pid": "p", "ttl": 1}
    schedule = {"id": "s", "cron": "* * * * *", "promiseId": "x", "promiseTimeout": 1}
    alone = {"kind": "promise.register_callback", "head": {}, "data": {"awaited": "a", "awaiter": "a"}}
    refs = [{"id": f"r{number}", "version": 1} for number in range(10_001)]
    return [
        *(envelope("promise.create", {"id": "t", "timeoutAt": instant}) for instant in INSTANTS),
        *(envelope("promise.create", {"id": name, "timeoutAt": FAR}) for name in IDS),
        *(envelope("promise.get", {"id": name}) for name in IDS),
        *(envelope("promise.create", {"id": "g", "timeoutAt": FAR, "tags": tags}) for tags in TAGS),
        *(envelope("promise.create", create("b", tags={"resonate:target": each})) for each in TARGETS),
        *(envelope("task.acquire", lease | {"ttl": ttl}) for ttl in (0, -1, 2**63, 86_400_001, 1.5, "1")),
        *(envelope("task.acquire", lease | {"version": each}) for each in (-1, 2**53, 2**63, "0", 0.5)),
        *(envelope("schedule.create", schedule | {"cron": cron}) for cron in CRONS),
        *(envelope("promise.search", {"limit": limit}) for limit in (0, -1, 10**9, "x")),
        *(envelope("promise.search", {"cursor": cursor}) for cursor in CURSORS),
        *(envelope("promise.search", {"prefix": cursor}) for cursor in CURSORS),
        envelope("task.heartbeat", {"pid": "p", "tasks": refs}),
        envelope("task.suspend", {"id": "a", "version": 1, "actions": [alone]}),
    ]


def bodies() -> list[bytes]:
    found = [*_broken_json(), *_broken_envelopes(), *_broken_fields()]
    return [body if isinstance(body, bytes) else json.dumps(body).encode() for body in found]


_length = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: "
RAW = [
    b"\x00\x01\x02\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
    _length + b"x\r\n\r\n",
    _length + b"-1\r\n\r\n",
    _length + b"5\r\ncontent-length: 6\r\n\r\nhello!",
    _length + b"5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
    b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /poll/%ff/%fe HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]
