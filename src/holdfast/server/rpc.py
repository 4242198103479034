"""`POST /`: envelopes in, envelopes out.

The body is read and decoded before anything is refused, so that a refusal, too, repeats the kind and the
correlation id that the client waits for.
"""

import time

from holdfast.node.node import Node
from holdfast.node.rpc import answer_all
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.errors import Overloaded
from holdfast.protocol.replies import Envelope
from holdfast.protocol.requests import Request
from holdfast.protocol.wire import Refused, decode_body, encode_replies, encode_reply, refuse, to_reply
from holdfast.server.access import filter_reply, restrict
from holdfast.server.asgi import (
    Header,
    Receive,
    Scope,
    Send,
    json_type,
    read_body,
    refusal_headers,
    respond,
    retry_after,
    retryable_statuses,
)
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.errors import BodyTooLarge
from holdfast.server.metrics import Metrics
from holdfast.server.settings import Settings


class Rpc:
    def __init__(
        self, node: Node, settings: Settings, metrics: Metrics, authenticator: Authenticator
    ) -> None:
        self._node = node
        self._metrics = metrics
        self._authenticator = authenticator
        self._body_bytes_max = settings.body_bytes_max
        self._requests_max = settings.requests_max
        self._always_200 = settings.always_200

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, self._body_bytes_max)
        except BodyTooLarge as refusal:
            await self._refuse_unread(refusal, send)
            return
        started = time.perf_counter()
        decoded = decode_body(body)
        items = decoded if isinstance(decoded, list) else [decoded]
        envelopes = await self._answer(items, scope)
        took = time.perf_counter() - started
        for envelope in envelopes:
            self._metrics.count_request(envelope.kind, envelope.head.status, took)
        status = 200
        if isinstance(decoded, list):
            answer = encode_replies(envelopes)
        else:
            answer = encode_reply(envelopes[0])
            status = 200 if self._always_200 else envelopes[0].head.status
        headers: list[Header] = [json_type]
        if status != 200 and status in retryable_statuses:
            headers.append(retry_after)
        await respond(send, status, answer, headers)

    async def _answer(self, items: list[Request | Refused], scope: Scope) -> list[Envelope]:
        if self._metrics.in_flight + len(items) > self._requests_max:
            refusal = Overloaded(f"More than {self._requests_max} requests are in flight")
            return [to_reply(item.kind, item.corr_id, item.version, refuse(refusal)) for item in items]
        self._metrics.in_flight += len(items)
        try:
            if self._authenticator.is_open:
                return await answer_all(self._node, items)
            return await self._answer_guarded(items, scope)
        finally:
            self._metrics.in_flight -= len(items)

    async def _answer_guarded(self, items: list[Request | Refused], scope: Scope) -> list[Envelope]:
        bearer = bearer_of(scope)
        grants = [self._authenticator.grant_or_refusal(bearer, item) for item in items]
        allowed = [restrict(item, grant) for item, grant in zip(items, grants, strict=True)]
        envelopes = await answer_all(self._node, allowed)
        return [filter_reply(envelope, grant) for envelope, grant in zip(envelopes, grants, strict=True)]

    async def _refuse_unread(self, refusal: BodyTooLarge, send: Send) -> None:
        self._metrics.count_refused(refusal.code)
        envelope = to_reply("unknown", "0", CURRENT_VERSION, refuse(refusal))
        await respond(send, refusal.status, encode_reply(envelope), [json_type, *refusal_headers(refusal)])
