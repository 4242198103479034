"""What can be asked: the data of every kind of request, checked as it is built.

A request that exists is well formed: `__post_init__` checks what types cannot say, whether the request was
decoded from the wire or built by a caller in the same process. What depends on stored state is the
engine's business. `KINDS` maps every name on the wire, aliases included, to its data.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.address import parse_address
from holdfast.protocol.cron import check_cron, check_timezone
from holdfast.protocol.dialect import Dialect
from holdfast.protocol.records import Overlap, PromiseState, Settlement, TaskRef, TaskState, Value
from holdfast.protocol.text import check_entries, check_integer, check_text


class RequestData(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The data of one request."""


def _check_value(name: str, value: Value) -> None:
    if value.headers:
        check_entries(f"{name}.headers", value.headers)
    if value.data:
        check_text(f"{name}.data", value.data, limits.data_bytes_max)


def _check_claim(pid: str, ttl: int) -> None:
    check_text("pid", pid)
    check_integer("ttl", ttl, 1, limits.ttl_ms_max)


def _check_tags(entries: dict[str, str]) -> None:
    check_entries("tags", entries)
    target = entries.get(tags.TARGET)
    if target is not None:
        parse_address(target)
    tags.priority_of(entries)


def _check_page(limit: int | None, cursor: str | None, prefix: str | None) -> None:
    if limit is not None:
        check_integer("limit", limit, 1, limits.page_size_max)
    for name, text in (("cursor", cursor), ("prefix", prefix)):
        if text is not None:
            check_text(name, text, empty=True)


# --- promises ---------------------------------------------------------------------------------------


class PromiseGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class PromiseCreate(RequestData, frozen=True):
    id: str
    timeout_at: int
    param: Value = field(default_factory=Value)
    tags: dict[str, str] = field(default_factory=dict)
    ikc: str | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_integer("timeoutAt", self.timeout_at, 0)
        _check_value("param", self.param)
        if self.ikc is not None:
            check_text("ikc", self.ikc)
        if self.tags:
            _check_tags(self.tags)
            delay = tags.delay_of(self.tags)
            if delay is not None and delay >= self.timeout_at:
                raise ValueError("tag resonate:delay must lie before timeoutAt, or the task could never run")


class PromiseSettle(RequestData, frozen=True):
    id: str
    state: Settlement
    value: Value = field(default_factory=Value)
    iku: str | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        _check_value("value", self.value)
        if self.iku is not None:
            check_text("iku", self.iku)


class PromiseRegisterCallback(RequestData, frozen=True):
    awaited: str
    awaiter: str

    def __post_init__(self) -> None:
        check_text("awaited", self.awaited)
        check_text("awaiter", self.awaiter)
        if self.awaited == self.awaiter:
            raise ValueError("a promise cannot await itself")


class PromiseRegisterListener(RequestData, frozen=True):
    awaited: str
    address: str

    def __post_init__(self) -> None:
        check_text("awaited", self.awaited)
        parse_address(self.address)


class PromiseSearch(RequestData, frozen=True):
    state: PromiseState | None = None
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)


# --- actions: requests inside requests ----------------------------------------------------------------


class CreateAction(Struct, frozen=True, tag_field="kind", tag="promise.create"):
    data: PromiseCreate
    head: dict[str, Any] = field(default_factory=dict)


class SettleAction(Struct, frozen=True, tag_field="kind", tag="promise.settle"):
    data: PromiseSettle
    head: dict[str, Any] = field(default_factory=dict)


class RegisterAction(Struct, frozen=True):
    kind: Literal["promise.register_callback", "promise.register"]
    data: PromiseRegisterCallback
    head: dict[str, Any] = field(default_factory=dict)


# --- tasks ------------------------------------------------------------------------------------------


class TaskGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class TaskCreate(RequestData, frozen=True):
    pid: str
    ttl: int
    action: CreateAction

    def __post_init__(self) -> None:
        _check_claim(self.pid, self.ttl)
        if tags.DELAY in self.action.data.tags:
            raise ValueError("task.create claims the task at once, so resonate:delay makes no sense with it")


class TaskAcquire(RequestData, frozen=True):
    id: str
    version: int
    pid: str
    ttl: int

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)
        _check_claim(self.pid, self.ttl)


class Retry(Struct, frozen=True):
    """Why a task is given back, and how long it shall rest."""

    delay: int
    error: str | None = None

    def __post_init__(self) -> None:
        check_integer("retry.delay", self.delay, 0)
        if self.error is not None:
            check_text("retry.error", self.error, limits.error_bytes_max, empty=True)


class TaskRelease(RequestData, frozen=True):
    id: str
    version: int
    retry: Retry | None = None

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)


class TaskStart(RequestData, frozen=True):
    id: str
    version: int

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)


class TaskFulfill(RequestData, frozen=True):
    id: str
    version: int
    action: SettleAction

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)
        if self.action.data.id != self.id:
            raise ValueError("the action of task.fulfill must settle the task's own promise")


