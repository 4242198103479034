"""Transitions that more than one request makes: settle, wake, offer, grant, finish.

The settlement chain of `settle`: the promise's own task is finished, every awaiter is woken or has a
resume noted, every listener is told, in that order. An awaiter past its own deadline is never woken.

An awaiter without a task is a *dependent* of the promise: an open answer, or an element of a stream that is
awaited. When the promise settles, its dependents are cancelled in the same commit. When one of them settles
before, it is no dependent any more. So is a lock that the execution holds or waits for: it is let go.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.engine.event_waits import leave
from holdfast.engine.job_state import close, queue_name
from holdfast.engine.lock_queue import execution_ended, ticket_settled
from holdfast.engine.lost_claims import taken
from holdfast.engine.queue_lines import is_queued, take_turn
from holdfast.engine.view import is_live, lapse
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.address import claim_group
from holdfast.protocol.errors import ExecutionOver
from holdfast.protocol.generations import with_generation
from holdfast.protocol.jobs import CODE_HEADER, JobOutcome, QueuePlace
from holdfast.protocol.messages import Execute, Unblock
from holdfast.protocol.records import NOTHING, Millis, Promise, PromiseState, Task, TaskRef, Value

EXECUTION_OVER: Final = Value({CODE_HEADER: ExecutionOver.code})  # of a dependent that has ended so


def settle(
    promise: Promise,
    state: PromiseState,
    value: Value,
    settled_at: Millis,
    iku: str | None,
    ws: WorkingSet,
    now: Millis,
    outcome: JobOutcome | None = None,
    *,
    code: str | None = None,
    by_holder: bool = False,
) -> Promise:
    """`outcome` and `code` say what this end means for a job where the state alone does not; `by_holder`
    that whoever holds the task does it and need not be told."""
    settled = Promise(
        promise.id,
        state,
        promise.param,
        value if promise.value is NOTHING else with_generation(value, promise.value),
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
        ws.put_task(finish(task) if task.job is None else finish_job(task, settled, outcome, code))
        if task.job is not None and task.state == "acquired" and not by_holder:
            tell_holder(task, settled, ws)
    if promise.tags and tags.DEPENDENT in promise.tags:
        _release(promise, ws)
    if promise.tags and tags.TICKET in promise.tags:
        ticket_settled(promise, ws, now, settle)
    if promise.tags and tags.WAIT in promise.tags:
        leave(promise, ws, now, settle)
    awaiters = ws.awaiters(promise.id)
    listeners = ws.listeners_of(promise.id)
    dependents = [awaiter for awaiter in awaiters if ws.task(awaiter) is None]
    for awaiter in awaiters:
        wake(awaiter, promise.id, ws, now)
    for listener in listeners:
        ws.send(Unblock(listener.address, settled, listener.dialect))
    ws.drop_obligations(promise.id)
    if dependents:
        end_dependents(promise.id, dependents, ws, now)
    return settled


def end_dependents(ended: str, dependents: Iterable[str], ws: WorkingSet, now: Millis) -> None:
    """What they depended on is over. One whose own deadline has passed has ended by that."""
    ws.need_obligations(dependents)
    for name in dependents:
        promise = ws.promise(name)
        if promise is not None and tags.LOCK in promise.tags:
            execution_ended(promise, ended, EXECUTION_OVER, ws, now, settle)
        elif promise is not None and is_live(promise, now) and promise.tags.get(tags.WAIT) == ended:
            bucket = ws.promise(ended)
            assert bucket is not None
            settle(promise, "resolved", bucket.value, now, None, ws, now)
        elif promise is not None and is_live(promise, now):
            settle(promise, "rejected_canceled", EXECUTION_OVER, now, None, ws, now)
        elif promise is not None and promise.state == "pending":
            lapsed = lapse(promise)
            settle(promise, lapsed.state, NOTHING, lapsed.timeout_at, None, ws, now)


def _release(promise: Promise, ws: WorkingSet) -> None:
    """It has settled before what it depends on, if that is not over."""
    execution_id = promise.tags[tags.DEPENDENT]
    execution = ws.promises.get(execution_id)
    if execution is not None and execution.state != "pending":
        return
    ws.remove_callback(execution_id, promise.id)
    if tags.ANSWER in promise.tags:
        streams = ws.streams_of(execution_id)
        if streams is not None and streams.open_answers:
            ws.put_streams(replace(streams, open_answers=streams.open_answers - 1))


def wake(awaiter: str, awaited: str, ws: WorkingSet, now: Millis) -> None:
    task = ws.task(awaiter)
    if task is None or task.state == "fulfilled" or task.timeout_at <= now:
        return
    if task.state == "suspended":
        offer(replace(task, resumes=1, woken_by=awaited), ws, now)
    else:
        ws.put_task(replace(task, resumes=task.resumes + 1))


def offer(
    task: Task, ws: WorkingSet, now: Millis, *, rest_until: Millis = 0, lapsed: str | None = None
) -> None:
    """Make a task pending and tell its target, or park it until an instant that lies ahead.

    `lapsed` is who held it, if that is known to be because a lease lapsed.

    A timer's task has nothing to do but wait for its promise to resolve, so it is always parked: sending it
    out would only make workers claim and drop it, again and again.
    """
    if task.timer:
        rest_until = task.timeout_at
    parked = rest_until > now
    pending = replace(
        task,
        state="pending",
        due_at=before_deadline(task, rest_until),
        parked=parked,
        pid=None,
        ttl=None,
        corr_id=lapsed,
        acquired_at=_on_offer_since(task, rest_until, now),
        turn=0 if parked else task.turn,
        waits=None,
    )
    if parked:
        ws.put_task(pending)
    else:
        _send_out(pending, ws, now, waited=0)


def _on_offer_since(task: Task, rest_until: Millis, now: Millis) -> Millis:
    """Claims go by this. A job that comes back unbegun keeps its place among those that wait."""
    if task.job is None or rest_until > now:
        return max(now, rest_until)
    return task.job.enqueued_at


def offer_now(task: Task, ws: WorkingSet, now: Millis) -> None:
    """Tell the target of a pending task. One that nobody takes rests ever longer: a backlog costs little."""
    _send_out(task, ws, now, waited=0 if task.acquired_at is None else now - task.acquired_at)


def _send_out(task: Task, ws: WorkingSet, now: Millis, *, waited: Millis) -> None:
    rest = max(ws.rules.retry_ms, min(waited, limits.offer_rest_ms_max))
    due_at = before_deadline(task, min(now + rest, limits.instant_ms_max))
    turn = _turn_of(task, ws) if is_queued(task) and not task.turn else task.turn
    offered = replace(task, due_at=due_at, parked=False, turn=turn)
    ws.put_task(offered)
    send_execute(offered, ws)


def _turn_of(task: Task, ws: WorkingSet) -> int:
    return take_turn(task, ws.queue(queue_name(task.target)), ws.lines)


def before_deadline(task: Task, instant: Millis) -> Millis:
    """An unstarted job's timer rings at its `good_until` at the latest."""
    if task.job is None or task.job.good_until is None or task.started_at is not None:
        return instant
    return min(instant, task.job.good_until)


