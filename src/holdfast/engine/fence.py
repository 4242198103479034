"""task.fence: an action on another promise, a stream or a lock, by whoever holds a task and by nobody else.

1. A refusal of the action is part of the reply; only a claim that is lost refuses the request itself.
2. An action that is refused has changed nothing, wherever in it that was found.
3. A record that was not there before, or a settlement, is progress of the task (`crashes.py`).
"""

from holdfast.engine import crashes, events, locks, streams
from holdfast.engine.cancelling import cancel_execution
from holdfast.engine.promises import check_creation, create_promise, settle_promise
from holdfast.engine.reported import drop_reported
from holdfast.engine.retrying import retry_execution
from holdfast.engine.tagging import change_tags
from holdfast.engine.tasks import halt, held_task, resume
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.errors import Refusal
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import EMPTY, FenceReply, LockReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    AcquireAction,
    AppendAction,
    AwaitAction,
    CancelAction,
    ContinueAction,
    CreateAction,
    HaltAction,
    NextAction,
    ReleaseAction,
    Request,
    RetryAction,
    SendAction,
    SettleAction,
    TagAction,
    TaskFence,
)
from holdfast.protocol.requests.tasks import FencedAction, fenced_kinds
from holdfast.protocol.wire import refuse, to_reply


def fence(request: Request, data: TaskFence, ws: WorkingSet, now: Millis) -> Reply:
    """A promise is created or settled, a stream appended to or awaited, a lock asked for or released, an
    event sent or awaited, another execution steered, by whoever drives this task, and by nobody else."""
    action = data.action
    target = check_creation(request, action.data) if isinstance(action, CreateAction) else None
    task = held_task(data.id, data.version, ws, now, data.generation or 0)
    record = _recorded(action) if task.crashes else None
    before = None if record is None else ws.promise(record)
    try:
        match action:
            case CreateAction():
                inner = Reply(200, PromiseReply(create_promise(request, action.data, target, ws, now)))
            case SettleAction():
                inner = Reply(200, PromiseReply(settle_promise(action.data, ws, now)))
            case AppendAction():
                inner = Reply(200, streams.append(action.data, task, ws, now))
            case NextAction():
                inner = Reply(200, streams.find_next(action.data, task, ws, now))
            case AcquireAction():
                inner = Reply(200, PromiseReply(locks.acquire(action.data, task, ws, now)))
            case ReleaseAction():
                inner = Reply(200, LockReply(locks.release(action.data, task, ws, now)))
            case SendAction():
                inner = Reply(200, events.send(request, action.data, ws, now))
            case AwaitAction():
                inner = Reply(200, PromiseReply(events.wait(action.data, task, ws, now)))
            case CancelAction():
                inner = Reply(200, PromiseReply(cancel_execution(action.data, ws, now)))
            case RetryAction():
                inner = Reply(200, PromiseReply(retry_execution(request, action.data, ws, now)))
            case TagAction():
                change_tags(action.data, task, ws)
                inner = Reply(200, EMPTY)
            case HaltAction():
                inner = halt(request, action.data, ws, now)
            case ContinueAction():
                inner = resume(request, action.data, ws, now)
        if record is not None:
            crashes.note_progress(task, record, before, ws)
        if task.progress is not None and isinstance(action, CreateAction | SettleAction):
            promise = ws.promise(action.data.id)
            if promise is not None and promise.state != "pending":
                drop_reported(data.id, action.data.id, ws)
    except Refusal as refusal:
        ws.undo()
        inner = refuse(refusal)
    corr_id = request.corr_id
    if action.head and isinstance(given := action.head.get("corrId"), str):
        corr_id = given
    return Reply(200, FenceReply(to_reply(fenced_kinds[type(action)], corr_id, request.version, inner), []))


def _recorded(action: FencedAction) -> str | None:
    """The id of the record that the action makes, or settles."""
    match action:
        case CreateAction() | SettleAction() | AcquireAction() | AwaitAction():
            return action.data.id
        case _:
            return None