class TaskSuspend(RequestData, frozen=True):
    id: str
    version: int
    actions: list[RegisterAction]

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)
        if not self.actions:
            raise ValueError("task.suspend needs at least one promise to wait for")
        if len(self.actions) > limits.actions_max:
            raise ValueError(
                f"task.suspend has {len(self.actions)} actions, the most is {limits.actions_max}"
            )
        for action in self.actions:
            if action.data.awaiter != self.id:
                raise ValueError("every action of task.suspend must have the task itself as its awaiter")


class TaskFence(RequestData, frozen=True):
    id: str
    version: int
    action: CreateAction | SettleAction

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version)
        if self.action.data.id == self.id:
            raise ValueError("task.fence cannot act on the task's own promise; use task.fulfill")


class TaskHeartbeat(RequestData, frozen=True):
    pid: str
    tasks: list[TaskRef]

    def __post_init__(self) -> None:
        check_text("pid", self.pid)
        if len(self.tasks) > limits.heartbeat_tasks_max:
            raise ValueError(
                f"{len(self.tasks)} tasks in one heartbeat, the most is {limits.heartbeat_tasks_max}"
            )
        for ref in self.tasks:
            _check_ref(ref.id, ref.version)


class TaskHalt(RequestData, frozen=True):
    id: str
    version: int | None = None

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version or 0)


class TaskContinue(RequestData, frozen=True):
    id: str
    version: int | None = None

    def __post_init__(self) -> None:
        _check_ref(self.id, self.version or 0)


class TaskClaim(RequestData, frozen=True):
    groups: list[str]
    count: int
    pid: str
    ttl: int

    def __post_init__(self) -> None:
        check_integer("the number of groups", len(self.groups), 1, limits.claim_groups_max)
        for group in self.groups:
            check_text("group", group)
        check_integer("count", self.count, 1, limits.claim_count_max)
        _check_claim(self.pid, self.ttl)


class TaskSearch(RequestData, frozen=True):
    state: TaskState | None = None
    target: str | None = None
    group: str | None = None
    pid: str | None = None
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)
        for name, text in (("target", self.target), ("group", self.group), ("pid", self.pid)):
            if text is not None:
                check_text(name, text)


def _check_ref(task_id: str, version: int) -> None:
    check_text("id", task_id)
    check_integer("version", version, 0, limits.version_max)


# --- schedules --------------------------------------------------------------------------------------


class ScheduleGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleCreate(RequestData, frozen=True):
    id: str
    cron: str
    promise_id: str
    promise_timeout: int
    promise_param: Value = field(default_factory=Value)
    promise_tags: dict[str, str] = field(default_factory=dict)
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_text("promiseId", self.promise_id)
        check_integer("promiseTimeout", self.promise_timeout, 0)
        check_text("cron", self.cron, limits.cron_bytes_max)
        check_cron(self.cron)
        _check_value("promiseParam", self.promise_param)
        _check_tags(self.promise_tags)
        if tags.DELAY in self.promise_tags:
            raise ValueError("promiseTags cannot hold resonate:delay, which is one fixed instant")
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.catch_up is not None:
            check_integer("catchUp", self.catch_up, 1, limits.catch_up_max)


class ScheduleDelete(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleSearch(RequestData, frozen=True):
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        _check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)


# --- debug ------------------------------------------------------------------------------------------


class DebugStart(RequestData, frozen=True):
    pass


class DebugStop(RequestData, frozen=True):
    pass


class DebugReset(RequestData, frozen=True):
    pass


class DebugSnap(RequestData, frozen=True):
    pass


class DebugTick(RequestData, frozen=True):
    time: int

    def __post_init__(self) -> None:
        check_integer("time", self.time, 0)


KINDS: Final[dict[str, type[RequestData]]] = {
    "promise.get": PromiseGet,
    "promise.create": PromiseCreate,
    "promise.settle": PromiseSettle,
    "promise.register_callback": PromiseRegisterCallback,
    "promise.register": PromiseRegisterCallback,
    "promise.register_listener": PromiseRegisterListener,
    "promise.subscribe": PromiseRegisterListener,
    "promise.search": PromiseSearch,
    "task.get": TaskGet,
    "task.create": TaskCreate,
    "task.acquire": TaskAcquire,
    "task.claim": TaskClaim,
    "task.start": TaskStart,
    "task.release": TaskRelease,
    "task.fulfill": TaskFulfill,
    "task.suspend": TaskSuspend,
    "task.fence": TaskFence,
    "task.heartbeat": TaskHeartbeat,
    "task.halt": TaskHalt,
    "task.continue": TaskContinue,
    "task.search": TaskSearch,
    "schedule.get": ScheduleGet,
    "schedule.create": ScheduleCreate,
    "schedule.delete": ScheduleDelete,
    "schedule.search": ScheduleSearch,
    "debug.start": DebugStart,
    "debug.stop": DebugStop,
    "debug.reset": DebugReset,
    "debug.snap": DebugSnap,
    "debug.tick": DebugTick,
}


class Request(Struct, frozen=True):
    """One request on its way to the engine: what is asked, by whom, in which dialect."""

    kind: str
    corr_id: str
    version: str
    dialect: Dialect
    data: RequestData
    debug_time: int | None = None
    auth: str | None = None
