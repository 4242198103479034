"""What has a place in a queue, and what counts there: background tasks, and executions that were sent to one.

1. A background task counts while it is held.
2. An execution counts from its first claim until it is over, also while it is suspended, waits to be claimed
   again, or is halted. So whoever counts already is never kept out by the limit that it counts in.
"""

from holdfast.protocol.records import Task


def is_queued(task: Task) -> bool:
    return task.job is not None or task.place is not None


def key_of(task: Task) -> str | None:
    """What limits per key count it by."""
    if task.job is not None:
        return task.job.key
    return None if task.place is None else task.place.key


def has_entered(task: Task) -> bool:
    """Is it an execution that counts already?"""
    return task.place is not None and task.place.entered_at is not None


def is_counted(task: Task) -> bool:
    if task.job is not None:
        return task.state == "acquired"
    return has_entered(task) and task.state != "fulfilled"
