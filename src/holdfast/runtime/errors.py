"""Every error this package raises, so that a reader can see them side by side.

Two families matter to user code. What derives from `Exception` is an event of the program: it may be
caught, compensated for and recovered from. `ExecutionClosed` derives from `BaseException`: it says that
this body is being taken down, and `except Exception` must not mistake that for a failed step.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class Cancelled(Exception):
    """The whole execution was cancelled.

    Raised at the wait of every live fiber, a fresh instance in each, with what the canceller said as
    `__cause__`. It is an event, not a state: after catching it the next wait is an ordinary wait.

    `reason` is "timeout" if its deadline has come, and "cancelled" if somebody has cancelled it.
    """

    @property
    def reason(self) -> Literal["cancelled", "timeout"]:
        """Why: "timeout" or "cancelled"."""
        return "timeout" if isinstance(self.__cause__, TimedOut) else "cancelled"


class FiberInterrupted(Exception):
    """This fiber was interrupted, and `interrupt()` was given no other error to raise."""


class TimedOut(TimeoutError):
    """A time limit passed: of a `timeout` block, of `within`, or of an execution or promise that was awaited.

    `Timeout.expired` says whether it was the block's own. An attempt of a step that takes too long raises
    `StepTimedOut`, which derives from this.
    """

    code: ClassVar[str] = "HF5103"


class Deadlock(Exception):
    """Fibers wait for each other, or for something nobody is left to provide.

    It ends the execution and user code never catches it: running the same program again would get stuck
    at the same place. The message holds the wait graph.
    """


class NotInFiber(RuntimeError):
    """A function of the runtime was called where no fiber is running."""


class NotAwaited(TypeError):
    """A future or an operation was used as if it were its value: it stands for one that is not there yet."""

    code = "HF5111"


class ForeignAwait(TypeError):
    """A fiber awaited something that this scheduler cannot wait for. Raised at that very line."""


class FiberExited(Exception):
    """A fiber raised what is not an `Exception`: SystemExit, asyncio's CancelledError, or one of its own.

    Such an error is meant for whoever runs a process or a loop, and no fiber runs one. So it fails the fiber
    like any other error, as the `__cause__` of this one. Only KeyboardInterrupt goes through to the driver:
    it comes from a person at the keyboard, and says nothing about the program.
    """

    code = "HF5110"


class WrongExecution(RuntimeError):
    """A future, channel, queue, semaphore, fiber or scope of one execution was used in another.

    Its value would come from outside of what is recorded, so no replay could repeat it. It belongs to the
    execution in which it was made; if it was made outside of any, to the first one that used it. Raised at
    the line of that use.
    """

    code = "HF5120"


def wrong_execution(what: str, instead: str = "") -> WrongExecution:
    """`instead`: a sentence that says what executions share in place of such a thing."""
    return WrongExecution(
        f"{what[:1].upper()}{what[1:]} belongs to another execution, or to an earlier run of this one. "
        "Make it inside the workflow function that uses it; to pass a value from one execution to "
        f"another, use a durable promise or a call. {instead}[{WrongExecution.code}]"
    )


class StopIterationRaised(RuntimeError):
    """A step, or something else that was awaited, failed with `StopIteration`.

    Python takes a `StopIteration` inside a coroutine for its end, so it cannot be raised there. This error
    stands for it: the original is its `__cause__`, and `value` is what that one carried.
    """

    code = "HF5121"
    value: object = None


def stop_iteration_raised(original: StopIteration) -> StopIterationRaised:
    error = StopIterationRaised(
        f"What was awaited failed with {original!r}, which cannot be raised in a fiber. "
        f"Catch it inside the step, or give next() a default. [{StopIterationRaised.code}]"
    )
    error.value = original.value
    error.__cause__ = original
    return error


class ExecutionClosed(BaseException):
    """The execution is over or suspended and this fiber is being taken down.

    Raised at the wait the fiber was parked on, and by every wait and every durable call made while it
    unwinds. `finally` blocks therefore run for local cleanup only.
    """
