# pyright: reportPrivateUsage=false, reportIncompatibleMethodOverride=false
"""Durable futures that asyncio takes for its own: `gather(hf.run(a), hf.run(b))` needs no task for each.

They have the methods of `asyncio.Future`, and do what those do. Awaiting one is different in one respect:
see rule 1 of waits.py. `cancel()` is for good: the operation is called off, and whoever waits gets
CancelledError.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.runtime.combinator import call_off
from holdfast.runtime.errors import FiberInterrupted
from holdfast.runtime.future import PENDING, REJECTED, RESOLVED, Future
from holdfast.runtime.step import Durable
from holdfast.workflow.asyncio_loop.refusals import refuse
from holdfast.workflow.asyncio_loop.waits import LoopWait, wait_for

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop

Callback = Callable[[Any], object]


def _loop_of(strands: Any) -> "WorkflowLoop":
    loop: WorkflowLoop = strands.loop
    return loop


class _Callbacks:
    """Who asked to be called when a durable future is done."""

    __slots__ = ("future", "known")

    def __init__(self, future: "WorkflowDurable") -> None:
        self.future = future
        self.known: list[tuple[Callback, Context]] = []

    def _fire(self, future: Future[Any], /) -> bool:
        self.future.get_loop().tell(self)
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return self.future.get_loop().parked_on

    def be_told(self) -> None:
        loop = self.future.get_loop()
        loop.waits.pop(self, None)
        known, self.known = self.known, []
        for callback, context in known:
            loop.call_soon(callback, self.future, context=context)


class WorkflowDurable(Durable[Any]):
    __slots__ = ("_callbacks", "_cancelled", "_hash")

    _asyncio_future_blocking = False  # this is what asyncio knows a future by

    def __init__(self, promise_id: str, operation: object, scheduler: "Scheduler") -> None:
        super().__init__(promise_id, operation, scheduler)
        self._callbacks: _Callbacks | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._hash = self.get_loop().next_hash()

    def __hash__(self) -> int:
        return self._hash

    def __iter__(self) -> Generator[Any, Any, Any]:
        if self._cancelled is not None:
            raise self._cancelled
        if self._state == RESOLVED:
            return self._value
        return (yield from wait_for(self, self.get_loop()))

    __await__ = __iter__

    def get_loop(self) -> "WorkflowLoop":
        return _loop_of(self.scheduler.strands)

    def done(self) -> bool:
        return self._state != PENDING or self._cancelled is not None

    def cancelled(self) -> bool:
        return self._cancelled is not None

    def result(self) -> Any:
        if self._cancelled is not None:
            raise self._cancelled
        if self._state == PENDING:
            raise asyncio.InvalidStateError("Result is not set.")
        return super().result()

    def exception(self) -> BaseException | None:
        if self._cancelled is not None:
            raise self._cancelled
        if self._state == PENDING:
            raise asyncio.InvalidStateError("Exception is not set.")
        return self._value if self._state == REJECTED else None

    def add_done_callback(self, callback: Callback, *, context: Context | None = None) -> None:
        loop = self.get_loop()
        context = copy_context() if context is None else context
        if self.done():
            loop.call_soon(callback, self, context=context)
            return
        if self._callbacks is None:
            self._callbacks = _Callbacks(self)
            self._add(self._callbacks)
            loop.waits[self._callbacks] = None
        self._callbacks.known.append((callback, context))

    def remove_done_callback(self, callback: Callback) -> int:
        known = [] if self._callbacks is None else self._callbacks.known
        kept = [each for each in known if each[0] != callback]
        removed = len(known) - len(kept)
        if self._callbacks is not None:
            self._callbacks.known = kept
        return removed

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        for waiter in reversed([*self._take_waiters()]):
            if isinstance(waiter, LoopWait):
                waiter.cancel(msg)
            elif isinstance(waiter, _Callbacks):
                waiter.be_told()
            else:  # a combinator: it waits for what the operation comes to
                self._add(waiter)
        call_off(self, FiberInterrupted("it was cancelled"))
        return True

    @property
    def _cancel_message(self) -> Any:
        return self._cancelled.args[0] if self._cancelled is not None and self._cancelled.args else None

    def _make_cancelled_error(self) -> asyncio.CancelledError:  # `gather` passes it on
        message = self._cancel_message
        return asyncio.CancelledError() if message is None else asyncio.CancelledError(message)

    def set_result(self, value: object) -> NoReturn:
        refuse("set_result for what is durable; a promise is settled by app.resolve")

    def set_exception(self, error: object) -> NoReturn:
        refuse("set_exception for what is durable; a promise is settled by app.reject")
