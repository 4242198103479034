"""Fibers, futures and the scheduler: cooperative concurrency that comes out the same on every replay.

Pure: no event loop, no I/O, no clock, no protocol. A driver feeds completions in, one at a time (driver.py);
everything that follows from one is over before the next is seen. docs/reference/runtime.md is the guide.

Reading order: future, operation, fiber, advance, scheduler, spawn; then throws, combinator, scope, teardown,
waitgraph.
"""

from holdfast.runtime.channel import Channel
from holdfast.runtime.combine import all_settled, any_of, gather, race, select
from holdfast.runtime.driver import Driver, Origin, Report, Trouble
from holdfast.runtime.errors import (
    Cancelled,
    Deadlock,
    ExecutionClosed,
    FiberExited,
    FiberInterrupted,
    ForeignAwait,
    NotAwaited,
    NotInFiber,
    StopIterationRaised,
    TimedOut,
    WrongExecution,
)
from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import Future
from holdfast.runtime.local import Local
from holdfast.runtime.operation import Operation, delegate, operation
from holdfast.runtime.outcome import Err, Ok, Selected
from holdfast.runtime.queue import Queue
from holdfast.runtime.scheduler import Scheduler, open_schedulers
from holdfast.runtime.scope import Scope, scope, scoped
from holdfast.runtime.semaphore import Semaphore
from holdfast.runtime.shield import shield
from holdfast.runtime.signals import Signal
from holdfast.runtime.slot import current
from holdfast.runtime.spawn import current_fiber, spawn
from holdfast.runtime.step import Durable, Revocable, Step, Timer, named, run, sleep, step_signal
from holdfast.runtime.stream import as_completed, map_over
from holdfast.runtime.timeout import Timeout, timeout, within

# The names of the field. Not in __all__: a star import must not shadow the builtins.
all = gather  # noqa: A001
any = any_of  # noqa: A001

__all__ = [
    "Cancelled",
    "Channel",
    "Deadlock",
    "Driver",
    "Durable",
    "Err",
    "ExecutionClosed",
    "Fiber",
    "FiberExited",
    "FiberInterrupted",
    "ForeignAwait",
    "Future",
    "Local",
    "NotAwaited",
    "NotInFiber",
    "Ok",
    "Operation",
    "Origin",
    "Queue",
    "Report",
    "Revocable",
    "Scheduler",
    "Scope",
    "Selected",
    "Semaphore",
    "Signal",
    "Step",
    "StopIterationRaised",
    "TimedOut",
    "Timeout",
    "Timer",
    "Trouble",
    "WrongExecution",
    "all_settled",
    "any_of",
    "as_completed",
    "current",
    "current_fiber",
    "delegate",
    "gather",
    "map_over",
    "named",
    "open_schedulers",
    "operation",
    "race",
    "run",
    "scope",
    "scoped",
    "select",
    "shield",
    "sleep",
    "spawn",
    "step_signal",
    "timeout",
    "within",
]
