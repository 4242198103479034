"""execution.retry: an execution that failed, timed out or was cancelled goes on from where it failed.

What it has recorded before it failed stays, so no completed step is performed again. What failed is taken out
of the record, and is asked for again when the code comes to it.

1. Everything is checked before anything is written: one that cannot be retried stays as it is, with all that
   it called.
2. The version rises. Whoever held it, or keeps it in memory, does not hold it any more.
3. A failure that the code had seen *before* the point of failure stays: the code went on from it.
4. A result that came in after that point stays too, without its place: nobody has gone on from it yet.
5. What the code did after it had failed (it cleaned up) cannot be taken back, so then it is not retried.
   Notes have no effect outside, and may go.
6. A call that failed is retried itself, by the same rules. A background task that failed begins anew.
7. A lock that it held when it failed was released when it ended: then it is not retried either.
8. Whoever waited was told of the failure, and is not told of what comes after.
"""

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine.cancelling import end
from holdfast.engine.deadlines import set_deadline, with_grace
from holdfast.engine.job_state import is_expired, new_job, unique_name
from holdfast.engine.jobs import expire
from holdfast.engine.kept_versions import delete
from holdfast.engine.overlap import make_place
from holdfast.engine.transitions import offer
from holdfast.engine.trees import (
    Record,
    check_first_generation,
    check_uncalled,
    check_whole,
    find_execution,
    records_of,
    unreleased_lock,
    write_end,
)
from holdfast.engine.view import is_live, is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import InvalidField, KeyTaken, NotFailed, TooManyRecords, WentOn
from holdfast.protocol.failures import step_of
from holdfast.protocol.ids import below
from holdfast.protocol.jobs import Job, QueuePlace
from holdfast.protocol.mending import FailurePoint
from holdfast.protocol.operations import PLACE, cancel_id
from holdfast.protocol.records import NOTHING, Millis, Promise, Task, Value
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import ExecutionRetry, Request
from holdfast.protocol.streams import Streams, element_id, key_id, key_of


class _Plan(Struct):
    """What a retry changes: records that go, results that lose their place, promises that get more time, and
    executions and background tasks that begin again, each with its deadline."""

    forgotten: list[str] = []
    unplaced: list[Promise] = []
    prolonged: list[tuple[Promise, Millis]] = []
    notes: list[tuple[str, str]] = []  # execution and operation
    again: list[tuple[Promise, Millis]] = []


def retry(request: Request, data: ExecutionRetry, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, PromiseReply(retry_execution(request, data, ws, now)))


def retry_execution(request: Request, data: ExecutionRetry, ws: WorkingSet, now: Millis) -> Promise:
    promise, task = find_execution(data.id, ws)
    if is_open(task, now):
        return promise  # it is under way: a retry that is sent again has happened
    if data.timeout_at is not None and data.timeout_at <= now:
        raise InvalidField("timeoutAt must be in the future")
    if see_promise(promise, ws, now).state == "resolved":
        raise NotFailed(f"The execution {data.id!r} has completed")
    check_uncalled(promise)
    check_whole(promise, ws)
    plan = _Plan()
    deadline = _as_long_again(promise, now)
    if data.timeout_at is not None:
        deadline = with_grace(data.timeout_at, promise)
    _plan_execution(promise, deadline, plan, 0, ws, now)
    make_place(promise.tags, task.target, request.scope, ws, now)
    return _carry_out(plan, ws, now)


def _as_long_again(promise: Promise, now: Millis) -> Millis:
    if promise.timeout_at >= limits.instant_ms_max:
        return limits.instant_ms_max
    return min(limits.instant_ms_max, now + max(1, promise.timeout_at - promise.created_at))


# --- what is to be done ------------------------------------------------------------------------------------


