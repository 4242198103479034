"""Locks that executions share: the record of one, and where it is kept.

A lock is a promise that stays pending: `lock@printer-3`. Its value is the record below, as JSON. Whoever asks
for the lock has a *ticket*, a promise among the records of his own execution: pending while he waits,
resolved with the fencing token once he holds it. The rules are in `engine/locks.py`.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.protocol.records import Millis, Promise, Value

_PREFIX: Final = "lock@"
TOKEN_HEADER: Final = "holdfast:token"  # noqa: S105  # in the value of a ticket that was granted
RING_HEADER: Final = "holdfast:ring"  # in the value of one that was given up: who waits for whom

Number = Annotated[int, Meta(ge=0)]


class Ticket(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Somebody who waits, or, with a `token`, holds. `since`: for so long.

    `id` is the promise of the ticket. `holding`: the tickets that whoever waits keeps meanwhile.
    """

    id: str
    execution: str
    since: Millis
    count: Number = 1
    token: Number = 0
    holding: list[str] = []


class Forced(Struct, frozen=True, gc=False):
    """That somebody else has ended a hold, and why: the latest time that this was done."""

    execution: str
    at: Millis
    reason: str


class Lock(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """`limit` permits, of which the holders have some. `waiters` are in the order of their commits.

    `token` is the last that was given. `idle_since`: since when nobody holds or wants it.
    """

    name: str
    limit: Number
    token: Number = 0
    holders: list[Ticket] = []
    waiters: list[Ticket] = []
    idle_since: Millis | None = None
    forced: Forced | None = None

    @property
    def free(self) -> int:
        return self.limit - sum(ticket.count for ticket in self.holders)

    @property
    def is_idle(self) -> bool:
        return not (self.holders or self.waiters)

    def concerns(self, execution: str) -> bool:
        """Does it hold this lock, or wait for it?"""
        return any(ticket.execution == execution for ticket in (*self.holders, *self.waiters))


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Lock).decode


def lock_id(name: str) -> str:
    return f"{_PREFIX}{name}"


def is_lock_id(promise_id: str) -> bool:
    return promise_id.startswith(_PREFIX)


def lock_value(lock: Lock) -> Value:
    return Value(None, _encode(lock).decode())


def read_lock(promise: Promise) -> Lock:
    """ValueError where the promise holds no such record."""
    return _decode(promise.value.data or "")
