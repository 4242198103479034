"""How large records, messages and requests are, roughly, and how many of a list fit into an answer.

Characters are counted, not encoded bytes: nothing is encoded for it, so it costs the same whatever they hold.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final

from holdfast.protocol.jobs import QueueRecord
from holdfast.protocol.messages import Message, Unblock
from holdfast.protocol.records import NOTHING, Promise, Schedule, Value
from holdfast.protocol.requests.checks import RequestData
from holdfast.protocol.requests.events import EventSend
from holdfast.protocol.requests.executions import ExecutionFork, ExecutionStart
from holdfast.protocol.requests.promises import PromiseCreate, PromiseSettle
from holdfast.protocol.requests.schedules import ScheduleCreate, ScheduleUpdate
from holdfast.protocol.requests.streams import StreamAppend
from holdfast.protocol.requests.tasks import (
    TaskCreate,
    TaskFail,
    TaskFence,
    TaskFulfill,
    TaskHeartbeat,
    TaskRestart,
    TaskSuspend,
)

_none: Final[dict[str, str]] = {}
record_bytes: Final = 256  # the names of its fields, its instants, its state
meter_bytes: Final = 24
request_bytes: Final = 1_024  # in memory, beside its payloads
request_entry_bytes: Final = 512  # of its list


def promise_bytes(promise: Promise) -> int:
    return value_bytes(promise.param) + value_bytes(promise.value) + _entry_bytes(promise.tags)


def whole_promise_bytes(promise: Promise) -> int:
    return promise_bytes(promise) + len(promise.id) + record_bytes


def message_value_bytes(value: Value) -> int:
    """As which a message counts while it is unread."""
    return value_bytes(value) + record_bytes


def queue_bytes(queue: QueueRecord) -> int:
    """With its meters, which are read along with it though nobody is shown them."""
    meters = sum(len(key) + meter_bytes * len(meter) for key, meter in queue.meters.items())
    weights = sum(len(key) + meter_bytes for key in queue.weights)
    return meters + weights + meter_bytes * len(queue.turns) + record_bytes


def message_bytes(message: Message) -> int:
    if isinstance(message, Unblock):
        return whole_promise_bytes(message.promise) + len(message.address)
    return len(message.task.id) + len(message.address) + record_bytes


def schedule_bytes(schedule: Schedule | ScheduleCreate) -> int:
    return value_bytes(schedule.promise_param) + _entry_bytes(schedule.promise_tags)


def _update_bytes(data: ScheduleUpdate) -> int:
    size = 0 if data.promise_param is None else value_bytes(data.promise_param)
    return size if data.promise_tags is None else size + _entry_bytes(data.promise_tags)


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """How many fit, from the first one on."""
    count = 0
    for total in accumulate(sizes):
        if total > bytes_max:
            break
        count += 1
    return count


def payload_bytes(data: RequestData) -> int:
    """The payloads, headers and tags of a request. The rest of one is about `request_bytes`, and its list."""
    measure = _PAYLOADS.get(type(data))
    return 0 if measure is None else measure(data)


list_kinds: Final = frozenset({TaskSuspend, TaskRestart, TaskHeartbeat})


def list_bytes(data: RequestData) -> int:
    """About what the list of a request of these kinds takes up in memory."""
    if isinstance(data, TaskSuspend):
        return request_entry_bytes * len(data.actions)
    if isinstance(data, TaskRestart):
        return request_entry_bytes * len(data.forget)
    return request_entry_bytes * len(data.tasks) if isinstance(data, TaskHeartbeat) else 0


def value_bytes(value: Value) -> int:
    size = len(value.data) if value.data else 0
    return size + _entry_bytes(value.headers) if value.headers else size


def _entry_bytes(entries: dict[str, str]) -> int:
    return len("".join((*entries, *entries.values())))  # to copy them is faster than to count each


def _create_bytes(data: PromiseCreate) -> int:
    param, settle = data.param, data.settle
    value = NOTHING if settle is None else settle.value
    entries, headers, others = data.tags, param.headers or _none, value.headers or _none
    size = (len(param.data) if param.data else 0) + (len(value.data) if value.data else 0)
    if not (entries or headers or others):
        return size
    texts = (*entries, *entries.values(), *headers, *headers.values(), *others, *others.values())
    return size + len("".join(texts))


def _fence_bytes(data: TaskFence) -> int:
    """Most are creations: so these take the short way."""
    inner = data.action.data
    return _create_bytes(inner) if type(inner) is PromiseCreate else payload_bytes(inner)


def _append_bytes(data: StreamAppend) -> int:
    size = value_bytes(data.value) + (_entry_bytes(data.expect) if data.expect else 0)
    if data.answer is None:
        return size
    return size + value_bytes(data.answer.param) + _entry_bytes(data.answer.tags)


def _event_bytes(data: EventSend) -> int:
    return value_bytes(data.value) + _entry_bytes(data.match)


def _settlement_bytes(data: PromiseSettle | TaskFail) -> int:
    return value_bytes(data.value)


def _restart_bytes(data: TaskRestart) -> int:
    return value_bytes(data.param)


def _action_bytes(data: TaskCreate | TaskFulfill | ExecutionStart) -> int:
    return payload_bytes(data.action.data)


def _fork_bytes(data: ExecutionFork) -> int:
    return 0 if data.param is None else value_bytes(data.param)


_PAYLOADS: Final[dict[type[RequestData], Callable[[Any], int]]] = {
    PromiseCreate: _create_bytes,
    PromiseSettle: _settlement_bytes,
    TaskFail: _settlement_bytes,
    TaskCreate: _action_bytes,
    TaskFulfill: _action_bytes,
    TaskFence: _fence_bytes,
    TaskRestart: _restart_bytes,
    ExecutionStart: _action_bytes,
    ExecutionFork: _fork_bytes,
    ScheduleCreate: schedule_bytes,
    ScheduleUpdate: _update_bytes,
    StreamAppend: _append_bytes,
    EventSend: _event_bytes,
}
