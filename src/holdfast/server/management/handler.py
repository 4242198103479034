"""Where `/v1` is answered: finds the route, reads query and body, and turns refusals into JSON.

1. Whoever asks is told apart by token before anything else is looked at.
2. What a route does not name is refused, so that a misspelt filter does not find everything.
3. Every refusal is `{"error", "hint", "code"}` with the status of its kind.
"""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from holdfast.node.node import Node
from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import Receive, Scope, Send, json_type, read_body, refusal_headers, respond
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.errors import BadManagementRequest, BodyTooLarge, NoSuchPath, WrongMethod
from holdfast.server.management.call import Call, Json, Post, Refused, Worker
from holdfast.server.management.openapi import describe
from holdfast.server.management.routes import Route, find_route, names

query_bytes_max: Final = 16_384
openapi_path: Final = ["v1", "openapi.json"]


class Management:
    def __init__(
        self,
        node: Node,
        authenticator: Authenticator,
        post: Post,
        body_bytes_max: int,
        on_refusal: Callable[[Refusal], None],
    ) -> None:
        self._node = node
        self._authenticator = authenticator
        self._post = post
        self._body_bytes_max = body_bytes_max
        self._on_refusal = on_refusal

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except Refusal as refusal:
            self._on_refusal(refusal)
            body = msgspec.json.encode(_refusal(refusal))
            await respond(send, refusal.status, body, [json_type, *refusal_headers(refusal)])
        else:
            await respond(send, 200, msgspec.json.encode(_without_nothing(answer)), [json_type])

    async def _answer(self, scope: Scope, receive: Receive) -> Json:
        headers = scope["headers"]
        grant = self._authenticator.grant(bearer_of(headers))
        path = [unquote(part) for part in _raw_path(scope).split("/") if part]
        if path == openapi_path and scope["method"] == "GET":
            return describe()
        route, given, methods = find_route(path, scope["method"])
        if route is None and methods:
            raise WrongMethod(f"This path answers to {' and '.join(methods)}, not to {scope['method'][:20]}")
        if route is None:
            raise NoSuchPath("There is nothing at this path")
        call = Call(
            given,
            _read_query(scope["query_string"], route),
            _read_object(await self._read_body(receive), route),
            headers,
            (scope.get("client") or [""])[0],
            grant,
            self._post,
            self._node.now,
            self._workers,
        )
        try:
            return await route.handler(call)
        except ValueError as error:  # what cannot be a request of the protocol
            raise BadManagementRequest(str(error)[:1_000]) from None

    async def _read_body(self, receive: Receive) -> bytes:
        body = await read_body(receive, self._body_bytes_max)
        if len(body) > self._body_bytes_max:
            raise BodyTooLarge(f"The body has more than {self._body_bytes_max} bytes")
        return body

    def _workers(self) -> list[Worker]:
        return [Worker(group, member) for group, member in self._node.router.members]


def _raw_path(scope: Scope) -> str:
    """An id may hold a slash, which is percent-encoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _read_query(raw: bytes, route: Route) -> dict[str, list[str]]:
    if len(raw) > query_bytes_max:
        raise BadManagementRequest(f"The query has more than {query_bytes_max} bytes")
    try:
        query = parse_qs(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"
        )
    except ValueError:
        raise BadManagementRequest("The query is not of the form name=value&name=value") from None
    _refuse_unknown("parameter", query, names(route.query))
    return query


def _read_object(body: bytes, route: Route) -> Json:
    if not body.strip():
        return {}
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadManagementRequest("The body is not JSON") from None
    if not isinstance(found, dict):
        raise BadManagementRequest("The body is not an object")
    fields: Json = found  # pyright: ignore[reportUnknownVariableType]
    _refuse_unknown("field", fields, names(route.body))
    return fields


def _refuse_unknown(what: str, given: dict[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise BadManagementRequest(f"There is no {what} {name[:40]!r} here; there are: {there}")


def _refusal(refusal: Refusal) -> Json:
    if not isinstance(refusal, Refused):
        return {"error": refusal.what, "hint": refusal.hint, "code": refusal.code}
    text = refusal.what.removesuffix(f"[{refusal.code}]").strip()
    hint = next((each for each in _hints.get(refusal.code, ()) if text.endswith(each)), "")
    return {"error": text.removesuffix(hint).strip().removesuffix("."), "hint": hint, "code": refusal.code}


def _collect_hints(kind: type[Refusal], found: dict[str, list[str]]) -> dict[str, list[str]]:
    found.setdefault(kind.code, []).append(kind.hint)
    for each in kind.__subclasses__():
        _collect_hints(each, found)
    return found


_hints: Final = _collect_hints(Refusal, {})


def _without_nothing(answer: Json) -> Json:
    """Fields that may be absent are left out, never null."""
    return {name: value for name, value in answer.items() if name != "cursor" or value is not None}
