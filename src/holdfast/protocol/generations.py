"""Generations: an execution that goes on under its id with new arguments and fresh records.

While such an execution is pending, the value of its promise holds what the current generation was begun with:
the arguments as data, and what the node knows of it in one header. The param stays that of the first start,
so whoever starts the execution again is compared with that. When it settles, the header stays with the
result.

The records of generation 7 of `order-17` lie below `order-17:g7` (of a called execution `order-17:3`, below
`order-17:3.g7`), and are a branch of their own. So no id is ever used twice, and ids grow with the number of
digits of a generation only. Generation 0 is every execution that never continued: its ids are as they were.
"""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.protocol import tags
from holdfast.protocol.ids import below
from holdfast.protocol.records import Promise, Value

GENERATION: Final = "holdfast:generation"

Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class Generation(Struct, frozen=True, omit_defaults=True, gc=False):
    """`number`: how often it has continued. `read`: messages up to this one were taken by earlier ones."""

    number: Number = 0
    read: Number = 0


FIRST: Final = Generation()

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Generation).decode


def generation_of(promise: Promise) -> Generation:
    headers = promise.value.headers
    if headers is None or (text := headers.get(GENERATION)) is None:
        return FIRST
    try:
        return _decode(text)
    except msgspec.DecodeError:  # of a result: whoever settled it wrote something else there
        return FIRST


def begun_with(param: Value, generation: Generation) -> Value:
    """The value of the promise, while this generation runs."""
    return Value({**(param.headers or {}), GENERATION: _encode(generation).decode()}, param.data)


def with_generation(value: Value, before: Value) -> Value:
    """A result, and in which generation it came: everything else about that is over."""
    text = (before.headers or {}).get(GENERATION)
    if text is None:
        return value
    number = _decode(text).number
    return Value({**(value.headers or {}), GENERATION: _encode(Generation(number)).decode()}, value.data)


def arguments_of(promise: Promise) -> Value:
    """What the execution was begun with, in its current generation."""
    return promise.value if promise.state == "pending" and generation_of(promise).number else promise.param


def base_of(root: str, generation: int) -> str:
    """Below this lie the records of a generation."""
    return root if generation == 0 else f"{below(root)}g{generation}"


def branch_of(promise: Promise) -> str | None:
    """The branch that a claim of it preloads."""
    branch = promise.tags.get(tags.BRANCH)
    if branch is None or promise.value.headers is None or promise.state != "pending":
        return branch
    number = generation_of(promise).number
    return base_of(promise.id, number) if number else branch


def begun_id(root: str, generation: int) -> str:
    """The record of what the last generation was begun with, when the execution is over: for a replay."""
    return f"{below(base_of(root, generation))}0~begun"


_numbered: Final = re.compile(r"(?:g([0-9]+)\.)?[0-9]")


def generation_of_record(record_id: str, root: str) -> int | None:
    """Of which generation it is a numbered record; None for what belongs to none: messages, names."""
    found = _numbered.match(record_id.removeprefix(below(root)))
    return None if found is None else int(found[1] or 0)


_operation: Final = re.compile(r"(?:g[0-9]+\.)?[0-9]+")


def is_operation_of(record_id: str, root: str) -> bool:
    """Is it one of the operations of this execution, in any generation? Not one of what it called."""
    prefix = below(root)
    return record_id.startswith(prefix) and _operation.fullmatch(record_id, len(prefix)) is not None


def lies_in_generation(record_id: str, root: str, generation: int) -> bool:
    """Is it one of the numbered records of this generation, or beside one?"""
    prefix = below(base_of(root, generation))
    return record_id.startswith(prefix) and record_id[len(prefix) : len(prefix) + 1].isdigit()