def _plan_execution(
    promise: Promise, deadline: Millis, plan: _Plan, depth: int, ws: WorkingSet, now: Millis
) -> None:
    check_first_generation(promise)
    if depth > limits.mended_depth_max:
        raise TooManyRecords(f"More than {limits.mended_depth_max} calls failed one below the other")
    plan.again.append((promise, deadline))
    records = records_of(promise.id, ws)
    point = FailurePoint.of(promise)
    for record in records:
        if record.promise.id == cancel_id(promise.id):
            plan.forgotten.append(record.promise.id)
        elif point is None:
            _plan_after_end(record, promise, deadline, plan, depth, ws, now)
        elif _is_cancellation(record, promise.id):
            if not point.operation:
                plan.forgotten.append(record.promise.id)
        elif record.number is not None and record.number > point.asked:
            _plan_later(record, promise.id, plan)
        elif record.place is not None:
            _plan_placed(record, point, plan)
        elif record.promise.id == point.operation and tags.is_timer(record.promise.tags):
            plan.forgotten.append(record.promise.id)  # of a timeout that has expired
        elif record.label and _is_failed(record.promise, ws, now):
            if _failed_late(record.promise, promise, point, records, ws, now):
                _plan_again(record.promise, deadline, plan, depth, ws, now)
        else:
            _plan_open(record.promise, promise, deadline, plan, now)
    gone = {*plan.forgotten}  # with a step goes the count of its attempts
    plan.forgotten += [each.promise.id for each in records if step_of(each.promise.id) in gone]
    kept = [record for record in records if record.promise.id not in plan.forgotten]
    if (name := unreleased_lock(kept)) is not None:
        raise WentOn(promise.id, f"it released the lock {name!r} when it ended")


def _is_cancellation(record: Record, execution_id: str) -> bool:
    return record.promise.id == f"{below(execution_id)}0~cancel"


def _plan_later(record: Record, execution_id: str, plan: _Plan) -> None:
    """The code has asked for it after it had failed."""
    if not record.is_note:
        raise WentOn(execution_id, record.label or record.promise.id)
    plan.forgotten.append(record.promise.id)
    plan.notes.append((execution_id, record.promise.id))


def _plan_placed(record: Record, point: FailurePoint, plan: _Plan) -> None:
    assert record.place is not None
    if record.place < point.place:
        return
    if record.is_step and record.promise.state == "resolved":
        plan.unplaced.append(record.promise)
    else:  # what failed; and what costs nothing to ask for again: what was seen, what was refused, a message
        plan.forgotten.append(record.promise.id)


def _plan_after_end(
    record: Record, root: Promise, deadline: Millis, plan: _Plan, depth: int, ws: WorkingSet, now: Millis
) -> None:
    """It was ended from outside, or by its own code: only what ended with it is asked for again."""
    promise = record.promise
    seen = see_promise(promise, ws, now)
    timed_out_with_it = seen.state == "rejected_timedout" and promise.timeout_at >= root.timeout_at
    cancelled_with_it = (
        seen.state == root.state == "rejected_canceled"
        and tags.TARGET in promise.tags
        and (seen.settled_at or 0) >= (root.settled_at or 0)
    )
    if timed_out_with_it or cancelled_with_it:
        _plan_again(promise, deadline, plan, depth, ws, now)
    else:
        _plan_open(promise, root, deadline, plan, now)


def _plan_open(promise: Promise, root: Promise, deadline: Millis, plan: _Plan, now: Millis) -> None:
    """What waits as long as the execution may go on gets more time with it."""
    if is_live(promise, now) and promise.timeout_at == root.timeout_at and tags.TARGET not in promise.tags:
        plan.prolonged.append((promise, deadline))


def _plan_again(
    promise: Promise, deadline: Millis, plan: _Plan, depth: int, ws: WorkingSet, now: Millis
) -> None:
    task = ws.task(promise.id)
    if task is None:
        plan.forgotten.append(promise.id)
        return
    until = min(deadline, _as_long_again(promise, now))
    if task.job is None:
        _plan_execution(promise, until, plan, depth + 1, ws, now)
        return
    spec = tags.job_of(promise.tags)
    if spec is not None and spec.unique is not None:
        holder = ws.holder_of(unique_name(task.target, spec.unique))
        if holder is not None and holder != promise.id:
            raise KeyTaken(spec.unique, holder)
    plan.again.append((promise, until))


def _is_failed(promise: Promise, ws: WorkingSet, now: Millis) -> bool:
    return see_promise(promise, ws, now).state not in ("pending", "resolved")


