# pyright: reportPrivateUsage=false
"""Timers of asyncio as durable timers.

1. A timer that is still wanted when all tasks wait becomes a durable one. `asyncio.timeout` around what does
   not wait costs nothing.
2. Timers run in the order of their instants, also when several have become due while nobody was there.
3. The loop's time is never before the instant of a timer that runs: libraries look.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from heapq import heappop, heappush
from math import inf, isnan
from typing import TYPE_CHECKING, Any

from holdfast.payloads.durations import pause_s
from holdfast.runtime import Timer
from holdfast.runtime.future import REJECTED, Future, leave

if TYPE_CHECKING:
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop


class DurableTimer(asyncio.TimerHandle):
    """What `call_later` gives: a handle, and the one who waits for the durable timer."""

    __slots__ = ("delay_s", "future", "is_due")

    def __init__(
        self,
        when: float,
        delay_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "WorkflowLoop",
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.delay_s = delay_s
        self.future: Future[Any] | None = None
        self.is_due = False

    def _fire(self, future: Future[Any], /) -> bool:
        self._loop.tell(self)  # type: ignore[attr-defined]
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return self._loop.parked_on  # type: ignore[attr-defined,no-any-return]

    def be_told(self) -> None:
        self._loop.timers.rang(self)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Timers:
    def __init__(self, loop: "WorkflowLoop") -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, DurableTimer]] = []
        self._new: list[DurableTimer] = []
        self._count = 0
        self.reached_s = -inf  # the instant of the last timer that ran

    def add(self, timer: DurableTimer) -> None:
        if isnan(timer.delay_s):
            raise ValueError("Invalid delay: NaN (not a number)")
        if timer.delay_s != inf:
            pause_s(timer.delay_s)
            self._new.append(timer)
            self._count += 1
            heappush(self._heap, (timer.when(), self._count, timer))
            timer._scheduled = True  # type: ignore[attr-defined]

    def cancelled(self, timer: DurableTimer) -> None:
        if timer.future is not None:
            leave(timer.future, timer)
            self._loop.waits.pop(timer, None)

    def rang(self, timer: DurableTimer) -> None:
        """The durable timer behind one has settled."""
        self._loop.waits.pop(timer, None)
        if timer.future is not None and timer.future._state == REJECTED:
            timer.future._outcome()  # the node would not keep it: raises why
        self.reached_s = max(self.reached_s, timer.when())

    def take_due(self, now: float) -> Iterable[DurableTimer]:
        """Those whose instant has come, in that order."""
        heap = self._heap
        while heap and (heap[0][0] <= now or heap[0][2].cancelled()):
            timer = heappop(heap)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self.cancelled(timer)
                timer.is_due = True
                yield timer

    def make_durable(self) -> None:
        """All tasks wait: those that are still wanted must ring."""
        new, self._new = self._new, []
        for timer in new:
            if not (timer.cancelled() or timer.is_due):
                timer.future = self._loop.scheduler.issue(Timer(round(timer.delay_s, 3)))
                timer.future._add(timer)
                self._loop.waits[timer] = None
