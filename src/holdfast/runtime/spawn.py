"""`spawn`: start a fiber beside the running one.

1. The new fiber is queued; it first runs when the spawning fiber parks or ends. Fibers spawned first run
   first.
2. It is the child of the one that spawned it, until that one ends (fiber.py, rule 4).
3. It belongs to the execution: when the root returns, what is still running is abandoned.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation
from holdfast.runtime.slot import current, current_fiber as running_fiber, slot

P = ParamSpec("P")
T = TypeVar("T")


class Spawn(Protocol):
    """The signatures of `spawn`, free or on a scope: what was called already, or a function and arguments."""

    @overload
    def __call__(self, work: Future[T] | Operation[T], /, *, name: str | None = None) -> Fiber[T]: ...
    @overload
    def __call__(self, work: Coroutine[Any, Any, T], /, *, name: str | None = None) -> Fiber[T]: ...
    @overload
    def __call__(self, work: Generator[Any, Any, T], /, *, name: str | None = None) -> Fiber[T]: ...
    @overload
    def __call__(self, work: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> Fiber[T]: ...
    @overload
    def __call__(
        self, work: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Fiber[T]: ...
    @overload
    def __call__(
        self, work: Callable[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Fiber[T]: ...


def _spawn(work: Any, /, *args: Any, **kwargs: Any) -> Fiber[Any]:
    """Start a fiber beside this one and return it. Await it for its result.

    `spawn(work, 1)` calls `work(1)`. `spawn(work(1), name="first")` takes what was already called, and a
    name. Fibers that still run when the workflow returns are abandoned; use `scope()` to wait for them.
    """
    fiber: Fiber[Any] = (slot.scheduler or current()).spawn(work, args, kwargs)
    return fiber


spawn: Spawn = _spawn


def current_fiber() -> Fiber[Any]:
    """The fiber that asks."""
    return running_fiber()
