"""lock.*, and the actions that carry them inside task.fence."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.records import Value
from holdfast.protocol.requests.checks import RequestData, check_page, check_tags, check_value
from holdfast.protocol.text import check_integer, check_text

_of_tasks = (tags.TARGET, tags.INVOKE, tags.DELAY, tags.JOB)


def check_lock(name: str) -> None:
    check_text("name", name, limits.lock_name_bytes_max)


class LockAcquire(RequestData, frozen=True):
    """`id`: of the ticket. `limit` and `count` are 1 where they are left out. `holding`: the tickets that
    whoever asks keeps while he waits."""

    id: str
    name: str
    timeout_at: int
    limit: int | None = None
    count: int | None = None
    holding: list[str] | None = None
    param: Value = field(default_factory=Value)
    tags: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_lock(self.name)
        check_integer("timeoutAt", self.timeout_at, 0)
        check_integer("limit", self.permits, 1, limits.permits_max)
        check_integer("count", self.wanted, 1, self.permits)
        holding = self.holding or []
        check_integer("the number of tickets in holding", len(holding), 0, limits.lock_holding_max)
        for ticket in holding:
            check_text("holding", ticket)
        check_value("param", self.param)
        check_tags(self.tags)
        if any(name in self.tags for name in _of_tasks):
            raise ValueError("a ticket is granted by the node, so it has no target")

    @property
    def permits(self) -> int:
        return 1 if self.limit is None else self.limit

    @property
    def wanted(self) -> int:
        return 1 if self.count is None else self.count


class LockRelease(RequestData, frozen=True):
    """`id`: the ticket; from outside, with a `reason`, also the execution that holds or waits."""

    name: str
    id: str
    reason: str | None = None

    def __post_init__(self) -> None:
        check_lock(self.name)
        check_text("id", self.id)
        if self.reason is not None:
            check_text("reason", self.reason, limits.error_bytes_max)


class LockGet(RequestData, frozen=True):
    name: str

    def __post_init__(self) -> None:
        check_lock(self.name)


class LockSearch(RequestData, frozen=True):
    """`used`: only those that somebody holds or wants."""

    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None
    used: bool | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)


class AcquireAction(Struct, frozen=True, tag_field="kind", tag="lock.acquire"):
    data: LockAcquire
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class ReleaseAction(Struct, frozen=True, tag_field="kind", tag="lock.release"):
    data: LockRelease
    head: dict[str, Any] = field(default_factory=dict[str, Any])
