"""Where `/v1` is answered: finds the route, reads query and body, and turns refusals into JSON.

1. Whoever asks is told apart by token before anything else is looked at, and every request counts for the
   rate of its caller. A large body waits for its turn to be decoded, as at `POST /`.
2. What a route does not name is refused, so that a misspelt filter does not find everything.
3. Every refusal is `{"error", "hint", "code"}` with the status of its kind.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache, partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, unquote

import msgspec

from holdfast.node.health import store_kind
from holdfast.node.node import Node
from holdfast.protocol import limits
from holdfast.protocol.address import READERS_GROUP
from holdfast.protocol.errors import Refusal
from holdfast.protocol.records import Millis
from holdfast.server.asgi import (
    Headers,
    Receive,
    Scope,
    Send,
    json_type,
    read_body,
    refusal_headers,
    respond,
)
from holdfast.server.audit import AuditLog, Entry, shown_body, text_chars_max
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.errors import (
    BadManagementRequest,
    BodyTooLarge,
    NoSuchPath,
    Unauthenticated,
    WrongMethod,
)
from holdfast.server.grants import Grant
from holdfast.server.management.call import Call, ConnectedWorker, Json, Post, RefusedReply, Services
from holdfast.server.management.events import Readers, wants_events
from holdfast.server.management.kept_answers import KeptAnswers, Key, accepted_age_s
from holdfast.server.management.openapi import describe
from holdfast.server.management.parameters import names
from holdfast.server.management.routes import Follow, Route, find_route
from holdfast.server.management.settlements import SettlementWaits
from holdfast.server.management.tickets import TicketSigner
from holdfast.server.metrics import Metrics
from holdfast.server.settings import Settings
from holdfast.server.turns import DecodingRoom, Turns

GiveBack = Callable[[], None]
Admit = Callable[[Headers, str], None]  # counts one request of a caller; raises where it asks too fast
Query = dict[str, list[str]]
T = TypeVar("T")

query_bytes_max: Final = 16_384
_MARKS: Final = (b"[", b"]", b"{", b"}", b",", b":")  # each of them is stored, and each may cost an object
openapi_path: Final = ["v1", "openapi.json"]


class Management:
    def __init__(
        self,
        node: Node,
        authenticator: Authenticator,
        post: Post,
        settings: Settings,
        metrics: Metrics,
        admit: Admit,
        turns: Turns,
    ) -> None:
        self._node = node
        self._authenticator = authenticator
        self._body_bytes_max = settings.body_bytes_max
        self._metrics = metrics
        self._admit = admit
        self._turns = turns
        self._room = DecodingRoom()
        self._tickets = TicketSigner(settings.ticket_key)
        self._settlements = SettlementWaits(node)
        self._readers = Readers(settings, metrics, show_refusal)
        self._services = Services(
            post,
            turns.take,
            node,
            node.now,
            self._workers,
            self._settlements.wait,
            self._tickets.sign,
            _has_events,
            self._holds_until,
            authenticator.is_open,
            store_kind(node.observed.documents.store),
            settings.codec_url,
            {},
        )
        self._audit = AuditLog(node.observed.documents) if settings.audit else None
        self._kept = KeptAnswers(node.observed.feed)

    def stop(self) -> None:
        self._readers.stop()
        self._settlements.stop()
        self._kept.stop()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        give_back: GiveBack | None = None
        try:
            path = [unquote(part) for part in _raw_path(scope).split("/") if part]
            query = _parse_query(scope["query_string"])
            grant, by_ticket = self._grant(scope, path, query)
            peer = (scope.get("client") or [""])[0]
            self._admit(scope["headers"], peer)
            if (kept := self._kept_answer(scope, grant, by_ticket)) is not None:
                await respond(send, 200, kept, [json_type])
                return
            if path == openapi_path and scope["method"] == "GET":
                await respond(send, 200, _described(), [json_type])
                return
            route, given = _find(path, scope["method"])
            body = await self._read_body(receive)
            give_back = await self._room.take(len(body))
            await self._turns.take(len(body))
            content = _read_content(body, route)
            del body
            call = Call(
                given,
                _known_query(query, route),
                *content,
                scope["headers"],
                peer,
                grant,
                by_ticket,
                self._services,
                partial(self._until_gone, scope, grant.prefix, give_back),
            )
            del content
            if route.follow is not None and wants_events(scope):
                give_back()
                await self._follow(route.follow, call, scope, send)
            elif by_ticket:
                raise Unauthenticated("A ticket only opens event streams: send Accept: text/event-stream")
            else:
                await respond(send, 200, await self._answer(route, call, scope), [json_type])
        except Refusal as refusal:
            self._metrics.count_refused(refusal.code)
            await refuse_managing(send, refusal)
        finally:
            if give_back is not None:
                give_back()

    def _kept_answer(self, scope: Scope, grant: Grant, by_ticket: bool) -> bytes | None:
        """What was answered to the same question a moment ago, for those who accept that."""
        if scope["method"] != "GET" or by_ticket or wants_events(scope):
            return None
        age_s = accepted_age_s(scope["headers"])
        return self._kept.ready(_question(scope, grant), age_s) if age_s else None

    async def _until_gone(
        self, scope: Scope, prefix: str, give_back: GiveBack, work: Coroutine[Any, Any, Json]
    ) -> Json:
        """Whoever waits for others takes no room from those who do not."""
        give_back()
        return await self._readers.until_gone(scope, prefix, work)

    async def _answer(self, route: Route, call: Call, scope: Scope) -> bytes:
        if route.changes:
            return _encode(await self._change(route, call))

        async def read() -> bytes:
            return _encode(await _done(route.handler(call)))

        age_s = accepted_age_s(scope["headers"]) if route.method == "GET" else 0.0
        if not age_s:
            return await read()
        return await self._kept.get(_question(scope, call.grant), age_s, read)

    async def _change(self, route: Route, call: Call) -> Json:
        """Nothing is changed without a trace (audit.py)."""
        call.grant.require_change("This")
        if self._audit is None or not route.audited:
            return await _done(route.handler(call))
        entry = Entry(
            call.now(),
            call.grant.name or "anybody",
            route.method,
            route.path,
            route.about,
            _target(call)[:text_chars_max],
            call.peer,
            shown_body(call.body),
        )
        entry_id = await self._audit.asked(entry)
        try:
            answer = await _done(route.handler(call))
            entry.outcome, entry.status = "done", 200
            entry.target = entry.target or str(answer.get("id", ""))[:text_chars_max]
        except Refusal as refusal:
            entry.outcome, entry.status, entry.code = "refused", refusal.status, refusal.code
            entry.error = refusal.what[:text_chars_max]
            raise
        except BaseException as error:
            entry.outcome, entry.error = "failed", type(error).__name__
            raise
        finally:
            self._audit.ended(entry_id, entry)
        return answer

    async def _follow(self, follow: Follow, call: Call, scope: Scope, send: Send) -> None:
        feed = await _done(follow(call))
        if feed is None:
            await respond(send, 204, b"", [])
        else:
            await self._readers.serve(feed, scope, send, call.grant.prefix)

    def _grant(self, scope: Scope, path: list[str], query: Query) -> tuple[Grant, bool]:
        """Whoever has a token shows that; a ticket stands in for it where there is none."""
        bearer = bearer_of(scope["headers"])
        if bearer is None and "ticket" in query and not self._authenticator.is_open:
            return self._tickets.check(query["ticket"][-1], path, self._node.now()), True
        return self._authenticator.grant(bearer), False

    def _holds_until(self, headers: Headers) -> Millis | None:
        until_s = self._authenticator.holds_until(bearer_of(headers))
        return None if until_s is None else int(until_s * 1_000)

    async def _read_body(self, receive: Receive) -> bytes:
        body = await read_body(receive, self._body_bytes_max)
        if len(body) > self._body_bytes_max:
            raise BodyTooLarge(f"The body has more than {self._body_bytes_max} bytes")
        return body

    def _workers(self) -> list[ConnectedWorker]:
        members = self._node.router.members
        return [ConnectedWorker(group, member) for group, member in members if group != READERS_GROUP]


async def _done(work: Awaitable[T]) -> T:
    try:
        return await work
    except ValueError as error:  # what cannot be a request of the protocol
        raise BadManagementRequest(str(error)[:1_000]) from None
    except OverflowError:
        raise BadManagementRequest("A number is too large") from None


@cache
def _described() -> bytes:
    return msgspec.json.encode(describe())


def _target(call: Call) -> str:
    """What a change is about, for the audit log: never put into words, however it is given."""
    if call.path:
        return call.path[0]
    given = call.body.get("id")
    return given if isinstance(given, str) else ""


def _find(path: list[str], method: str) -> tuple[Route, list[str]]:
    route, given, methods = find_route(path, method)
    if route is not None:
        return route, given
    if methods:
        raise WrongMethod(f"This path answers to {' and '.join(methods)}, not to {method[:20]}")
    raise NoSuchPath("There is nothing at this path")


def _has_events(path: Sequence[str]) -> bool:
    route, _, _ = find_route([*path], "GET")
    return route is not None and route.follow is not None


def _raw_path(scope: Scope) -> str:
    """An id may hold a slash, which is percent-encoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _question(scope: Scope, grant: Grant) -> Key:
    return grant, _raw_path(scope).encode(), scope["query_string"]


