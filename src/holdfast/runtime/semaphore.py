# pyright: reportPrivateUsage=false
"""A semaphore: at most so many fibers at a time, first come, first served.

1. Permits in use plus permits free is constant; an interrupted waiter neither takes nor loses one.
2. It belongs to one execution (ownership.py): it does not limit what others do.
3. A released permit goes to the fiber that has waited longest, before anyone who asks later.
"""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import Any

from holdfast.runtime.future import Future
from holdfast.runtime.ownership import Owned
from holdfast.runtime.slot import slot
from holdfast.runtime.turn import Turn


class Semaphore(Owned):
    """`async with semaphore:`, or `yield from semaphore.acquire()` and `semaphore.release()`.

    In memory and local to one execution. Taking a permit that is free does not park the fiber.
    """

    __slots__ = ("_free", "_line", "_permits", "name")

    _instead = "To limit what several executions do at a time, use hf.permits(...) or hf.lock(...). "

    def __init__(self, permits: int, name: str = "") -> None:
        if permits < 1:
            raise ValueError(f"A semaphore needs at least one permit, not {permits}.")
        self._owner = slot.scheduler
        self._permits = permits
        self._free = permits
        self._line: OrderedDict[Turn[Any], None] = OrderedDict()
        self.name = name

    @property
    def free(self) -> int:
        """How many permits are free."""
        self._looked_at()
        return self._free

    def _title(self) -> str:
        return f"semaphore {self.name}" if self.name else "a semaphore"

    def acquire(self) -> Future[None]:
        """A permit, once awaited."""
        self._looked_at()
        return Turn(self, self, f"a permit of semaphore {self.name or 'without a name'}")

    def release(self) -> None:
        """Give a permit back. It goes to the fiber that has waited longest."""
        self._used()
        if self._free == self._permits:
            raise RuntimeError("The semaphore was released more often than it was acquired.")
        self._free += 1
        self._settle()

    def _settle(self) -> None:
        """Hand free permits to those who wait."""
        while self._free and self._line:
            turn, _ = self._line.popitem(last=False)
            self._free -= 1
            turn.serve(None)

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _join(self, turn: Turn[Any], /) -> None:
        if self._free:
            self._free -= 1
            turn.serve(None)
        else:
            self._line[turn] = None

    def _quit(self, turn: Turn[Any], /) -> None:
        self._line.pop(turn, None)

    def _give_back(self, turn: Turn[Any], /) -> None:
        turn.reopen()
        self._free += 1