def send_execute(task: Task, ws: WorkingSet) -> None:
    if is_queued(task) and not ws.may_offer(task.target):
        return  # enough workers of this queue are being woken, and each takes what it can
    ws.send(Execute(task.target, TaskRef(task.id, task.version), task.dialect, task.woken_by is not None))


def grant(
    task: Task, pid: str, ttl: int, corr_id: str | None, ws: WorkingSet, now: Millis, *, start: bool = False
) -> Task:
    """Give the task to a process: the one edge on which the version rises.

    `corr_id` lets a task.acquire whose reply was lost be recognised when it is sent again.
    """
    if start and task.started_at is None:
        task = replace(task, started_at=now)
    acquired = replace(
        task,
        state="acquired",
        version=task.version + 1,
        resumes=0,
        pid=pid,
        ttl=ttl,
        due_at=before_deadline(task, now + ttl),
        parked=False,
        corr_id=corr_id,
        acquired_at=now,
        lost=None if task.lost is None else taken(task.lost, pid, now),
        place=_entered(task.place, now),
        job=None if task.job is None else replace(task.job, claimed_at=now, claimed_by=pid),
    )
    ws.put_task(acquired)
    return acquired


def _entered(place: QueuePlace | None, now: Millis) -> QueuePlace | None:
    """From its first claim on it counts in its queue."""
    return place if place is None or place.entered_at is not None else replace(place, entered_at=now)


def suspended(task: Task, waits: str | None, now: Millis) -> Task:
    """Nobody holds it until something that it waits for has settled."""
    return replace(
        task,
        state="suspended",
        resumes=0,
        due_at=None,
        pid=None,
        ttl=None,
        corr_id=None,
        acquired_at=now,
        bounces=0,
        crashes=0,
        waits=waits,
    )


def halted(task: Task, reason: str | None, code: str | None, now: Millis) -> Task:
    """Nobody may claim it until it is continued. Without a reason the last error stands."""
    return replace(
        task,
        state="halted",
        due_at=None,
        parked=False,
        pid=None,
        ttl=None,
        corr_id=None if reason is None else code or "",
        acquired_at=now,
        error=task.error if reason is None else reason,
        waits=None,
    )


def finish_job(task: Task, settled: Promise, outcome: JobOutcome | None, code: str | None) -> Task:
    assert settled.settled_at is not None
    job = close(task, settled.state, settled.value, settled.settled_at, outcome, code)
    progress = None if settled.state == "resolved" else task.progress  # how far it came
    return replace(finish(task), job=job, progress=progress)


def tell_holder(task: Task, settled: Promise, ws: WorkingSet) -> None:
    """Somebody else has ended what this process works on: it should stop."""
    address = f"poll://uni@{claim_group(task.target)}/{task.pid}"
    if len(address.encode()) <= limits.id_bytes_max:
        ws.send(Unblock(address, settled, "A"))


def finish(task: Task) -> Task:
    return replace(
        task,
        state="fulfilled",
        resumes=0,
        due_at=None,
        parked=False,
        pid=None,
        ttl=None,
        corr_id=None,
        waits=None,
        progress=None,
    )


def bounces_of(task: Task, now: Millis) -> int:
    """How often in a row this task was given back as soon as it was taken."""
    held_since = now if task.acquired_at is None else task.acquired_at
    return task.bounces + 1 if now - held_since < limits.bounce_window_ms else 0


def bounce_rest(bounces: int) -> Millis:
    """One quick release is ordinary. A task that comes back again and again rests longer and longer."""
    if bounces < 2:
        return 0
    return min(limits.bounce_ms_max, limits.bounce_base_ms << min(bounces - 2, 20))
