"""JSON in, requests out; replies in, JSON out.

Decoding never raises for anything a client can send: what is not a request becomes a `RefusedRequest`, which
already knows its reply. Both dialects are read here; what is written differs only in dialect B, whose
records always carry headers and data.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Raw, Struct, field

from holdfast.protocol import limits
from holdfast.protocol.dialect import CURRENT_VERSION, Dialect, dialect_of
from holdfast.protocol.errors import InvalidField, MalformedEnvelope, Refusal, UnknownKind
from holdfast.protocol.messages import Message, to_envelope
from holdfast.protocol.replies import Envelope, Reply, ReplyHead
from holdfast.protocol.requests import KINDS, Request, RequestData
from holdfast.protocol.text import check_text


class RefusedRequest(Struct, frozen=True):
    """A request that could not be read, with what is known about it."""

    kind: str
    corr_id: str
    version: str
    refusal: Refusal


class _Head(Struct, frozen=True):
    corr_id: str = field(name="corrId")
    version: str
    auth: str | None = None
    debug_time: int | None = field(name="resonate:debug_time", default=None)


class _Envelope(Struct, frozen=True):
    kind: str
    head: _Head
    data: Raw


_envelope_decoder: Final = msgspec.json.Decoder(_Envelope)
_batch_decoder: Final = msgspec.json.Decoder(list[_Envelope])
_items_decoder: Final = msgspec.json.Decoder(list[Raw])
_data_decoders: Final = {kind: msgspec.json.Decoder(data) for kind, data in KINDS.items()}
_encoder: Final = msgspec.json.Encoder()


def decode(body: bytes) -> Request | RefusedRequest:
    """One envelope."""
    return _decode(body)


def decode_body(body: bytes) -> Request | RefusedRequest | list[Request | RefusedRequest]:
    """What a POST carries: one envelope, or an array of them."""
    if not body.lstrip(b" \t\r\n").startswith(b"["):
        return _decode(body)
    try:
        items = _decode_items(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return RefusedRequest("unknown", "0", CURRENT_VERSION, MalformedEnvelope(_sentence(error)))
    if not 0 < len(items) <= limits.batch_envelopes_max:
        refusal = InvalidField(
            f"an array holds 1 to {limits.batch_envelopes_max} envelopes, not {len(items)}"
        )
        return RefusedRequest("unknown", "0", CURRENT_VERSION, refusal)
    return [_open(item) if isinstance(item, _Envelope) else _decode(item) for item in items]


def _decode_items(body: bytes) -> Sequence[_Envelope | Raw]:
    """All at once, which is what nearly every array allows; or else each for itself to be judged."""
    try:
        return _batch_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _items_decoder.decode(body)


def _decode(body: bytes | Raw) -> Request | RefusedRequest:
    try:
        envelope = _envelope_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        kind, corr_id = _salvage(body)
        return RefusedRequest(kind, corr_id, CURRENT_VERSION, MalformedEnvelope(_sentence(error)))
    return _open(envelope)


def _open(envelope: _Envelope) -> Request | RefusedRequest:
    head = envelope.head
    try:
        dialect, decoder = _check_envelope(envelope)
    except Refusal as refusal:
        return RefusedRequest(envelope.kind, head.corr_id, head.version, refusal)
    try:
        data = decoder.decode(envelope.data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return RefusedRequest(envelope.kind, head.corr_id, head.version, InvalidField(_sentence(error)))
    return Request(envelope.kind, head.corr_id, head.version, dialect, data, head.debug_time, head.auth)


def _check_envelope(envelope: _Envelope) -> tuple[Dialect, "msgspec.json.Decoder[RequestData]"]:
    if not envelope.kind:
        raise MalformedEnvelope("kind must not be empty")
    if not bytes(envelope.data).startswith(b"{"):
        raise MalformedEnvelope("data must be an object")
    dialect = dialect_of(envelope.head.version)
    decoder = _data_decoders.get(envelope.kind)
    if decoder is None:
        raise UnknownKind(f"There is no request {envelope.kind[:80]!r}")
    try:
        check_text("corrId", envelope.head.corr_id, empty=True)
        if (
            envelope.head.debug_time is not None
            and not 0 <= envelope.head.debug_time <= limits.instant_ms_max
        ):
            raise ValueError("resonate:debug_time is not an instant")
    except ValueError as error:
        raise MalformedEnvelope(str(error)) from None
    return dialect, decoder


def _salvage(body: bytes | Raw) -> tuple[str, str]:
    """Kind and correlation id of a broken envelope, so that a client can match the refusal."""
    kind, corr_id = "unknown", "0"
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return kind, corr_id
    if isinstance(found, dict):
        document = cast("dict[str, Any]", found)
        if isinstance(document.get("kind"), str):
            kind = document["kind"]
        head = document.get("head")
        if isinstance(head, dict):
            given = cast("dict[str, Any]", head).get("corrId")
            corr_id = given if isinstance(given, str) else corr_id
    return kind, corr_id


def _sentence(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "The text is not valid UTF-8"
    return str(error).rstrip(".")


def to_reply(kind: str, corr_id: str, version: str, reply: Reply) -> Envelope:
    return Envelope(kind, ReplyHead(corr_id, reply.status, version), reply.data)


def refuse(refusal: Refusal) -> Reply:
    return Reply(refusal.status, str(refusal))


def encode_reply(envelope: Envelope) -> bytes:
    if envelope.head.version == CURRENT_VERSION:
        return _encoder.encode(envelope)
    return _encoder.encode(_fill(msgspec.to_builtins(envelope)))


def encode_replies(envelopes: list[Envelope]) -> bytes:
    if all(envelope.head.version == CURRENT_VERSION for envelope in envelopes):
        return _encoder.encode(envelopes)
    return b"[" + b",".join(encode_reply(envelope) for envelope in envelopes) + b"]"


def encode_message(message: Message, server_url: str | None = None) -> bytes:
    envelope = to_envelope(message, server_url)
    if message.dialect == "A":
        return _encoder.encode(envelope)
    return _encoder.encode(_fill(msgspec.to_builtins(envelope)))


_payload_fields: Final[tuple[Literal["param", "value", "promiseParam"], ...]] = (
    "param",
    "value",
    "promiseParam",
)
_users_maps: Final = frozenset({"tags", "promiseTags", "headers"})  # their names mean nothing here


def _fill(node: Any) -> Any:
    """Dialect B: payloads always have headers and data."""
    if isinstance(node, list):
        items: list[Any] = node  # pyright: ignore[reportUnknownVariableType]
        return [_fill(item) for item in items]
    if not isinstance(node, dict):
        return node
    entries = cast("dict[str, Any]", node).items()
    filled = {key: item if key in _users_maps else _fill(item) for key, item in entries}
    if "timeoutAt" in filled or "promiseTimeout" in filled:
        for name in _payload_fields:
            if name in filled:
                filled[name] = {"headers": {}, "data": ""} | filled[name]
    return filled
