# pyright: reportPrivateUsage=false
"""Teardown: how fibers end that will not be resumed, because the root returned or the execution suspends.

CPython runs the `finally` blocks of a suspended body when the body is dropped, wherever that happens. So
they are run here instead, on purpose, at a known moment:

1. The outcome of the root is fixed before; nothing here can change it.
2. Newest fiber first: children before parents, always in the same order.
3. Each fiber unwinds in its own Context, with the slot on its own closed scheduler. `ExecutionClosed` is
   raised at its wait, and again by every wait and durable call it tries: local cleanup runs, nothing is
   recorded, nothing reaches another execution.
4. A body that never started is closed unrun. One that waits during cleanup is reported once. One that
   will not end after `unwind_throws_max` throws is reported with its line and kept, so that the garbage
   collector never gets to run it. One that catches what durable calls raise and makes them again is soon
   let wait instead (`Scheduler.refuse`), so that it is such a one too.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.runtime.diagnosis import innermost
from holdfast.runtime.driver import Report, Trouble
from holdfast.runtime.errors import ExecutionClosed

if TYPE_CHECKING:
    from holdfast.runtime.running_fiber import RunningFiber
    from holdfast.runtime.scheduler import Scheduler

unwind_throws_max: Final = 100


def take_down(scheduler: Scheduler) -> None:
    """Unwind every live fiber. The caller has marked the scheduler closed and filled the slot."""
    while scheduler.live:
        fiber, _ = scheduler.live.popitem()
        scheduler.running = fiber
        scheduler.refused = 0
        fiber.context.run(_unwind, fiber)
        fiber._reject(ExecutionClosed(f"{fiber.path} was taken down before it ended"))
        fiber.parent = fiber.children = fiber.waiting = None
        del fiber.context


def let_go(scheduler: Scheduler) -> None:
    """It is closed, and nobody asks for its result any more: cut what leads back to it, so that its memory is
    freed at once, not by the garbage collector."""
    scheduler.root = None
    scheduler.unobserved.clear()
    scheduler.locals.clear()


def _keep_for_ever(body: Any) -> None:
    """In a ring that leads through a code object, which the garbage collector does not look into.

    A list of ours would be emptied when Python exits. Python would then close the body, which would catch
    that too, and the process would never end. A free-threaded Python looks into code objects as well: there
    the body is given a reference that nobody returns.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(body))
        return
    ring: list[Any] = [body]
    ring.append(_keep_for_ever.__code__.replace(co_consts=(ring,)))


def _unwind(fiber: RunningFiber) -> None:
    if not fiber.started:
        fiber.body.close()
    else:
        unwind(fiber.body, fiber.path, fiber.scheduler.world.report)
    fiber.body = None


def unwind(body: Any, path: str, report: Callable[[Report], None]) -> None:
    """Raise `ExecutionClosed` in a suspended body until it ends (rules 3 and 4)."""
    waited = False
    try:
        for _ in range(unwind_throws_max):
            body.throw(ExecutionClosed("The execution is over or suspended; only local cleanup may run now."))
            if not waited:
                waited = True
                report(Report(Trouble.CLEANUP_WAITED, path, None, str(innermost(body) or "")))
    except (StopIteration, ExecutionClosed):
        pass
    except BaseException as error:
        report(Report(Trouble.CLEANUP_FAILED, path, error, ""))
    else:
        _keep_for_ever(body)
        report(Report(Trouble.WOULD_NOT_CLOSE, path, None, str(innermost(body) or "")))
