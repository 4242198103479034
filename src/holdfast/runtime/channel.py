# pyright: reportPrivateUsage=false
"""Channels: one value, sent once, seen by everyone who waits for it, now or later.

1. The first send wins; later ones are ignored. `receive` is always the same future.
2. Sending never waits and never runs a reader: readers are queued, in the order they began to wait.
3. Only a running fiber may send. A value from outside has to come in as a durable promise, or a replay
   could not know when it came.
4. A channel belongs to one execution: the one it was made in, or else the first that uses it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from holdfast.runtime.errors import wrong_execution
from holdfast.runtime.future import PENDING, Future, notify
from holdfast.runtime.slot import current

T = TypeVar("T")


class Received(Future[T]):
    """What a channel hands to its readers."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _describe(self) -> str:
        return f"channel {self._name}" if self._name else "a channel"


class Channel(Generic[T]):
    """A rendezvous inside one execution. In memory: a replay rebuilds it by running the same code.

    >>> async def ping() -> int:
    ...     box = Channel[int]()
    ...     box.send(42)
    ...     return await box.receive
    """

    __slots__ = ("receive",)

    def __init__(self, name: str = "") -> None:
        self.receive: Future[T] = Received(name)

    def send(self, value: T) -> None:
        """Give the channel its value, unless it has one. Takes effect at once."""
        scheduler, receive = current(), self.receive
        if receive.scheduler is not scheduler and not receive._admit(scheduler):
            raise wrong_execution(receive._describe())
        if receive._state == PENDING:
            receive._resolve(value)
            notify(receive)
