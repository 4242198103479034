"""task.*"""

from __future__ import annotations

from typing import Any, Final, get_args

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.executions import Wait, waits_text
from holdfast.protocol.jobs import JobStatus, check_code
from holdfast.protocol.records import TaskRef, TaskState, Value
from holdfast.protocol.reported import ProgressUpdate
from holdfast.protocol.requests.checks import (
    RequestData,
    check_claim,
    check_generation,
    check_page,
    check_ref,
    check_value,
)
from holdfast.protocol.requests.events import AwaitAction, SendAction
from holdfast.protocol.requests.executions import CancelAction, RetryAction, TagAction
from holdfast.protocol.requests.locks import AcquireAction, ReleaseAction
from holdfast.protocol.requests.promises import CreateAction, RegisterAction, SettleAction
from holdfast.protocol.requests.streams import AppendAction, NextAction
from holdfast.protocol.text import check_entries, check_integer, check_text


class TaskGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class TaskCreate(RequestData, frozen=True):
    pid: str
    ttl: int
    action: CreateAction

    def __post_init__(self) -> None:
        check_claim(self.pid, self.ttl)
        if tags.DELAY in self.action.data.tags:
            raise ValueError("task.create claims the task at once, so it cannot have a resonate:delay")
        if tags.JOB in self.action.data.tags:
            raise ValueError("a background task is made by promise.create and claimed from its queue")
        if tags.QUEUE in self.action.data.tags:
            raise ValueError("what waits in a queue is made by promise.create and claimed from there")


class TaskAcquire(RequestData, frozen=True):
    id: str
    version: int
    pid: str
    ttl: int

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_claim(self.pid, self.ttl)


class ReleaseRetry(Struct, frozen=True):
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
    retry: ReleaseRetry | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)


class TaskStart(RequestData, frozen=True):
    id: str
    version: int

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)


class TaskFulfill(RequestData, frozen=True):
    """`generation`: of the execution that is fulfilled; without it, the first."""

    id: str
    version: int
    action: SettleAction
    generation: int | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_generation(self.generation)
        if self.action.data.id != self.id:
            raise ValueError("the action of task.fulfill must settle the task's own promise")


class TaskSuspend(RequestData, frozen=True):
    """`check_woken`: answer 300 also when something has woken the task while it was held. `waits` is for
    people: what the execution waits for, and at which lines of code."""

    id: str
    version: int
    actions: list[RegisterAction]
    check_woken: bool | None = None
    waits: list[Wait] | None = None
    generation: int | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_generation(self.generation)
        if not self.actions:
            raise ValueError("task.suspend needs at least one promise to wait for")
        if len(self.actions) > limits.actions_max:
            raise ValueError(
                f"task.suspend has {len(self.actions)} actions, the limit is {limits.actions_max}"
            )
        for action in self.actions:
            if action.data.awaiter != self.id:
                raise ValueError("every action of task.suspend must have the task itself as its awaiter")
        if self.waits is not None:
            check_integer("the number of waits", len(self.waits), 0, limits.waits_max)
            check_text("waits", waits_text(self.waits) or "", limits.waits_bytes_max, empty=True)


class TaskRestart(RequestData, frozen=True):
    """The execution goes on under its id: `generation` is over, and the next one begins with `param`.

    `read`: the messages up to this number were taken, and the next generation reads from there. `forget`:
    records of the execution that nobody needs any more. The claim stays as it is.
    """

    id: str
    version: int
    generation: int = 0
    param: Value = field(default_factory=Value)
    read: int = 0
    forget: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_integer("generation", self.generation, 0, limits.version_max - 1)
        check_value("param", self.param)
        check_integer("read", self.read, 0, limits.stream_number_max)
        check_integer("the number of records in forget", len(self.forget), 0, limits.forget_max)
        for record_id in self.forget:
            check_text("forget", record_id)


class TaskHalt(RequestData, frozen=True):
    """`reason`: why, kept as the task's `error` and shown as `halted`; `code` says which kind of reason."""

    id: str
    version: int | None = None
    reason: str | None = None
    code: str | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version or 0)
        if self.reason is not None:
            check_text("reason", self.reason, limits.error_bytes_max, empty=True)
        if self.code is not None:
            check_code(self.code)
            if self.reason is None:
                raise ValueError("code needs a reason: give reason")


class TaskContinue(RequestData, frozen=True):
    id: str
    version: int | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version or 0)


class HaltAction(Struct, frozen=True, tag_field="kind", tag="task.halt"):
    data: TaskHalt
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class ContinueAction(Struct, frozen=True, tag_field="kind", tag="task.continue"):
    data: TaskContinue
    head: dict[str, Any] = field(default_factory=dict[str, Any])


