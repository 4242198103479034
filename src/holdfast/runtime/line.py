# pyright: reportPrivateUsage=false
"""Waiting in line: the one discipline behind `Queue` and `Semaphore`.

A `Turn` is a future that stands in somebody's line only while a fiber waits for it. That is what keeps
lines honest: an interrupted waiter does not hold its place, the loser of a race does not swallow an item.

1. First to wait, first served.
2. A turn nobody waits for is not in line; awaiting it again takes a new place at the end.
3. A turn that was granted, but whose fiber was interrupted before it could run, is handed back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from holdfast.runtime.future import PENDING, Future, notify

T = TypeVar("T")


class Counter(Protocol):
    """What a turn is taken at."""

    def _join(self, turn: Turn[Any], /) -> None: ...
    def _quit(self, turn: Turn[Any], /) -> None: ...
    def _give_back(self, turn: Turn[Any], /) -> None: ...


class Turn(Future[T]):
    """A place in line that settles when it is served."""

    __slots__ = ("_counter", "_shared", "_what", "item")

    _lazy = True
    _returnable = True

    def __init__(self, counter: Counter, what: str, item: Any = None) -> None:
        super().__init__()
        self._counter = counter
        self._what = what
        self._shared = False  # more than one fiber was served by it
        self.item = item

    def _attach(self) -> None:
        self._counter._join(self)

    def _detached(self) -> Iterable[Future[Any]]:
        self._counter._quit(self)
        return ()

    def _unreceived(self) -> None:
        if not self._shared:
            self._counter._give_back(self)

    def serve(self, value: Any) -> None:
        """It is this turn's turn."""
        self._shared = type(self._waiters) is dict
        self._resolve(value)
        notify(self)

    def reopen(self) -> None:
        """Nobody saw the value: as if it had never been served."""
        self._state = PENDING

    def _describe(self) -> str:
        return self._what
