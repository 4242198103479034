"""Payloads as they lie on the wire (base64 of JSON, as all SDKs write them) and as a person reads them."""

import base64
import binascii
import json
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.cli.failures import UsageError
from holdfast.protocol.records import Value


class _Call(Struct, frozen=True):
    func: str


def parse_json_or_text(text: str) -> Any:
    """JSON if it is JSON, else the text itself: `42` is a number and `hello` a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the latter: JSON, but deeper than anybody can read
        return text


def parse_given(text: str) -> Any:
    """The same of what a user wrote. An object or an array that is no JSON is a mistake, as a rule of quotes
    in the shell: nobody wants it as a string."""
    found = parse_json_or_text(text)
    if found is text and text.lstrip().startswith(("{", "[")):
        raise UsageError(
            f"{text!r} begins like JSON and is none. Put it in single quotes for the shell, or, if it is "
            "meant as a text, in double quotes within them"
        )
    return found


def encode_json(value: Any) -> str:
    return base64.b64encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()).decode()


def payload(data: str | None, raw: str | None, headers: dict[str, str] | None) -> Value:
    """`data` is encoded as the SDKs do; `raw` goes on the wire as it is."""
    if raw is not None:
        return Value(headers or None, raw)
    return Value(headers or None, None if data is None else encode_json(parse_given(data)))


def decode_payload(value: Value) -> Any:
    """What a payload means, as far as can be told: a JSON value, text, or None when there is none."""
    return parse_json_or_text(decode_text(value)) if value.data else None


def decode_text(value: Value) -> str:
    """A payload without its base64, or as it is where it has none."""
    try:
        return base64.b64decode(value.data or "", validate=True).decode()
    except (binascii.Error, ValueError):
        return value.data or ""


def called_function(param: Value) -> str | None:
    """The function that a promise's param calls, if it is a call."""
    try:
        return msgspec.json.decode(base64.b64decode(param.data or "", validate=True), type=_Call).func
    except ValueError:
        return None
