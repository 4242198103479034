"""Questions that name no ids: searches, claims, everything one process holds.

A scan says which records it wants in terms that any store can evaluate; the rule behind it, that a
promise past its deadline is settled, is spelt out here and nowhere else. A store answers with ids in
the order asked for; the records are then loaded like any others.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.protocol import limits, tags
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.records import Millis, PromiseState, TaskState
from holdfast.protocol.requests import (
    PromiseSearch,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    RequestData,
    ScheduleSearch,
    TaskHeartbeat,
    TaskSearch,
)

Deadline = Literal["any", "ahead", "passed"]


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


class ScheduleScan(Struct, frozen=True):
    page: Page
    tags: dict[str, str]


class StretchScan(Struct, frozen=True):
    """Of the ids of a page the last two, if it is full: where a search ends that may look at no more records,
    and a sign that there are more."""

    kind: Literal["promises", "tasks", "schedules"]
    page: Page


class ClaimScan(Struct, frozen=True):
    """Pending tasks that are not parked: highest priority first, then oldest, then by id. Unless they are
    only looked at, a store that many nodes share passes over what others are about to claim."""

    groups: tuple[str, ...]
    now: Millis
    limit: int
    view: bool = False
    ceiling: int = limits.priority_max
    without: dict[str, tuple[str, ...]] = {}  # keys of a group's jobs that are left out
    scope: str | None = None  # only ids that this prefix covers


class LeaseScan(Struct, frozen=True):
    """Tasks that a process holds."""

    pid: str
    now: Millis


class HeldScan(Struct, frozen=True):
    """How many jobs of each of these groups are held, by key: rows of group, key or None, number."""

    groups: tuple[str, ...]


class QueueScan(Struct, frozen=True):
    """The names of queues that were set or have open tasks."""

    page: Page


class QueueCountScan(Struct, frozen=True):
    """How many jobs of each of these queues wait, are parked, are claimed, have started: one row a queue."""

    names: tuple[str, ...]


class TreeScan(Struct, frozen=True):
    """Promises that are one of these roots, lie below one (`root:1`, `root.a`) or have it as their origin."""

    roots: tuple[str, ...]
    limit: int


Scan = (
    TreeScan
    | StretchScan
    | PromiseScan
    | TaskScan
    | ScheduleScan
    | ClaimScan
    | LeaseScan
    | HeldScan
    | QueueScan
    | QueueCountScan
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
    return TaskScan(_page(data), now, spans, data.tags or {}, data.target, data.group, data.pid)


def _schedule_scan(data: ScheduleSearch, now: Millis) -> Scan:
    return ScheduleScan(_page(data, limits.schedule_page_size), data.tags or {})


def _queue_scan(data: QueueSearch, now: Millis) -> Scan:
    return QueueScan(_page(data))


def _first_scan(data: QueueSet | QueuePause, now: Millis) -> Scan:
    """The first tasks of a queue, for those who may claim them now."""
    return ClaimScan((queue_group(data.name),), now, limits.job_offers_max, view=True)


def _lease_scan(data: TaskHeartbeat, now: Millis) -> Scan | None:
    return None if data.tasks else LeaseScan(data.pid, now)


_SCANS: Final[dict[type[RequestData], Callable[[Any, Millis], Scan | None]]] = {
    PromiseSearch: _promise_scan,
    TaskSearch: _task_scan,
    ScheduleSearch: _schedule_scan,
    QueueSearch: _queue_scan,
    QueueSet: _first_scan,
    QueuePause: _first_scan,
    TaskHeartbeat: _lease_scan,
}


_SEARCHES: Final = frozenset({PromiseSearch, TaskSearch, ScheduleSearch, QueueSearch, QueueGet})


def scan_of(data: RequestData, now: Millis) -> Scan | None:
    """The scan that must be made before this request can be applied, if any."""
    make = _SCANS.get(type(data))
    return None if make is None else make(data, now)


def is_search(data: RequestData) -> bool:
    """Does it look through records of which it names none?"""
    return type(data) in _SEARCHES


def stretch_of(scan: Scan) -> StretchScan | None:
    """How far a search may look, if it may pass over many records. An index leads to a tree and to leases."""
    match scan:
        case PromiseScan(page) if (scan.spans or scan.tags) and tags.ORIGIN not in scan.tags:
            return StretchScan("promises", _reach(page))
        case TaskScan(page) if scan.pid is None and (scan.spans or scan.tags or scan.target or scan.group):
            return StretchScan("tasks", _reach(page))
        case ScheduleScan(page) if scan.tags:
            return StretchScan("schedules", _reach(page))
        case _:
            return None


def _reach(page: Page) -> Page:
    return replace(page, limit=limits.search_steps_max + 1)


def ending_at(scan: Scan, until: str) -> Scan:
    assert isinstance(scan, PromiseScan | TaskScan | ScheduleScan)
    return replace(scan, page=replace(scan.page, until=until))


def page_of(
    found: list[str], until: str | None, limit: int | None, default: int = limits.page_size
) -> tuple[list[str], str | None]:
    """The ids of one page, and the cursor if more follow, or may: the search has looked as far as `until`."""
    most = limit or default
    page = found[:most]
    return page, page[-1] if len(found) > most else until
