"""debug.*: for tests that drive the clock and look at everything."""

import msgspec

from holdfast.engine.view import show_task
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.errors import InvalidField
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import (
    EMPTY,
    CallbackView,
    ListenerView,
    MessageView,
    Reply,
    SnapReply,
    TaskTimeout,
    TimeoutEntry,
)
from holdfast.protocol.requests import DebugReset, DebugSnap, DebugStart, DebugStop, DebugTick, Request
from holdfast.protocol.wire import encode_message


def start(request: Request, data: DebugStart, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, EMPTY)


def stop(request: Request, data: DebugStop, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, EMPTY)


def reset(request: Request, data: DebugReset, ws: WorkingSet, now: Millis) -> Reply:
    ws.clear()
    return Reply(200, EMPTY)


def tick(request: Request, data: DebugTick, ws: WorkingSet, now: Millis) -> Reply:
    """The node has swept at `time` before it asks for this reply."""
    if request.debug_time is not None and request.debug_time != data.time:
        raise InvalidField("time differs from the debug time in the head")
    return Reply(200, [])


def snap(request: Request, data: DebugSnap, ws: WorkingSet, now: Millis) -> Reply:
    """Everything that is stored, as it is stored. The node has loaded all of it."""
    promises = [promise for _, promise in sorted(ws.promises.items()) if promise is not None]
    tasks = [task for _, task in sorted(ws.tasks.items()) if task is not None]
    schedules = [entry.schedule for _, entry in sorted(ws.schedules.items()) if entry is not None]
    return Reply(
        200,
        SnapReply(
            promises=promises,
            promise_timeouts=[TimeoutEntry(p.id, p.timeout_at) for p in promises if ws.is_watched(p.id)],
            callbacks=[
                CallbackView(awaiter, awaited)
                for awaiter, awaited in sorted(
                    (w, p.id) for p in promises for w in ws.callbacks.get(p.id, {})
                )
            ],
            listeners=[
                ListenerView(p.id, listener.address) for p in promises for listener in ws.listeners_of(p.id)
            ],
            tasks=[show_task(task) for task in tasks],
            task_timeouts=[
                TaskTimeout(task.id, 1 if task.state == "acquired" else 0, task.due_at)
                for task in tasks
                if task.due_at is not None
            ],
            schedules=schedules,
            queues=[queue for _, queue in sorted(ws.queues.items()) if queue is not None] or None,
            streams=[streams for _, streams in sorted(ws.streams.items()) if streams is not None] or None,
            messages=sorted((_show(message) for message in ws.waiting), key=_message_order),
        ),
    )


def _show(message: Message) -> MessageView:
    return MessageView(message.address, msgspec.json.decode(encode_message(message)))


def _message_order(view: MessageView) -> tuple[str, str, str]:
    """By address, kind, and the id of the task or promise."""
    [record] = view.message["data"].values()
    return view.address, view.message["kind"], record["id"]
