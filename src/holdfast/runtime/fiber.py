"""Fibers as a user holds them: a future, with a way to interrupt the work behind it.

What runs is a `RunningFiber` (running_fiber.py); this is the part of it that is public. One object, not two,
since spawning is the dearest thing a program does often.

1. Interrupting goes down the spawn tree, never up and never sideways.
2. It is an event, not a state: a fiber that catches the error goes on; what it spawns later is not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from holdfast.runtime.errors import FiberInterrupted, NotInFiber
from holdfast.runtime.future import Future
from holdfast.runtime.slot import current

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

T_co = TypeVar("T_co", covariant=True)


class Fiber(Future[T_co]):
    """A fiber, seen from outside: await its result, or interrupt it."""

    __slots__ = ("name", "number")

    name: str
    number: int

    @property
    def path(self) -> str:
        """The name and number that tell this fiber from all others of its execution."""
        return f"{self.name}#{self.number}"

    def interrupt(self, error: Exception | None = None) -> None:
        """Raise `error` (by default a `FiberInterrupted`) at the wait of this fiber and of all it spawned.

        The signals of their steps are set, and what they called is cancelled. A fiber that is done is left
        alone. Await the fiber afterwards, so that its cleanup ends before the workflow returns.
        """
        if error is None:
            error = FiberInterrupted(f"{self.path} was interrupted")
        elif isinstance(error, StopIteration | StopAsyncIteration) or not isinstance(
            cast(object, error), Exception
        ):
            raise TypeError(f"A fiber can only be interrupted with an ordinary exception, not {error!r}.")
        if not self._belongs_to(current()):
            raise NotInFiber(
                "A fiber can only be interrupted by a running fiber of its own execution. "
                "Call interrupt() there, or cancel the execution. [HF5122]"
            )
        self._interrupt(error)

    def _belongs_to(self, scheduler: Scheduler) -> bool:
        raise NotImplementedError

    def _interrupt(self, error: Exception, *, gently: bool = False) -> None:
        raise NotImplementedError

    def _describe(self) -> str:
        return f"fiber {self.path}"
