"""execution.*: executions and background tasks are looked at, found, counted. None of it changes anything."""

from __future__ import annotations

from holdfast.protocol import limits
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus, parse_place
from holdfast.protocol.jobs import check_code
from holdfast.protocol.requests.checks import RequestData
from holdfast.protocol.text import check_entries, check_integer, check_text


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
