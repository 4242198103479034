"""One call of the management API: what was asked, and the way to the node.

Requests take the same way as those of `POST /`: the token, its prefix, the rate and the bounds hold as
there, and are counted there.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from holdfast.node.node import Node
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.errors import Refusal
from holdfast.protocol.ids import new_id
from holdfast.protocol.records import Millis
from holdfast.protocol.requests import KINDS, RequestData
from holdfast.server.asgi import Answer, Headers, header
from holdfast.server.errors import BadManagementRequest
from holdfast.server.grants import Grant
from holdfast.server.turns import small_bytes

Json = dict[str, Any]
Post = Callable[[Headers, bytes, str, Grant | None], Awaitable[Answer]]

UntilGone = Callable[[Coroutine[Any, Any, Json]], Awaitable[Json]]

_kind_of: Final = {data: kind for kind, data in reversed(KINDS.items())}
_true: Final = ("true", "1", "yes")
_false: Final = ("false", "0", "no")


class RefusedReply(Refusal):
    """What the node answered instead of a success."""

    def __init__(self, reply: Json) -> None:
        self.status = reply["head"]["status"]  # type: ignore[misc]
        self.code = reply["head"].get("code", "HF0000")  # type: ignore[misc]
        super().__init__(str(reply["data"]))

    def __str__(self) -> str:
        return self.what


class ConnectedWorker(Struct, frozen=True, rename="camel"):
    """Somebody who listens for messages at this node."""

    group: str
    id: str


class Services(Struct, frozen=True):
    """What the handlers have of their node and server.

    `turn` waits until so many bytes may be decoded, `settled` until a promise is settled. `sign` gives a
    ticket for the events of a path (`has_events`), with the prefix that it covers and its end; `holds_until`
    says when the caller's own token ends.
    """

    post: Post
    turn: Callable[[int], Awaitable[None]]
    node: Node
    now: Callable[[], Millis]
    workers: Callable[[], list[ConnectedWorker]]
    settled: Callable[[str], Awaitable[None]]
    sign: Callable[[Sequence[str], str, Millis], str]
    has_events: Callable[[Sequence[str]], bool]
    holds_until: Callable[[Headers], Millis | None]
    is_open: bool
    store_kind: str
    codec_url: str
    kept: dict[tuple[Any, ...], tuple[float, int, Any]]  # until when, behind which frame, the answer


_words: Final[dict[Any, str]] = {
    str: "a string",
    int: "a whole number",
    float | int: "a number",
    bool: "true or false",
    dict: "an object",
}


class Call:
    """`path` are the parts of the path that are not fixed; `query` what follows the question mark; `content`
    the body of a route that takes any JSON."""

    def __init__(
        self,
        path: Sequence[str],
        query: dict[str, list[str]],
        body: Json,
        content: Any,
        headers: Headers,
        peer: str,
        grant: Grant,
        by_ticket: bool,
        services: Services,
        until_gone: UntilGone,
    ) -> None:
        self.path = path
        self.body = body
        self.content = content
        self.grant = grant
        self.services = services
        self.node = services.node
        self.now = services.now
        self.workers = services.workers
        self.headers = headers
        self.until_gone = until_gone
        self._query = query
        self.peer = peer
        self._by_ticket = grant if by_ticket else None

    # --- what was asked --------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.path[0]

    def text(self, name: str) -> str | None:
        found = self._query.get(name)
        return None if found is None else found[-1]

    def texts(self, name: str) -> list[str] | None:
        """Given several times, or as a list with commas."""
        found = [part for text in self._query.get(name, ()) for part in text.split(",") if part]
        return found or None

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise BadManagementRequest(f"{name}={text[:40]!r} is not a whole number") from None

    def page_limit(self, name: str, most: int) -> int:
        """How many may be on a page: what is asked for, where that is not more."""
        found = self.integer(name)
        if found is not None and found < 1:
            raise BadManagementRequest(f"{name} must be at least 1")
        return most if found is None else min(found, most)

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        try:
            found = float(text.removesuffix("s"))
        except ValueError:
            found = -1.0
        if not 0 < found < inf:
            raise BadManagementRequest(f"{name}={text[:40]!r} is not a number of seconds")
        return found

    def header(self, name: bytes) -> str | None:
        found = header(self.headers, name)
        return None if found is None else found.decode("latin-1")

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if text is None or text in _false:
            return False
        if text in _true:
            return True
        raise BadManagementRequest(f"{name}={text[:40]!r} is neither true nor false")

    def tags(self) -> dict[str, str] | None:
        """`tag=customer:4`, as often as there are tags."""
        entries: dict[str, str] = {}
        for text in self._query.get("tag", ()):
            name, colon, value = text.partition(":")
            if not colon:
                raise BadManagementRequest(f"tag={text[:40]!r} is not of the form name:value")
            entries[name] = value
        return entries or None

    def field(self, name: str, kind: type, default: Any = None) -> Any:
        """A field of the body, if it is of this kind."""
        value = self.body.get(name, default)
        is_number = isinstance(value, bool) and kind is not bool
        if value is not default and (not isinstance(value, kind) or is_number):
            words: dict[Any, str] = {
                str: "a string",
                int: "a whole number",
                float | int: "a number",
                bool: "true or false",
            }
            raise BadManagementRequest(
                f"{name} must be {words.get(kind, 'an object' if kind is dict else 'a list')}"
            )
        return value

    def text_fields(self, name: str) -> dict[str, str] | None:
        """A field of the body that holds texts by name, such as tags."""
        found: Json | None = self.field(name, dict)
        if found is not None and not all(isinstance(each, str) for each in found.values()):
            raise BadManagementRequest(f"{name} must be an object whose values are strings")
        return found

    # --- asking the node -------------------------------------------------------------------------------

    async def ask(self, data: RequestData) -> Json:
        """The data of the reply; raises `RefusedReply`."""
        [reply] = await self.replies([data])
        return _expect(reply)

    async def ask_for(self, name: str, data: RequestData) -> Json:
        """The one record of the reply."""
        found: Json = (await self.ask(data))[name]
        return found

    async def ask_all(self, asked: Sequence[RequestData]) -> list[Json]:
        """In one commit, in this order; raises what the first refusal says."""
        return [_expect(reply) for reply in await self.replies(asked)]

    async def replies(self, asked: Sequence[RequestData]) -> list[Json]:
        head = {"corrId": "v1", "version": CURRENT_VERSION}
        envelopes = [{"kind": _kind_of[type(data)], "head": head, "data": data} for data in asked]
        _, answer, _ = await self.services.post(
            self.headers, msgspec.json.encode(envelopes), self.peer, self._by_ticket
        )
        await self.services.turn(len(answer))
        if not answer.startswith(b"["):  # all of them were refused at once
            return [msgspec.json.decode(answer)] * len(asked)
        return msgspec.json.decode(answer, type=list[Json])

    async def show_all(self, records: Sequence[Json], show: Callable[[Json], Any]) -> list[msgspec.Raw]:
        """Each as JSON. Payloads may take long to decode, so others have their turn in between."""
        shown: list[msgspec.Raw] = []
        size = 0
        for record in records:
            size += _payload_chars(record)
            if size > small_bytes:
                await self.services.turn(size)
                size = 0
            shown.append(msgspec.Raw(msgspec.json.encode(show(record))))
        return shown

    def fresh_id(self, name: str) -> str:
        return new_id(name, self.now(), uuid4().hex[:12])


def _payload_chars(record: Json) -> int:
    """Of a promise, or of a schedule."""
    names = ("param", "value", "promiseParam")
    return sum(len(record[name].get("data") or "") for name in names if name in record)


def _expect(reply: Json) -> Json:
    if "head" not in reply:  # refused before the node was asked
        raise RefusedReply(
            {"head": {"status": 400, "code": reply.get("code", "HF0000")}, "data": reply.get("error", "")}
        )
    if reply["head"]["status"] >= 400:
        raise RefusedReply(reply)
    data: Json = reply["data"]
    return data
