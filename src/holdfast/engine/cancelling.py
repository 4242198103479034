"""execution.cancel: an execution is asked to cancel itself, or is ended at once, with all that it called.

1. An execution is asked: its code sees `Cancelled` and may clean up; what it called is asked by itself.
2. A background task, and a promise that nobody works on, end at once.
3. With `now` it ends at once, and so does everything that it called and waits for, and what that called in
   turn: the innermost first. What it only started goes on, and so does what somebody else has started.
4. One that is over stays as it is. If it was cancelled, what it called is ended all the same: somebody may
   have ended it another way, and left that running.
5. A request ends so many executions, and so many one below the other. One that has called more than that is
   asked instead: it asks what it called by itself.
"""

from collections.abc import Iterable

from holdfast.engine.kept_versions import find_created
from holdfast.engine.overlap import ask_to_cancel
from holdfast.engine.transitions import settle
from holdfast.engine.trees import label_of
from holdfast.engine.view import is_live, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import InvalidField, PromiseMissing
from holdfast.protocol.generations import is_operation_of
from holdfast.protocol.records import NOTHING, Millis, Promise
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import ExecutionCancel, Request


def cancel(request: Request, data: ExecutionCancel, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, PromiseReply(cancel_execution(data, ws, now)))


def cancel_execution(data: ExecutionCancel, ws: WorkingSet, now: Millis) -> Promise:
    promise, task = ws.promise(data.id), ws.task(data.id)
    if promise is None:
        raise PromiseMissing(data.id)
    if promise.state == "pending" and tags.is_record(promise.tags):
        raise InvalidField(
            f"{data.id!r} is an internal record, of a lock or of events, and cannot be cancelled"
        )
    seen = see_promise(promise, ws, now)
    if seen.state not in ("pending", "rejected_canceled"):
        return seen
    is_execution = task is not None and task.job is None
    if seen.state == "pending" and is_execution and not data.now:
        ask_to_cancel(promise, ws, now)
        return seen
    if data.now:
        end_called(data.id, ws, now)
    return end(promise, ws, now) if seen.state == "pending" else seen


def end(promise: Promise, ws: WorkingSet, now: Millis) -> Promise:
    return settle(promise, "rejected_canceled", NOTHING, now, None, ws, now)


def end_called(execution_id: str, ws: WorkingSet, now: Millis) -> None:
    """End what it called, what that called, and so on: the innermost first."""
    levels, asked = [[execution_id]], set[str]()
    reached = {execution_id}
    while level := [key for key in levels[-1] if may_call(key, ws)]:
        ws.need_families(level)
        if len(levels) > 1 and _is_too_much(level, len(levels), len(reached), ws):
            asked = {key for key in level if ws.families[key]}
            break
        known = {member for key in level for member in ws.families[key]}
        ws.need_obligations(known)
        called = sorted({member for key in level for member in called_by(key, ws)} - reached)
        levels.append(called[: limits.mended_records_max])
        reached.update(called)
    for called in reversed(levels[1:]):
        for key in called:
            promise = ws.promise(key)
            if promise is None or not is_live(see_promise(promise, ws, now), now):
                continue
            if key in asked:
                ask_to_cancel(promise, ws, now)
            else:
                end(promise, ws, now)


def _is_too_much(level: Iterable[str], depth: int, count: int, ws: WorkingSet) -> bool:
    most = limits.mended_records_max
    return depth > limits.called_depth_max or count + sum(len(ws.families[key]) for key in level) > most


def may_call(execution_id: str, ws: WorkingSet) -> bool:
    task = ws.task(execution_id)
    return task is None or task.job is None


def called_by(execution_id: str, ws: WorkingSet) -> list[str]:
    """What it has called, and still waits for, of what may be that."""
    found: list[str] = []
    operations: dict[str, str] = {}
    for key in ws.families[execution_id]:
        promise = ws.promise(key)
        if promise is None:
            continue
        if promise.tags.get(tags.PARENT) == execution_id and is_called(promise):
            found.append(key)
            continue
        operation = promise.tags.get(tags.CALLER, "")
        if is_operation_of(operation, execution_id) and execution_id in ws.awaiters(key):
            operations[key] = operation
    ws.need(operations.values())  # one that has a record is over: it was a start
    return found + [key for key, operation in operations.items() if find_created(operation, ws) is None]


def is_called(promise: Promise) -> bool:
    """Does whoever made it wait for it?"""
    return label_of(promise).startswith("call ")
