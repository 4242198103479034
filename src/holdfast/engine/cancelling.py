"""execution.cancel: an execution is asked to cancel itself, or is ended at once, with all that it called.

1. An execution is asked: its code sees `Cancelled` and may clean up; what it called is asked by itself.
2. A background task, and a promise that nobody works on, end at once.
3. With `now` it ends at once, and so does everything that it called and waits for, and what that called in
   turn. What it only started goes on.
4. One that is over stays as it is. If it was cancelled, what it called is ended all the same: somebody may
   have ended it another way, and left that running.
"""

from holdfast.engine.overlap import ask_to_cancel
from holdfast.engine.transitions import settle
from holdfast.engine.trees import label_of
from holdfast.engine.view import is_live, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.errors import InvalidField, PromiseMissing
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
        raise InvalidField(f"{data.id!r} is a record of the node's, of a lock or of events")
    seen = see_promise(promise, ws, now)
    if seen.state not in ("pending", "rejected_canceled"):
        return seen
    is_execution = task is not None and task.job is None
    if seen.state == "pending" and is_execution and not data.now:
        ask_to_cancel(promise, ws, now)
        return seen
    if data.now:
        end_called(data.id, ws.found, ws, now)
    return end(promise, ws, now) if seen.state == "pending" else seen


def end(promise: Promise, ws: WorkingSet, now: Millis) -> Promise:
    return settle(promise, "rejected_canceled", NOTHING, now, None, ws, now)


def end_called(execution_id: str, found: list[str], ws: WorkingSet, now: Millis) -> None:
    """End what it called, what that called, and so on: the innermost first. `found`: open tasks below it."""
    ws.need_obligations(found)
    reached = {execution_id}
    for key in sorted(found, key=lambda key: (key.count("."), key)):
        promise = ws.promise(key)
        if promise is not None and is_called(promise) and promise.tags.get(tags.PARENT) in reached:
            reached.add(key)
    for key in sorted(reached - {execution_id}, key=lambda key: (-key.count("."), key)):
        promise = ws.promise(key)
        if promise is not None and is_live(see_promise(promise, ws, now), now):
            end(promise, ws, now)


def is_called(promise: Promise) -> bool:
    """Does whoever made it wait for it?"""
    return label_of(promise).startswith("call ")