def _parse_query(raw: bytes) -> Query:
    if len(raw) > query_bytes_max:
        raise BadManagementRequest(f"The query has more than {query_bytes_max} bytes")
    try:
        return parse_qs(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"
        )
    except ValueError:
        raise BadManagementRequest("The query is not of the form name=value&name=value") from None


def _known_query(query: Query, route: Route) -> Query:
    _refuse_unknown("parameter", query, names(route.query))
    return query


def _read_content(body: bytes, route: Route) -> tuple[Json, Any]:
    """The fields of the body; or the body itself, of a route that takes any JSON."""
    if not body.strip():
        return {}, None
    if len(body) > limits.data_bytes_max and sum(map(body.count, _MARKS)) > limits.data_bytes_max:
        raise BadManagementRequest("The body has too many values")
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadManagementRequest("The body is not JSON") from None
    if route.content is not None:
        return {}, found
    if not isinstance(found, dict):
        raise BadManagementRequest("The body is not an object")
    fields: Json = found  # pyright: ignore[reportUnknownVariableType]
    _refuse_unknown("field", fields, names(route.body))
    return fields, None


def _refuse_unknown(what: str, given: dict[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise BadManagementRequest(f"There is no {what} {name[:40]!r} here; there are: {there}")


async def refuse_managing(send: Send, refusal: Refusal) -> None:
    body = msgspec.json.encode(show_refusal(refusal))
    await respond(send, refusal.status, body, [json_type, *refusal_headers(refusal)])


def show_refusal(refusal: Refusal) -> Json:
    if not isinstance(refusal, RefusedReply):
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


def _encode(answer: Json) -> bytes:
    """Fields that may be absent are left out, never null."""
    return msgspec.json.encode(
        {name: value for name, value in answer.items() if name != "cursor" or value is not None}
    )
