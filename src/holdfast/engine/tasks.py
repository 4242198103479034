"""task.*: a task is claimed, kept, released, suspended, fulfilled.

The guard of every mutating request: the task is acquired, its promise is still open, and the caller
presents the current version. Anything else is 409, and means: stop.
"""

from typing import Literal

from msgspec.structs import replace

from holdfast.engine import crashes, jobs
from holdfast.engine.job_state import is_expired
from holdfast.engine.kept_versions import is_superseded, take_version
from holdfast.engine.lock_rings import bound_by
from holdfast.engine.locks import break_ring
from holdfast.engine.promises import (
    check_creation_key,
    new_promise,
    settled_already,
    target_of,
)
from holdfast.engine.queues import check_gate, find_obstacle
from holdfast.engine.reported import report
from holdfast.engine.scans import page_of
from holdfast.engine.transitions import (
    before_deadline,
    bounce_rest,
    bounces_of,
    grant,
    halted,
    offer,
    settle,
    suspended,
)
from holdfast.engine.view import (
    Room,
    has_status,
    is_open,
    preload,
    promise_of,
    see_promise,
    view_promise,
    view_task,
)
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.errors import (
    CannotAwait,
    ClaimLost,
    InvalidField,
    MustWait,
    NotAJob,
    NoTask,
    TaskMissing,
)
from holdfast.protocol.executions import waits_text
from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Millis, Promise, Task, TaskRef
from holdfast.protocol.replies import (
    EMPTY,
    AcquireReply,
    ClaimReply,
    HeartbeatReply,
    Invoked,
    PreloadReply,
    PromiseReply,
    Reply,
    TaskCreateReply,
    TaskReply,
    TasksReply,
)
from holdfast.protocol.reported import ProgressUpdate
from holdfast.protocol.requests import (
    Request,
    TaskAcquire,
    TaskClaim,
    TaskContinue,
    TaskCreate,
    TaskFulfill,
    TaskGet,
    TaskHalt,
    TaskHeartbeat,
    TaskRelease,
    TaskSearch,
    TaskStart,
    TaskSuspend,
)
from holdfast.protocol.wire import refuse


def find_task(task_id: str, ws: WorkingSet) -> Task:
    task = ws.task(task_id)
    if task is None:
        raise TaskMissing(task_id)
    return task


def held_task(task_id: str, version: int, ws: WorkingSet, now: Millis, generation: int | None = None) -> Task:
    """The guard: the task, if the presented version drives it now.

    `generation`: for what belongs to one, that must be the current one too.
    """
    task = ws.task(task_id)
    if task is None:
        raise TaskMissing(task_id)
    if not is_open(task, now):
        raise ClaimLost(f"The task {task_id!r} is fulfilled")
    if task.state != "acquired":
        raise ClaimLost(f"The task {task_id!r} is {task.state}, not acquired")
    if task.version != version:
        raise ClaimLost(f"The task {task_id!r} is at version {task.version}, not {version}")
    if generation is not None and generation != (now_at := generation_of(promise_of(task, ws)).number):
        raise ClaimLost(f"The execution {task_id!r} is in generation {now_at}, not {generation}")
    return task


def acquired_reply(
    task: Task, ws: WorkingSet, now: Millis, room: Room | None = None, *, is_known: bool = False
) -> AcquireReply:
    """`is_known`: the worker has what was recorded before it was woken."""
    promise = promise_of(task, ws)
    awaited = ws.promise(task.woken_by) if task.woken_by is not None else None
    data = Invoked(promise, see_promise(awaited, ws, now) if awaited is not None else None)
    preloaded, cursor = preload(promise, ws, now, room, is_known=is_known)
    kind: Literal["invoke", "resume"] = "invoke" if task.woken_by is None else "resume"
    return AcquireReply(view_task(task, now), promise, preloaded, kind, data, cursor)


def get(request: Request, data: TaskGet, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, TaskReply(view_task(find_task(data.id, ws), now)))


def create(request: Request, data: TaskCreate, ws: WorkingSet, now: Millis) -> Reply:
    action = data.action.data
    target = target_of(action.tags, request.dialect)
    if target is None:
        raise InvalidField("task.create needs a promise with a resonate:target tag")
    if action.settle is not None:
        raise InvalidField("task.create is for work still to be done, so it cannot have a settle")
    promise = ws.promise(action.id)
    version = 0
    if promise is not None and is_superseded(promise):
        version = take_version(promise, ws)
        promise = None
    if promise is None:
        promise, born = new_promise(
            action.id,
            action.param,
            action.tags,
            action.timeout_at,
            action.ikc,
            target,
            request.dialect,
            ws,
            now,
            now,
            version,
        )
        assert born is not None
        task = born
    else:
        check_creation_key(promise, action.ikc)
        existing = ws.task(action.id)
        if existing is None:
            raise NoTask(action.id)
        if request.dialect == "B":
            return Reply(200, TaskCreateReply(view_promise(promise, now, existing)))
        task = existing
    if not is_open(task, now):
        return Reply(200, TaskCreateReply(view_promise(promise, now, task), view_task(task, now), []))
    if task.state != "pending":
        raise ClaimLost(f"The task {task.id!r} is {task.state}")
    check_gate(task, ws)
    task = grant(task, data.pid, data.ttl, None, ws, now)
    return Reply(200, TaskCreateReply(promise, view_task(task, now), *preload(promise, ws, now)))


