"""queue.*: set the limits of a queue, pause it, read it.

Before these requests are applied, `ws.counts` holds how many tasks wait in each queue and are held.
"""

from msgspec.structs import replace

from holdfast.engine.claims import Gate
from holdfast.engine.job_state import queue_name
from holdfast.engine.queue_lines import is_queued
from holdfast.engine.scans import page_of
from holdfast.engine.transitions import send_execute
from holdfast.engine.view import is_open
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol.errors import QueueGated
from holdfast.protocol.jobs import QueueRecord, QueueView
from holdfast.protocol.records import Millis, Task
from holdfast.protocol.replies import QueueReply, QueuesReply, Reply
from holdfast.protocol.requests import QueueGet, QueuePause, QueueSearch, QueueSet, Request


def find_queue(name: str, ws: WorkingSet) -> QueueRecord:
    """A queue that nobody has set is open and without limits."""
    return ws.queue(name) or QueueRecord(name)


def check_gate(task: Task, ws: WorkingSet) -> None:
    """Limits are kept by task.claim and task.start alone, so nobody may go round them."""
    if is_queued(task) and find_queue(queue_name(task.target), ws).is_gated:
        raise QueueGated(queue_name(task.target))


def find_obstacle(task: Task, ws: WorkingSet, now: Millis) -> str | None:
    """Why a task that is held may not begin now. If it may, the rates of its queue count it."""
    name = queue_name(task.target)
    queue = ws.gate(name)
    if queue is None or not queue.is_gated:
        return None
    gate = Gate(queue, now)
    if not gate.lets_begin(task):
        return (
            f"The queue {name!r} is paused" if queue.paused else f"The rate of the queue {name!r} is used up"
        )
    if gate.is_changed:
        ws.put_queue(gate.changed_queue)
    return None


def get(request: Request, data: QueueGet, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, QueueReply(_view(data.name, ws)))


def set_limits(request: Request, data: QueueSet, ws: WorkingSet, now: Millis) -> Reply:
    queue = find_queue(data.name, ws)
    keeps_time = data.rate is not None or data.key_rate is not None
    meters = queue.meters if keeps_time else {}
    ws.put_queue(
        QueueRecord(
            data.name,
            data.concurrency,
            data.key_concurrency,
            data.rate,
            data.key_rate,
            queue.paused,
            data.running,
            meters,
            data.fair,
            data.weights or {},
            queue.turns,
        )
    )
    _wake(ws, now)
    return Reply(200, QueueReply(_view(data.name, ws)))


def pause(request: Request, data: QueuePause, ws: WorkingSet, now: Millis) -> Reply:
    queue = find_queue(data.name, ws)
    if queue.paused != data.paused:
        ws.put_queue(replace(queue, paused=data.paused))
    if not data.paused:
        _wake(ws, now)
    return Reply(200, QueueReply(_view(data.name, ws)))


def search(request: Request, data: QueueSearch, ws: WorkingSet, now: Millis) -> Reply:
    page, cursor = page_of(ws.found, ws.until, data.limit)
    return Reply(200, QueuesReply([_view(name, ws) for name in page], cursor))


def _wake(ws: WorkingSet, now: Millis) -> None:
    """There may be room now: whoever waits for the first pending tasks of the queue shall claim."""
    for task_id in ws.found:
        task = ws.task(task_id)
        if task is not None and task.state == "pending" and is_open(task, now):
            send_execute(task, ws)


def _view(name: str, ws: WorkingSet) -> QueueView:
    queue = find_queue(name, ws)
    pending, delayed, claimed, running = ws.counts.get(name, (0, 0, 0, 0))
    return QueueView(
        name,
        queue.paused,
        pending,
        delayed,
        claimed,
        running,
        queue.concurrency,
        queue.key_concurrency,
        queue.rate,
        queue.key_rate,
        queue.fair,
        queue.weights,
        queue.running,
    )
