"""Transitions of a job: expire, release, fail, lapse, make room for another with the same unique key.

Every end goes through `settle`, like that of any promise; what the end means for the job is in job_state.
"""

from msgspec.structs import replace

from holdfast.engine.job_state import (
    ended_attempt,
    expired_at,
    is_expired,
    next_retry,
    outcome_value,
    with_attempt,
)
from holdfast.engine.transitions import offer, offer_now, settle
from holdfast.engine.view import is_open, lapse, promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.errors import KeyTaken, TaskRunning
from holdfast.protocol.ids import is_covered
from holdfast.protocol.jobs import TASK_CANCELLED, TASK_EXPIRED, WORKER_CRASHED, OnUnique
from holdfast.protocol.records import NOTHING, Millis, Promise, Task, Value


def expire(
    task: Task, ws: WorkingSet, now: Millis, *, at: Millis | None = None, by_holder: bool = False
) -> Promise:
    """Its `good_until` has passed and nobody has started it."""
    instant = expired_at(task) if at is None else at
    value = outcome_value(TASK_EXPIRED, task)
    return settle(
        promise_of(task, ws), "rejected", value, instant, None, ws, now, "EXPIRED", by_holder=by_holder
    )


def write_end(task: Task, ws: WorkingSet, now: Millis) -> Promise:
    """Write down what has passed already: its `good_until`, or the deadline of its promise."""
    promise = promise_of(task, ws)
    if is_expired(task, now):
        return expire(task, ws, now)
    if promise.state == "pending" and promise.timeout_at <= now:
        lapsed = lapse(promise)
        return settle(promise, lapsed.state, NOTHING, lapsed.timeout_at, None, ws, now)
    return promise


def go_back(task: Task, ws: WorkingSet, now: Millis, *, rest_until: Millis = 0) -> None:
    """Pending again, as if it had not been claimed. Nothing is counted."""
    assert task.job is not None
    unclaimed = replace(
        task, started_at=None, job=replace(task.job, claimed_at=None, claimed_by=None, code=None)
    )
    if is_expired(unclaimed, now):  # it had started in time, and now it can never start again
        expire(task, ws, now, at=now, by_holder=True)
        return
    offer(unclaimed, ws, now, rest_until=rest_until)


def snooze(task: Task, until: Millis, ws: WorkingSet, now: Millis) -> None:
    """Pending again, and not before that instant. The attempt leaves no row and is not counted."""
    assert task.job is not None
    job = replace(task.job, claimed_at=None, claimed_by=None, code=None, enqueued_at=until)
    waiting = replace(task, started_at=None, bounces=0, job=job)
    if is_expired(waiting, now):  # it had started in time, and now it can never start again
        expire(task, ws, now, at=now, by_holder=True)
    else:
        offer(waiting, ws, now, rest_until=until)


def put_off(task: Task, at: Millis, ws: WorkingSet, now: Millis) -> None:
    """What waits may begin from this instant on."""
    assert task.job is not None
    job = replace(task.job, enqueued_at=at)
    if job.next_retry_at is not None:
        job = replace(job, next_retry_at=at)
    offer(replace(task, bounces=0, job=job), ws, now, rest_until=at)


def fail(
    task: Task,
    code: str,
    value: Value,
    delay: Millis | None,
    ws: WorkingSet,
    now: Millis,
    *,
    error: str | None = None,
    crashed: bool = False,
) -> None:
    """An attempt has ended badly: another one follows, or this was the last."""
    assert task.job is not None
    retry_at = next_retry(task, code, delay, now)
    if retry_at is None:
        settle(
            promise_of(task, ws),
            "rejected",
            value,
            now,
            None,
            ws,
            now,
            "FAILED",
            code=code,
            by_holder=not crashed,
        )
        return
    attempt = ended_attempt(task, now, code, will_retry=True, error=error)
    job = replace(
        task.job,
        attempts=with_attempt(task.job.attempts, attempt),
        enqueued_at=retry_at,
        next_retry_at=retry_at,
    )
    if crashed:
        job = replace(job, claimed_at=None, claimed_by=None)
    again = replace(task, started_at=None, retries=task.retries + 1, bounces=0, job=job)
    offer(again, ws, now, rest_until=retry_at)


def due(task: Task, ws: WorkingSet, now: Millis) -> None:
    """The one timer of a job has rung: its `good_until`, its lease, or its next offer."""
    if is_expired(task, now):
        expire(task, ws, now)
    elif not is_open(task, now):
        return
    elif task.state == "acquired" and task.started_at is not None:
        fail(task, WORKER_CRASHED, outcome_value(WORKER_CRASHED, task), None, ws, now, crashed=True)
    elif task.state == "acquired":
        go_back(task, ws, now)
    elif task.state == "pending":
        offer_now(task, ws, now)


def halt(task: Task, resting: Task, ws: WorkingSet, now: Millis) -> None:
    """Nobody may claim it until it is continued. A run under way is abandoned; deadlines still pass."""
    assert task.job is not None
    resting = replace(resting, due_at=task.job.good_until, started_at=None)
    if task.state == "acquired":
        resting = replace(resting, job=replace(task.job, claimed_at=None, claimed_by=None))
    if is_expired(resting, now):
        go_back(task, ws, now)
    else:
        ws.put_task(resting)


def cancel(task: Task, ws: WorkingSet, now: Millis) -> Promise:
    return settle(
        promise_of(task, ws), "rejected_canceled", outcome_value(TASK_CANCELLED, task), now, None, ws, now
    )


def make_room(
    unique: str, on_unique: OnUnique, name: str | None, scope: str | None, ws: WorkingSet, now: Millis
) -> Promise | None:
    """See to it that a new job can hold a unique key; or answer with the holder the caller gets instead.

    `name`: of the background task that is sent. A key is about one task: another one that holds it is neither
    an answer to the caller nor his to cancel.
    """
    holder = ws.holder_of(unique)
    task = None if holder is None else ws.task(holder)
    if task is None or task.job is None or task.state == "fulfilled":
        return None
    if not is_open(task, now):
        write_end(task, ws, now)
        return None
    if scope is not None and not is_covered(task.id, scope):
        raise KeyTaken(unique.partition("/")[2], None)
    other = promise_of(task, ws).tags.get(tags.TASK)
    if name is not None and other is not None and name != other:
        raise KeyTaken(unique.partition("/")[2], task.id)
    if on_unique == "existing":
        return promise_of(task, ws)
    is_running = task.started_at is not None
    if on_unique == "reject":
        raise KeyTaken(unique.partition("/")[2], task.id)
    if not is_running:
        cancel(task, ws, now)
    elif on_unique == "replace":
        raise TaskRunning(task.id)
    else:
        ws.put_task(replace(task, job=replace(task.job, unique=None)))
    return None
