"""Errors of the queue's API: what a programmer did, not what became of a task (those are codes: codes.py)."""

from collections.abc import Sequence
from typing import Any

from holdfast.protocol.errors import Explained


class TasksError(Explained):
    """Something is wrong with how tasks are declared, sent or asked about."""

    code = "HF6000"


class BadOption(TasksError, ValueError):
    """An option of a task, a queue, a schedule or a send that makes no sense."""

    code = "HF6001"


class DuplicateTask(TasksError):
    """Two functions claim the same name."""

    code = "HF6002"
    hint = "Give one of them another name."


class UnknownTask(TasksError):
    """A queued task asks for a function that this process does not have."""

    code = "HF6003"
    hint = "Import the module that defines it before the worker starts, or give it a queue of its own."


class NoSuchOutcome(TasksError):
    """`ok_value` of what failed, or `err_value` of what succeeded."""

    code = "HF6004"
    hint = "Ask `is_ok` first."


class BadCode(TasksError, ValueError):
    """An error code that is not one, or that is reserved."""

    code = "HF6005"
    hint = "Write codes of your own in capitals with underscores, such as SMTP_DOWN."


class BadPolicy(TasksError, ValueError):
    """A `Retry` with something that a task cannot have."""

    code = "HF6006"


class TaskNotFound(TasksError):
    """There is no task of this id."""

    code = "HF6007"
    hint = "Check the id. Finished tasks are deleted after their retention."


class CannotCancel(TasksError):
    """The task is running, or over."""

    code = "HF6008"
    hint = "`cancel(force=True)` stops a running task; a task that is over cannot be cancelled."


class CannotRerun(TasksError):
    """The task has not failed."""

    code = "HF6009"
    hint = "Only a task that ended as FAILED, CANCELLED or EXPIRED can be run again."


class CannotReschedule(TasksError):
    """The task does not wait, or must have begun before that instant."""

    code = "HF6023"
    hint = "Only a waiting task can be rescheduled, to a time before its deadlines."


class ScheduleNotFound(TasksError):
    """There is no schedule of this id."""

    code = "HF6020"
    hint = "Check the id; `app.schedules.list()` has those that exist."


class ScheduleExists(TasksError):
    """Another schedule has this id already."""

    code = "HF6021"
    hint = "Choose another id, or change the existing one: app.schedules.get(id).update(...)."


class SendFailed(TasksError):
    """A task was not sent. `error` says why (its `code`, its `task_id`, whether to try again: `retryable`);
    `results` has an Ok or an Err for each of the calls that were sent together."""

    code = "HF6022"
    hint = (
        "If `error.retryable`, send it again under `error.task_id`: it is not sent twice. "
        "`try_send` gives an Err instead of raising."
    )

    def __init__(self, what: str, error: Any = None, results: Sequence[Any] = ()) -> None:
        super().__init__(what)
        self.error = error
        self.results = results


class TaskLost(TasksError):
    """The reason given to a task whose result is no longer needed."""

    code = "HF6050"
    hint = "Its lease was lost, it was cancelled, or the worker is stopping: the function should return."


class PlainWorkflow(TasksError):
    """A workflow that is neither an async def nor a generator function."""

    code = "HF7008"
    hint = (
        "Write `async def` (or a generator with `yield from`), and call plain functions from it: "
        "`await hf.run(function, ...)`. If it needs no steps, make it a task: @app.task."
    )