def acquire(request: Request, data: TaskAcquire, ws: WorkingSet, now: Millis) -> Reply:
    task = find_task(data.id, ws)
    if not is_open(task, now):
        raise ClaimLost(f"The task {data.id!r} is fulfilled")
    if _is_repeated(request, data, task):
        return Reply(200, acquired_reply(task, ws, now))
    if task.state != "pending":
        raise ClaimLost(f"The task {data.id!r} is {task.state}, not pending")
    if task.version != data.version:
        raise ClaimLost(f"The task {data.id!r} is at version {task.version}, not {data.version}")
    check_gate(task, ws)
    task = grant(task, data.pid, data.ttl, request.corr_id, ws, now)
    return Reply(200, acquired_reply(task, ws, now))


def _is_repeated(request: Request, data: TaskAcquire, task: Task) -> bool:
    """The very acquire that made the current lease, sent again because its reply was lost."""
    return (
        task.state == "acquired"
        and task.version == data.version + 1
        and task.pid == data.pid
        and task.corr_id == request.corr_id
    )


def claim(request: Request, data: TaskClaim, ws: WorkingSet, now: Millis) -> Reply:
    plan = ws.plan
    assert plan is not None, "a claim is planned before it is applied"
    granted: list[AcquireReply] = []
    room = Room()
    for task_id in plan.chosen:
        task = find_task(task_id, ws)
        if is_expired(task, now):
            jobs.expire(task, ws, now)
        else:
            lapsed = task.corr_id  # of a pending task: whose lease lapsed
            task = grant(task, data.pid, data.ttl, None, ws, now, start=data.start)
            reply = acquired_reply(task, ws, now, room, is_known=task_id in data.known)
            granted.append(reply if lapsed is None else replace(reply, lapsed=lapsed))
    for queue in plan.changed_queues:
        ws.put_queue(queue)
    return Reply(200, ClaimReply(granted, plan.next_at, plan.is_limited))


def start(request: Request, data: TaskStart, ws: WorkingSet, now: Millis) -> Reply:
    task = find_task(data.id, ws)
    if task.job is not None:
        return _start_job(task, data.version, ws, now)
    task = held_task(data.id, data.version, ws, now)
    if task.started_at is None:
        task = replace(task, started_at=now)
        ws.put_task(task)
    return Reply(200, TaskReply(view_task(task, now)))


def _start_job(task: Task, version: int, ws: WorkingSet, now: Millis) -> Reply:
    """The one step from CLAIMED to RUNNING. Past its `good_until` it has ended, written down or not.

    Where its queue is paused, or its rate used up, it goes back instead: it is pending, and nothing counts.
    """
    task = held_task(task.id, version, ws, now)
    if task.started_at is None:
        assert task.due_at is not None
        assert task.ttl is not None
        if task.due_at <= now:
            raise ClaimLost(f"The lease of the task {task.id!r} has lapsed")
        if (obstacle := find_obstacle(task, ws, now)) is not None:
            jobs.go_back(task, ws, now)
            return refuse(MustWait(f"{obstacle}, so the task {task.id!r} cannot begin now"))
        task = replace(task, started_at=now, due_at=now + task.ttl)
        ws.put_task(task)
    return Reply(200, TaskReply(view_task(task, now)))


def release(request: Request, data: TaskRelease, ws: WorkingSet, now: Millis) -> Reply:
    task = held_task(data.id, data.version, ws, now)
    if task.job is not None:
        if data.retry is not None:
            raise NotAJob(f"The task {data.id!r} has a retry rule of its own; use task.fail")
        bounces = bounces_of(task, now)
        rest_until = now + bounce_rest(bounces)
        jobs.go_back(replace(task, bounces=bounces), ws, now, rest_until=rest_until)
    elif data.retry is not None:
        crashes.give_back(task, data.retry.delay, data.retry.error, ws, now)
    else:
        bounces = bounces_of(task, now)
        offer(replace(task, started_at=None, bounces=bounces), ws, now, rest_until=now + bounce_rest(bounces))
    return Reply(200, EMPTY)


def fulfill(request: Request, data: TaskFulfill, ws: WorkingSet, now: Millis) -> Reply:
    action = data.action.data
    if request.dialect == "B":
        task = find_task(data.id, ws)
        if not is_open(task, now) and task.version == data.version:
            promise = view_promise(promise_of(task, ws), now, task)
            return Reply(200, PromiseReply(settled_already(promise, action, now)))
    task = held_task(data.id, data.version, ws, now, data.generation or 0)
    if task.job is not None and task.started_at is None:
        raise ClaimLost(f"The task {data.id!r} has not started, so it cannot be finished")
    promise = promise_of(task, ws)
    settled = settle(promise, action.state, action.value, now, action.iku, ws, now, by_holder=True)
    return Reply(200, PromiseReply(settled))


