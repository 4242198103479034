# pyright: reportPrivateUsage=false
"""A queue: many values, each to one reader, in order. The stream that a channel is not.

1. Items leave in the order they came in; readers are served in the order they began to wait.
2. An item is taken when a reader is served and at no other time. A reader that is interrupted, or loses
   a race, takes nothing: an item it was given returns to its place among the others.
3. A bounded queue makes writers wait in line for room; their items keep the writers' order.
4. A queue belongs to one execution (ownership.py).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Generic, TypeVar, cast

from holdfast.runtime.future import Future
from holdfast.runtime.ownership import Owned
from holdfast.runtime.slot import slot
from holdfast.runtime.turn import Turn

T = TypeVar("T")


class _Writers:
    """The line of those who wait for room."""

    def __init__(self, queue: Queue[Any]) -> None:
        self.queue = queue
        self.line: OrderedDict[Turn[None], None] = OrderedDict()

    def _join(self, turn: Turn[Any], /) -> None:
        self.line[turn] = None
        self.queue._settle()

    def _quit(self, turn: Turn[Any], /) -> None:
        self.line.pop(turn, None)

    def _give_back(self, turn: Turn[Any], /) -> None:
        """The item is in the queue: an interrupt that comes after cannot take it back out."""

    def _settle(self) -> None:
        self.queue._settle()


class Queue(Owned, Generic[T]):
    """A deterministic, in-memory queue inside one execution. `size_max=None` is unbounded.

    Crash: a replay fills it again by running the same code. See `Channel` for a rendezvous.
    """

    __slots__ = ("_entered", "_items", "_readers", "_writers", "name", "size_max")

    def __init__(self, size_max: int | None = None, name: str = "") -> None:
        if size_max is not None and size_max < 1:
            raise ValueError(f"A queue must have room for at least one item, not {size_max}.")
        self.size_max = size_max
        self.name = name
        self._owner = slot.scheduler
        self._entered = 0
        self._items: deque[tuple[int, T]] = deque()  # numbered as they came in
        self._readers: OrderedDict[Turn[T], None] = OrderedDict()
        self._writers = _Writers(self)

    def __len__(self) -> int:
        self._looked_at()
        return len(self._items)

    def _title(self) -> str:
        return f"queue {self.name}" if self.name else "a queue"

    def put(self, item: T) -> Future[None]:
        """Add an item now if there is room; otherwise await the future to wait for room."""
        self._used()
        turn: Turn[None] = Turn(self._writers, self, f"room in queue {self.name}".rstrip(), item)
        turn._attach()
        return turn

    def get(self) -> Future[T]:
        """The next item, once awaited."""
        self._looked_at()
        return Turn(self, self, f"an item of queue {self.name}".rstrip())

    def _settle(self) -> None:
        """Move items from writers to the queue and from the queue to readers until neither can move."""
        writers, readers, items = self._writers.line, self._readers, self._items
        while True:
            if readers and items:
                reader, _ = readers.popitem(last=False)
                reader.number, item = items.popleft()
                reader.serve(item)
            elif writers and (self.size_max is None or len(items) < self.size_max):
                writer, _ = writers.popitem(last=False)
                self._entered += 1
                items.append((self._entered, cast(T, writer.item)))
                writer.serve(None)
            else:
                return

    def _join(self, turn: Turn[Any], /) -> None:
        self._readers[turn] = None
        self._settle()

    def _quit(self, turn: Turn[Any], /) -> None:
        self._readers.pop(turn, None)

    def _give_back(self, turn: Turn[Any], /) -> None:
        items = self._items
        place = 0
        while place < len(items) and items[place][0] < turn.number:
            place += 1
        items.insert(place, (turn.number, turn._value))
        turn.reopen()
