# pyright: reportPrivateUsage=false
"""Waiting in order: shared by `Queue` and `Semaphore`.

A `Turn` is a future that stands in somebody's line only while a fiber waits for it. That is what keeps
lines honest: an interrupted waiter does not hold its place, the loser of a race does not swallow an item.

1. First to wait, first served.
2. A turn nobody waits for is not in line; awaiting it again takes a new place at the end.
3. A turn that was granted, but that no fiber saw because those that waited were thrown out, is handed back.
4. A turn belongs to the execution of the queue or semaphore.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.runtime.future import PENDING, Future, notify, waiter_count
from holdfast.runtime.ownership import Owned

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")


class Counter(Protocol):
    """What a turn is taken at."""

    def _join(self, turn: Turn[Any], /) -> None: ...
    def _quit(self, turn: Turn[Any], /) -> None: ...
    def _give_back(self, turn: Turn[Any], /) -> None: ...
    def _settle(self) -> None: ...


class Turn(Future[T]):
    """A place in line that settles when it is served."""

    __slots__ = ("_claims", "_counter", "_of", "_what", "item", "number")

    _lazy = True
    _returnable = True

    def __init__(self, counter: Counter, of: Owned, what: str, item: Any = None) -> None:
        self._state = PENDING
        self._waiters = None
        self.scheduler = of._owner
        self._claims = 0
        self._counter = counter
        self._of = of
        self._what = what
        self.item = item
        self.number = 0  # of the item it was served with

    def _admit(self, scheduler: Scheduler) -> bool:
        if not self._of._admit(scheduler):
            return False
        self.scheduler = scheduler
        return True

    def _attach(self) -> None:
        self._counter._join(self)

    def _detached(self) -> Iterable[Future[Any]]:
        self._counter._quit(self)
        return ()

    def _unclaimed(self) -> Iterable[Future[Any]]:
        self._claims -= 1
        if not self._claims:
            self._counter._give_back(self)
        return ()

    def _restored(self) -> None:
        if self._state == PENDING:
            self._counter._settle()

    def serve(self, value: Any) -> None:
        """It is this turn's turn."""
        self._claims = waiter_count(self)
        self._resolve(value)
        notify(self)

    def reopen(self) -> None:
        """Nobody saw the value: as if it had never been served."""
        self._state = PENDING

    def _describe(self) -> str:
        return self._what
