"""Observers: who is told what happened to executions and tasks, for traces, metrics and error reports.

They only look. What they are told has happened for good: an operation or an execution is told after the
commit that records it, by the process that wrote it. So a replay tells nothing again. A process that is
killed between the commit and the telling has told nothing.

1. An observer that raises is logged, and changes nothing.
2. Everything is told on the loop of the worker, so an observer must be quick.
"""

import logging
from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from holdfast.protocol.records import Promise

log = logging.getLogger("holdfast.worker")

Ending = Literal["completed", "failed", "cancelled"]


class EndedOperation(Struct, frozen=True):
    """An operation of an execution that the code has seen the end of. Times are the node's, in ms."""

    root: Promise
    workflow: str
    id: str
    kind: str  # step, sleep, promise, call, start, message, tell, ask, attach
    name: str
    began_at: float
    ended_at: float
    attempts: int = 1
    error: BaseException | None = None
    other: str | None = None  # the execution or task that was called, told or awaited
    headers: dict[str, str] | None = None  # of a message that was received


class EndedExecution(Struct, frozen=True):
    root: Promise
    workflow: str
    ended_at: float
    ending: Ending
    error: BaseException | None = None


class FailedAttempt(Struct, frozen=True):
    """An attempt at a step or a task. `delay_s`: after which it is tried again; None if it is not, or if the
    node decides that (`is_final` is False then)."""

    kind: Literal["step", "task"]
    id: str
    execution: str
    workflow: str
    name: str
    attempt: int
    error: BaseException
    delay_s: float | None
    is_final: bool


class TaskAttempt(Struct, frozen=True):
    """One run of a background task. `waited_s`: from when it might have begun; `code`: of its failure."""

    id: str
    name: str
    queue: str
    attempt: int
    waited_s: float
    took_s: float = 0.0
    code: str | None = None
    is_over: bool = False  # no attempt follows


class Observer:
    """Override what you want to be told of."""

    def execution_began(self, root: Promise, workflow: str, waited_s: float) -> None:
        """Its first claim, by whichever worker."""

    def execution_ended(self, ended: EndedExecution) -> None: ...

    def operation_ended(self, ended: EndedOperation) -> None: ...

    def wants_operations(self) -> bool:
        """Asked whenever an execution is claimed. What nobody wants is not described: there is much of it."""
        return type(self).operation_ended is not Observer.operation_ended

    def attempt_failed(self, failed: FailedAttempt) -> None: ...

    def task_began(self, attempt: TaskAttempt) -> None: ...

    def task_ended(self, attempt: TaskAttempt) -> None: ...


class Observers:
    """All observers of an app as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = [*observers]

    def add(self, observer: Observer) -> None:
        self._observers.append(observer)

    def remove(self, observer: object) -> None:
        self._observers = [each for each in self._observers if each is not observer]

    def __bool__(self) -> bool:
        return bool(self._observers)

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._observers)

    def wanting_operations(self) -> "Observers":
        """Those of them that are to be told of the operations of an execution that is about to run."""
        return Observers(*(each for each in self._observers if each.wants_operations()))

    def tell(self, event: str, *told: Any) -> None:
        for observer in self._observers:
            try:
                getattr(observer, event)(*told)
            except Exception:
                log.exception("an observer raised an exception: %s.%s", type(observer).__name__, event)


SILENT: Final = Observers()
