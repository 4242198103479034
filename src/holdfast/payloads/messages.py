"""Messages: values that one side sends and the other decodes, where the type may be a choice of several.

For a mailbox of one type, the type decodes the JSON. `A | B` is a tagged choice:

1. A message from Python has the name of its class in the header `holdfast:type`.
2. JSON from elsewhere may have the name in a field `type`.
3. Builtins are told apart by their kind in JSON, `Literal` by its value. Where several are left, such as a
   date and an enum for a text, it is the first that can be read. An object without a name is taken for the
   only class there is; if there are several, it cannot be read.
"""

from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from holdfast.payloads import expected
from holdfast.payloads.errors import BadArguments, UndecodablePayload
from holdfast.payloads.payloads import Payloads, decoder_of
from holdfast.protocol.records import Value

TYPE: Final = "holdfast:type"

_kinds: Final[dict[type, tuple[type, ...]]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    NoneType: (NoneType,),
    list: (list,),
    tuple: (list,),
    set: (list,),
    frozenset: (list,),
    dict: (dict,),
}
_texts: Final = (date, time, timedelta, Decimal, UUID, bytes, bytearray, Enum)


def encode_message(payloads: Payloads, message: Any, headers: dict[str, str] | None = None) -> Value:
    name = type_name(message)
    found = dict(headers or {}) if name is None else {**(headers or {}), TYPE: name}
    return payloads.encode(message, found or None)


def type_name(message: Any) -> str | None:
    """The name of its class, if it is none of the builtins."""
    return None if type(message) in _kinds else type(message).__name__


def decode_message(payloads: Payloads, value: Value, wanted: Any) -> Any:
    """Raises UndecodablePayload when it is not what is wanted."""
    if get_origin(wanted) not in (Union, UnionType):
        if not value.data and wanted not in (Any, None, NoneType):
            raise UndecodablePayload(f"Expected {_name(wanted)}, got nothing")
        return payloads.decode(value, wanted)
    choices: tuple[Any, ...] = get_args(wanted)
    if not value.data:
        if NoneType in choices:
            return None
        raise UndecodablePayload(f"Expected {_names(choices)}, got nothing")
    plain: Any = payloads.decode(value)
    kind = cast("type[object]", type(plain))
    name = (value.headers or {}).get(TYPE)
    if name is None and kind is dict:
        tag = plain.get("type")
        name = tag if isinstance(tag, str) and any(_name(each) == tag for each in choices) else None
    if name is not None:
        named = [each for each in choices if _name(each) == name]
        if not named:
            raise UndecodablePayload(f"Expected {_names(choices)}, got {name}")
        return payloads.decode(value, named[0])
    others = [each for each in choices if (get_origin(each) or each) not in _kinds]
    fitting = [each for each in choices if kind in _kinds.get(get_origin(each) or each, ())]
    fitting += [each for each in others if get_origin(each) is Literal and plain in get_args(each)]
    if not fitting and kind is dict:
        fitting = [each for each in others if not _is_text(each)]
        if len(fitting) > 1:
            raise UndecodablePayload(
                f"An object could be {_names(fitting)}: name its class in a field `type`"
            )
    fitting = fitting or others or [choices[0]]
    if len(fitting) == 1:
        return payloads.decode(value, fitting[0])
    for each in fitting:
        with suppress(UndecodablePayload):
            return payloads.decode(value, each)
    came = expected.got(plain, quotes=not payloads.is_coded)
    raise UndecodablePayload(f"Expected {_names(choices)}, got {came}")


def check_wanted(wanted: Any) -> None:
    """Raises BadArguments if no message at all could be read as that: all would be set aside."""
    is_choice = get_origin(wanted) in (Union, UnionType)
    problem: Exception | None = None
    for each in get_args(wanted) if is_choice else (wanted,):
        try:
            decoder_of(each)
        except Exception as error:  # hooks run code of the user's models
            problem = error
        else:
            return
    raise BadArguments(
        f"No message can be read as {wanted!r}: give a type, such as int or a dataclass ({problem})"
    ) from problem


def _is_text(type_: Any) -> bool:
    """Is it something that JSON has as a text or a number, and never as an object?"""
    return get_origin(type_) is Literal or (isinstance(type_, type) and issubclass(type_, _texts))


def _name(type_: Any) -> str:
    return getattr(type_, "__name__", None) or str(type_)


def _names(types: Any) -> str:
    return " or ".join(map(_name, types))
