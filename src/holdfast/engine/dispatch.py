"""Dispatches each request to its transition function, and says which records it needs.

`apply` is pure: the request, the working set and the instant decide everything. It raises `Missing` when
the working set lacks a record; then nothing has changed, and it can be called again. `footprint` guesses
what a request will need, so that one load serves a whole group.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.engine import (
    cancelling,
    debug,
    events,
    executions,
    fence,
    forking,
    job_requests,
    locks,
    promises,
    queues,
    restart,
    retrying,
    schedules,
    starting,
    streams,
    sweep,
    tasks,
)
from holdfast.engine.job_state import queue_name, unique_name
from holdfast.engine.needed import Footprint, LineKey
from holdfast.engine.queue_lines import line_name
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import requests as r, tags
from holdfast.protocol.address import claim_group
from holdfast.protocol.errors import Refusal
from holdfast.protocol.events import event_key_id, topic_id, wait_list_id
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.locks import lock_id
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.streams import element_id, key_id
from holdfast.protocol.wire import refuse

Handler = Callable[[r.Request, Any, WorkingSet, Millis], Reply]

HANDLERS: Final[dict[type[r.RequestData], Handler]] = {
    r.PromiseGet: promises.get,
    r.PromiseCreate: promises.create,
    r.PromiseSettle: promises.settle_request,
    r.PromiseRegisterCallback: promises.register_callback,
    r.PromiseRegisterListener: promises.register_listener,
    r.PromiseSearch: promises.search,
    r.TaskGet: tasks.get,
    r.TaskCreate: tasks.create,
    r.TaskAcquire: tasks.acquire,
    r.TaskClaim: tasks.claim,
    r.TaskStart: tasks.start,
    r.TaskFail: job_requests.fail,
    r.TaskCancel: job_requests.cancel,
    r.TaskSnooze: job_requests.snooze,
    r.TaskReschedule: job_requests.reschedule,
    r.TaskRelease: tasks.release,
    r.TaskFulfill: tasks.fulfill,
    r.TaskSuspend: tasks.suspend,
    r.TaskFence: fence.fence,
    r.TaskRestart: restart.restart,
    r.TaskHeartbeat: tasks.heartbeat,
    r.TaskHalt: tasks.halt,
    r.TaskContinue: tasks.resume,
    r.TaskSearch: tasks.search,
    r.ScheduleGet: schedules.get,
    r.ScheduleCreate: schedules.create,
    r.ScheduleDelete: schedules.delete,
    r.ScheduleSearch: schedules.search,
    r.ScheduleUpdate: schedules.update,
    r.SchedulePause: schedules.pause,
    r.ScheduleTrigger: schedules.trigger,
    r.ScheduleBackfill: schedules.backfill,
    r.StreamAppend: streams.append_request,
    r.StreamNext: streams.next_request,
    r.StreamRead: streams.read,
    r.StreamList: streams.list_streams,
    r.EventSend: events.send_request,
    r.EventSearch: events.search,
    r.EventSubscribe: events.subscribe,
    r.EventUnsubscribe: events.unsubscribe,
    r.LockGet: locks.get,
    r.LockSearch: locks.search,
    r.LockRelease: locks.release_request,
    r.QueueGet: queues.get,
    r.QueueSet: queues.set_limits,
    r.QueuePause: queues.pause,
    r.QueueSearch: queues.search,
    r.ExecutionGet: executions.get,
    r.ExecutionSearch: executions.search,
    r.ExecutionCount: executions.count,
    r.ExecutionStart: starting.start,
    r.ExecutionCancel: cancelling.cancel,
    r.ExecutionRetry: retrying.retry,
    r.ExecutionFork: forking.fork,
    r.DebugStart: debug.start,
    r.DebugStop: debug.stop,
    r.DebugReset: debug.reset,
    r.DebugTick: debug.tick,
    r.DebugSnap: debug.snap,
    sweep.PromiseDue: sweep.expire_promise,
    sweep.TaskDue: sweep.task_due,
    sweep.ScheduleDue: sweep.fire_schedule,
}


def apply(request: r.Request, ws: WorkingSet, now: Millis) -> Reply:
    """Carry out one request. Whatever is not a success has changed nothing, but for `MustWait`."""
    ws.begin()
    if ws.lines.stale_turns:
        ws.lines.begin()
    try:
        return HANDLERS[type(request.data)](request, request.data, ws, now)
    except Refusal as refusal:
        ws.undo()
        return refuse(refusal)
    except BaseException:  # Missing, or a defect: in either case this request has not happened
        ws.undo()
        raise


def footprint(requests: Iterable[r.Request]) -> Footprint:
    needed = Footprint()
    for request in requests:
        data = request.data
        note = _NOTES.get(type(data))
        if note is not None:
            note(data, needed)
        elif type(data) in _BY_ID:
            needed.promises.add(data.id)  # type: ignore[attr-defined]  # every kind in _BY_ID has an id
    return needed


_BY_ID: Final = frozenset(
    {
        r.TaskStart,
        r.TaskRelease,
        r.TaskHalt,
        r.TaskContinue,
        r.TaskReschedule,
        sweep.TaskDue,
    }
)


def _note_view(data: r.PromiseGet | r.TaskGet | r.ExecutionGet, needed: Footprint) -> None:
    needed.views.add(data.id)


def _note_settle(
    data: (
        r.PromiseSettle
        | r.TaskFulfill
        | r.TaskFail
        | r.TaskSnooze
        | r.TaskCancel
        | r.ExecutionCancel
        | r.ExecutionRetry
        | sweep.PromiseDue
    ),
    needed: Footprint,
) -> None:
    needed.promises.add(data.id)
    needed.obligations.add(data.id)


def _note_promise_create(data: r.PromiseCreate, needed: Footprint) -> None:
    needed.promises.add(data.id)
    needed.creations += 1
    if data.settle is not None:
        needed.obligations.add(data.id)
    if data.tags and (tags.JOB in data.tags or tags.QUEUE in data.tags):
        _note_queued(data.tags, needed)


def _note_queued(entries: dict[str, str], needed: Footprint) -> None:
    """What is needed follows from four tags, which are alike in what is sent together."""
    target = entries[tags.TARGET]
    asked = (target, entries.get(tags.JOB), entries.get(tags.QUEUE), entries.get(tags.PRIORITY))
    if asked == needed.noted:
        return
    needed.noted = asked
    group = claim_group(target) or ""
    place, job = tags.place_of(entries), tags.job_of(entries)
    if job is not None and job.unique is not None:
        needed.uniques.add(unique_name(target, job.unique))
    found = place if job is None else job
    needed.queue_views.add(queue_name(target))
    name = line_name(group, None if found is None else found.key)
    needed.turns.add(LineKey(group, tags.priority_of(entries), name))
    if place is not None and place.overlap != "wait":
        needed.placed.add(name)


def _note_claim(data: r.TaskClaim, needed: Footprint) -> None:
    needed.gates.update(name for group in data.groups if (name := queue_of(group)) is not None)


def _note_queue(data: r.QueueSet | r.QueuePause, needed: Footprint) -> None:
    needed.queues.add(data.name)


def _note_queue_view(data: r.QueueGet, needed: Footprint) -> None:
    needed.queue_views.add(data.name)


def _note_acquire(data: r.TaskAcquire, needed: Footprint) -> None:
    needed.promises.add(data.id)
    needed.branches_of.add(data.id)


def _note_create(data: r.TaskCreate, needed: Footprint) -> None:
    needed.promises.add(data.action.data.id)
    needed.branches_of.add(data.action.data.id)


def _note_suspend(data: r.TaskSuspend, needed: Footprint) -> None:
    needed.promises.add(data.id)
    needed.promises.update(action.data.awaited for action in data.actions)


def _note_fence(data: r.TaskFence, needed: Footprint) -> None:
    needed.promises.add(data.id)
    match data.action:
        case r.SettleAction(settlement):
            _note_settle(settlement, needed)
        case r.CreateAction(creation):
            _note_promise_create(creation, needed)
        case r.AppendAction(appended):
            _note_append(appended, needed)
        case r.NextAction(awaited):
            _note_next(awaited, needed)
        case r.CancelAction(cancelled):
            _note_cancel(cancelled, needed)
        case r.RetryAction(retried):
            _note_retry(retried, needed)
        case r.HaltAction(halted):
            needed.promises.add(halted.id)
        case r.ContinueAction(continued):
            needed.promises.add(continued.id)
        case r.TagAction():
            pass  # of the task itself
        case r.AcquireAction(asked):
            needed.promises.update((asked.id, lock_id(asked.name)))
        case r.ReleaseAction(released):
            _note_release(released, needed)
        case r.SendAction(sent):
            _note_event(sent, needed)
        case r.AwaitAction(awaited_event):
            lists = wait_list_id(awaited_event.name, awaited_event.match)
            needed.promises.update((awaited_event.id, topic_id(awaited_event.name), lists))


def _note_event(data: r.EventSend, needed: Footprint) -> None:
    needed.promises.add(topic_id(data.name))
    if data.id is not None:
        needed.promises.add(event_key_id(data.name, data.id))


def _note_topic(data: r.EventSubscribe | r.EventUnsubscribe, needed: Footprint) -> None:
    needed.promises.add(topic_id(data.name))


def _note_topic_view(data: r.EventSearch, needed: Footprint) -> None:
    needed.views.add(topic_id(data.name))


def _note_start(data: r.ExecutionStart, needed: Footprint) -> None:
    _note_promise_create(data.action.data, needed)
    needed.obligations.add(data.action.data.id)
    needed.streams.add(data.action.data.id)


def _note_cancel(data: r.ExecutionCancel, needed: Footprint) -> None:
    needed.promises.add(cancel_id(data.id))
    _note_settle(data, needed)


def _note_retry(data: r.ExecutionRetry, needed: Footprint) -> None:
    needed.streams.add(data.id)
    _note_settle(data, needed)


def _note_fork(data: r.ExecutionFork, needed: Footprint) -> None:
    needed.promises.update((data.id, data.new_id))
    needed.streams.update((data.id, data.new_id))


def _note_release(data: r.LockRelease, needed: Footprint) -> None:
    needed.promises.update((data.id, lock_id(data.name)))


def _note_lock_view(data: r.LockGet, needed: Footprint) -> None:
    needed.views.add(lock_id(data.name))


def _note_restart(data: r.TaskRestart, needed: Footprint) -> None:
    needed.promises.add(data.id)
    needed.streams.add(data.id)
    needed.obligations.update(data.forget)


def _note_append(data: r.StreamAppend, needed: Footprint) -> None:
    needed.promises.add(data.id)
    needed.streams.add(data.id)
    if data.key is not None:
        needed.promises.add(key_id(data.id, data.stream, data.key))
    place = data.id, data.stream
    needed.appends[place] = needed.appends.get(place, 0) + 1
    if data.answer is not None:
        if data.answer.id is not None:
            needed.promises.add(data.answer.id)
        else:
            needed.answers.add(place)


def _note_next(data: r.StreamNext, needed: Footprint) -> None:
    needed.streams.add(data.id)
    needed.promises.update((data.id, element_id(data.id, data.stream, data.number)))


def _note_stream_view(data: r.StreamRead | r.StreamList, needed: Footprint) -> None:
    needed.views.add(data.id)
    needed.stream_views.add(data.id)


def _note_callback(data: r.PromiseRegisterCallback, needed: Footprint) -> None:
    needed.promises.update((data.awaited, data.awaiter))


def _note_listener(data: r.PromiseRegisterListener, needed: Footprint) -> None:
    needed.listened.add(data.awaited)


def _note_heartbeat(data: r.TaskHeartbeat, needed: Footprint) -> None:
    needed.promises.update(ref.id for ref in data.tasks)


def _note_schedule(data: Any, needed: Footprint) -> None:
    needed.schedules.add(data.id)


def _note_schedule_view(data: r.ScheduleGet, needed: Footprint) -> None:
    needed.schedule_views.add(data.id)


_NOTES: Final[dict[type[r.RequestData], Callable[[Any, Footprint], None]]] = {
    r.PromiseGet: _note_view,
    r.TaskGet: _note_view,
    r.ExecutionGet: _note_view,
    r.PromiseCreate: _note_promise_create,
    r.PromiseSettle: _note_settle,
    r.TaskFulfill: _note_settle,
    sweep.PromiseDue: _note_settle,
    r.TaskFail: _note_settle,
    r.TaskSnooze: _note_settle,
    r.TaskCancel: _note_settle,
    r.ExecutionStart: _note_start,
    r.ExecutionCancel: _note_cancel,
    r.ExecutionRetry: _note_retry,
    r.ExecutionFork: _note_fork,
    r.TaskClaim: _note_claim,
    r.StreamAppend: _note_append,
    r.StreamNext: _note_next,
    r.StreamRead: _note_stream_view,
    r.StreamList: _note_stream_view,
    r.EventSend: _note_event,
    r.EventSearch: _note_topic_view,
    r.EventSubscribe: _note_topic,
    r.EventUnsubscribe: _note_topic,
    r.LockGet: _note_lock_view,
    r.LockRelease: _note_release,
    r.QueueSet: _note_queue,
    r.QueuePause: _note_queue,
    r.QueueGet: _note_queue_view,
    r.TaskAcquire: _note_acquire,
    r.TaskCreate: _note_create,
    r.TaskSuspend: _note_suspend,
    r.TaskFence: _note_fence,
    r.TaskRestart: _note_restart,
    r.PromiseRegisterCallback: _note_callback,
    r.PromiseRegisterListener: _note_listener,
    r.TaskHeartbeat: _note_heartbeat,
    r.ScheduleGet: _note_schedule_view,
    r.ScheduleCreate: _note_schedule,
    r.ScheduleDelete: _note_schedule,
    r.ScheduleUpdate: _note_schedule,
    r.SchedulePause: _note_schedule,
    r.ScheduleTrigger: _note_schedule,
    r.ScheduleBackfill: _note_schedule,
    sweep.ScheduleDue: _note_schedule,
}
