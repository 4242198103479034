"""JSON in, requests out; replies in, JSON out.

Decoding never raises for anything a client can send: what is not a request becomes a `RefusedRequest`, which
already knows its reply. It has two steps, so that a server can find out who asks in between: `read_envelopes`
reads kind and head of each envelope and leaves its data as it came; `open_envelope` decodes the data. Both
dialects are read here; what is written differs only in dialect B, whose records always carry headers and
data. A reply repeats at most `limits.echo_bytes_max` of what it was asked.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import astuple

from holdfast.protocol import limits
from holdfast.protocol.dialect import CURRENT_VERSION, Dialect, dialect_of
from holdfast.protocol.errors import InvalidField, MalformedEnvelope, Overloaded, Refusal, UnknownKind
from holdfast.protocol.messages import Message, to_envelope
from holdfast.protocol.replies import Envelope, Reply, ReplyHead
from holdfast.protocol.requests import KINDS, Request, RequestData
from holdfast.protocol.requests.schedules import costly_schedule_kinds
from holdfast.protocol.text import check_text

T = TypeVar("T")


class RefusedRequest(Struct, frozen=True):
    """A request that could not be read, with what is known about it."""

    kind: str
    corr_id: str
    version: str
    refusal: Refusal

    def __post_init__(self) -> None:
        # It is kept until it is answered. A traceback would keep the frames of whoever read the request, and
        # with them everything that was sent.
        self.refusal.__traceback__ = self.refusal.__context__ = None


class _Head(Struct, frozen=True):
    corr_id: str = field(name="corrId")
    version: str
    auth: str | None = None
    debug_time: int | None = field(name="resonate:debug_time", default=None)


class RawEnvelope(Struct, frozen=True):
    """A request of which only the head was read."""

    kind: str
    head: _Head
    data: Raw

    @property
    def corr_id(self) -> str:
        return self.head.corr_id

    @property
    def version(self) -> str:
        return self.head.version

    @property
    def auth(self) -> str | None:
        return self.head.auth


class _Pieces(Struct, frozen=True):
    """What can be had of a broken envelope."""

    kind: Raw = Raw()
    head: Raw = Raw()


class _HeadPieces(Struct, frozen=True):
    corr_id: Raw = field(name="corrId", default=Raw())


_envelope_decoder: Final = msgspec.json.Decoder(RawEnvelope)
_batch_decoder: Final = msgspec.json.Decoder(list[RawEnvelope])
_absent: Final = Raw()
# Stops at the first item that is too many, where a list would be made of millions.
_Items: Final = msgspec.defstruct(
    "_Items",
    [(f"item{number}", Raw, _absent) for number in range(limits.batch_envelopes_max)],
    array_like=True,
    forbid_unknown_fields=True,
)
_items_decoder: Final = msgspec.json.Decoder(_Items)
_surely_few_bytes: Final = 65_536
_data_decoders: Final = {kind: msgspec.json.Decoder(data) for kind, data in KINDS.items()}
_encoder: Final = msgspec.json.Encoder()


def decode(body: bytes) -> Request | RefusedRequest:
    """One envelope."""
    return open_envelope(read_envelope(body))


def decode_body(body: bytes) -> Request | RefusedRequest | list[Request | RefusedRequest]:
    """What a POST carries: one envelope, or an array of them."""
    found = read_envelopes(body)
    return open_envelopes(found) if isinstance(found, list) else open_envelope(found)


def read_envelopes(body: bytes) -> RawEnvelope | RefusedRequest | list[RawEnvelope | RefusedRequest]:
    """The first step of that: kinds and heads."""
    if not body.lstrip(b" \t\r\n").startswith(b"["):
        return read_envelope(body)
    try:
        items = _read_items(body)
    except msgspec.ValidationError:
        return _refuse_number(f"more than {limits.batch_envelopes_max}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return RefusedRequest("unknown", "0", CURRENT_VERSION, MalformedEnvelope(_sentence(error)))
    if not 0 < len(items) <= limits.batch_envelopes_max:
        return _refuse_number(str(len(items)))
    return [item if isinstance(item, RawEnvelope) else read_envelope(item) for item in items]


def _read_items(body: bytes) -> Sequence[RawEnvelope | Raw]:
    """All at once, which is what nearly every array allows; or else each for itself to be judged."""
    if len(body) <= _surely_few_bytes:
        try:
            return _batch_decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass
    items: Sequence[Raw] = astuple(_items_decoder.decode(body))
    return [*takewhile(lambda item: item is not _absent, items)]


def _refuse_number(number: str) -> RefusedRequest:
    refusal = InvalidField(f"an array holds 1 to {limits.batch_envelopes_max} envelopes, not {number}")
    return RefusedRequest("unknown", "0", CURRENT_VERSION, refusal)


def read_envelope(body: bytes | Raw) -> RawEnvelope | RefusedRequest:
    """The same for one that is no array."""
    try:
        return _envelope_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        kind, corr_id = _salvage(body)
        return RefusedRequest(kind, corr_id, CURRENT_VERSION, MalformedEnvelope(_sentence(error)))


def open_envelopes(envelopes: Sequence[RawEnvelope | RefusedRequest]) -> list[Request | RefusedRequest]:
    """The second step for all of an array. Schedules take time to check, so their number is bounded."""
    if len(envelopes) == 1:
        return [open_envelope(envelopes[0])]
    schedules = [envelope for envelope in envelopes if envelope.kind in costly_schedule_kinds]
    left = {id(envelope) for envelope in schedules[limits.batch_schedules_max :]}
    return [
        RefusedRequest(envelope.kind, envelope.corr_id, envelope.version, _too_many_schedules())
        if left and id(envelope) in left
        else open_envelope(envelope)
        for envelope in envelopes
    ]


def _too_many_schedules() -> Refusal:
    return Overloaded(
        f"Of an array, the first {limits.batch_schedules_max} that read cron expressions are carried out"
    )


def open_envelope(envelope: RawEnvelope | RefusedRequest) -> Request | RefusedRequest:
    """The second step: the data."""
    if isinstance(envelope, RefusedRequest):
        return envelope
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


def _check_envelope(envelope: RawEnvelope) -> tuple[Dialect, "msgspec.json.Decoder[RequestData]"]:
    if not envelope.kind:
        raise MalformedEnvelope("kind must not be empty")
    if bytes(memoryview(envelope.data)[:1]) != b"{":
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
    pieces = _decoded(body, _Pieces)
    if pieces is None:
        return "unknown", "0"
    head = _decoded(pieces.head, _HeadPieces)
    corr_id = None if head is None else _decoded(head.corr_id, str)
    kind = _decoded(pieces.kind, str)
    return "unknown" if kind is None else kind, "0" if corr_id is None else corr_id


def _decoded(body: bytes | Raw, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _sentence(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "The text is not valid UTF-8"
    return _cut(str(error)).rstrip(".")  # it may quote what was sent


def to_reply(kind: str, corr_id: str, version: str, reply: Reply) -> Envelope:
    if len(kind) > _surely_short or len(corr_id) > _surely_short or len(version) > _surely_short:
        kind, corr_id, version = _cut(kind), _cut(corr_id), _cut(version)
    return Envelope(kind, ReplyHead(corr_id, reply.status, version, reply.code), reply.data)


_surely_short: Final = limits.echo_bytes_max // 4


def _cut(text: str) -> str:
    most = limits.echo_bytes_max
    return text[:most].encode("utf-8", "ignore")[:most].decode("utf-8", "ignore")


def refuse(refusal: Refusal) -> Reply:
    return Reply(refusal.status, str(refusal), refusal.code)


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
