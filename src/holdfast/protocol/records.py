"""The records: what is stored and, for promises and schedules, what the wire shows of it.

Frozen: a transition makes a new record. Fields that may be absent are left out of the wire form, never
null. `Task` carries more than a client may see; `TaskView` is its public face.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from holdfast.protocol.dialect import Dialect
from holdfast.protocol.jobs import Job, JobView, QueuePlace
from holdfast.protocol.reported import ReportedProgress

Millis = int
Count = Annotated[int, Meta(ge=0)]

PromiseState = Literal["pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout"]
Settlement = Literal["resolved", "rejected", "rejected_canceled"]
TaskState = Literal["pending", "acquired", "suspended", "halted", "fulfilled"]
Overlap = Literal["allow", "skip", "replace"]


class Value(Struct, frozen=True, omit_defaults=True, gc=False):
    """A payload. `data` is base64 by convention and never looked into."""

    headers: dict[str, str] | None = None
    data: str | None = None


NOTHING: Final = Value()


class Promise(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A value that will exist."""

    id: str
    state: PromiseState
    param: Value
    value: Value
    tags: dict[str, str]
    timeout_at: Millis
    created_at: Millis
    settled_at: Millis | None = None
    ikc: str | None = None
    iku: str | None = None


class Task(Struct, frozen=True, array_like=True, gc=False):
    """The responsibility for a promise's value. It has its promise's id. Read from rows, so it is like one.

    `due_at` is the lease's end while acquired and the next offer while pending, else None; of a job that has
    not started, its `good_until` if that comes first. `timeout_at`, `created_at` and `priority` repeat what
    the promise says, because guards and claims need them. In an attempt at a job, `started_at` is set.
    `acquired_at` of a pending task is the instant since which it has been on offer; among those of background
    tasks with the same priority, the earliest is claimed first; in a fair queue, that with the lowest `turn`.

    `waits` is JSON: what a suspended one waits for, as its worker told it; `progress`: how far its steps have
    come, as they told it. `crashes`: how often in a row its worker died or could not run it, without
    progress. `lost` is JSON: the last claims that did not end well (`LostClaim`), of an execution.

    Two fields that only a held task needs tell more of one that is not. Of a halted or suspended one
    `acquired_at` is since when; of a halted one `corr_id` is the code of the reason, if one was given ("" if
    it has no code), and the reason is `error`. Of a pending one whose lease lapsed `corr_id` is the pid of
    whoever held it.
    """

    id: str
    state: TaskState
    version: Count
    target: str
    dialect: Dialect
    timer: bool
    priority: int
    timeout_at: Millis
    created_at: Millis
    resumes: Count = 0
    due_at: Millis | None = None
    parked: bool = False
    pid: str | None = None
    ttl: int | None = None
    corr_id: str | None = None
    woken_by: str | None = None
    acquired_at: Millis | None = None
    started_at: Millis | None = None
    bounces: Count = 0
    crashes: Count = 0
    retries: Count = 0
    error: str | None = None
    waits: str | None = None
    lost: str | None = None
    progress: str | None = None
    turn: Count = 0
    place: QueuePlace | None = None
    job: Job | None = None


class Halted(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Why a task was halted, and since when. Only of a task that was halted with a reason."""

    at: Millis
    reason: str
    code: str = ""


class TaskView(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A task as the wire shows it."""

    id: str
    state: TaskState
    version: int
    resumes: int
    pid: str | None = None
    ttl: int | None = None
    started_at: Millis | None = None
    retries: int = 0
    error: str | None = None
    job: JobView | None = None
    halted: Halted | None = None
    progress: list[ReportedProgress] | None = None


class TaskRef(Struct, frozen=True, gc=False):
    """One claim: a task at a version."""

    id: str
    version: int


class Listener(Struct, frozen=True, gc=False):
    """An address that wants to know when a promise settles, in the words of its dialect."""

    address: str
    dialect: Dialect


class Schedule(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A promise to be created again and again.

    While it is paused, `paused_at` says since when, and `next_run_at` is `instant_ms_max`: it is never due.
    """

    id: str
    cron: str
    promise_id: str
    promise_timeout: int
    promise_param: Value
    promise_tags: dict[str, str]
    created_at: Millis
    next_run_at: Millis
    last_run_at: Millis | None = None
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None
    paused_at: Millis | None = None


class ScheduleEntry(Struct, frozen=True, gc=False):
    """A schedule, and the dialect that the tasks it creates will speak."""

    schedule: Schedule
    dialect: Dialect
