# pyright: reportPrivateUsage=false
"""Tasks: the future of a fiber, with the handle to interrupt it; and `spawn`, which makes one.

1. `spawn` queues the new fiber and returns; it first runs when the spawning fiber parks or ends.
2. A spawned fiber is the child of the one that spawned it, until that one ends (see fiber.py, 4).
3. Interrupting goes down the spawn tree, never up and never sideways. It is an event: children spawned
   later are not touched, and a task that catches the error goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast, overload

from holdfast.runtime.errors import TaskInterrupted
from holdfast.runtime.fiber import interrupt
from holdfast.runtime.future import PENDING, Future
from holdfast.runtime.operation import Operation
from holdfast.runtime.slot import current, current_fiber

if TYPE_CHECKING:
    from holdfast.runtime.fiber import Fiber

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Task(Future[T_co]):
    """A running fiber, seen from outside: await its result, or interrupt it."""

    __slots__ = ("_fiber", "_watched")

    _linked = True
    _fiber: Fiber

    def __init__(self) -> None:
        self._state = PENDING
        self._waiters = None
        self._watched = False

    @property
    def name(self) -> str:
        return self._fiber.name

    def interrupt(self, error: Exception | None = None) -> None:
        """Raise `error` (by default a `TaskInterrupted`) at the wait of this task and of all it spawned.

        Steps they have started find their signal set. A task that is done is left alone. Awaiting the
        task afterwards is what lets its cleanup finish before the root returns.
        """
        if error is None:
            error = TaskInterrupted(f"{self._fiber.path} was interrupted")
        elif isinstance(error, StopIteration | StopAsyncIteration) or not isinstance(
            cast(object, error), Exception
        ):
            raise TypeError(f"A task can only be interrupted with an ordinary exception, not {error!r}.")
        interrupt(self._fiber, error)

    def _detached(self) -> Iterable[Future[Any]]:
        self._watched = True  # a failure after this is no surprise: somebody looked and went away
        return ()

    def _observed(self) -> None:
        self._fiber.scheduler.unobserved.pop(self, None)

    def _inputs(self) -> Iterable[Future[Any]]:
        waiting = self._fiber.waiting
        return () if waiting is None else (waiting,)

    def _describe(self) -> str:
        return f"task {self._fiber.path}"


class Spawn(Protocol):
    """The signatures of `spawn`, free or on a scope: what was called already, or a function and arguments."""

    @overload
    def __call__(self, work: Future[T] | Operation[T], /, *, name: str | None = None) -> Task[T]: ...
    @overload
    def __call__(self, work: Coroutine[Any, Any, T], /, *, name: str | None = None) -> Task[T]: ...
    @overload
    def __call__(self, work: Generator[Any, Any, T], /, *, name: str | None = None) -> Task[T]: ...
    @overload
    def __call__(self, work: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> Task[T]: ...
    @overload
    def __call__(
        self, work: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Task[T]: ...
    @overload
    def __call__(
        self, work: Callable[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Task[T]: ...


def _spawn(work: Any, /, *args: Any, **kwargs: Any) -> Task[Any]:
    """Start a fiber beside this one and return its task.

    `spawn(work, 1)` calls `work(1)`; `spawn(work(1), name="first")` takes what was already called, and a
    name. When the root returns, fibers still running are abandoned; use `scope()` to wait for them.
    """
    return current().spawn(work, args, kwargs)


spawn: Spawn = _spawn


def current_task() -> Task[Any]:
    """The task of the fiber that asks."""
    return current_fiber().task
