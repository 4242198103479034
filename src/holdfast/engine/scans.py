"""Queries that name no ids: searches, claims, everything one process holds.

A scan says which records it wants in terms that any store can evaluate; the rule behind it, that a
promise past its deadline is settled, is spelt out here and nowhere else. A store answers with ids in
the order asked for; the records are then loaded like any others.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine.newest import (
    ExecutionScan,
    ExecutionStretch,
    ExecutionTally,
    execution_scan,
    execution_tally,
)
from holdfast.protocol import limits, tags
from holdfast.protocol.ids import delimiters, edge_of
from holdfast.protocol.jobs import JobStatus, queue_group
from holdfast.protocol.locks import lock_id
from holdfast.protocol.records import Millis, PromiseState, Task, TaskState
from holdfast.protocol.requests import (
    EventAwait,
    EventSearch,
    EventSend,
    ExecutionCancel,
    ExecutionCount,
    ExecutionFork,
    ExecutionRetry,
    ExecutionSearch,
    ExecutionStart,
    LockAcquire,
    LockGet,
    LockRelease,
    LockSearch,
    PromiseCreate,
    PromiseSearch,
    PromiseSettle,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    RequestData,
    ScheduleBackfill,
    ScheduleSearch,
    StreamAppend,
    StreamNext,
    StreamRead,
    TaskAcquire,
    TaskClaim,
    TaskCreate,
    TaskFence,
    TaskFulfill,
    TaskHeartbeat,
    TaskRestart,
    TaskSearch,
    TaskSuspend,
)

Deadline = Literal["any", "ahead", "passed"]
LimitedClass = Literal["look", "claim", "wide"]


class Span(Struct, frozen=True):
    """Records stored in one state, with their deadline ahead or passed. `timer` None: either."""

    state: PromiseState | TaskState
    deadline: Deadline = "any"
    timer: bool | None = None


class Page(Struct, frozen=True):
    """A stretch of ids in ascending order: after a cursor, with a prefix, at most `limit`, up to `until`."""

    after: str
    prefix: str
    limit: int
    until: str | None = None


class PromiseScan(Struct, frozen=True):
    page: Page
    now: Millis
    spans: tuple[Span, ...]  # any of them; none: all
    tags: dict[str, str]


class TaskScan(Struct, frozen=True):
    page: Page
    now: Millis
    spans: tuple[Span, ...]
    tags: dict[str, str]
    target: str | None = None
    group: str | None = None
    pid: str | None = None
    status: JobStatus | None = None  # of jobs, as their records stand


class ScheduleScan(Struct, frozen=True):
    page: Page
    tags: dict[str, str]


class StretchScan(Struct, frozen=True):
    """Of the ids of a page the last two, if it is full: where a search ends that may look at no more records,
    and a sign that there are more. `origin`: only promises of that tree."""

    kind: Literal["promises", "tasks", "schedules"]
    page: Page
    status: JobStatus | None = None  # only along these
    origin: str | None = None


class ClaimPlace(Struct, frozen=True):
    """Where in the order of claims a task stands."""

    priority: int
    turn: int
    ready_at: Millis
    created_at: Millis
    id: str


def place_of(task: Task) -> ClaimPlace:
    """A job is ready since it was created, its delay was over or its retry was due. An execution keeps the
    place of its creation."""
    ready_at = task.created_at if task.job is None or task.acquired_at is None else task.acquired_at
    return ClaimPlace(task.priority, task.turn, ready_at, task.created_at, task.id)


class ClaimScan(Struct, frozen=True):
    """Pending tasks that are not parked: highest priority first, then by their turn, if their queue is fair,
    then by the instant since which they may begin, then oldest, then by id. Unless they are only looked at, a
    store that many nodes share passes over what others are about to claim."""

    groups: tuple[str, ...]
    now: Millis
    limit: int
    view: bool = False
    ceiling: int = limits.priority_max
    without: dict[str, tuple[str, ...]] = {}  # keys of a group that are left out
    entered: tuple[str, ...] = ()  # groups of which only what counts there already is wanted
    scope: str | None = None  # only ids that this prefix covers
    after: ClaimPlace | None = None  # only those of the same priority behind it; for what is only looked at


class LeaseScan(Struct, frozen=True):
    """Tasks that a process holds."""

    pid: str
    now: Millis


HeldRow = tuple[str, str | None, int, int]


class HeldScan(Struct, frozen=True):
    """How much of each of these groups counts there, by key: rows of group, key or None, how many, and how
    many of those are held."""

    groups: tuple[str, ...]


WaitingRow = tuple[str | None, int, Millis]


class WaitingScan(Struct, frozen=True):
    """How much of a queue waits, by key: rows of key or None, how many, and when the first was created.
    So many that may begin, and so many that may not yet, are looked at."""

    group: str
    limit: int


class QueueScan(Struct, frozen=True):
    """The names of queues that were set or have open tasks."""

    page: Page


class QueueCountScan(Struct, frozen=True):
    """How much of each of these queues waits, is parked, is claimed, runs: one row a queue.
    Each number is counted up to a limit."""

    names: tuple[str, ...]
    limit: int


class TreeScan(Struct, frozen=True):
    """Promises that are one of these roots, lie below one (`root:1`, `root.a`) or have it as their origin.

    With `after` a page of them by id, those behind it; then there is one root.
    """

    roots: tuple[str, ...]
    limit: int
    after: str | None = None


SearchScan = PromiseScan | TaskScan | ScheduleScan | QueueScan  # the pages of a search
Scan = (
    TreeScan
    | StretchScan
    | PromiseScan
    | TaskScan
    | ScheduleScan
    | ClaimScan
    | LeaseScan
    | HeldScan
    | WaitingScan
    | QueueScan
    | QueueCountScan
    | ExecutionScan
    | ExecutionStretch
    | ExecutionTally
)


def _page(
    data: PromiseSearch | TaskSearch | ScheduleSearch | QueueSearch, default: int = limits.page_size
) -> Page:
    # One more than asked for tells whether another page follows.
    return Page(data.cursor or "", data.prefix or "", (data.limit or default) + 1)


def _promise_scan(data: PromiseSearch, now: Millis) -> Scan:
    spans: tuple[Span, ...] = ()
    if data.state == "pending":
        spans = (Span("pending", "ahead"),)
    elif data.state == "resolved":
        spans = (Span("resolved"), Span("pending", "passed", timer=True))
    elif data.state == "rejected_timedout":
        spans = (Span("rejected_timedout"), Span("pending", "passed", timer=False))
    elif data.state is not None:
        spans = (Span(data.state),)
    return PromiseScan(_page(data), now, spans, data.tags or {})


def _lock_scan(data: LockSearch, now: Millis) -> Scan:
    """The records of locks have the name behind what all their ids begin with; so has a cursor."""
    after = data.cursor or ""
    page = Page(after, lock_id(data.prefix or ""), (data.limit or limits.page_size) + 1)
    return PromiseScan(page, now, (), {})


def _task_scan(data: TaskSearch, now: Millis) -> Scan:
    open_states: tuple[TaskState, ...] = ("pending", "acquired", "suspended", "halted")
    if data.state == "fulfilled":
        spans = (Span("fulfilled"), *(Span(state, "passed") for state in open_states))
    elif data.state is not None:
        spans = (Span(data.state, "ahead"),)
    else:
        spans = ()
    if data.pid is not None:
        # Only a live lease has a process.
        spans = (
            (Span("acquired", "ahead"),)
            if data.state in (None, "acquired")
            else (Span("fulfilled", "ahead"),)
        )
    return TaskScan(_page(data), now, spans, data.tags or {}, data.target, data.group, data.pid, data.status)


def _schedule_scan(data: ScheduleSearch, now: Millis) -> Scan:
    return ScheduleScan(_page(data, limits.schedule_page_size), data.tags or {})


def _queue_scan(data: QueueSearch, now: Millis) -> Scan:
    return QueueScan(_page(data))


def _first_scan(data: QueueSet | QueuePause, now: Millis) -> Scan:
    """The first tasks of a queue, for those who may claim them now."""
    return ClaimScan((queue_group(data.name),), now, limits.job_offers_max, view=True)


def _lease_scan(data: TaskHeartbeat, now: Millis) -> Scan | None:
    return None if data.tasks else LeaseScan(data.pid, now)


def _tree_scan(data: ExecutionRetry | ExecutionFork | ExecutionStart, now: Millis) -> Scan | None:
    """Itself, what lies below it, and one that is too many."""
    if not isinstance(data, ExecutionStart):
        return TreeScan((data.id,), limits.mended_records_max + 2)
    is_needed = data.on_existing in ("again_if_failed", "replace")
    return TreeScan((data.action.data.id,), limits.mended_records_max + 2) if is_needed else None


_SCANS: Final[dict[type[RequestData], Callable[[Any, Millis], Scan | None]]] = {
    PromiseSearch: _promise_scan,
    LockSearch: _lock_scan,
    TaskSearch: _task_scan,
    ScheduleSearch: _schedule_scan,
    QueueSearch: _queue_scan,
    ExecutionSearch: execution_scan,
    ExecutionCount: execution_tally,
    QueueSet: _first_scan,
    QueuePause: _first_scan,
    TaskHeartbeat: _lease_scan,
    ExecutionStart: _tree_scan,
    ExecutionRetry: _tree_scan,
    ExecutionFork: _tree_scan,
    TaskFence: lambda data, now: scan_of(data.action.data, now),
}


_LOOKS: Final = frozenset({
    PromiseSearch, LockGet, LockSearch, TaskSearch, ScheduleSearch, StreamNext, StreamRead, EventSearch,
    QueueSearch, QueueGet, QueueSet, QueuePause, ExecutionSearch, ExecutionCount,
})  # fmt: skip
_CLAIMS: Final = frozenset({TaskAcquire, TaskClaim, TaskCreate, TaskSuspend})
_MENDS: Final = frozenset({ExecutionStart, ExecutionCancel, ExecutionRetry, ExecutionFork})
_PLAIN: Final = frozenset({PromiseCreate, PromiseSettle, TaskFulfill, StreamAppend})  # most of all requests
_WIDE: Final = frozenset({EventSend, EventAwait, LockAcquire, LockRelease, ScheduleBackfill})
_few_leases: Final = 200
_records_of_one: Final = 40


def scan_of(data: RequestData, now: Millis) -> Scan | None:
    """The scan that must be made before this request can be applied, if any."""
    make = _SCANS.get(type(data))
    return None if make is None else make(data, now)


def scope_of(data: RequestData, scope: str | None) -> str | None:
    """Within which ids a caller searches. Those of locks cover what their names do."""
    return lock_id(scope) if scope is not None and isinstance(data, LockSearch) else scope


def class_of(data: RequestData) -> LimitedClass | None:
    """Does it look through records of which it names none, or claim, and so load some which it does not name,
    or name very many? Or is it one that may read and write very many more than it names? A commit carries
    out only so much of each."""
    kind = type(data)
    if kind in _PLAIN:
        return None
    if kind is TaskFence and isinstance(data, TaskFence):
        inner = type(data.action.data)
        return "wide" if inner in _WIDE else class_of(data.action.data) if inner in _MENDS else None
    if kind in _LOOKS or (kind in _MENDS and scan_of(data, 0) is not None):
        return "look"
    if isinstance(data, ExecutionCancel) and data.now:
        return "look"
    if kind in _CLAIMS:
        return "claim"
    if kind in _WIDE:
        return "wide"
    if isinstance(data, TaskRestart) and len(data.forget) > _few_leases:
        return "claim"
    if kind is TaskHeartbeat and isinstance(data, TaskHeartbeat) and not 0 < len(data.tasks) <= _few_leases:
        return "claim"
    return None


def share_of(data: RequestData) -> int:
    """As how many requests it counts when a group is formed. A group loads all that its requests name, before
    the commit's budget counts any step; so one that names many records counts as many. Wide ones are few
    records most of the time, and a group may be full of them."""
    if isinstance(data, TaskHeartbeat):
        return 1 + len(data.tasks) // _records_of_one
    if isinstance(data, TaskRestart):
        return 1 + len(data.forget) // _records_of_one
    if class_of(data) == "wide":
        return 0
    return 1 + len(data.actions) // _records_of_one if isinstance(data, TaskSuspend) else 1


def reach_of(scan: SearchScan, parts: int) -> int:
    """How many records each part of a search may look at: the fewer, the more tags it compares in each."""
    wanted = 0 if isinstance(scan, QueueScan) else len(scan.tags)
    return max(1, limits.search_steps_max // max(1, wanted) // parts)


def parts_of(scan: SearchScan, scope: str | None) -> list[SearchScan]:
    """A search in parts that hold nothing but what a prefix covers, in ascending order.

    Ids that merely start alike lie between them. No part reaches them, so neither the page, nor its cursor,
    nor the time it takes depends on whether there are any.
    """
    if scope is None:
        return [scan]
    page, edge = scan.page, edge_of(scope)
    if page.prefix.startswith(scope) and len(page.prefix) > edge:
        return [scan] if page.prefix[edge] in delimiters else []
    if not scope.startswith(page.prefix):
        return []
    if edge < len(scope):  # it ends with a delimiter, so all that starts with it is covered
        return [_narrowed(scan, scope)]
    below = [_narrowed(scan, scope + delimiter) for delimiter in delimiters]
    return [_narrowed(scan, scope, until=scope), *below]


def _narrowed(scan: SearchScan, prefix: str, until: str | None = None) -> SearchScan:
    return replace(scan, page=replace(scan.page, prefix=prefix, until=until))


def passes_over(scan: Scan) -> bool:
    """May it look at many more records than it finds?"""
    match scan:
        case PromiseScan():
            return bool(scan.spans) or not scan.tags.keys() <= {tags.ORIGIN}
        case TaskScan():
            return bool(scan.spans or scan.tags or scan.target or scan.group or scan.pid)
        case ScheduleScan():
            return bool(scan.tags)
        case ExecutionScan() | ExecutionStretch() | ExecutionTally():
            return scan.wanted.passes_over
        case _:
            return False


def stretch_of(scan: SearchScan, steps: int) -> StretchScan | None:
    """How far a search may look, if it may pass over many records. An index leads to leases."""
    if not passes_over(scan):
        return None
    reach = replace(scan.page, limit=steps + 1)
    match scan:
        case PromiseScan():
            return StretchScan("promises", reach, origin=scan.tags.get(tags.ORIGIN))
        case TaskScan():
            return StretchScan("tasks", reach, scan.status) if scan.pid is None else None
        case ScheduleScan():
            return StretchScan("schedules", reach)
        case _:
            return None


def ending_at(scan: SearchScan, until: str) -> SearchScan:
    return replace(scan, page=replace(scan.page, until=until))


def at_most(scan: SearchScan, limit: int) -> SearchScan:
    return replace(scan, page=replace(scan.page, limit=limit))


def page_of(
    found: list[str], until: str | None, limit: int | None, default: int = limits.page_size
) -> tuple[list[str], str | None]:
    """The ids of one page, and the cursor if more follow, or may: the search has looked as far as `until`."""
    most = limit or default
    page = found[:most]
    return page, page[-1] if len(found) > most else until
