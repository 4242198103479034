"""`POST /`: request envelopes in, reply envelopes out.

1. Kinds and heads are read before anything is refused, so that a refusal, too, repeats the kind and the
   correlation id that the client waits for.
2. Data is decoded and checked last: after the rate, the room and the caller's token were found good.
"""

import asyncio
import time
from collections.abc import Sequence
from math import ceil
from typing import Final

from msgspec import Struct

from holdfast.node.node import Node
from holdfast.node.rpc import answer_all
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.errors import Overloaded, Refusal
from holdfast.protocol.replies import Envelope, Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.wire import (
    RawEnvelope,
    RefusedRequest,
    encode_reply,
    open_envelope,
    open_envelopes,
    read_envelope,
    read_envelopes,
    refuse,
    to_reply,
)
from holdfast.server.access import restrict
from holdfast.server.answers import encode_array, shorten_page
from holdfast.server.asgi import Answer, Headers, refusal_headers, retry_after, retryable_statuses
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.errors import BodyTooLarge, TooFast
from holdfast.server.grants import Grant
from holdfast.server.metrics import Metrics
from holdfast.server.rate import RateLimit
from holdfast.server.settings import Settings
from holdfast.server.turns import Turns, small_bytes

Item = RawEnvelope | RefusedRequest

searches: Final = ("promise.search", "schedule.search")
# What is asked most, one at a time, and has a short answer.
plain_kinds: Final = frozenset(
    {
        "promise.get",
        "promise.create",
        "promise.settle",
        "task.create",
        "task.acquire",
        "task.fence",
        "task.fulfill",
        "task.heartbeat",
        "stream.append",
    }
)


class PendingAnswer(Struct, frozen=True):
    """One request that is with the node; `Rpc.finish` makes an answer of its reply."""

    kind: str
    corr_id: str
    version: str
    started: float
    replies: "asyncio.Future[list[Reply]]"


