"""How records look at an instant: a promise past its deadline is settled, whatever is stored.

So is that of a job whose `good_until` has passed before it started.
"""

from msgspec.structs import replace

from holdfast.engine.job_state import expired_promise, is_expired, view_job
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.records import Halted, Millis, Promise, Task, TaskView


def is_live(promise: Promise, now: Millis) -> bool:
    return promise.state == "pending" and promise.timeout_at > now


def view_promise(promise: Promise, now: Millis, task: Task | None = None) -> Promise:
    """`task` is the promise's own, where it can be a job."""
    if promise.state != "pending":
        return promise
    if task is not None and task.job is not None and is_expired(task, now):
        return expired_promise(promise, task)
    return lapse(promise) if promise.timeout_at <= now else promise


def see_promise(promise: Promise, ws: WorkingSet, now: Millis) -> Promise:
    """The same, where all is at hand."""
    return view_promise(promise, now, ws.task(promise.id) if tags.JOB in promise.tags else None)


def lapse(promise: Promise) -> Promise:
    """A promise as its deadline leaves it."""
    state = "resolved" if tags.is_timer(promise.tags) else "rejected_timedout"
    return replace(promise, state=state, settled_at=promise.timeout_at)


def is_open(task: Task, now: Millis) -> bool:
    """Can anything still happen to this task? A task past its promise's deadline is fulfilled."""
    return (
        task.state != "fulfilled"
        and task.timeout_at > now
        and (task.job is None or not is_expired(task, now))
    )


def view_task(task: Task, now: Millis) -> TaskView:
    if is_open(task, now):
        return show_task(task, now)
    return TaskView(
        task.id,
        "fulfilled",
        task.version,
        0,
        started_at=task.started_at,
        retries=task.retries,
        error=task.error,
        job=view_job(task, now),
    )


def show_task(task: Task, now: Millis = 0) -> TaskView:
    """A task as it is stored."""
    return TaskView(
        task.id,
        task.state,
        task.version,
        task.resumes,
        task.pid,
        task.ttl,
        task.started_at,
        task.retries,
        task.error,
        None if task.job is None else view_job(task, now),
        _halted(task),
    )


def _halted(task: Task) -> Halted | None:
    if task.state != "halted" or task.corr_id is None or task.acquired_at is None:
        return None
    return Halted(task.acquired_at, task.error or "", task.corr_id)
