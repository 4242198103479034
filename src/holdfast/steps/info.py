"""What code may know about the execution or task it is part of: in a workflow, in its steps, in a task."""

from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from holdfast.payloads.durations import datetime_of
from holdfast.protocol import tags
from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Promise
from holdfast.protocol.reported import ReportedProgress
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import step_signal

never_ms: Final = 250_000_000_000_000  # later than any date that Python knows


class StepProgress(Struct, frozen=True):
    """How far a step or a background task has come, as it reported. `fields`: what else it reported."""

    fraction: float | None = None
    fields: dict[str, Any] = {}
    at: datetime | None = None


def read_progress(found: ReportedProgress) -> StepProgress:
    return StepProgress(found.fraction, found.fields, datetime_of(found.at))


class ExecutionInfo(Struct, frozen=True):
    """Where the code is running.

    `id`, `workflow`: of the execution; in a background task, its own id and name. `attempt`: in a step or a
    task, the number of this attempt, from 1; in the code of a workflow it counts the claims so far, which
    differ from replay to replay, so use it for the log and never for an `if`. `deadline`: when its time is
    over. `token`: a fencing token, larger for each worker that takes over; pass it to services that refuse a
    smaller one than they have seen. `step`: in a step, an idempotency key, the same on every attempt; another
    one in an execution that was started again under its id.
    `generation`: how often the execution has continued as new. `progress`: in a step or a task, what
    `hf.progress` reported last, in this attempt or the one before.
    """

    id: str
    workflow: str
    attempt: int
    deadline: datetime | None
    token: int
    step: str | None = None
    generation: int = 0
    progress: StepProgress | None = None

    @property
    def signal(self) -> Signal:
        """In a step or a task: the signal that is set when its result is no longer needed."""
        return step_signal()


def describe(root: Promise, workflow: str, version: int) -> ExecutionInfo:
    told_at = root.timeout_at - (tags.grace_of(root.tags) or 0)  # what is left then is for cleaning up
    deadline = datetime_of(told_at) if root.timeout_at < never_ms else None
    generation = generation_of(root).number
    return ExecutionInfo(root.id, workflow, version, deadline, version, generation=generation)
