"""How much a request carries: the characters of its payloads, headers and tags.

Nothing is encoded for it, so it costs the same whatever they hold. The rest of a request is small.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.protocol.records import Value
from holdfast.protocol.requests.checks import RequestData
from holdfast.protocol.requests.promises import PromiseCreate, PromiseSettle
from holdfast.protocol.requests.schedules import ScheduleCreate
from holdfast.protocol.requests.tasks import TaskCreate, TaskFail, TaskFence, TaskFulfill


def weight_of(data: RequestData) -> int:
    weigh = _WEIGHTS.get(type(data))
    return 0 if weigh is None else weigh(data)


def _of_value(value: Value) -> int:
    weight = len(value.data) if value.data else 0
    return weight + _of_entries(value.headers) if value.headers else weight


def _of_entries(entries: dict[str, str]) -> int:
    weight = 0
    for key, value in entries.items():
        weight += len(key) + len(value)
    return weight


def _of_create(data: PromiseCreate) -> int:
    weight = _of_value(data.param)
    if data.tags:
        weight += _of_entries(data.tags)
    return weight if data.settle is None else weight + _of_value(data.settle.value)


def _of_settlement(data: PromiseSettle | TaskFail) -> int:
    return _of_value(data.value)


def _of_action(data: TaskCreate | TaskFulfill | TaskFence) -> int:
    return weight_of(data.action.data)


def _of_schedule(data: ScheduleCreate) -> int:
    return _of_value(data.promise_param) + _of_entries(data.promise_tags)


_WEIGHTS: Final[dict[type[RequestData], Callable[[Any], int]]] = {
    PromiseCreate: _of_create,
    PromiseSettle: _of_settlement,
    TaskFail: _of_settlement,
    TaskCreate: _of_action,
    TaskFulfill: _of_action,
    TaskFence: _of_action,
    ScheduleCreate: _of_schedule,
}
