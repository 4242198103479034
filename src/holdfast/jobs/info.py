"""What is known about a task: its status, every instant of its life, its attempts."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from holdfast.jobs.codes import as_code
from holdfast.jobs.telling import AttemptTrouble, last_trouble, read_trouble
from holdfast.payloads.durations import datetime_of, datetime_or_none
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.jobs import Attempt, JobView
from holdfast.protocol.records import Promise, TaskView
from holdfast.steps.info import StepProgress, read_progress


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
        """Whether it has ended, so that nothing changes any more."""
        return self in TASK_TERMINAL_STATES


TASK_TERMINAL_STATES: Final = frozenset(
    {TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.EXPIRED}
)


class AttemptInfo(Struct, frozen=True):
    """One run of the function that has ended. `token` is what `current().token` was in it."""

    number: int
    status: TaskStatus  # COMPLETED or FAILED
    will_retry: bool
    started_at: datetime
    finished_at: datetime
    error_code: str | None
    worker: str | None
    token: int
    error: str | None = None  # what it said; of the latest ten that failed
    traceback: str | None = None  # its end


class TaskInfo(Struct, frozen=True):
    """A background task at an instant: what `handle.info()` returns.

    `sent_at`: when the caller sent it. `enqueued_at`: when it may be claimed, after its delay or its latest
    retry. `claimed_at`, `claimed_by`: kept when it ends, cleared when it went back without having run.
    `started_at`: when the latest attempt started. `finished_at`: when it ended, in whatever state.
    `completed_at`: the same, if it succeeded. `failed_at`: the same, if it failed or expired.
    `next_retry_at`: when the next attempt is due; None when it is over. `attempts`: those that ended, oldest
    first. `progress`: what the task reported last with `hf.progress`, unless it has completed.
    """

    id: str
    name: str
    queue: str
    status: TaskStatus
    priority: int
    retry_count: int
    retry_limit: int
    sent_at: datetime
    enqueued_at: datetime
    claimed_at: datetime | None
    claimed_by: str | None
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    next_retry_at: datetime | None
    good_until: datetime | None
    error_code: str | None
    key: str | None
    limit_key: str | None
    attempts: tuple[AttemptInfo, ...]
    rerun_of: str | None = None
    finished_at: datetime | None = None
    progress: StepProgress | None = None


def read_info(view: TaskView, promise: Promise, payloads: Payloads) -> TaskInfo:
    job = view.job
    assert job is not None, "only a job has a lifecycle"
    status = TaskStatus(job.status)
    finished_at = datetime_or_none(job.finished_at)
    return TaskInfo(
        id=view.id,
        name=promise.tags.get(tags.TASK, ""),
        queue=job.queue,
        status=status,
        priority=job.priority,
        retry_count=job.retries,
        retry_limit=0 if job.retry is None else job.retry.limit,
        enqueued_at=datetime_of(job.enqueued_at),
        completed_at=finished_at if status is TaskStatus.COMPLETED else None,
        failed_at=datetime_or_none(job.finished_at)
        if status in (TaskStatus.FAILED, TaskStatus.EXPIRED)
        else None,
        finished_at=finished_at,
        started_at=datetime_or_none(job.started_at),
        error_code=None if job.code is None else as_code(job.code),
        key=job.unique,
        limit_key=job.key,
        attempts=_attempts(job, promise, payloads),
        rerun_of=promise.tags.get(tags.RERUN_OF),
        progress=read_progress(view.progress[0]) if view.progress else None,
        **_instants(job),
    )


def _instants(job: JobView) -> dict[str, Any]:
    return {
        "sent_at": datetime_of(job.sent_at),
        "claimed_at": datetime_or_none(job.claimed_at),
        "claimed_by": job.claimed_by,
        "next_retry_at": datetime_or_none(job.next_retry_at),
        "good_until": datetime_or_none(job.good_until),
    }


def _attempts(job: JobView, promise: Promise, payloads: Payloads) -> tuple[AttemptInfo, ...]:
    troubles = [read_trouble(each.error, payloads) for each in job.attempts]
    if job.outcome == "FAILED" and troubles and job.attempts[-1].error is None:
        troubles[-1] = last_trouble(promise, payloads)
    return tuple(map(_attempt, job.attempts, troubles))


def _attempt(attempt: Attempt, trouble: AttemptTrouble) -> AttemptInfo:
    return AttemptInfo(
        attempt.number,
        TaskStatus(attempt.outcome),
        attempt.will_retry,
        datetime_of(attempt.started_at),
        datetime_of(attempt.finished_at),
        None if attempt.code is None else as_code(attempt.code),
        attempt.pid,
        attempt.version,
        trouble.message or None,
        trouble.traceback or None,
    )
