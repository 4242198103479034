# pyright: reportPrivateUsage=false
"""Ownership: queues and semaphores belong to one execution, as futures do.

Made inside a fiber, such a thing belongs to that fiber's scheduler. Made outside (at module level, say), it
belongs to the first scheduler that uses it. Every other use from inside a fiber is refused there: two
executions that share one would pass values and permits to each other that no record knows of. A replay runs
on a new scheduler, so what an earlier run of the same execution has used is refused as well: it is not as
it was then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.errors import wrong_execution
from holdfast.runtime.slot import current, slot

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler


class Owned:
    """Something of one execution that fibers use. Outside of fibers anybody may look at it."""

    __slots__ = ("_owner",)

    _owner: Scheduler | None

    _instead = ""  # what executions share in its place

    def _title(self) -> str:
        """What it is called in a sentence."""
        raise NotImplementedError

    def _admit(self, scheduler: Scheduler) -> bool:
        if self._owner is None:
            self._owner = scheduler
        return self._owner is scheduler

    def _looked_at(self) -> None:
        """From inside a fiber it is looked at only by its own execution."""
        scheduler = slot.scheduler
        if scheduler is not None and self._owner is not scheduler and not self._admit(scheduler):
            raise wrong_execution(self._title(), self._instead)

    def _used(self) -> None:
        """Only a fiber of its own execution changes it."""
        scheduler = current()
        if self._owner is not scheduler and not self._admit(scheduler):
            raise wrong_execution(self._title(), self._instead)