FencedAction = (
    CreateAction
    | SettleAction
    | AppendAction
    | NextAction
    | AcquireAction
    | ReleaseAction
    | SendAction
    | AwaitAction
    | CancelAction
    | RetryAction
    | TagAction
    | HaltAction
    | ContinueAction
)

# Read once: msgspec makes the configuration of a struct anew whenever it is asked for it.
fenced_kinds: Final[dict[type[FencedAction], str]] = {
    action: str(action.__struct_config__.tag) for action in get_args(FencedAction)
}

_on_others: Final = (
    CreateAction,
    SettleAction,
    CancelAction,
    RetryAction,
    HaltAction,
    ContinueAction,
)


class TaskFence(RequestData, frozen=True):
    id: str
    version: int
    action: FencedAction
    generation: int | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        if self.generation is not None:
            check_generation(self.generation)
        if isinstance(self.action, _on_others) and self.action.data.id == self.id:
            raise ValueError("task.fence cannot act on the task's own promise; use task.fulfill")
        if isinstance(self.action, TagAction) and self.action.data.id != self.id:
            raise ValueError("execution.tag is for the tags of the execution that is fenced")


class TaskHeartbeat(RequestData, frozen=True):
    """`check_woken`: say which of the tasks something has woken while they are held."""

    pid: str
    tasks: list[TaskRef]
    check_woken: bool | None = None
    progress: list[ProgressUpdate] | None = None  # of tasks among them

    def __post_init__(self) -> None:
        check_text("pid", self.pid)
        if self.progress is not None and len(self.progress) > limits.heartbeat_tasks_max:
            raise ValueError(f"progress holds more than {limits.heartbeat_tasks_max} reports")
        if len(self.tasks) > limits.heartbeat_tasks_max:
            raise ValueError(
                f"{len(self.tasks)} tasks in one heartbeat, the limit is {limits.heartbeat_tasks_max}"
            )
        for ref in self.tasks:
            check_ref(ref.id, ref.version)


class TaskFail(RequestData, frozen=True):
    """An attempt at a job has failed. Its retry rule decides what follows; `delay` replaces the rule's.

    If another attempt follows, `value` is dropped and `error` is kept: what a person wants to know of this
    one, as data of a payload.
    """

    id: str
    version: int
    code: str
    value: Value = field(default_factory=Value)
    delay: int | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_code(self.code)
        check_value("value", self.value)
        if self.error is not None:
            check_text("error", self.error, limits.job_error_bytes_max)
        if self.delay is not None:
            check_integer("delay", self.delay, limits.job_retry_ms_min, limits.job_retry_ms_max)


class TaskCancel(RequestData, frozen=True):
    id: str
    force: bool = False

    def __post_init__(self) -> None:
        check_text("id", self.id)


class TaskSnooze(RequestData, frozen=True):
    """A background task that runs asks to be run again later; the attempt does not count."""

    id: str
    version: int
    delay: int

    def __post_init__(self) -> None:
        check_ref(self.id, self.version)
        check_integer("delay", self.delay, limits.job_retry_ms_min, limits.job_retry_ms_max)


class TaskReschedule(RequestData, frozen=True):
    """A background task that waits may begin from another instant on; without one: now."""

    id: str
    at: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        if self.at is not None:
            check_integer("at", self.at, 0)


class TaskClaim(RequestData, frozen=True):
    """`start`: what is granted counts as started at once. `ceiling`: only priorities up to it. `known`: tasks
    of which the worker has all records. They are granted without a preload, and a cursor says so."""

    groups: list[str]
    count: int
    pid: str
    ttl: int
    start: bool = False
    ceiling: int | None = None
    known: list[str] = []

    def __post_init__(self) -> None:
        check_integer("the number of groups", len(self.groups), 1, limits.claim_groups_max)
        for group in self.groups:
            check_text("group", group)
        check_integer("count", self.count, 1, limits.claim_count_max)
        if self.ceiling is not None:
            check_integer("ceiling", self.ceiling, -limits.priority_max, limits.priority_max)
        check_integer("the number of known tasks", len(self.known), 0, limits.claim_known_max)
        for task_id in self.known:
            check_text("known", task_id)
        check_claim(self.pid, self.ttl)


class TaskSearch(RequestData, frozen=True):
    """`status` is that of background tasks, and none but those are found then."""

    state: TaskState | None = None
    target: str | None = None
    group: str | None = None
    pid: str | None = None
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None
    status: JobStatus | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)
        for name, text in (("target", self.target), ("group", self.group), ("pid", self.pid)):
            if text is not None:
                check_text(name, text)
