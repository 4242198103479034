"""The moves that more than one request makes: settle, wake, offer, grant, finish.

The settlement chain of `settle`: the promise's own task is finished, every awaiter is woken or has a
resume noted, every listener is told, in that order. An awaiter past its own deadline is never woken.
"""

from msgspec.structs import replace

from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.messages import Execute, Unblock
from holdfast.protocol.records import Millis, Promise, PromiseState, Task, TaskRef, Value


def settle(
    promise: Promise,
    state: PromiseState,
    value: Value,
    settled_at: Millis,
    iku: str | None,
    ws: WorkingSet,
    now: Millis,
) -> Promise:
    settled = Promise(
        promise.id,
        state,
        promise.param,
        value,
        promise.tags,
        promise.timeout_at,
        promise.created_at,
        settled_at,
        promise.ikc,
        iku,
    )
    ws.put_promise(settled)
    task = ws.task(promise.id)
    if task is not None:
        ws.put_task(finish(task))
    awaiters = ws.awaiters(promise.id)
    listeners = ws.listeners_of(promise.id)
    for awaiter in awaiters:
        wake(awaiter, promise.id, ws, now)
    for listener in listeners:
        ws.send(Unblock(listener.address, settled, listener.dialect))
    ws.drop_obligations(promise.id)
    return settled


def wake(awaiter: str, awaited: str, ws: WorkingSet, now: Millis) -> None:
    task = ws.task(awaiter)
    if task is None or task.state == "fulfilled" or task.timeout_at <= now:
        return
    if task.state == "suspended":
        offer(replace(task, resumes=1, woken_by=awaited), ws, now)
    else:
        ws.put_task(replace(task, resumes=task.resumes + 1))


def offer(task: Task, ws: WorkingSet, now: Millis, *, rest_until: Millis = 0) -> None:
    """Make a task pending and tell its target, or park it until an instant that lies ahead.

    A timer's task has nothing to do but wait for its promise to resolve, so it is always parked: sending it
    out would only make workers claim and drop it, again and again.
    """
    if task.timer:
        rest_until = task.timeout_at
    parked = rest_until > now
    due_at = rest_until if parked else min(now + ws.rules.retry_ms, limits.instant_ms_max)
    pending = replace(
        task,
        state="pending",
        due_at=due_at,
        parked=parked,
        pid=None,
        ttl=None,
        corr_id=None,
        acquired_at=None,
    )
    ws.put_task(pending)
    if not parked:
        send_execute(pending, ws)


def send_execute(task: Task, ws: WorkingSet) -> None:
    ws.send(Execute(task.target, TaskRef(task.id, task.version), task.dialect, task.woken_by is not None))


def grant(task: Task, pid: str, ttl: int, corr_id: str | None, ws: WorkingSet, now: Millis) -> Task:
    """Give the task to a process: the one edge on which the version rises.

    `corr_id` lets a task.acquire whose reply was lost be recognised when it is sent again.
    """
    acquired = replace(
        task,
        state="acquired",
        version=task.version + 1,
        resumes=0,
        pid=pid,
        ttl=ttl,
        due_at=now + ttl,
        parked=False,
        corr_id=corr_id,
        acquired_at=now,
    )
    ws.put_task(acquired)
    return acquired


def finish(task: Task) -> Task:
    return replace(
        task, state="fulfilled", resumes=0, due_at=None, parked=False, pid=None, ttl=None, corr_id=None
    )
