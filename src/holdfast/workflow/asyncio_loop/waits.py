# pyright: reportPrivateUsage=false
"""How a task of asyncio waits for a future of ours.

asyncio's task parks on a future of asyncio, made for this one wait, which is told when ours settles.

1. Cancelling the task ends its wait, not the future: others may wait for it, and it may be awaited again.
2. What nobody waits for after that is called off: a step finds its signal set, a call is asked to cancel
   itself, a task is cancelled. A promise stays open.
3. A value that was given to a task which was cancelled before it saw it goes back (an item of a queue, a
   permit).
"""

import asyncio
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from holdfast.runtime.combinator import call_off
from holdfast.runtime.errors import FiberInterrupted, wrong_execution
from holdfast.runtime.future import PENDING, Future, leave, unclaim

if TYPE_CHECKING:
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop


class LoopWait(asyncio.Future[None]):
    """One wait of one task."""

    def __init__(self, future: Future[Any], loop: "WorkflowLoop") -> None:
        super().__init__(loop=loop)
        self.future = future
        self._workflow_loop = loop

    def _fire(self, future: Future[Any], /) -> bool:
        self._workflow_loop.tell(self)
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return self._workflow_loop.parked_on

    def be_told(self) -> None:
        """The future has settled."""
        if not self.done():
            self.set_result(None)
        elif self.future._returnable:
            unclaim([self.future])

    def give_up(self, *, calls_off: bool) -> None:
        """The task does not wait any more."""
        future = self.future
        if future._state == PENDING:
            leave(future, self)
            if calls_off and future._waiters is None:
                call_off(future, FiberInterrupted("the task that waited for it was cancelled"))
        elif future._returnable and not self.cancelled():
            unclaim([future])


def wait_for(future: Future[Any], loop: "WorkflowLoop") -> Generator[Any, Any, Any]:
    """Park the running task until the future has settled."""
    if future.scheduler is not loop.scheduler and not future._admit(loop.scheduler):
        raise wrong_execution(future._describe())
    if future._state == PENDING and future._waiters is None and future._lazy:
        future._attach()
    if future._state != PENDING:
        if future._returnable:
            future._claims += 1  # type: ignore[attr-defined]
        return future._outcome()
    wait = LoopWait(future, loop)
    future._add(wait)
    loop.waits[wait] = None
    try:
        yield from wait
    except BaseException as error:
        wait.give_up(calls_off=isinstance(error, asyncio.CancelledError))
        raise
    finally:
        del loop.waits[wait]
    return future._outcome()
