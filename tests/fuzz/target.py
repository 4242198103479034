"""What is fuzzed: a way to make an input, and a way to swallow it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.fuzz.mutation import to_body


class Target(Struct, frozen=True):
    """`swallow` returns for whatever it was given, or raises one of the errors it promises."""

    name: str
    make: Callable[[random.Random], Any]
    swallow: Callable[[Any], None]
    promised: tuple[type[BaseException], ...] = ()


PROMISE: dict[str, Any] = {
    "id": "p",
    "state": "resolved",
    "param": {},
    "value": {},
    "tags": {},
    "timeoutAt": 1,
    "createdAt": 0,
    "settledAt": 1,
}
MESSAGES = [
    to_body(
        {"kind": "execute", "head": {"serverUrl": "http://x"}, "data": {"task": {"id": "t", "version": 1}}}
    ),
    to_body({"kind": "unblock", "head": {}, "data": {"promise": PROMISE}}),
]
