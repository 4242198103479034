"""Payloads: Python values to durable text and back, typed on both sides.

value -> JSON (msgspec) -> codec -> base64 -> `Value.data`, which is the convention of the protocol and of
the official SDKs. None is absent data. What a function returns comes back as its return annotation says:
the JSON carries no type names, and nothing here imports, calls or evaluates what a payload names.

1. Nothing is lost in silence: a value that JSON cannot carry (an object, NaN) is an error that names its
   place. Without an annotation a value comes back as JSON has it: a tuple as a list, a date as a string.
2. Encoders and decoders are built once per type.
3. A digest depends on the value only: not on the process, the hash seed or the order of a dict.
"""

from __future__ import annotations

from binascii import Error as Base64Error, a2b_base64, b2a_base64
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from holdfast.payloads import error_values, expected, jsonable
from holdfast.payloads.errors import NotRecorded, PayloadTooLarge, UndecodablePayload, UnencodablePayload
from holdfast.payloads.signature import Signature, StoredCall, signature_of
from holdfast.protocol import limits
from holdfast.protocol.events import ON_HEADER
from holdfast.protocol.records import NOTHING, Value

DIGEST_BYTES: Final = 8
PAYLOAD_BYTES_MAX: Final = limits.data_bytes_max // 4 * 3  # the largest JSON that fits after base64


class Codec(Protocol):
    """Bytes to bytes, both ways: encryption, compression, a blob store that leaves only a reference."""

    def encode(self, raw: bytes, /) -> bytes:
        """What is stored instead of these bytes. It runs on the event loop, so it must be quick."""
        ...

    def decode(self, raw: bytes, /) -> bytes:
        """The bytes that `encode` was given."""
        ...


class Chain:
    """Several codecs as one: `Chain(Compress(), Encrypt(key))` compresses, then encrypts."""

    def __init__(self, *codecs: Codec) -> None:
        self._codecs = codecs

    def encode(self, raw: bytes, /) -> bytes:
        for codec in self._codecs:
            raw = codec.encode(raw)
        return raw

    def decode(self, raw: bytes, /) -> bytes:
        for codec in reversed(self._codecs):
            raw = codec.decode(raw)
        return raw


