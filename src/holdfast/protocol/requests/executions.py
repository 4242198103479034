"""execution.*: executions and background tasks are looked at, found, counted; and executions are started,
cancelled, retried and forked."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus, parse_place
from holdfast.protocol.jobs import check_code
from holdfast.protocol.records import Value
from holdfast.protocol.requests.checks import RequestData, check_value
from holdfast.protocol.requests.promises import CreateAction
from holdfast.protocol.text import check_entries, check_integer, check_text

OnExisting = Literal["return", "reject", "again_if_failed", "replace"]


class ExecutionGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ExecutionFilter(RequestData, frozen=True):
    """All of what is given must be true of what is found. `status`: one of these. `queue`: the queue, or the
    group of workers. `since`, `until`: it was created at or after the one, and before the other."""

    kind: ExecutionKind | None = None
    status: list[ExecutionStatus] | None = None
    name: str | None = None
    tags: dict[str, str] | None = None
    queue: str | None = None
    code: str | None = None
    prefix: str | None = None
    since: int | None = None
    until: int | None = None

    def __post_init__(self) -> None:
        if self.status is not None:
            check_integer("the number of statuses", len(self.status), 1, limits.statuses_max)
        if self.name is not None:
            check_text("name", self.name, limits.entry_bytes_max)
        if self.tags is not None:
            check_entries("tags", self.tags)
        if self.queue is not None:
            check_text("queue", self.queue)
        if self.code is not None:
            check_code(self.code)
        if self.prefix is not None:
            check_text("prefix", self.prefix, empty=True)
        for name, instant in (("since", self.since), ("until", self.until)):
            if instant is not None:
                check_integer(name, instant, 0)


class ExecutionSearch(ExecutionFilter, frozen=True):
    """Newest first: by `createdAt`, then by id."""

    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None:
            check_integer("limit", self.limit, 1, limits.page_size_max)
        if self.cursor is not None:
            check_text("cursor", self.cursor, limits.id_bytes_max + 20)
            parse_place(self.cursor)


class ExecutionCount(ExecutionFilter, frozen=True):
    """How many there are of each status, each counted up to a bound."""


class ExecutionStart(RequestData, frozen=True):
    """`on_existing` says what becomes of the execution that has the id; without it, that one is answered.
    A start with the `ikc` that made it is the same start, sent again."""

    action: CreateAction
    on_existing: OnExisting | None = None

    def __post_init__(self) -> None:
        if tags.TARGET not in self.action.data.tags:
            raise ValueError("an execution needs a resonate:target")
        if tags.JOB in self.action.data.tags:
            raise ValueError("a background task is sent with promise.create")
        if self.action.data.settle is not None:
            raise ValueError("execution.start is for work still to be done, so it cannot have a settle")


class ExecutionCancel(RequestData, frozen=True):
    """`now`: end it, and what it called, at once. Otherwise an execution is asked to cancel itself."""

    id: str
    now: bool | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ExecutionRetry(RequestData, frozen=True):
    """`timeout_at`: its new deadline. Without one it gets as long as it had."""

    id: str
    timeout_at: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        if self.timeout_at is not None:
            check_integer("timeoutAt", self.timeout_at, 0)


class ExecutionFork(RequestData, frozen=True):
    """`before`: the name or the id of an operation. `param`: other input."""

    id: str
    new_id: str
    before: str
    param: Value | None = None
    timeout_at: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_text("newId", self.new_id)
        check_text("before", self.before)
        if self.id == self.new_id:
            raise ValueError("newId must be another id")
        if self.param is not None:
            check_value("param", self.param)
        if self.timeout_at is not None:
            check_integer("timeoutAt", self.timeout_at, 0)


class ExecutionTag(RequestData, frozen=True):
    """Only inside `task.fence`: its execution gets these tags, and loses those that are null."""

    id: str
    tags: dict[str, str | None]

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_entries("tags", {name: text or "" for name, text in self.tags.items()})
        for name in self.tags:
            if name.startswith(tags.RESERVED_TAGS):
                raise ValueError(f"tag {name} is the protocol's own, and does not change")


class TagAction(Struct, frozen=True, tag_field="kind", tag="execution.tag"):
    data: ExecutionTag
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class CancelAction(Struct, frozen=True, tag_field="kind", tag="execution.cancel"):
    data: ExecutionCancel
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class RetryAction(Struct, frozen=True, tag_field="kind", tag="execution.retry"):
    data: ExecutionRetry
    head: dict[str, Any] = field(default_factory=dict[str, Any])
