"""What a job's record says at an instant, and how an end changes it. Nothing here touches a working set.

1. A job is in an attempt exactly while `started_at` is set. Only then does its `good_until` not count.
2. An attempt that ends leaves a row; what never started leaves none.
3. A reader sees the same before and after the sweep has written an end down: both use `close`.
"""

from functools import lru_cache
from zlib import crc32

from msgspec.structs import replace

from holdfast.protocol import limits
from holdfast.protocol.address import claim_group
from holdfast.protocol.jobs import (
    CODE_HEADER,
    TASK_CANCELLED,
    TASK_EXPIRED,
    TASK_TIMED_OUT,
    WORKER_HEADER,
    Attempt,
    Job,
    JobOutcome,
    JobSpec,
    JobStatus,
    JobView,
    queue_of,
)
from holdfast.protocol.records import Millis, Promise, PromiseState, Task, Value


def new_job(spec: JobSpec, target: str, delay: Millis | None, created_at: Millis) -> Job:
    return Job(
        created_at if spec.sent_at is None else spec.sent_at,
        max(delay or 0, created_at),
        spec.deadline(created_at),
        spec.retry,
        spec.key,
        None if spec.unique is None else unique_name(target, spec.unique),
    )


@lru_cache(maxsize=4096)
def queue_name(target: str) -> str:
    name = queue_of(claim_group(target) or "")
    assert name is not None, f"{target!r} is not the target of a job"
    return name


def unique_name(target: str, unique: str) -> str:
    """A unique key belongs to its queue, whose name holds no slash."""
    return f"{queue_name(target)}/{unique}"


def is_expired(task: Task, now: Millis) -> bool:
    """Has its `good_until` passed before it started? (A promise's own deadline, if sooner, goes before.)"""
    job = task.job
    return (
        job is not None
        and job.good_until is not None
        and job.good_until <= now
        and task.started_at is None
        and task.state != "fulfilled"
        and job.good_until < task.timeout_at
    )


def expired_at(task: Task) -> Millis:
    assert task.job is not None
    assert task.job.good_until is not None
    return max(task.job.good_until, task.created_at)


def outcome_value(code: str, task: Task) -> Value:
    """The value of an outcome that nobody but the engine decided."""
    headers = {CODE_HEADER: code}
    if task.job is not None and task.job.claimed_by is not None:
        headers[WORKER_HEADER] = task.job.claimed_by
    return Value(headers)


def close(
    task: Task,
    state: PromiseState,
    value: Value,
    at: Millis,
    outcome: JobOutcome | None = None,
    code: str | None = None,
) -> Job:
    """The job as it is when its promise has settled so."""
    job = task.job
    assert job is not None
    if code is None:
        code = (value.headers or {}).get(CODE_HEADER)
    if state == "resolved":
        outcome, code = outcome or "COMPLETED", None
    elif state == "rejected_timedout":
        outcome, code = ("EXPIRED" if task.started_at is None else "FAILED"), TASK_TIMED_OUT
    elif state == "rejected_canceled":
        outcome, code = outcome or "CANCELLED", code or TASK_CANCELLED
    else:
        outcome = outcome or "FAILED"
    attempts = job.attempts
    if task.started_at is not None:
        attempts = (*attempts, ended_attempt(task, at, code, completed=outcome == "COMPLETED"))
    return replace(job, attempts=attempts, outcome=outcome, code=code, finished_at=at, next_retry_at=None)


def ended_attempt(
    task: Task,
    at: Millis,
    code: str | None,
    *,
    completed: bool = False,
    will_retry: bool = False,
    error: str | None = None,
) -> Attempt:
    assert task.job is not None
    assert task.started_at is not None
    return Attempt(
        len(task.job.attempts) + 1,
        task.version,
        "COMPLETED" if completed else "FAILED",
        task.started_at,
        at,
        will_retry,
        code,
        task.pid,
        error,
    )


def with_attempt(attempts: tuple[Attempt, ...], ended: Attempt) -> tuple[Attempt, ...]:
    """One more has ended. Only the latest few keep what was told of them."""
    oldest = len(attempts) - limits.job_errors_max
    if oldest >= 0 and attempts[oldest].error is not None:
        attempts = (*attempts[:oldest], replace(attempts[oldest], error=None), *attempts[oldest + 1 :])
    return (*attempts, ended)


def next_retry(task: Task, code: str, delay: Millis | None, now: Millis) -> Millis | None:
    """When the attempt that has just failed is followed by another; None if it is not."""
    job = task.job
    assert job is not None
    rule = job.retry
    if rule is None or task.retries >= rule.limit or not rule.covers(code):
        return None
    if delay is None:
        if rule.base is None:
            delay = rule.delays[min(task.retries, len(rule.delays) - 1)]
        else:
            delay = int(min(rule.max, rule.base * rule.factor**task.retries))
        if rule.jitter:
            delay = _jitter(delay, task.id, task.retries)
    instant = now + delay
    deadline = task.timeout_at if job.good_until is None else min(task.timeout_at, job.good_until)
    return instant if instant < deadline else None


def _jitter(delay: Millis, task_id: str, retries: int) -> Millis:
    """Up to a quarter more or less: different for each task, the same on every node."""
    spread = limits.job_jitter_permille
    permille = crc32(f"{task_id}#{retries}".encode()) % (2 * spread + 1) - spread
    return max(limits.job_retry_ms_min, delay + delay * permille // 1000)


def view_job(task: Task, now: Millis) -> JobView | None:
    job = task.job
    if job is None:
        return None
    status: JobStatus
    if task.state != "fulfilled":
        if is_expired(task, now):
            job = close(task, "rejected", outcome_value(TASK_EXPIRED, task), expired_at(task), "EXPIRED")
        elif task.timeout_at <= now:
            job = close(task, "rejected_timedout", Value(), task.timeout_at)
    held = task.state == "acquired" and job.outcome is None
    if job.outcome is not None:
        status = job.outcome
    elif held:
        status = "CLAIMED" if task.started_at is None else "RUNNING"
    else:
        status = "PENDING"
    last = job.attempts[-1].started_at if job.attempts else None
    return JobView(
        status,
        queue_name(task.target),
        task.priority,
        job.sent_at,
        job.enqueued_at,
        job.good_until,
        job.retry,
        job.key,
        None if job.unique is None else job.unique.partition("/")[2],
        job.claimed_at,
        job.claimed_by,
        task.acquired_at if held else None,
        last if task.started_at is None else task.started_at,
        job.next_retry_at,
        task.retries,
        job.attempts,
        job.outcome,
        job.code,
        job.finished_at,
    )


def expired_promise(promise: Promise, task: Task) -> Promise:
    """A job's promise as its `good_until` leaves it."""
    return replace(
        promise, state="rejected", value=outcome_value(TASK_EXPIRED, task), settled_at=expired_at(task)
    )
