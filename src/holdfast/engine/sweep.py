"""What the node does on its own: expire promises, lapse leases, offer tasks again, fire schedules.

Each is a request like any other. Each checks its own condition again, so that firing it late, early or
twice, by one node or by many, is harmless.
"""

from msgspec import Struct

from holdfast.engine import crashes, jobs
from holdfast.engine.events import deliver_more, is_undelivered
from holdfast.engine.job_state import is_expired
from holdfast.engine.jobs import expire
from holdfast.engine.schedules import fire_due
from holdfast.engine.transitions import offer_now, settle
from holdfast.engine.view import is_open, lapse
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.records import NOTHING, Millis
from holdfast.protocol.replies import EMPTY, Reply
from holdfast.protocol.requests import Request, RequestData


class PromiseDue(RequestData, frozen=True):
    id: str


class TaskDue(RequestData, frozen=True):
    id: str


class ScheduleDue(RequestData, frozen=True):
    id: str


class Due(Struct, frozen=True):
    """What a store found to be due, and the earliest instant at which more will be."""

    promises: list[str]
    tasks: list[str]
    schedules: list[str]
    next_at: Millis | None

    @property
    def is_empty(self) -> bool:
        return not (self.promises or self.tasks or self.schedules)


def sweep_requests(due: Due) -> list[Request]:
    """In this order: a promise that expires takes its task with it before the task's own deadline counts."""
    data: list[RequestData] = [
        *(PromiseDue(promise_id) for promise_id in due.promises),
        *(TaskDue(task_id) for task_id in due.tasks),
        *(ScheduleDue(schedule_id) for schedule_id in due.schedules),
    ]
    return [Request("sweep", "", CURRENT_VERSION, "A", item) for item in data]


def expire_promise(request: Request, data: PromiseDue, ws: WorkingSet, now: Millis) -> Reply:
    promise = ws.promise(data.id)
    task = None if promise is None else ws.task(data.id)
    if task is not None and is_expired(task, now):
        expire(task, ws, now)
    elif promise is not None and promise.state == "pending" and is_undelivered(promise):
        deliver_more(promise, ws, now)
    elif promise is not None and promise.state == "pending" and promise.timeout_at <= now:
        lapsed = lapse(promise)
        settle(promise, lapsed.state, NOTHING, lapsed.timeout_at, None, ws, now)
    return Reply(200, EMPTY)


def task_due(request: Request, data: TaskDue, ws: WorkingSet, now: Millis) -> Reply:
    task = ws.task(data.id)
    if task is None or task.due_at is None or task.due_at > now:
        return Reply(200, EMPTY)
    if task.job is not None:
        jobs.due(task, ws, now)
    elif is_open(task, now):
        if task.state == "acquired":  # the lease has lapsed: whoever held it may be dead
            crashes.lapse(task, ws, now)
        else:  # nobody took it, or it has rested long enough
            offer_now(task, ws, now)
    return Reply(200, EMPTY)


def fire_schedule(request: Request, data: ScheduleDue, ws: WorkingSet, now: Millis) -> Reply:
    entry = ws.schedule(data.id)
    if entry is not None:
        fire_due(entry, ws, now)
    return Reply(200, EMPTY)


def earliest_due(ws: WorkingSet) -> Millis | None:
    """The first instant at which one of the changed records wants the node's attention."""
    instants: list[Millis] = []
    for promise_id in ws.changed_promises:
        promise = ws.promises[promise_id]
        if promise is not None and promise.state == "pending" and ws.is_watched(promise_id):
            instants.append(promise.timeout_at)
    for task_id in ws.changed_tasks:
        task = ws.tasks[task_id]
        if task is not None and task.due_at is not None:
            instants.append(task.due_at)
    for schedule_id in ws.changed_schedules:
        entry = ws.schedules[schedule_id]
        if entry is not None:
            instants.append(entry.schedule.next_run_at)
    return min(instants, default=None)