class Payloads:
    """Encodes and decodes everything that an application stores."""

    __slots__ = ("_codec",)

    def __init__(self, codec: Codec | None = None) -> None:
        self._codec = codec

    def encode(self, value: Any, headers: dict[str, str] | None = None) -> Value:
        if value is None:
            return NOTHING if headers is None else Value(headers)
        return Value(headers, self._data(dump(value)))

    def decode(self, value: Value, type_: Any = Any) -> Any:
        """The value, as `type_`. Absent data is None, whatever the type."""
        if not value.data:
            return None
        return self._load(self._raw(value.data), type_)

    def round_trip(self, value: Any, type_: Any = Any) -> tuple[Value, Any]:
        """The payload of `value`, and what a replay will read from it: let live code see that one too."""
        if value is None:
            return NOTHING, None
        raw = dump(value)
        seen = load(raw, type_)
        return Value(None, self._data(raw)), seen

    def encode_call(
        self,
        function_name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        version: int,
        signature: Signature | None = None,
        supplied: frozenset[str] = frozenset(),
    ) -> Value:
        """The parameter of a promise that a function is to settle, as the official SDKs write it.

        With a signature the arguments are read back as it says: BadArguments where they do not fit.
        """
        call: dict[str, Any] = {"func": function_name, "args": args, "version": version}
        if kwargs:
            call["kwargs"] = kwargs
        raw = dump(call)
        if signature is not None:
            signature.bind(load(raw, StoredCall), load, supplied)
        return Value(None, self._data(raw))

    def decode_call(self, value: Value) -> StoredCall:
        """What an event has started is called with its attributes."""
        started_by = (value.headers or {}).get(ON_HEADER)
        if started_by is not None:
            raw = self._raw(value.data) if value.data else b"{}"
            return StoredCall(started_by, (msgspec.Raw(raw),), version=0)
        call = self.decode(value, StoredCall)
        if call is None:
            raise UndecodablePayload("The promise has no parameter, so it names no function to call")
        assert isinstance(call, StoredCall)
        return call

    def bind_arguments(
        self, function: Callable[..., Any], call: StoredCall, supplied: frozenset[str] = frozenset()
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `call`, typed as the parameters of `function` are.

        Parameters named in `supplied` are not part of the call: the caller fills them, by name.
        """
        return signature_of(function).bind(call, self._load, supplied)

    @property
    def is_coded(self) -> bool:
        """Is what is stored readable only through a codec?"""
        return self._codec is not None

    def digest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """A short fingerprint of the arguments, or None when they are not all data."""
        try:
            raw = _sorting.encode((args, kwargs) if kwargs else (args,))
        except Exception:
            canonical = jsonable.canonical((args, kwargs) if kwargs else (args,))
            if canonical is None:
                return None
            raw = canonical
        return blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()

    def encode_error(self, error: BaseException) -> Value:
        return self.encode(error_values.describe(error))

    def encode_failure(self, error: BaseException) -> Value:
        """An error as a value; one that is too large is cut to its first words."""
        try:
            return self.encode_error(error)
        except PayloadTooLarge:
            text = f"{type(error).__name__}: {error_values.text_of(error)[:1_000]} ..."
            return self.encode_error(NotRecorded(text))

    def decode_error(self, value: Value, known: Mapping[str, type[Exception]] | None = None) -> Exception:
        """The error a rejected promise holds: as itself when its class is known here, else a RemoteError."""
        return error_values.restore(self.decode(value), known or {})

    def load(self, raw: bytes | msgspec.Raw, type_: Any = Any) -> Any:
        return self._load(raw, type_)

    def _load(self, raw: bytes | msgspec.Raw, type_: Any = Any) -> Any:
        """What nobody shall read in the store is not for errors either."""
        return load(raw, type_, quotes=self._codec is None)

    def _data(self, raw: bytes) -> str:
        """JSON as it is stored. Its size is told as the user knows it, before base64 makes it longer."""
        coded = raw if self._codec is None else self._codec.encode(raw)
        if len(coded) > PAYLOAD_BYTES_MAX:
            after = "" if self._codec is None else f", and {len(coded):,} after the codec"
            raise PayloadTooLarge(
                f"The value takes {len(raw):,} bytes as JSON{after}; the limit is {PAYLOAD_BYTES_MAX:,}"
            )
        return b2a_base64(coded, newline=False).decode("ascii")

    def _raw(self, data: str) -> bytes:
        try:
            raw = a2b_base64(data, strict_mode=True)
        except (Base64Error, ValueError) as error:
            raise UndecodablePayload(f"The payload is not base64 ({error})") from error
        if self._codec is None:
            return raw
        try:
            return self._codec.decode(raw)
        except Exception as error:
            raise UndecodablePayload(f"The codec could not read the payload ({error!r})") from error


def dump(value: Any) -> bytes:
    """JSON bytes. Raises UnencodablePayload, naming the place."""
    try:
        raw = _plain.encode(value)
    except Exception as error:  # hooks run code of the user's models
        place = jsonable.find_offender(value) or f"The value cannot be encoded ({error})"
        raise UnencodablePayload(place) from error
    # msgspec writes NaN and infinity as null. Only a payload that has a null is worth a closer look.
    if b"null" in raw and jsonable.has_not_finite(value):
        raise UnencodablePayload(jsonable.find_not_finite(value) or "The value holds a NaN or an infinity")
    return raw


def load(raw: bytes | msgspec.Raw, type_: Any = Any, *, quotes: bool = True) -> Any:
    """A value of `type_`. Raises UndecodablePayload, saying what was expected and what was found where."""
    try:
        return (_untyped if type_ is Any else decoder_of(type_)).decode(raw)
    except Exception as error:  # hooks run code of the user's models
        raise UndecodablePayload(expected.describe(bytes(raw), type_, error, quotes=quotes)) from error


def decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    try:
        return _decoder_of(type_)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _decoder_of.__wrapped__(type_)


@lru_cache(maxsize=2048)
def _decoder_of(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=jsonable.decode_hook)


_plain: Final = msgspec.json.Encoder(enc_hook=jsonable.encode_hook)
_sorting: Final = msgspec.json.Encoder(enc_hook=jsonable.encode_hook, order="sorted")
_untyped: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
