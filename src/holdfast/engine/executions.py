"""execution.*: an execution or a background task as it is at an instant, found by what is true of it."""

from msgspec.structs import replace

from holdfast.engine.job_state import view_job
from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.newest import code_of, lane_of, name_of, outcome_of, status_of_lane
from holdfast.engine.view import is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.address import poll_group
from holdfast.protocol.errors import NoSuchExecution
from holdfast.protocol.executions import (
    ENDED,
    STATUSES,
    ExecutionStatus,
    ExecutionView,
    PageEnd,
    Wait,
    read_lost_claims,
    read_waits,
)
from holdfast.protocol.generations import generation_of
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.locks import lock_id, read_lock
from holdfast.protocol.records import Millis, Promise, Task
from holdfast.protocol.replies import CountsReply, ExecutionReply, ExecutionsReply, Reply
from holdfast.protocol.reported import ReportedProgress, read_reported
from holdfast.protocol.requests import ExecutionCount, ExecutionGet, ExecutionSearch, Request


def get(request: Request, data: ExecutionGet, ws: WorkingSet, now: Millis) -> Reply:
    promise, task = ws.promise(data.id), ws.task(data.id)
    if promise is None or task is None:
        raise NoSuchExecution(data.id)
    view = view_execution(task, promise, ws, now)
    if view.waits:
        view = replace(view, waits=_looked_up(view.waits, ws))
    return Reply(200, ExecutionReply(view))


def _looked_up(waits: list[Wait], ws: WorkingSet) -> list[Wait]:
    """With what the promises tell: since when, until when; and of tickets for a lock, who holds it."""
    _look_at({wait.id for wait in waits}, ws)
    names = {wait.id: _lock_of(wait.id, ws) for wait in waits}
    _look_at({lock_id(name) for name in names.values() if name is not None}, ws)
    return [_with_holder(_with_times(wait, ws), names[wait.id], ws) for wait in waits]


def _look_at(promise_ids: set[str], ws: WorkingSet) -> None:
    if unknown := {promise_id for promise_id in promise_ids if promise_id not in ws.promises}:
        raise Missing(Footprint(views=unknown))


def _lock_of(ticket_id: str, ws: WorkingSet) -> str | None:
    ticket = ws.promises[ticket_id]
    return None if ticket is None or ticket.state != "pending" else ticket.tags.get(tags.TICKET)


def _with_times(wait: Wait, ws: WorkingSet) -> Wait:
    promise = ws.promises[wait.id]
    if promise is None or promise.state != "pending":
        return replace(wait, since=0, due_at=0)
    is_timed = promise.timeout_at < limits.instant_ms_max
    return replace(wait, since=promise.created_at, due_at=promise.timeout_at if is_timed else 0)


def _with_holder(wait: Wait, name: str | None, ws: WorkingSet) -> Wait:
    record = None if name is None else ws.promises[lock_id(name)]
    if record is None or tags.LOCK not in record.tags:
        return wait
    holders = sorted(read_lock(record).holders, key=lambda holder: holder.since)
    return replace(wait, held_by=holders[0].execution, held_since=holders[0].since) if holders else wait


def search(request: Request, data: ExecutionSearch, ws: WorkingSet, now: Millis) -> Reply:
    """The store goes by what is written; by now a deadline may have made something else of it."""
    most = data.limit or limits.page_size
    found: list[ExecutionView] = []
    cursor = ws.until
    for record_id in ws.found[:most]:
        promise, task = ws.promise(record_id), ws.task(record_id)
        if promise is not None and task is not None:
            view = view_execution(task, promise, ws, now)
            if (data.status is None or view.status in data.status) and data.name in (None, view.name):
                found.append(view)
            if len(ws.found) > most:
                cursor = str(PageEnd(task.created_at, task.id))
    return Reply(200, ExecutionsReply(found, cursor))


def count(request: Request, data: ExecutionCount, ws: WorkingSet, now: Millis) -> Reply:
    """What ended in a way that was not written down is in no count, and makes those of ends uncertain."""
    counts: dict[ExecutionStatus, int] = {}
    more: set[ExecutionStatus] = set()
    for lane, (number, is_whole) in ws.counts.items():
        status = _status(lane)
        if status in STATUSES["execution"] + STATUSES["task"]:
            counts[status] = counts.get(status, 0) + number
            if not is_whole:
                more.add(status)
        elif number or not is_whole:
            more.update(status for status in counts if status in ENDED)
    return Reply(200, CountsReply(counts, sorted(more)))


def view_execution(task: Task, promise: Promise, ws: WorkingSet, now: Millis) -> ExecutionView:
    job = view_job(task, now)
    if is_open(task, now):
        status = _status(lane_of(task, None))
        since, error = _since(task), task.error
        code = task.corr_id if task.state == "halted" else None
        settled_at = None
    else:
        ended = see_promise(promise, ws, now)
        outcome = outcome_of(ended, None if job is None else job.outcome)
        assert outcome is not None
        assert ended.settled_at is not None
        status, since, settled_at = outcome, ended.settled_at, ended.settled_at
        error, code = None, code_of(ended, job)
    return ExecutionView(
        task.id,
        "execution" if job is None else "task",
        status,
        since,
        task.created_at,
        task.timeout_at,
        promise.tags,
        task.version if job is None else len(job.attempts) + (status == "running"),
        name_of(promise.tags),
        poll_group(task.target),
        queue_of(poll_group(task.target) or ""),
        task.pid if settled_at is None else None if job is None else job.claimed_by,
        settled_at,
        _due_at(task, status),
        task.retries,
        error,
        code or None,
        read_waits(task.waits) if status == "suspended" and task.waits is not None else None,
        generation_of(promise).number,
        task.crashes if settled_at is None else 0,
        None if task.lost is None else read_lost_claims(task.lost),
        _progress(task, is_over=settled_at is not None),
    )


def _status(lane: str) -> ExecutionStatus:
    return status_of_lane(lane)  # type: ignore[return-value]  # a lane of what is open is named by its status


def _progress(task: Task, *, is_over: bool) -> list[ReportedProgress] | None:
    """Of an execution that is over there is none."""
    if task.progress is None or (is_over and task.job is None):
        return None
    return read_reported(task.progress)


def _since(task: Task) -> Millis:
    """Since when an open one is what it is. `acquired_at` of one that rests lies ahead."""
    if task.state == "pending" and task.parked:
        return task.job.attempts[-1].finished_at if task.job and task.job.attempts else task.created_at
    if task.state == "acquired" and task.job is not None and task.started_at is not None:
        return task.started_at
    return task.created_at if task.acquired_at is None else task.acquired_at


def _due_at(task: Task, status: ExecutionStatus) -> Millis | None:
    if status == "waiting":
        return task.acquired_at
    return task.due_at if status in ("claimed", "running") else None