def _failed_late(
    promise: Promise,
    root: Promise,
    point: FailurePoint,
    records: list[Record],
    ws: WorkingSet,
    now: Millis,
) -> bool:
    """Was this failure not seen before the execution failed?"""
    if promise.id == point.operation:
        return True
    seen_at = next((each.place for each in records if each.observed == promise.id), None)
    if seen_at is not None:
        return seen_at >= point.place
    cause = next((each.promise for each in records if each.promise.id == point.operation), root)
    instant = see_promise(cause, ws, now).settled_at or 0
    seen = see_promise(promise, ws, now)
    settled_at = seen.settled_at or 0
    return settled_at > instant or (settled_at == instant and seen.state == "rejected_canceled")


# --- doing it ----------------------------------------------------------------------------------------------


def _carry_out(plan: _Plan, ws: WorkingSet, now: Millis) -> Promise:
    """Answers with the promise of the execution."""
    # A promise is watched while somebody waits for it: what is written anew must be known to be.
    ws.need_obligations([*(promise.id for promise, _ in plan.prolonged), *plan.forgotten])
    ended = [write_end(promise, ws, now) for promise, _ in plan.again]
    for key in plan.forgotten:
        known = ws.promise(key)
        if known is not None:
            if write_end(known, ws, now).state == "pending":
                end(known, ws, now)  # somebody else may wait for it
            delete(key, ws)
    for promise in plan.unplaced:
        headers = {name: text for name, text in (promise.value.headers or {}).items() if name != PLACE}
        ws.put_promise(replace(promise, value=Value(headers or None, promise.value.data)))
    for promise, deadline in plan.prolonged:
        ws.put_again(replace(promise, timeout_at=deadline))
    for promise, _ in plan.again:
        _reopen_streams(promise, [key for name, key in plan.notes if name == promise.id], ws)
    pairs = zip(ended, plan.again, strict=True)
    begun = [begin_again(promise, deadline, ws, now) for promise, (_, deadline) in pairs]
    return begun[0]


def begin_again(promise: Promise, deadline: Millis, ws: WorkingSet, now: Millis) -> Promise:
    """The same promise, pending, and its task on offer."""
    task = ws.task(promise.id)
    assert task is not None
    opened = replace(promise, state="pending", value=NOTHING, timeout_at=deadline, settled_at=None, iku=None)
    ws.put_again(opened)
    fresh = Task(
        task.id,
        "pending",
        task.version + 1,
        task.target,
        task.dialect,
        task.timer,
        task.priority,
        deadline,
        task.created_at,
        lost=task.lost,
        place=None if task.place is None else QueuePlace(task.place.key),
        job=_fresh_job(promise, task, now),
    )
    ws.put_task(fresh)
    if tags.GRACE in promise.tags:
        set_deadline(opened, ws, now)
    if is_expired(fresh, now):
        return expire(fresh, ws, now)
    offer(fresh, ws, now)
    return opened


def _fresh_job(promise: Promise, task: Task, now: Millis) -> Job | None:
    if task.job is None:
        return None
    spec = tags.job_of(promise.tags)
    assert spec is not None
    return new_job(spec, task.target, None, now)


def _reopen_streams(execution: Promise, notes: list[str], ws: WorkingSet) -> None:
    """Its dependents have ended with it. The next elements can be awaited again, and what a note has emitted
    that is taken back does not keep a later one from being emitted."""
    streams = ws.streams_of(execution.id)
    if streams is None or streams.created_at != execution.created_at:
        return
    ids = [
        *(element_id(execution.id, name, number + 1) for name, number in streams.counts.items()),
        *(key_id(execution.id, name, key_of(note)) for name in streams.counts for note in notes),
    ]
    ws.need(ids)
    for key in ids:
        promise = ws.promise(key)
        if promise is not None and promise.state != "pending" and _is_ours(promise, streams):
            delete(key, ws)
    if streams.open_answers:
        ws.put_streams(replace(streams, open_answers=0))


def _is_ours(promise: Promise, streams: Streams) -> bool:
    """Not what somebody else has written under such an id."""
    return promise.tags.get(tags.PARENT) == streams.id and tags.STREAM in promise.tags
