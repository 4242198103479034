"""The interface between fibers and what is outside of them: what a driver provides, what it is given.

The driver (a worker, a simulator, a test) owns the world: it records durable operations, performs steps,
watches timers. It gives the scheduler a `Driver` of two functions and feeds completions back:

    scheduler.start(body)             run the root until every fiber waits
    scheduler.resolve(id, value)      one completion, then a full drain
    scheduler.reject(id, error)       the same for a failure
    scheduler.cancel(cause)           throw Cancelled into every fiber, then a full drain
    scheduler.waiting()               the promise ids the fibers wait for: what to suspend on
    scheduler.done, scheduler.result()
    scheduler.close()                 take the fibers down; always the last call

1. Only what was dispatched is visible. The driver may know more completions; the fibers see them one at a
   time, in the order of dispatch. Feeding the same order again runs the same path again.
2. `Driver.issue` is called on the fiber's stack. It returns an id at once and never waits. What it raises
   is raised at the line of the durable call. `scheduler.origin()` there names fiber, file and line.
3. Whenever the driver has nothing to feed, it asks `waiting()`. That call, and every drain, may find that
   no completion could ever help: then `done` turns true and `result()` raises `Deadlock`, which no retry
   will cure.
4. Between two calls nothing of the scheduler is on any stack: a suspended one may be kept for days and
   resumed from another thread, as long as one thread at a time drives it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class Origin(NamedTuple):
    """Where in the user's program something happened."""

    fiber: str
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f'fiber {self.fiber}, File "{self.file}", line {self.line}, in {self.function}'


class Trouble(Enum):
    """What a report is about. Nothing here changes the outcome of the execution."""

    FAILED_NOT_AWAITED = "a fiber failed and nobody awaited it"
    CLEANUP_WAITED = "a finally block waited while its fiber was being taken down"
    CLEANUP_FAILED = "a finally block raised while its fiber was being taken down"
    WOULD_NOT_CLOSE = "a fiber kept catching ExecutionClosed and was given up"
    CALLBACK_FAILED = "a callback of a step's signal raised"
    LOOP_REPORTED = "the event loop of the workflow reports"
    LEFT_BEHIND = "the root returned and this fiber waits for something that cannot happen"


class Report(NamedTuple):
    """Something a person should see in the logs."""

    trouble: Trouble
    fiber: str
    error: BaseException | None
    where: str

    def __str__(self) -> str:
        cause = "" if self.error is None else f": {self.error!r}"
        return f"{self.trouble.value}: {self.fiber}{cause}{self.where and f' at {self.where}'}"


class Driver(Protocol):
    """What a driver implements."""

    def issue(self, operation: object, /) -> str:
        """Begin a durable operation; return the id its completion will carry.

        Returning the id of a promise that is still pending gives the caller the same future again.
        """
        ...

    def report(self, report: Report, /) -> None:
        """Take note of something that went wrong on the side."""
        ...
