"""Checks a request against its caller's permissions: every id, target, address and group in it.

Lineage tags count as ids, because they decide which promises are sent along with a task. What a request
finds without naming it (the page of a search, the tasks of a claim, who holds a unique key) the engine holds
to the grant: the request carries its prefix as `scope`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from holdfast.protocol import tags
from holdfast.protocol.errors import Refusal
from holdfast.protocol.events import started_id
from holdfast.protocol.requests import (
    EventAwait,
    EventSearch,
    EventSend,
    EventSubscribe,
    EventUnsubscribe,
    ExecutionFilter,
    ExecutionFork,
    ExecutionStart,
    LockAcquire,
    LockGet,
    LockRelease,
    LockSearch,
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSearch,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    Request,
    RequestData,
    ScheduleCreate,
    ScheduleSearch,
    ScheduleUpdate,
    StreamAppend,
    TaskClaim,
    TaskCreate,
    TaskFence,
    TaskFulfill,
    TaskHeartbeat,
    TaskSearch,
    TaskSuspend,
)
from holdfast.protocol.requests.schedules import SCHEDULE_ID, TIMESTAMP
from holdfast.protocol.wire import RefusedRequest
from holdfast.server.errors import Forbidden
from holdfast.server.grants import ADMIN, Grant

_SEARCHES: Final = (PromiseSearch, TaskSearch, ScheduleSearch, QueueSearch, LockSearch, ExecutionFilter)
reading_kinds: Final = frozenset(
    {
        "promise.get",
        "promise.search",
        "task.get",
        "task.search",
        "schedule.get",
        "schedule.search",
        "stream.read",
        "stream.list",
        "lock.get",
        "lock.search",
        "event.search",
        "queue.get",
        "queue.search",
        "execution.get",
        "execution.search",
        "execution.count",
    }
)
target_tags: Final = (tags.TARGET, tags.INVOKE)


def restrict(item: Request | RefusedRequest, grant: Grant | Refusal) -> Request | RefusedRequest:
    """The request as this caller may make it, or its refusal."""
    if isinstance(grant, Refusal):  # first: whoever may ask nothing learns nothing
        return RefusedRequest(item.kind, item.corr_id, item.version, grant)
    if isinstance(item, RefusedRequest) or grant == ADMIN:
        return item
    try:
        if item.kind not in reading_kinds:
            grant.require_change(item.kind)
        if grant.is_admin:
            return item
        data = _restrict(item.kind, item.data, grant)
    except Refusal as refusal:
        return RefusedRequest(item.kind, item.corr_id, item.version, refusal)
    return replace(item, data=data, scope=grant.prefix)


def _restrict(kind: str, data: RequestData, grant: Grant) -> RequestData:
    if kind.startswith("debug."):
        raise Forbidden(f"{kind} needs the role admin")
    if isinstance(data, _SEARCHES):
        grant.require_prefix(data.prefix or "")
        return data
    check = _CHECKS.get(type(data))
    if check is not None:
        check(data, grant)
    else:
        grant.require("id", data.id)  # type: ignore[attr-defined]
    return data


def _check_tags(entries: Mapping[str, str], grant: Grant) -> None:
    for name in target_tags:
        if name in entries:
            grant.require_address(entries[name])
    for name in tags.LINEAGE:
        if name in entries:
            grant.require(f"tag {name}", entries[name])


def _check_create(data: PromiseCreate, grant: Grant) -> None:
    grant.require("id", data.id)
    _check_tags(data.tags, grant)


def _check_callback(data: PromiseRegisterCallback, grant: Grant) -> None:
    grant.require("awaited id", data.awaited)
    grant.require("awaiter id", data.awaiter)


def _check_listener(data: PromiseRegisterListener, grant: Grant) -> None:
    grant.require("awaited id", data.awaited)
    grant.require_address(data.address)


def _check_task_create(data: TaskCreate, grant: Grant) -> None:
    _check_create(data.action.data, grant)


def _check_start(data: ExecutionStart, grant: Grant) -> None:
    _check_create(data.action.data, grant)


def _check_fork(data: ExecutionFork, grant: Grant) -> None:
    grant.require("id", data.id)
    grant.require("newId", data.new_id)


def _check_fulfill(data: TaskFulfill, grant: Grant) -> None:
    grant.require("id", data.id)
    grant.require("id", data.action.data.id)


def _check_append(data: StreamAppend, grant: Grant) -> None:
    grant.require("id", data.id)
    if data.answer is not None:
        if data.answer.id is not None:
            grant.require("id of the answer", data.answer.id)
        _check_tags(data.answer.tags, grant)


def _check_fence(data: TaskFence, grant: Grant) -> None:
    grant.require("id", data.id)
    inner = data.action.data
    check = _CHECKS.get(type(inner))
    if check is not None:
        check(inner, grant)
    else:
        grant.require("id", inner.id or "")


def _check_await(data: EventAwait, grant: Grant) -> None:
    _check_event(data, grant)
    grant.require("id", data.id)
    _check_tags(data.tags, grant)


def _check_acquire(data: LockAcquire, grant: Grant) -> None:
    _check_lock(data, grant)
    grant.require("id", data.id)
    _check_tags(data.tags, grant)


def _check_lock(data: LockAcquire | LockRelease | LockGet, grant: Grant) -> None:
    """What is in its queue is what uses it, so whoever may use a lock may see and end that."""
    grant.require("lock", data.name)


def _check_event(data: EventSend | EventAwait | EventSearch | EventUnsubscribe, grant: Grant) -> None:
    grant.require("event", data.name)


def _check_subscribe(data: EventSubscribe, grant: Grant) -> None:
    """Events start executions later, when nobody knows any more whose they are. What decides is the id of
    those executions, which is not spelt like that of the subscription."""
    grant.require("event", data.name)
    grant.require("id", data.id)
    grant.require_template("id", data.id, started_id(data.id, ""))
    _check_tags(data.promise_tags, grant)


def _check_suspend(data: TaskSuspend, grant: Grant) -> None:
    grant.require("id", data.id)
    for action in data.actions:
        _check_callback(action.data, grant)


def _check_heartbeat(data: TaskHeartbeat, grant: Grant) -> None:
    if not data.tasks:
        raise Forbidden("A heartbeat for every task of a process needs the role admin; name the tasks")
    for ref in data.tasks:
        grant.require("id", ref.id)


def _check_claim(data: TaskClaim, grant: Grant) -> None:
    for group in data.groups:
        grant.require_group(group)


def _check_queue(data: QueueGet | QueueSet | QueuePause, grant: Grant) -> None:
    grant.require("queue", data.name)


def _check_schedule(data: ScheduleCreate | ScheduleUpdate, grant: Grant) -> None:
    grant.require("id", data.id)
    if data.promise_id is not None:
        head, timestamp, _ = data.promise_id.partition(TIMESTAMP)
        head = head.replace(SCHEDULE_ID, data.id)
        if timestamp:
            grant.require_template("promiseId", data.promise_id, head)
        else:
            grant.require("promiseId", head)
    if data.promise_tags is not None:
        _check_tags(data.promise_tags, grant)
        _check_unique(data.promise_tags)


def _check_unique(entries: Mapping[str, str]) -> None:
    """A schedule fires later, when nobody knows any more whose it is."""
    job = tags.job_of(entries)
    if job is not None and job.on_unique in ("replace", "debounce"):
        raise Forbidden(f"A schedule whose tasks {job.on_unique} others needs the role admin")


_CHECKS: Final[dict[type[RequestData], Callable[[Any, Grant], None]]] = {
    PromiseCreate: _check_create,
    PromiseRegisterCallback: _check_callback,
    PromiseRegisterListener: _check_listener,
    TaskCreate: _check_task_create,
    TaskFulfill: _check_fulfill,
    ExecutionStart: _check_start,
    ExecutionFork: _check_fork,
    TaskFence: _check_fence,
    StreamAppend: _check_append,
    TaskSuspend: _check_suspend,
    TaskHeartbeat: _check_heartbeat,
    TaskClaim: _check_claim,
    ScheduleCreate: _check_schedule,
    ScheduleUpdate: _check_schedule,
    EventSend: _check_event,
    EventSearch: _check_event,
    EventUnsubscribe: _check_event,
    EventSubscribe: _check_subscribe,
    EventAwait: _check_await,
    LockAcquire: _check_acquire,
    LockGet: _check_lock,
    LockRelease: _check_lock,
    QueueGet: _check_queue,
    QueueSet: _check_queue,
    QueuePause: _check_queue,
}
