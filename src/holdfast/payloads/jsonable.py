"""What JSON can carry beyond msgspec's own types, and finding what it cannot.

pydantic models are recognised by what they can do, so pydantic is no dependency. The searches are slow
paths: they run when something already failed, or when a payload holds a null that may have been a NaN.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from inspect import iscoroutine
from math import isfinite
from typing import Any, Final, cast

import msgspec
import msgspec.inspect

from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation

DEPTH_MAX: Final = 200


def encode_hook(value: Any) -> Any:
    if _is_pydantic(type(value)):
        # By alias and ready to be read back: what is written must validate again.
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise NotImplementedError(f"Encoding objects of type {type(value).__qualname__} is unsupported")


def decode_hook(type_: Any, value: Any) -> Any:
    if _is_pydantic(type_):
        return type_.model_validate_json(msgspec.json.encode(value))
    if type_ is object:  # anything, as those write it who have no use for Any
        return value
    raise TypeError(f"{type_!r} cannot be made from JSON")


def _is_pydantic(type_: Any) -> bool:
    return isinstance(type_, type) and hasattr(type_, "__pydantic_validator__")


def find_foreign_class(type_: Any) -> type | None:
    """A class within a type that JSON cannot carry, or None."""
    seen: set[int] = set()
    left: list[Any] = [msgspec.inspect.type_info(type_)]
    while left:
        part = left.pop()
        if (
            isinstance(part, msgspec.inspect.CustomType)
            and part.cls is not object
            and not _is_pydantic(part.cls)
        ):
            return part.cls
        if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field) and id(part) not in seen:
            seen.add(id(part))
            left += [getattr(part, name) for name in part.__struct_fields__]
        elif isinstance(part, tuple):
            left += part
    return None


def find_offender(value: Any) -> str | None:
    """A sentence that names the first part of `value` that cannot be encoded, or None."""
    found = next(_offenders(value, "", 0), None)
    return None if found is None else f"{_place(found[0])} cannot be encoded: {found[1]}"


def has_not_finite(value: Any, depth: int = 0) -> bool:
    cls = cast(Any, type(value))
    if cls is float:
        return not isfinite(value)
    if cls is str or cls is int or value is None or cls is bool or depth > DEPTH_MAX:
        return False
    if cls is dict:
        members = value.values()
    elif cls is list or cls is tuple:
        members = value
    else:
        members = [part for _, part in _parts(value) or ()]
    return any(has_not_finite(member, depth + 1) for member in members)


def find_not_finite(value: Any) -> str | None:
    for place, part in _leaves(value, "", 0):
        if isinstance(part, float) and not isfinite(part):
            return f"{_place(place)} cannot be encoded: JSON has no {part!r}"
    return None


def canonical(value: Any) -> bytes | None:
    """JSON in which keys and members of sets are sorted, whatever their types; None when it cannot be had."""
    try:
        return _sorting.encode(_ordered(value, 0))
    except Exception:  # hooks run code of the user's models
        return None


def _ordered(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise RecursionError
    parts = _parts(value)
    if parts is None:
        return value
    if isinstance(value, set | frozenset):
        members = sorted(_sorting.encode(_ordered(part, depth + 1)) for _, part in parts)
        return [msgspec.Raw(member) for member in members]
    if isinstance(value, list | tuple):
        return [_ordered(part, depth + 1) for _, part in parts]
    return {_key_text(key): _ordered(part, depth + 1) for key, part in parts}


def _key_text(key: Any) -> str:
    # msgspec knows which keys JSON can have, and how they are written.
    written = msgspec.json.decode(_plain.encode({key: None}), type=dict[str, None])
    return next(iter(written))


def _offenders(value: Any, place: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEPTH_MAX:
        yield place, f"it is nested deeper than {DEPTH_MAX} levels, or contains itself"
        return
    parts = _parts(value)
    if parts is None:
        try:
            _plain.encode(value)
        except Exception as error:
            yield place, _not_awaited(value) or f"its type is {_type_name(value)} ({error})"
        return
    for key, part in parts:
        if isinstance(value, Mapping):
            try:
                _plain.encode({key: None})
            except Exception as error:
                yield place, f"its key {key!r} is a {_type_name(key)} ({error})"
        yield from _offenders(part, place + _step(value, key), depth + 1)


def _not_awaited(value: Any) -> str | None:
    """The usual cause: a call of a step, or of a coroutine function, without `await`."""
    is_call = isinstance(value, Future | Operation) or iscoroutine(value)
    return f"it was not awaited ({value!r}). Write `await` before the call" if is_call else None


def _leaves(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    parts = _parts(value)
    if parts is None:
        yield place, value
    elif depth <= DEPTH_MAX:
        for key, part in parts:
            yield from _leaves(part, place + _step(value, key), depth + 1)


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    """The named parts of a container; None for everything else."""
    cls = cast(Any, type(value))
    if isinstance(value, dict):
        return list(cast(Any, value).items())
    if isinstance(value, list | tuple | set | frozenset):
        return [(number, part) for number, part in enumerate(cast(list[Any], value))]
    if isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    elif dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    elif hasattr(cls, "__attrs_attrs__"):
        names = [field.name for field in cls.__attrs_attrs__]
    else:
        return None
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _step(value: Any, key: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{key}]"
    return f"[{key!r}]" if isinstance(value, Mapping) else f".{key}"


def _place(place: str) -> str:
    return f"The value at {place.removeprefix('.')}" if place else "The value"


def _type_name(value: Any) -> str:
    cls = cast(Any, type(value))
    return str(cls.__qualname__) if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


_plain: Final = msgspec.json.Encoder(enc_hook=encode_hook)
_sorting: Final = msgspec.json.Encoder(enc_hook=encode_hook, order="sorted")
