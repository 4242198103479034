"""Where a task is in its life."""

from enum import StrEnum
from typing import Final


class TaskStatus(StrEnum):
    """The seven states. `TaskStatus.FAILED.is_terminal` is True."""

    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"

    @property
    def is_terminal(self) -> bool:
        """Nothing will change any more."""
        return self in TASK_TERMINAL_STATES


TASK_TERMINAL_STATES: Final = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.EXPIRED}
)
