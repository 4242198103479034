# pyright: reportPrivateUsage=false
"""The trampoline: what runs the body of a fiber until it has to wait.

1. `advance` loops. A wait that is already satisfied costs one turn of that loop, never a stack frame.
2. What cannot be awaited here (something foreign, a future of another execution) is refused at that line.
3. What a body raises is the failure of its fiber. Only a KeyboardInterrupt also goes on to the driver.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.runtime.errors import FiberExited, ForeignAwait, wrong_execution
from holdfast.runtime.future import PENDING, RESOLVED, Future, traceback_of
from holdfast.runtime.running_fiber import RunningFiber

_future: Final[Any] = Future  # typed like that, what a body yields need not be cast: this is the busiest loop


def advance(fiber: RunningFiber) -> None:
    """Run a ready fiber until it parks or is done."""
    scheduler = fiber.scheduler
    scheduler.running = fiber
    body = fiber.body
    send = body.send
    future: Any = fiber.resume
    fiber.resume = None
    error: BaseException | None = None
    if not fiber.started:
        fiber.started = True  # an error that came early waits in `thrown` for the first yield
    elif fiber.thrown is not None:
        error = fiber.take_thrown()
    try:
        while True:
            if error is not None:
                yielded = body.throw(error)
            elif future is None:
                yielded = send(None)
            elif future._state == RESOLVED:
                yielded = send(future._value)
            else:
                yielded = body.throw(future._failure())
            future = error = None
            if fiber.thrown is not None:
                error = fiber.take_thrown()
            elif not isinstance(yielded, _future):
                error = _foreign(yielded, fiber)
            else:
                future = yielded
                if future.scheduler is not scheduler and not future._admit(scheduler):
                    error, future = wrong_execution(future._describe()), None
                elif future._state == PENDING:
                    waiters = future._waiters
                    if waiters is None:
                        if future._lazy:
                            future._attach()
                            if future._state != PENDING:
                                future._claims += 1
                                continue
                        future._waiters = fiber
                    else:
                        future._add(fiber)
                    fiber.waiting = future
                    if future._linked:
                        scheduler.suspects.append(fiber)
                    return
                elif future._returnable:
                    future._claims += 1
    except StopIteration as stop:
        fiber._state = RESOLVED
        fiber._value = stop.value
    except Exception as failure:
        _fail(fiber, failure)
    except KeyboardInterrupt as failure:
        # Not the program's: the fiber is over and the driver is told.
        _fail(fiber, failure)
        fiber.finish()
        raise
    except BaseException as failure:
        _fail(fiber, _exited(fiber, failure))
    fiber.finish()


def _fail(fiber: RunningFiber, error: BaseException) -> None:
    trace = traceback_of(error)
    if trace is not None:
        BaseException.with_traceback(error, trace.tb_next)  # our own frame helps nobody
    fiber._reject(error)
    expected = error is getattr(fiber, "struck", None) or hasattr(fiber, "watched")
    if fiber._waiters is None and not expected:
        fiber.scheduler.unobserved[fiber] = None


def _exited(fiber: RunningFiber, error: BaseException) -> FiberExited:
    exited = FiberExited(
        f"Fiber {fiber.path} raised {error!r}, which is not an Exception. "
        f"Raise an ordinary one instead. [{FiberExited.code}]"
    )
    trace = traceback_of(error)
    if trace is not None:
        BaseException.with_traceback(error, trace.tb_next)
    exited.__cause__ = error
    return exited.with_traceback(trace)


def _foreign(yielded: object, fiber: RunningFiber) -> ForeignAwait:
    kind = type(yielded)
    if yielded is None:
        what = "a bare `yield`, or a library's way of giving way to its event loop (asyncio.sleep(0))"
        remedy = "Use `yield from` or `await` with a future of this runtime"
    elif kind.__name__ in ("Operation", "generator", "coroutine"):
        what = f"a bare `yield` of {yielded!r}"
        remedy = "Write `yield from` instead of `yield`; wrap a coroutine in delegate(...)"
    else:
        what = f"something of {kind.__module__}.{kind.__qualname__}"
        remedy = "Put the call inside a step: `await run(function, ...)`"
    return ForeignAwait(
        f"Fiber {fiber.path} waited for {what}. Only this runtime's futures and operations can be awaited in "
        f"a fiber, because only those are deterministic on replay. {remedy}. [{ForeignAwait.code}]"
    )
