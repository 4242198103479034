# pyright: reportPrivateUsage=false
"""Scopes: fibers that cannot outlive the block that started them.

1. Leaving the block waits for every fiber of the scope, however it is left. Only a KeyboardInterrupt does not
   wait, nor what closes the block's own generator or fiber.
2. The first fiber to fail interrupts its siblings and, if it is still inside, the block itself. The failures
   are raised together as an ExceptionGroup, in spawn order; what was only interrupted is not among them.
3. An error of the block itself interrupts the fibers, and comes out as it is when no fiber failed too.
4. `Cancelled`, and an interrupt of the fiber that owns the scope, interrupt its fibers and come out as
   they are, whatever their class, and never inside a group: a scope cannot swallow a cancellation. Of several
   errors thrown at the owner a cancellation comes out first, then an interrupt.
5. A scope belongs to the execution that entered it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.runtime.errors import Cancelled, ExecutionClosed, FiberInterrupted, wrong_execution
from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import PENDING, REJECTED, Future, notify
from holdfast.runtime.operation import Operation, Waitable, delegate
from holdfast.runtime.slot import current, current_fiber
from holdfast.runtime.spawn import Spawn
from holdfast.runtime.throws import Block

if TYPE_CHECKING:
    from holdfast.runtime.running_fiber import RunningFiber

T = TypeVar("T")


class _Emptied(Future[None]):
    """Settles when a scope has no running fiber left."""

    __slots__ = ("_scope",)

    _linked = True

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope = scope

    def _inputs(self) -> Iterable[Future[Any]]:
        return self._scope._open

    def _describe(self) -> str:
        return "the scope's fibers " + ", ".join(fiber.path for fiber in self._scope._open)


class Scope:
    """`async with scope() as s:`, then `s.spawn(...)`. In a generator: `yield from scoped(body)`."""

    __slots__ = (
        "_block",
        "_emptied",
        "_failed",
        "_group",
        "_leaving",
        "_open",
        "_owner",
        "_shields",
        "_sibling_failed",
    )

    def __init__(self) -> None:
        self._owner: RunningFiber | None = None
        self._open: dict[Fiber[Any], None] = {}
        self._failed: dict[Fiber[Any], None] = {}  # the first to fail first
        self._block: Block | None = None
        self._group: Any = None  # where strands of another kind run
        self._leaving = False
        self._shields = 0
        self._emptied: _Emptied | None = None
        self._sibling_failed = FiberInterrupted("another fiber of the same scope failed")

    def _spawn(self, work: Any, /, *args: Any, **kwargs: Any) -> Fiber[Any]:
        if self._owner is None or (self._leaving and not self._open and self._group is None):
            raise RuntimeError("This scope is not open: spawn inside its `async with` block.")
        scheduler = current()
        if self._owner.scheduler is not scheduler:
            raise wrong_execution("a scope")
        if self._group is not None and scheduler.strands is not None:
            return scheduler.strands.spawn(work, args, kwargs, self._group)
        fiber: Fiber[Any] = scheduler.spawn(work, args, kwargs, parent=self._owner)
        self._open[fiber] = None
        fiber._add(self)
        return fiber

    @property
    def spawn(self) -> Spawn:
        """As `hf.spawn`. The block ends only when the fiber has ended."""
        return self._spawn

    async def __aenter__(self) -> Scope:
        if self._owner is not None:
            raise RuntimeError("A scope is used once; call scope() again.")
        self._owner = current_fiber()
        strands = self._owner.scheduler.strands
        if strands is not None:
            self._group = strands.open_group()
            await self._group.__aenter__()
            return self
        self._shields = self._owner.shields
        self._block = self._owner.open_block()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = cast("RunningFiber", self._owner)
        self._leaving = True
        if self._group is not None:
            await self._leave_group(kind, error, trace)
            return
        owner.retract(self._sibling_failed)
        owner.close_block(cast(Block, self._block))
        if isinstance(error, ExecutionClosed):
            return  # the fiber is being taken down, and so are the others
        if owner.scheduler.closed:
            if owner.scheduler.has_refused_enough:
                await Future[None]()  # never settled: gives control back to the teardown
            return
        if error is self._sibling_failed:
            error = None
        if error is not None:
            self._stop(FiberInterrupted("the block of the scope was left with an error"))
        if isinstance(error, KeyboardInterrupt | GeneratorExit):
            return  # neither can wait
        while self._open:
            self._emptied = _Emptied(self)
            try:
                await self._emptied
            except Exception as thrown:
                if self._rank(thrown) >= self._rank(error):
                    error = thrown
                self._stop(FiberInterrupted("the owner of the scope was interrupted"))
        failures = self._failures(error)
        if error is not None and (not failures or self._rank(error) > 1):
            raise error
        if failures:
            raise self._together(failures if error is None else [error, *failures]) from None

    async def _leave_group(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as failed:
            errors: tuple[BaseException, ...] = failed.exceptions
            own = [each for each in errors if each is error]
            failures = [each for each in errors if each is not error]
            if own and not failures:
                raise own[0] from None
            raise self._together([*own, *failures]) from None

    def _rank(self, error: BaseException | None) -> int:
        """Of two errors the one with the higher rank comes out; what has more than 1 comes out alone."""
        if error is None:
            return 0
        if not isinstance(error, Exception):
            return 5
        if isinstance(error, Cancelled):
            return 4
        if error is getattr(self._owner, "struck", None):
            return 3  # an interrupt of the owner
        return 2 if isinstance(error, FiberInterrupted) else 1

    def _together(self, errors: list[BaseException]) -> BaseException:
        """What is raised when fibers failed; an error of the block itself is the first in the list."""
        return BaseExceptionGroup("fibers of a scope failed", errors)

    def _fire(self, future: Future[Any], /) -> bool:
        fiber = cast("Fiber[Any]", future)
        del self._open[fiber]
        if fiber._state == REJECTED and fiber._value is not getattr(fiber, "struck", None):
            self._failed[fiber] = None
            if len(self._failed) == 1:
                self._stop(self._sibling_failed)
                if not self._leaving:
                    cast(Block, self._block).call_off(self._sibling_failed)
                    cast("RunningFiber", self._owner).throw_from_block(self._sibling_failed, self._shields)
        if not self._open and self._emptied is not None and self._emptied._state == PENDING:
            self._emptied._resolve(None)
            notify(self._emptied)
        return False

    def _stop(self, error: Exception) -> None:
        """Interrupt what is still running, except where an error is already on its way: the cancellation
        or interrupt that reached the owner was thrown at its fibers too, and says more than ours would."""
        for fiber in list(self._open):
            if not cast("RunningFiber", fiber).is_interrupted:
                fiber._interrupt(error, gently=True)

    def _dependents(self) -> Iterable[Future[Any]]:
        return () if self._emptied is None else (self._emptied,)

    def _failures(self, error: BaseException | None) -> list[BaseException]:
        failed = sorted(self._failed, key=lambda fiber: fiber.number)
        return [fiber._value for fiber in failed if fiber._value is not error]


def scope() -> Scope:
    """A block that waits for the fibers it spawned.

    >>> async def both() -> int:
    ...     async with scope() as s:
    ...         a = s.spawn(work, 1)
    ...         b = s.spawn(work, 2)
    ...     return await a + await b

    Leaving the block waits for them. If one fails, the others are interrupted, and the block raises an
    ExceptionGroup.
    """
    return Scope()


def scoped(function: Callable[[Scope], Waitable[T]]) -> Operation[T]:
    """Run `function(scope)` in its own scope: the spelling for generators, which have no `async with`."""

    async def run_in_scope() -> T:
        async with Scope() as opened:
            return await delegate(function(opened))

    return Operation(run_in_scope)
