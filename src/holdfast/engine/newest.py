"""Questions about executions, newest first: which are looked for, in terms that any store can answer.

A *lane* is all executions of one kind and status, in the order of their creation. A store keeps them in that
order, so a page of a status is read from its end, whatever else is stored.

1. What a lane holds goes by what is written down. A deadline that has passed and is not written down yet
   makes something else of a record; the handler leaves such a one out.
2. `ended` is the lane of what ended under a version that did not write down how. Whoever looks for an outcome
   looks there as well.
3. A search that passes over records looks at a bounded number. It then ends at an instant, and its cursor
   names that instant, not a record: the caller may not be allowed to know that one.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.protocol import limits, tags
from holdfast.protocol.executions import (
    ENDED,
    STATUSES,
    ExecutionKind,
    ExecutionStatus,
    PageEnd,
    parse_place,
)
from holdfast.protocol.jobs import CODE_HEADER, Job, JobOutcome, JobView, queue_group
from holdfast.protocol.operations import ended_by_deadline
from holdfast.protocol.records import Millis, Promise, PromiseState, Task
from holdfast.protocol.requests import ExecutionCount, ExecutionFilter, ExecutionSearch

_unknown_end: Final = "ended"
_full_lanes: Final = 4

_OUTCOMES: Final[dict[PromiseState, ExecutionStatus]] = {
    "resolved": "completed",
    "rejected": "failed",
    "rejected_canceled": "cancelled",
    "rejected_timedout": "timed_out",
}
_JOB_OUTCOMES: Final[dict[JobOutcome, ExecutionStatus]] = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "EXPIRED": "expired",
}


class Listing(Struct, frozen=True, gc=False):
    """What a store keeps beside a task to find it by: its name, and of one that has ended how."""

    name: str | None
    outcome: ExecutionStatus | None = None
    code: str | None = None


def name_of(entries: dict[str, str]) -> str | None:
    """The name of the workflow or of the background task."""
    return entries.get(tags.TASK if tags.JOB in entries else tags.WORKFLOW)


def listing_of(task: Task, promise: Promise | None) -> Listing:
    """`promise` is None where a task was changed and its promise was not even looked at; it has not ended
    then, and its name is stored already."""
    if promise is None:
        return Listing(None)
    if task.state != "fulfilled":
        return Listing(name_of(promise.tags))
    outcome = outcome_of(promise, None if task.job is None else task.job.outcome)
    return Listing(name_of(promise.tags), outcome, code_of(promise, task.job))


def outcome_of(promise: Promise, outcome: JobOutcome | None) -> ExecutionStatus | None:
    """How it has ended; None if it has not. Of a background task its own outcome counts."""
    if outcome is not None:
        return _JOB_OUTCOMES[outcome]
    return "timed_out" if ended_by_deadline(promise) else _OUTCOMES.get(promise.state)


def code_of(promise: Promise, job: Job | JobView | None) -> str | None:
    """The code of what it failed with."""
    if promise.state in ("pending", "resolved"):
        return None
    code = (promise.value.headers or {}).get(CODE_HEADER) if job is None else job.code
    return code if code and len(code.encode()) <= limits.code_bytes_max else None


def lane_of(task: Task, outcome: ExecutionStatus | None) -> str:
    """The lane of a task, as its record stands. The index of every store says the same."""
    kind: ExecutionKind = "execution" if task.job is None else "task"
    status: str = task.state
    if task.state == "fulfilled":
        status = outcome or _unknown_end
    elif task.state == "pending" and task.parked:
        status = "waiting"
    elif task.state == "acquired":
        status = "claimed" if task.job is not None and task.started_at is None else "running"
    return f"{kind} {status}"


def status_of_lane(lane: str) -> str:
    return lane.partition(" ")[2]


def lanes_of(data: ExecutionFilter) -> tuple[str, ...]:
    kinds = STATUSES if data.kind is None else (data.kind,)
    lanes: list[str] = []
    for kind in kinds:
        wanted = [status for status in STATUSES[kind] if data.status is None or status in data.status]
        lanes += (f"{kind} {status}" for status in wanted)
        if not ENDED.isdisjoint(wanted):
            lanes.append(f"{kind} {_unknown_end}")
    return tuple(lanes)


class Filter(Struct, frozen=True):
    """What is true of all that is wanted. `groups`: the target's group is one of them."""

    lanes: tuple[str, ...]
    name: str | None
    tags: dict[str, str]
    groups: tuple[str, ...]
    code: str | None
    prefix: str
    since: Millis
    until: Millis
    scope: str | None = None  # only ids that this prefix covers

    @property
    def passes_over(self) -> bool:
        """May it look at many more records than it finds? Lanes, names and codes are led to by an index."""
        is_by_two = self.code is not None and self.name is not None
        return bool(self.tags or self.groups or self.prefix or self.scope or is_by_two)


class ExecutionScan(Struct, frozen=True):
    """Ids, newest first, behind a place, at most `limit`."""

    wanted: Filter
    after: PageEnd | None
    limit: int


class ExecutionStretch(Struct, frozen=True):
    """The instant of the record at which a search ends that may look at `reach` records of each lane: the
    latest one of all lanes that hold more. None, if no lane does."""

    wanted: Filter
    after: PageEnd | None
    reach: int


class ExecutionTally(Struct, frozen=True):
    """Of the newest `reach` of each lane, how many are wanted: rows of lane, number, how many were looked
    at."""

    wanted: Filter
    reach: int


def filter_of(data: ExecutionFilter) -> Filter:
    return Filter(
        lanes_of(data),
        data.name,
        data.tags or {},
        () if data.queue is None else (data.queue, queue_group(data.queue)),
        data.code,
        data.prefix or "",
        data.since or 0,
        limits.instant_ms_max + 1 if data.until is None else data.until,
    )


def execution_scan(data: ExecutionSearch, now: Millis) -> ExecutionScan:
    after = None if data.cursor is None else parse_place(data.cursor)
    return ExecutionScan(filter_of(data), after, (data.limit or limits.page_size) + 1)


def execution_tally(data: ExecutionCount, now: Millis) -> ExecutionTally:
    return ExecutionTally(filter_of(data), limits.execution_count_max)


def within_reach(tally: ExecutionTally) -> ExecutionTally:
    """Where each record must be looked at, fewer of them are."""
    return replace(tally, reach=reach_among(tally.wanted)) if tally.wanted.passes_over else tally


def reach_among(wanted: Filter) -> int:
    """How many records of each lane one search may look at: the fewer, the more tags it compares. Of many
    lanes a few hold nearly everything."""
    lanes = min(max(1, len(wanted.lanes)), _full_lanes)
    return max(1, limits.search_steps_max // max(1, len(wanted.tags)) // lanes)
