"""Run workflow code by hand in a test, without a server, a clock or a thread.

`Hand` drives one execution. Fibers ask for steps, timers and promises as always; the test decides what
completes, when and with what, and between two such decisions nothing moves.

    hand = Hand(order, 7)                  # runs until every fiber waits
    assert hand.waiting == ("charge",)
    hand.resolve("charge", "receipt")      # one completion, then everything that follows from it
    assert hand.result() == "receipt"

`drive` is for when the order does not matter: it performs steps and passes time until the end.

1. A promise's promise_id is its name; the second of the same name is `name/2`, and so on.
2. Time moves only in `elapse` and `drive`. Timers due at the same moment fire in order of issue.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType, TracebackType
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from holdfast.runtime.driver import Origin, Report
from holdfast.runtime.future import Future
from holdfast.runtime.operation import Operation
from holdfast.runtime.scheduler import Scheduler
from holdfast.runtime.slot import current
from holdfast.runtime.step import Step, Timer

P = ParamSpec("P")
T = TypeVar("T")


class ManualPromise:
    """A durable operation with a name and nothing behind it: the test settles it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"promise {self.name}"


def promise(name: str) -> Future[Any]:
    """Inside a fiber: a durable promise that the test settles with `hand.resolve(name, value)`."""
    return current().issue(ManualPromise(name))


class Hand:
    """One execution and the world around it, both driven by the test."""

    def __init__(
        self,
        work: Operation[Any] | Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | Callable[..., Any],
        *args: Any,
        on_root_exit: Literal["abandon", "join"] = "abandon",
        **kwargs: Any,
    ) -> None:
        self.issued: dict[str, object] = {}
        self.origins: dict[str, Origin] = {}
        self.reports: list[Report] = []
        self.now = 0.0
        self._names: dict[str, int] = {}
        self.due: dict[str, float] = {}
        self.scheduler = Scheduler(self, on_root_exit=on_root_exit)
        self.scheduler.start(work, *args, **kwargs)

    # The world, as the scheduler sees it.

    def issue(self, operation: object, /) -> str:
        name = getattr(operation, "name", None) or type(operation).__name__.lower()
        repeat = self._names[name] = self._names.get(name, 0) + 1
        promise_id = name if repeat == 1 else f"{name}/{repeat}"
        self.issued[promise_id] = operation
        self.origins[promise_id] = self.scheduler.origin()
        if isinstance(operation, Timer):
            self.due[promise_id] = self.now + operation.seconds
        return promise_id

    def report(self, report: Report, /) -> None:
        self.reports.append(report)

    # What a test does.

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids that fibers wait for."""
        return self.scheduler.waiting()

    @property
    def done(self) -> bool:
        return self.scheduler.done

    def result(self) -> Any:
        """The root's value; raises its error."""
        return self.scheduler.result()

    def resolve(self, promise_id: str, value: Any = None) -> None:
        self.due.pop(promise_id, None)
        self.scheduler.resolve(promise_id, value)

    def reject(self, promise_id: str, error: Exception) -> None:
        self.due.pop(promise_id, None)
        self.scheduler.reject(promise_id, error)

    def cancel(self, cause: BaseException | None = None) -> None:
        self.scheduler.cancel(cause)

    def perform(self, promise_id: str) -> None:
        """Call the function of a step and complete its promise with what comes out."""
        step = self.issued[promise_id]
        if not isinstance(step, Step):
            raise TypeError(f"{promise_id} is not a step: {step}")
        try:
            value: Any = step.call()
            if isinstance(value, CoroutineType):
                value = step.context.run(_finish, cast("Coroutine[Any, Any, Any]", value))
        except Exception as error:
            self.reject(promise_id, error)
        else:
            self.resolve(promise_id, value)

    def elapse(self, seconds: float) -> None:
        """Let time pass, firing each timer at its moment, the earliest first."""
        until = self.now + seconds
        while (timer := self.next_timer()) is not None and self.due[timer] <= until and not self.done:
            self.now = max(self.now, self.due[timer])
            self.resolve(timer)
        self.now = until

    def close(self) -> None:
        self.scheduler.close()

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def next_timer(self) -> str | None:
        return min(self.due, key=lambda promise_id: self.due[promise_id], default=None)


@overload
def drive(function: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
def drive(function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
def drive(function: Callable[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def drive(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run a workflow to its end: its steps in order of issue, and time when nothing else is left."""
    with Hand(function, *args, **kwargs) as hand:
        while not hand.done and hand.waiting:
            steps = [
                promise_id
                for promise_id in hand.scheduler.pending
                if isinstance(hand.issued[promise_id], Step)
            ]
            if steps:
                hand.perform(steps[0])
            elif (timer := hand.next_timer()) is not None:
                hand.elapse(hand.due[timer] - hand.now)
            else:
                raise RuntimeError(
                    f"drive() cannot settle {hand.waiting}; use Hand and settle them yourself."
                )
        return hand.result()


def _finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run an `async def` step that needs no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    coroutine.close()
    raise RuntimeError("This step awaits real I/O; settle its promise with resolve() instead of perform().")
