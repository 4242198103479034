"""Payloads of plain JSON: base64 of JSON, as every SDK writes them where no codec is in use.

For whoever has no types and no codec: the command line, the management API.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.protocol.records import Value


class NotPlain(ValueError):
    """The payload is not base64 of JSON: it may be encrypted, or written by somebody else."""


def encode_plain(value: Any, headers: dict[str, str] | None = None) -> Value:
    """ValueError where it is not JSON (NaN, half a character)."""
    if value is None:
        return Value(headers or None)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Value(headers or None, base64.b64encode(text.encode()).decode())


def decode_plain(value: Value) -> Any:
    """What it says; None where there is none. Raises NotPlain."""
    if not value.data:
        return None
    try:
        return json.loads(base64.b64decode(value.data, validate=True))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise NotPlain(str(error)) from None


def plain_call(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    version: int,
    headers: dict[str, str] | None = None,
) -> Value:
    """The param with which the SDKs call a function. Only Python's know `kwargs`: left out if empty."""
    call: dict[str, Any] = {"func": name, "args": [*args], "version": version}
    if kwargs:
        call["kwargs"] = dict(kwargs)
    return encode_plain(call, headers)
