# pyright: reportPrivateUsage=false
"""An inbox: a queue that the world outside fills, one element at a time, each asked for by its number.

1. The next element is asked for only while a fiber waits for one and none is here. Its durable promise is
   what the waiting fibers wait for.
2. An element goes to one reader: the first in line. A reader may refuse to read it (`read` raises): then the
   element is set aside, and the reader waits for the next one.
3. A reader that is interrupted, or loses a race, takes nothing: what it was given goes back to its place, as
   in queue.py.
4. An inbox belongs to one execution (ownership.py).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.runtime.combinator import Combinator
from holdfast.runtime.errors import TimedOut
from holdfast.runtime.future import PENDING, REJECTED, Future, notify
from holdfast.runtime.ownership import Owned
from holdfast.runtime.turn import Turn

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T = TypeVar("T")


class Reader(Turn[T]):
    """A place in the line of an inbox. `read` makes its value of an element; `wanted` is the type of that."""

    __slots__ = ("read", "wanted")

    def __init__(self, inbox: Inbox, what: str, read: Callable[[Any], T], wanted: Any) -> None:
        super().__init__(inbox, inbox, what)
        self.read = read
        self.wanted = wanted


class Inbox(Owned):
    """`operation` gives the durable operation that asks for the n-th element; `set_aside` is told of one that
    a reader would not read, and why."""

    __slots__ = ("_awaited", "_elements", "_number", "_operation", "_readers", "_set_aside")

    def __init__(
        self,
        scheduler: Scheduler,
        operation: Callable[[int], object],
        set_aside: Callable[[Any, Exception], None],
        number: int = 0,
    ) -> None:
        self._owner = scheduler
        self._operation = operation
        self._set_aside = set_aside
        self._number = number  # of the last element that has come
        self._awaited: Future[Any] | None = None  # the promise of the next one
        self._elements: deque[tuple[int, Any]] = deque()
        self._readers: OrderedDict[Reader[Any], None] = OrderedDict()

    @property
    def taken(self) -> int:
        """The number up to which readers have taken elements, or set them aside."""
        return self._number - len(self._elements)

    @property
    def wanted(self) -> Any:
        """The type that the first in line is to be given."""
        return next((reader.wanted for reader in self._readers), Any)

    def get(self, what: str, read: Callable[[Any], T], wanted: Any = Any) -> Future[T]:
        """The next element as `read` makes it, once awaited."""
        self._used()
        return Reader(self, what, read, wanted)

    def let_go(self) -> None:
        """Its execution is closed, and nobody reads any more: cut what leads back to it."""
        self._readers.clear()
        self._awaited = None

    def _title(self) -> str:
        return "the mailbox"

    def _settle(self) -> None:
        readers, elements = self._readers, self._elements
        while readers and elements:
            reader = next(iter(readers))
            number, element = elements.popleft()
            try:
                value = reader.read(element)
            except Exception as error:
                self._set_aside(element, error)
                continue
            del readers[reader]
            reader.number, reader.item = number, element
            reader.serve(value)
        if readers and self._awaited is None and self._owner is not None:
            self._awaited = self._owner.issue(self._operation(self._number + 1))
            self._awaited._add(self)

    def _fire(self, future: Future[Any], /) -> bool:
        """The next element has come, or it never will."""
        self._awaited = None
        if future._state == REJECTED:
            for reader in [*self._readers]:
                reader._reject(future._value)
                notify(reader)
            self._readers.clear()
        else:
            self._number += 1
            self._elements.append((self._number, future._value))
            self._settle()
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return tuple(self._readers)

    def _join(self, turn: Turn[Any], /) -> None:
        assert isinstance(turn, Reader)
        self._readers[turn] = None
        self._settle()

    def _quit(self, turn: Turn[Any], /) -> None:
        assert isinstance(turn, Reader)
        self._readers.pop(turn, None)

    def _give_back(self, turn: Turn[Any], /) -> None:
        place = 0
        while place < len(self._elements) and self._elements[place][0] < turn.number:
            place += 1
        self._elements.insert(place, (turn.number, turn.item))
        turn.reopen()


class InTime(Combinator[T]):
    """What the first input settles with, or `TimedOut` when the second, a timer, is first."""

    __slots__ = ("_seconds",)
    _verb = "in time, one of"

    def __init__(self, work: Future[T], timer: Future[None], seconds: float, scheduler: Scheduler) -> None:
        self._seconds = seconds
        super().__init__((work, timer), scheduler)

    def _seen(self, member: Future[Any]) -> bool:
        if member is self._members[0]:
            self._adopt(member)
        else:
            waited_for = self._members[0]._describe()
            self._reject(
                TimedOut(f"{waited_for} did not come within {self._seconds:g} seconds. [{TimedOut.code}]")
            )
        return True


def is_taken(future: Future[Any]) -> bool:
    """Was its value given, and not handed back?"""
    return future._state != PENDING
