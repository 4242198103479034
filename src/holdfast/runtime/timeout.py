# pyright: reportPrivateUsage=false
"""Timeouts: a durable timer that throws the fiber out of a block.

1. The timer is durable: after a crash and a replay the block has the time that is left, not all of it.
2. What expires is the wait of the fiber inside the block. Steps and calls it started there are told that
   nobody wants their result. Fibers it spawned are not interrupted; put them in a `scope()` inside the block
   if they should be.
3. Once the block is left the timer is no longer waited for.
4. A body that catches the expiry and goes on has handled it: leaving the block then raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.runtime.errors import FiberInterrupted, TimedOut
from holdfast.runtime.future import PENDING, Future, leave
from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.slot import current_fiber
from holdfast.runtime.step import sleep
from holdfast.runtime.taken_in import take_in
from holdfast.runtime.throws import Block

if TYPE_CHECKING:
    from holdfast.runtime.running_fiber import RunningFiber

T = TypeVar("T")


class Timeout:
    """An open `async with timeout(...)` block."""

    __slots__ = (
        "_block",
        "_expiry",
        "_inner",
        "_owner",
        "_seconds",
        "_shields",
        "_timer",
        "_waited_for",
        "expired",
    )

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expiry = FiberInterrupted(f"the block's {seconds} seconds have passed")
        self._owner: RunningFiber | None = None
        self._timer: Future[None] | None = None
        self._block: Block | None = None
        self._shields = 0
        self._waited_for = ""
        self._inner: Any = None  # where strands of another kind run
        self.expired = False

    async def __aenter__(self) -> Timeout:
        if self._owner is not None:
            raise RuntimeError("A timeout is used once; call timeout() again.")
        self._owner = current_fiber()
        strands = self._owner.scheduler.strands
        if strands is not None:
            self._inner = strands.open_timeout(self._seconds)
            await self._inner.__aenter__()
            return self
        self._shields = self._owner.shields
        self._timer = sleep(self._seconds)
        if self._timer._state == PENDING:
            self._timer._add(self)
            self._owner.scheduler.alarms[self._timer] = self._owner
        self._block = self._owner.open_block()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None:
            await self._leave_inner(kind, error, trace)
            return
        if self._timer is not None:
            leave(self._timer, self)
            if self._owner is not None:
                self._owner.scheduler.alarms.pop(self._timer, None)
        if self._owner is not None:
            self._owner.retract(self._expiry)  # it came after the body's last wait: too late to matter
            if self._block is not None:
                self._owner.close_block(self._block)
        if error is self._expiry:
            raise TimedOut(
                f"The block did not end within {self._seconds} seconds: it waited for {self._waited_for}. "
                f"[{TimedOut.code}]"
            ) from None

    async def _leave_inner(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._inner.__aexit__(kind, error, trace)
        except TimeoutError:
            self.expired = True
            raise TimedOut(f"The block did not end within {self._seconds} seconds.") from None

    def _fire(self, future: Future[Any], /) -> bool:
        self.expired = True
        if self._owner is not None and self._block is not None:
            waiting = self._owner.resume if self._owner.waiting is None else self._owner.waiting
            self._waited_for = "its turn to run" if waiting is None else waiting._describe()
            self._block.call_off(self._expiry)
            self._owner.throw_from_block(self._expiry, self._shields)
        return False

    def _dependents(self) -> Iterable[Future[Any]]:
        return ()


def timeout(seconds: float) -> Timeout:
    """`async with timeout(30):` raises `TimedOut` if the block is still waiting after that time.

    The timer survives crashes. The block's own handlers see a `FiberInterrupted` first, so `finally` and
    `except` inside it run, and may still do durable work.
    """
    return Timeout(seconds)


def within(seconds: float, work: Waitable[T]) -> Operation[T]:
    """`work`, or `TimedOut`: the same as an operation, for generators and for one-liners.

    A step or a call that is given counts as started inside. To go on waiting for it later, shield it.
    """

    async def run_in_time() -> T:
        async with Timeout(seconds):
            if isinstance(work, Future) and current_fiber().scheduler.strands is None:
                take_in(work, current_fiber(), shelter_fibers=False)
            return await delegate(work)

    return Operation(run_in_time)
