"""Damaged requests to the management API, made from its own table of routes: paths, queries, bodies, headers.

An answer is whole and comes in time. A refusal says what happened and what to do, and has a code. The status
is never 500: 503 says that the store or the node is busy, 504 that an execution gave no answer in time.
"""

from __future__ import annotations

import json
import random
import socket
import time
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import quote

from holdfast.server.management.routes import ROUTES, Parameter, Route
from tests.fuzz.mutation import NASTY, damage_bytes, damage_json, damage_text, to_body

answer_s_max: Final = 3.0  # by the clock, on a machine that may be busy
hang_s_max: Final = 10.0
# A few ids, so that requests meet what others have made.
IDS: Final = ("a", "b", "order-17", "order-17:1", "b:approval", "tenant/7 é", "weekly", "default")
PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "string": ("a", "order-17", "default", "approve", "0 9 * * 1", "UTC", "HF3401", "tea"),
    "integer": (0, 1, 2, 50, 1_000),
    "number": (0, 0.01, 1, 2.5, 60),
    "boolean": (True, False),
    "array": ([], [1], ["a", {"b": None}]),
    "object": ({}, {"customer": "4"}, {"count": 3, "perMs": 1_000}, {"retries": 2, "delays": [1, 2]}),
    "any": (None, 1, "yes", {"name": "tea", "price": 5}, [1, 2]),
}
# What makes sense under a name. The rest is drawn by its kind.
BY_NAME: Final[dict[str, tuple[Any, ...]]] = {
    "status": ("failed", "suspended,halted", ["failed"], "pending"),
    "tag": ("customer:4", "a:b:c", ":"),
    "action": ("cancel", "retry", "halt", "resume"),
    "kind": ("execution", "task"),
    "overlap": ("allow", "skip", "replace", "wait", "reject"),
    "onExisting": ("return", "reject", "again_if_failed", "replace"),
    "cron": ("0 9 * * 1", "30 2 29 2 *", "0 0 1 1 *"),
    "timezone": ("UTC", "Europe/Paris"),
    "path": ("/v1/executions/a/streams/tokens", "/v1/changes", "/v1/executions/a/published/stage", "/"),
    "timeout": (0, 0.01, 0.05),  # nobody runs what is asked here: a longer wait would be one
    "every": (3_600, 86_400),  # what fires all the time would fill the store
    "at": (4_102_444_800_000, 0),
}
HEADERS: Final = (
    "accept: text/event-stream",
    "accept: application/json",
    "last-event-id: 3",
    "last-event-id: 999999999999",
    "last-event-id: ٣",
    "last-event-id:",
    "idempotency-key: k",
    "idempotency-key:",
    "cache-control: max-age=1",
    "cache-control: max-age=x",
    "origin: http://evil.example",
    "authorization: Bearer x",
    "content-type: text/plain",
)
Find = tuple[str, str]


def make_request(chance: random.Random) -> bytes:
    """A request to one of the routes, whole as HTTP: it must be answered."""
    route = chance.choice(ROUTES)
    target = _path(route, chance) + _query(route, chance)
    method = route.method if chance.random() < 0.97 else chance.choice(["PATCH", "HEAD", "OPTIONS", "PUT"])
    body = _body(route, chance)
    headers = chance.sample(HEADERS, chance.choice((0, 0, 1, 1, 2, 4)))
    lines = [
        f"{method} {target} HTTP/1.1",
        "host: 127.0.0.1",
        "connection: close",
        f"content-length: {len(body)}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def _path(route: Route, chance: random.Random) -> str:
    parts = [
        _escaped(chance.choice(IDS) if chance.random() < 0.8 else str(chance.choice(NASTY)))
        if part.startswith("{")
        else part
        for part in route.parts
    ]
    path = "/" + "/".join(parts)
    return path if chance.random() < 0.95 else _escaped(damage_text(path, chance), keep="/%")[:2_000] or "/"


def _query(route: Route, chance: random.Random) -> str:
    drawn = [
        (each.name, _as_text(_value(each, chance))) for each in route.query if each.required or _maybe(chance)
    ]
    if any(name == "ask" for name, _ in drawn) and not any(name == "timeout" for name, _ in drawn):
        drawn.append(("timeout", "0.01"))
    if chance.random() < 0.05:
        drawn.append((str(chance.choice(NASTY)), str(chance.choice(NASTY))))
    if not drawn:
        return ""
    return "?" + "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in drawn)


def _body(route: Route, chance: random.Random) -> bytes:
    if route.method == "GET":
        return b""
    if route.content is not None:
        document: Any = chance.choice(PLAIN["any"])
    else:
        document = {each.name: _value(each, chance) for each in route.body if each.required or _maybe(chance)}
    way = chance.random()
    if way < 0.2:
        document = damage_json(document, chance) if document else chance.choice(NASTY)
    body = to_body(document) if document != {} or way < 0.5 else b""
    return damage_bytes(body, chance) if way > 0.95 else body


def _value(parameter: Parameter, chance: random.Random) -> Any:
    if chance.random() < 0.1 and parameter.name not in ("timeout", "every"):
        return chance.choice(NASTY)
    known = BY_NAME.get(parameter.name) or (IDS if parameter.name == "id" else PLAIN[parameter.kind])
    return chance.choice(known)


def _maybe(chance: random.Random) -> bool:
    return chance.random() < 0.3


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _escaped(text: str, keep: str = "") -> str:
    return quote(text, safe=keep, errors="replace")


def check_management(port: int, request: bytes, findings: list[Find]) -> None:
    began = time.monotonic()
    try:
        head, body = ask(port, request)
    except OSError as error:
        findings.append((repr(request), f"no answer: {error!r}"))
        return
    took = time.monotonic() - began
    if took > answer_s_max:
        findings.append((repr(request), f"answered after {took:.2f} s"))
    if what := wrong_with(request, head, body):
        findings.append((repr(request), f"{what}: {head[:100]!r} {body[:500]!r}"))


def wrong_with(request: bytes, head: bytes, body: bytes) -> str | None:
    """What is wrong with an answer, if anything is."""
    status = head.split(b" ", 2)[1:2]
    if not status or not status[0].isdigit():
        return "it has no status"
    if int(status[0]) >= 500 and int(status[0]) not in (501, 503, 504):
        return "it says that we are to blame"
    is_ours = request.split(b" ", 2)[1].startswith(b"/v1/")
    if int(status[0]) < 400 or not is_ours or request.startswith((b"HEAD", b"OPTIONS")):
        return None
    try:
        refusal: Any = json.loads(body)
    except ValueError:
        return "a refusal is not JSON"
    fields = cast("dict[str, Any]", refusal) if isinstance(refusal, dict) else {}
    told = all(fields.get(name) for name in ("error", "code"))
    return None if told else "a refusal does not say what it is"


def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer. Of events only the head: they may go on for minutes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=hang_s_max) as connection:
        with suppress(ConnectionError):
            connection.sendall(request)
        with suppress(ConnectionError):
            while data := connection.recv(65_536):
                answer += data
                if b"\r\n\r\n" in answer and b"content-type: text/event-stream" in answer:
                    break
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body
