"""The current slot: which scheduler is running fibers on this thread, right now.

Free functions (`run`, `spawn`, `gather`, ...) take no context argument; they read the slot instead.

1. The slot is filled for the length of one drain or one teardown, then restored to what it was. Fibers
   never run outside those spans, so a free function called from module code, a timer or a step function
   finds it empty and says so at once.
2. The slot belongs to one thread. This is the only use of `threading` in this package: a plain module
   global would be read mid-drain by another thread that drives another scheduler, and a ContextVar would
   be copied into asyncio tasks that a driver starts, which then would look like fibers.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING

from holdfast.runtime.errors import NotInFiber

if TYPE_CHECKING:
    from holdfast.runtime.running_fiber import RunningFiber
    from holdfast.runtime.scheduler import Scheduler


class _Slot(local):
    scheduler: Scheduler | None = None


slot = _Slot()


def current() -> Scheduler:
    """The scheduler whose fiber is running on this thread."""
    scheduler = slot.scheduler
    if scheduler is None:
        raise NotInFiber(
            "This function works only in the code of a workflow. It was called elsewhere: in a module, a "
            "callback, a thread or a step. Call it from the workflow itself. [HF5122]"
        )
    return scheduler


def current_fiber() -> RunningFiber:
    """The fiber that is running on this thread."""
    fiber = current().running
    if fiber is None:
        raise NotInFiber(
            "No fiber is running here: the scheduler is between two fibers. "
            "Call it from the code of a workflow. [HF5122]"
        )
    return fiber
