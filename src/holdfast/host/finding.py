"""What `app.find` is given, as a request."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast, get_args

from holdfast.jobs.errors import BadOption
from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.user_tags import check_user_tags
from holdfast.protocol import limits, tags as protocol_tags
from holdfast.protocol.executions import ExecutionKind, ExecutionStatus
from holdfast.protocol.requests import ExecutionSearch
from holdfast.workflow.registry import Callee, WorkflowDefinition

Instant = datetime | Duration  # or so long ago
Statuses = ExecutionStatus | Sequence[ExecutionStatus]

_statuses: Final = get_args(ExecutionStatus)


def search_of(
    workflow: Any,
    status: Statuses | None,
    tags: Mapping[str, str] | None,
    since: Instant | None,
    until: Instant | None,
    queue: str | None,
    error: str | type[BaseException] | None,
    prefix: str | None,
    kind: ExecutionKind | None,
    schedule: str | None,
    order: str,
    page_size: int,
    now: int,
) -> ExecutionSearch:
    """Raises BadOption, which says what is wrong."""
    if order != "newest":
        raise BadOption(f"order={order!r} is not supported: executions are always listed newest first")
    wanted = _wanted(status)
    entries = check_user_tags(tags)
    if schedule is not None:
        entries[protocol_tags.SCHEDULE] = schedule
    name = _name_of(workflow)
    code = error.__name__ if isinstance(error, type) else error
    texts: dict[str, Any] = {"queue": queue, "error": code, "prefix": prefix, "schedule": schedule}
    for option, given in texts.items():
        if given is not None and not isinstance(given, str):
            raise BadOption(f"{option}={given!r} is not a string")
    try:
        return ExecutionSearch(
            kind=kind,
            status=wanted,
            name=name,
            tags=entries or None,
            queue=queue,
            code=code,
            prefix=prefix,
            since=_instant(since, now),
            until=_instant(until, now),
            limit=page_size,
        )
    except ValueError as wrong:
        raise BadOption(f"find: {wrong}") from None


def _name_of(work: Any) -> str | None:
    if work is None or isinstance(work, str):
        return work
    if isinstance(work, Callee | WorkflowDefinition):
        return work.callee_name  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = getattr(work, "__qualname__", None) or repr(work)
    raise BadOption(f"find() takes a workflow, a task or the name of one, not {name}")


def _wanted(status: Statuses | None) -> list[ExecutionStatus] | None:
    if status is None:
        return None
    wanted = cast("list[ExecutionStatus]", [status] if isinstance(status, str) else [*status])
    for each in wanted:
        if each not in _statuses:
            raise BadOption(f"status={each!r} is not one of {', '.join(_statuses)}")
    return wanted


def _instant(given: Instant | None, now: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadOption(f"{given!r} has no time zone: use datetime.now(UTC)")
        return max(0, round(given.timestamp() * 1000))
    return min(limits.instant_ms_max, max(0, now - round(duration_s(given) * 1000)))
