"""Fibers as a user holds them: a future, with a way to interrupt the work behind it.

Every task is a `Fiber` (fiber.py) seen through the part of it that is public: one object, not two, since
spawning is the dearest thing a program does often.

1. Interrupting goes down the spawn tree, never up and never sideways.
2. It is an event, not a state: a task that catches the error goes on; what it spawns later is not touched.
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
        """The name and number that tell this task from all others of its execution."""
        return f"{self.name}#{self.number}"

    def interrupt(self, error: Exception | None = None) -> None:
        """Raise `error` (by default a `FiberInterrupted`) at the wait of this task and of all it spawned.

        Steps they have started find their signal set, and what they called is cancelled. A task that is done
        is left alone. Awaiting the task afterwards is what lets its cleanup finish before the root returns.
        """
        if error is None:
            error = FiberInterrupted(f"{self.path} was interrupted")
        elif isinstance(error, StopIteration | StopAsyncIteration) or not isinstance(
            cast(object, error), Exception
        ):
            raise TypeError(f"A task can only be interrupted with an ordinary exception, not {error!r}.")
        if not self._belongs_to(current()):
            raise NotInFiber("A task can only be interrupted by a running fiber of its own execution.")
        self._interrupt(error)

    def _belongs_to(self, scheduler: Scheduler) -> bool:
        raise NotImplementedError

    def _interrupt(self, error: Exception, *, gently: bool = False) -> None:
        raise NotImplementedError

    def _describe(self) -> str:
        return f"task {self.path}"