def suspend(request: Request, data: TaskSuspend, ws: WorkingSet, now: Millis) -> Reply:
    task = held_task(data.id, data.version, ws, now, data.generation or 0)
    if task.job is not None:
        raise NotAJob(f"The background task {data.id!r} runs to its end and cannot be suspended")
    awaited = _awaited(data, ws, now)
    bound: list[str] = []
    if data.waits and not _is_over(data, task, awaited):
        bound = bound_by(task, awaited, ws)
        if bound and break_ring(task.id, bound, ws, now):
            task, awaited = find_task(task.id, ws), _awaited(data, ws, now)
    if _is_over(data, task, awaited):
        if task.resumes:
            ws.put_task(replace(task, resumes=0))
        return Reply(300, PreloadReply(*preload(promise_of(task, ws), ws, now)))
    for promise in awaited:
        ws.add_callback(promise.id, task.id)
    ws.put_task(suspended(task, waits_text(data.waits, bound), now))
    return Reply(200, EMPTY)


def _awaited(data: TaskSuspend, ws: WorkingSet, now: Millis) -> list[Promise]:
    """The promises that it would wait for, each once."""
    found: dict[str, Promise] = {}
    for action in data.actions:
        promise = ws.promise(action.data.awaited)
        if promise is None:
            raise CannotAwait(f"There is no promise {action.data.awaited!r} to wait for")
        found[promise.id] = see_promise(promise, ws, now)
    return [*found.values()]


def _is_over(data: TaskSuspend, task: Task, awaited: list[Promise]) -> bool:
    """Has something happened already that it would wait for?"""
    is_woken = data.check_woken is True and task.resumes > 0
    return is_woken or any(promise.state != "pending" for promise in awaited)


def heartbeat(request: Request, data: TaskHeartbeat, ws: WorkingSet, now: Millis) -> Reply:
    """One heartbeat for a whole process. An empty list means: every task that it holds."""
    if not data.tasks:
        for task_id in ws.found:
            task = ws.task(task_id)
            if task is not None and _is_held(task, data.pid, now):
                _extend(task, ws, now)
        return Reply(200, EMPTY)
    lost: list[TaskRef] = []
    woken: list[TaskRef] = []
    told = _told(data)
    for ref in data.tasks:
        task = ws.task(ref.id)
        if task is not None and task.version == ref.version and _is_held(task, data.pid, now):
            for update in told.get(ref.id, ()):
                task = report(task, update, now)
            _extend(task, ws, now)
            if data.check_woken and task.resumes:
                woken.append(ref)
        else:
            lost.append(ref)
    return Reply(200, HeartbeatReply(lost or None, woken or None))


def _told(data: TaskHeartbeat) -> dict[str, list[ProgressUpdate]]:
    """By task, what is told of its progress."""
    told: dict[str, list[ProgressUpdate]] = {}
    for update in data.progress or ():
        told.setdefault(update.id, []).append(update)
    return told


def _is_held(task: Task, pid: str, now: Millis) -> bool:
    return task.state == "acquired" and task.pid == pid and is_open(task, now)


def _extend(task: Task, ws: WorkingSet, now: Millis) -> None:
    assert task.ttl is not None
    ws.put_task(replace(task, due_at=before_deadline(task, now + task.ttl)))


def halt(request: Request, data: TaskHalt, ws: WorkingSet, now: Millis) -> Reply:
    task = _steered_task(data.id, data.version, ws, now)
    if task.state == "halted":
        return Reply(200, EMPTY)  # the first reason stands
    resting = halted(task, data.reason, data.code, now)
    if task.job is not None:
        jobs.halt(task, resting, ws, now)
    else:
        ws.put_task(resting)
    return Reply(200, EMPTY)


def resume(request: Request, data: TaskContinue, ws: WorkingSet, now: Millis) -> Reply:
    """task.continue"""
    task = _steered_task(data.id, data.version, ws, now)
    if task.state != "halted":
        raise ClaimLost(f"The task {data.id!r} is {task.state}, not halted")
    # A job that rested between two attempts rests on.
    again = replace(task, bounces=0, crashes=0)
    offer(again, ws, now, rest_until=0 if task.job is None else task.job.enqueued_at)
    return Reply(200, EMPTY)


def _steered_task(task_id: str, version: int | None, ws: WorkingSet, now: Millis) -> Task:
    task = find_task(task_id, ws)
    if not is_open(task, now):
        raise ClaimLost(f"The task {task_id!r} is fulfilled")
    if version is not None and version != task.version:
        raise ClaimLost(f"The task {task_id!r} is at version {task.version}, not {version}")
    return task


def search(request: Request, data: TaskSearch, ws: WorkingSet, now: Millis) -> Reply:
    page, cursor = page_of(ws.found, ws.until, data.limit)
    tasks = (ws.task(task_id) for task_id in page)
    shown = (view_task(task, now) for task in tasks if task is not None)
    found = [it for it in shown if data.state in (None, it.state) and has_status(it, data.status)]
    return Reply(200, TasksReply(found, cursor))
