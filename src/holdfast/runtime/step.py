# pyright: reportPrivateUsage=false
"""Durable operations a fiber can ask for here: steps and timers. Others are added by whoever drives.

A durable operation is a plain record handed to the world (driver.py), which answers with an id; the future
of that id is what the caller gets.

1. A step has a name: its function's. Without one a replay could not be checked against what was recorded,
   so an anonymous function is refused at the call.
2. A step gets a signal of its own, below that of the fiber that started it. Cancelling the execution,
   interrupting the fiber, the end of a timeout around it or losing a race sets it. It is made when somebody
   asks for it: a replay, which performs nothing, pays nothing.
3. A step runs in a copy of the fiber's Context, so loggers and tracers see where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from holdfast.runtime.errors import NotInFiber
from holdfast.runtime.future import PENDING, Future
from holdfast.runtime.signals import Signal
from holdfast.runtime.slot import current, current_fiber

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")


class Revocable:
    """A durable operation that can be told that nobody wants its result any more."""

    __slots__ = ("_above", "_signal", "_unwatch", "_watcher")

    def __init__(self, above: Signal | None) -> None:
        """`above`: what calls it off as well; None if it is called off by itself only."""
        self._above = above
        self._signal: Signal | None = None
        self._watcher: Callable[[], None] | None = None
        self._unwatch: Callable[[], bool] | None = None

    @property
    def signal(self) -> Signal:
        if self._signal is None:
            self._signal = Signal() if self._above is None else self._above.child()
            if self._watcher is not None and (self._unwatch is None or self._unwatch()):
                self._unwatch = self._signal.on_set(self._watcher)
        return self._signal

    @property
    def is_called_off(self) -> bool:
        told_by = self._signal or self._above
        return told_by is not None and told_by._reason is not None

    @property
    def called_off_because(self) -> BaseException | None:
        told_by = self._signal or self._above
        return None if told_by is None else told_by._reason

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called once when nobody wants the result any more: it, alone, and until `unwatch`.

        Until somebody asks for the signal of its own, that is when the one above is set.
        """
        self._watcher = watcher
        told_by = self._signal or self._above
        if told_by is not None:
            self._unwatch = told_by.on_set(watcher)

    def unwatch(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._watcher = self._unwatch = None

    def call_off(self, reason: BaseException) -> None:
        """Nobody wants the result any more."""
        self.signal.set(reason)

    def move_under(self, above: Signal) -> None:
        """From now on it is called off with that signal, and no longer with the fiber that started it."""
        self.signal.move_under(above)


class Step(Revocable):
    """A function call to be performed once, outside the fibers, and remembered."""

    __slots__ = (
        "args", "around", "claim", "context", "emitter", "function", "id", "kwargs", "name", "placed",
        "progress",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        above: Signal | None,
    ) -> None:
        self.name = name
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.placed: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # with what a driver adds
        self.around: Any = None  # what a driver puts around each attempt
        self.id: str | None = None  # that a driver gave it
        self.claim: Any = None  # what it is performed under: see steps/here.py
        self.emitter: Any = None  # made when it first emits
        self.progress: Any = None  # that the attempt before has told of
        self.context: Context = copy_context()
        self._above = above
        self._signal = None
        self._watcher = None
        self._unwatch = None

    def call(self) -> Any:
        """Call the function, in the step's Context, with its signal in reach.

        An `async def` gives a coroutine: await it in a task created with `context=step.context`.
        """
        return self.context.run(self.perform)

    def perform(self, attempt: int = 1, signal: Signal | None = None) -> Any:
        """Call the function in the Context that is current, for a driver that makes one for each attempt.

        `signal` is the attempt's own, below the step's, when the attempt can be given up alone.
        """
        attempt_here.set((self, attempt, signal))
        args, kwargs = self.placed or (self.args, self.kwargs)
        return self.function(*args, **kwargs)

    def __str__(self) -> str:
        return f"step {self.name}"


# What is performed here: the step, which attempt at it this is, and the signal of that attempt, if it has one
# of its own. All that a function may ask for is found from there, and made when it is asked for.
attempt_here: ContextVar[tuple[Step, int, Signal | None]] = ContextVar("holdfast step attempt")


class Timer:
    """A wait until so many seconds after it was first asked for."""

    __slots__ = ("seconds",)

    can_fail = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __str__(self) -> str:
        return f"timer of {self.seconds} s"


@overload
def run(function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
@overload
def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
def run(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Perform a step: call `function` outside the fibers, once, and remember its result.

    The step is under way when this returns; await the future for the result. Inside the function,
    `step_signal()` tells whether the result is still wanted.
    """
    fiber = current_fiber()
    step = Step(_name(function), function, args, kwargs, fiber.signal())
    return fiber.scheduler.issue(step)


def sleep(seconds: float) -> Future[None]:
    """A durable timer: settles that many seconds after it was first asked for, also across crashes."""
    if not isfinite(seconds) or seconds < 0:
        raise ValueError(f"Cannot sleep for {seconds} seconds.")
    return current().issue(Timer(seconds))


def named(name: str, function: Callable[P, T]) -> Callable[P, T]:
    """Give a lambda or a partial the name its step is recorded under: `run(named("pay", lambda: ...))`."""
    call = partial(function)
    call.__name__ = name  # type: ignore[attr-defined]
    return call


def step_signal() -> Signal:
    """The signal of the step that is running here. It is set when the result is no longer needed.

    >>> def download(pages: list[str]) -> None:
    ...     for page in pages:
    ...         hf.step_signal().raise_if_set()
    ...         store(page)
    """
    found = attempt_here.get(None)
    if found is None:
        raise NotInFiber(
            "step_signal() is for step functions; no step is running here. Call it inside one. [HF5122]"
        )
    step, _, signal = found
    return step.signal if signal is None else signal


def _name(function: Callable[..., Any]) -> str:
    name = str(getattr(function, "__name__", "")).strip()
    if not name or name == "<lambda>":
        raise TypeError(
            f"The step {function!r} has no name to be recorded under. Use a `def`, or run(named('...', f))."
        )
    return name


class Durable(Future[T]):
    """A future for something that is recorded: a step, a timer, a call, a promise. `promise_id` is its id."""

    __slots__ = ("id", "operation")

    _durable = True

    # A fiber waits for it, as nearly always. Where strands of another kind do, the scheduler makes its own.
    if not TYPE_CHECKING:
        __iter__ = __await__ = Future._park

    def __init__(self, promise_id: str, operation: object, scheduler: Scheduler) -> None:
        self._state = PENDING
        self._waiters = None
        self.scheduler = scheduler
        self.id = promise_id
        self.operation = operation

    def _describe(self) -> str:
        return f"durable promise {self.id} ({self.operation})"