class Rpc:
    def __init__(
        self, node: Node, settings: Settings, metrics: Metrics, authenticator: Authenticator
    ) -> None:
        self._node = node
        self._metrics = metrics
        self._authenticator = authenticator
        self._body_bytes_max = settings.body_bytes_max
        self._short_bytes_max = min(small_bytes, settings.body_bytes_max)
        self._requests_max = settings.requests_max
        self._always_200 = settings.always_200
        self.turns = Turns()
        self._rate = RateLimit(settings.rate_limit) if settings.rate_limit else None

    async def answer(
        self, headers: Headers, body: bytes, peer: str = "", grant: Grant | None = None
    ) -> Answer:
        """`grant`: what the caller may do, where that was found by something else than a token."""
        if len(body) > self._body_bytes_max:
            return self._too_large()
        started = time.perf_counter()
        await self.turns.take(len(body))
        items = read_envelopes(body)
        if isinstance(items, list):
            envelopes, wait_s = await self._answer_in_turn(items, headers, peer, grant)
            status, answer = 200, encode_array(envelopes)
            more: Headers = [(b"holdfast-now", b"%d" % self._node.now())]
        else:
            if self._rate is None:  # a coroutine less, for what is asked most
                envelopes, wait_s = await self._answer([items], headers, grant), 0
            else:
                envelopes, wait_s = await self._answer_in_turn([items], headers, peer, grant)
            if not wait_s:
                return self._single(envelopes[0], started)
            status, answer = envelopes[0].head.status, encode_reply(envelopes[0])
            more = []
        self._count(envelopes, time.perf_counter() - started)
        if wait_s:
            more.append((b"retry-after", b"%d" % wait_s))
        elif envelopes[0].head.status in retryable_statuses and not self._always_200:
            more.append(retry_after)
        return 200 if self._always_200 else status, answer, more

    def ask(self, headers: Headers, body: bytes) -> PendingAnswer | None:
        """The short way of what is asked most: no coroutine, no task. None: it takes the long one."""
        if self._rate is not None or len(body) > self._short_bytes_max or body[:1] != b"{":
            return None
        started = time.perf_counter()
        item = read_envelope(body)
        if not isinstance(item, RawEnvelope) or item.kind not in plain_kinds:
            return None
        in_flight = self._metrics.in_flight
        if in_flight and in_flight >= self._requests_max:
            return None
        if self._authenticator.is_open:
            opened = open_envelope(item)
        else:
            (opened,) = self._open([item], headers, None)
        if isinstance(opened, RefusedRequest):
            replies: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
            replies.set_result([refuse(opened.refusal)])
        else:
            replies = self._node.submit([opened])
        self._metrics.in_flight += 1
        return PendingAnswer(opened.kind, opened.corr_id, opened.version, started, replies)

    def finish(self, asked: PendingAnswer) -> Answer:
        """Its reply is there."""
        self._metrics.in_flight -= 1
        (reply,) = asked.replies.result()
        return self._single(to_reply(asked.kind, asked.corr_id, asked.version, reply), asked.started)

    def _single(self, envelope: Envelope, started: float) -> Answer:
        status, answer = envelope.head.status, encode_reply(envelope)
        self._metrics.count_requests(envelope.kind, status, time.perf_counter() - started, 1)
        more: Headers = [retry_after] if status in retryable_statuses and not self._always_200 else []
        return 200 if self._always_200 else status, answer, more

    async def _answer_in_turn(
        self, items: list[Item], headers: Headers, peer: str, grant: Grant | None
    ) -> tuple[list[Envelope], int]:
        """The answers, or refusals and the seconds after which this caller may ask again."""
        wait_s = self._wait_s(items, headers, peer)
        if not wait_s:
            return await self._answer(items, headers, grant), 0
        refusal = TooFast("This caller asks for more than it may in a second")
        return [to_reply(item.kind, item.corr_id, item.version, refuse(refusal)) for item in items], wait_s

    def _wait_s(self, items: list[Item], headers: Headers, peer: str) -> int:
        """A token counts only if it is valid: others go by address."""
        if self._rate is None or not items:
            return 0
        caller = f"address {peer}"
        if not self._authenticator.is_open:
            bearer = bearer_of(headers)
            token = bearer or getattr(items[0], "auth", None)
            if token and isinstance(self._authenticator.grant_or_refusal(bearer, items[0]), Grant):
                caller = f"token {token}"
        return ceil(self._rate.wait_s(caller, len(items)))

    def admit(self, headers: Headers, peer: str) -> None:
        """Count one request beside what it asks the node for. Its token, if any, was found good."""
        bearer = None if self._authenticator.is_open else bearer_of(headers)
        caller = f"address {peer}" if bearer is None else f"token {bearer}"
        if self._rate is not None and self._rate.wait_s(caller, 1):
            raise TooFast("This caller asks for more than it may in a second")

    def _count(self, envelopes: list[Envelope], seconds: float) -> None:
        if len(envelopes) == 1:
            self._metrics.count_requests(envelopes[0].kind, envelopes[0].head.status, seconds, 1)
            return
        alike: dict[tuple[str, int], int] = {}
        for envelope in envelopes:
            key = (envelope.kind, envelope.head.status)
            alike[key] = alike.get(key, 0) + 1
        for (kind, status), count in alike.items():
            self._metrics.count_requests(kind, status, seconds, count)

    async def _answer(self, items: list[Item], headers: Headers, grant: Grant | None) -> list[Envelope]:
        """One array of any size is taken when nothing else is in flight: else a large one never would be."""
        in_flight = self._metrics.in_flight
        if in_flight and in_flight + len(items) > self._requests_max:
            refusal = Overloaded(f"More than {self._requests_max} requests are in flight")
            return [to_reply(item.kind, item.corr_id, item.version, refuse(refusal)) for item in items]
        self._metrics.in_flight += len(items)
        try:
            envelopes = await answer_all(self._node, self._open(items, headers, grant))
        finally:
            self._metrics.in_flight -= len(items)
        if [envelope for envelope in envelopes if envelope.kind in searches]:
            return [*map(shorten_page, envelopes)]
        return envelopes

    def _open(
        self, items: list[Item], headers: Headers, known_grant: Grant | None
    ) -> list[Request | RefusedRequest]:
        """Read their data, if their caller may ask for it."""
        if self._authenticator.is_open:
            return open_envelopes(items)
        grants: Sequence[Grant | Refusal] = (
            [known_grant] * len(items)
            if known_grant is not None
            else self._authenticator.grants_or_refusals(bearer_of(headers), items)
        )
        known = [
            RefusedRequest(item.kind, item.corr_id, item.version, grant)
            if isinstance(grant, Refusal)
            else item
            for item, grant in zip(items, grants, strict=True)
        ]
        opened = open_envelopes(known)
        return [restrict(item, grant) for item, grant in zip(opened, grants, strict=True)]

    def _too_large(self) -> Answer:
        refusal = BodyTooLarge(f"The body has more than {self._body_bytes_max} bytes")
        self._metrics.count_refused(refusal.code)
        envelope = to_reply("unknown", "0", CURRENT_VERSION, refuse(refusal))
        return refusal.status, encode_reply(envelope), refusal_headers(refusal)
