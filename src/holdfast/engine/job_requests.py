"""task.fail, task.snooze, task.cancel, task.reschedule: requests for background tasks only."""

from holdfast.engine import jobs
from holdfast.engine.tasks import find_task, held_task
from holdfast.engine.view import is_open, view_task
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.errors import ClaimLost, InvalidField, NotAJob, NotWaiting, TaskOver, TaskRunning
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.records import Millis, Value
from holdfast.protocol.replies import Reply, TaskReply
from holdfast.protocol.requests import Request, TaskCancel, TaskFail, TaskReschedule, TaskSnooze


def fail(request: Request, data: TaskFail, ws: WorkingSet, now: Millis) -> Reply:
    task = held_task(data.id, data.version, ws, now)
    if task.job is None:
        raise NotAJob(f"The task {data.id!r} belongs to a workflow")
    if task.started_at is None:
        raise ClaimLost(f"The task {data.id!r} has not started, so it cannot have failed")
    jobs.fail(task, data.code, named(data.value, data.code), data.delay, ws, now, error=data.error)
    return Reply(200, TaskReply(view_task(find_task(data.id, ws), now)))


def named(value: Value, code: str) -> Value:
    """The value of a failure says its code, as the record of the job does. Whoever gave it another one knows
    why."""
    headers = value.headers or {}
    return value if CODE_HEADER in headers else Value({**headers, CODE_HEADER: code}, value.data)


def cancel(request: Request, data: TaskCancel, ws: WorkingSet, now: Millis) -> Reply:
    task = find_task(data.id, ws)
    if task.job is None:
        raise NotAJob(f"The task {data.id!r} belongs to a workflow")
    if is_open(task, now):
        if task.started_at is not None and not data.force:
            raise TaskRunning(data.id)
        jobs.cancel(task, ws, now)
    view = view_task(find_task(data.id, ws), now)
    assert view.job is not None
    if view.job.status != "CANCELLED":
        raise TaskOver(f"The task {data.id!r} is {view.job.status}")
    return Reply(200, TaskReply(view))


def snooze(request: Request, data: TaskSnooze, ws: WorkingSet, now: Millis) -> Reply:
    task = held_task(data.id, data.version, ws, now)
    if task.job is None:
        raise NotAJob(f"The task {data.id!r} belongs to a workflow")
    if task.started_at is None:
        raise ClaimLost(f"The task {data.id!r} has not started, so it cannot ask to be run later")
    jobs.snooze(task, now + data.delay, ws, now)
    return Reply(200, TaskReply(view_task(find_task(data.id, ws), now)))


def reschedule(request: Request, data: TaskReschedule, ws: WorkingSet, now: Millis) -> Reply:
    task = find_task(data.id, ws)
    if task.job is None:
        raise NotAJob(f"The task {data.id!r} belongs to a workflow")
    if not is_open(task, now):
        raise TaskOver(f"The task {data.id!r} is over")
    if task.state != "pending":
        raise NotWaiting(f"The task {data.id!r} does not wait: it is {task.state}")
    at = now if data.at is None else max(data.at, now)
    if at >= min(task.timeout_at, task.job.good_until or task.timeout_at):
        raise InvalidField(f"at is {at}, and the task {data.id!r} must have begun before")
    if task.parked or at > now:  # what is on offer keeps its place
        jobs.put_off(task, at, ws, now)
    return Reply(200, TaskReply(view_task(find_task(data.id, ws), now)))
