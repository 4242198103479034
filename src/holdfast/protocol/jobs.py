"""Plain background tasks: what is known about one beyond its promise and its task, and their queues.

A job is a task whose function runs once per attempt and is never replayed. It is born when a promise is
created with the tag `holdfast:job`, whose text is a `JobSpec`, and a target `poll://any@queue.<name>`. What
the engine remembers about it is a `Job` in the task's record; what the wire shows of it is a `JobView`.
"""

from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Struct

from holdfast.protocol import limits
from holdfast.protocol.text import check_integer, check_text

JobOutcome = Literal["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"]
JobStatus = Literal["PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"]
OnUnique = Literal["existing", "replace", "reject", "debounce"]
KeyOverlap = Literal["wait", "reject", "replace"]

# Outcomes that the engine decides carry one of these in `Job.code` and in the header of the promise's value.
TASK_EXPIRED: Final = "TASK_EXPIRED"
TASK_CANCELLED: Final = "TASK_CANCELLED"
TASK_TIMED_OUT: Final = "TASK_TIMED_OUT"
WORKER_CRASHED: Final = "WORKER_CRASHED"

CODE_HEADER: Final = "holdfast-code"
WORKER_HEADER: Final = "holdfast-worker"

_group_prefix: Final = "queue."


def queue_group(name: str) -> str:
    """The group of workers that a queue's jobs are offered to."""
    return _group_prefix + name


def queue_of(group: str) -> str | None:
    """The queue behind a group of workers, if it is one."""
    return group[len(_group_prefix) :] if group.startswith(_group_prefix) else None


def check_queue(name: str) -> None:
    check_text("queue name", name, limits.queue_name_bytes_max)
    if "/" in name or "@" in name:
        raise ValueError(f"queue name {name!r} holds / or @, which addresses are made of")


def check_code(code: str) -> None:
    check_text("code", code, limits.code_bytes_max)


class RetryRule(
    Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """When a failed attempt is followed by another, and how long after.

    Either `delays` (the last one is repeated if `retries` asks for more of them), or `base`, multiplied by
    `factor` each time, up to `max`. `codes` None: every failure is retried. They say nothing of a worker that
    died: that attempt is followed by another unless `crashes` is False.
    """

    retries: int | None = None  # None: as many as there are delays
    delays: tuple[int, ...] = ()
    base: int | None = None
    factor: float = 2.0
    max: int = limits.job_retry_ms_max
    codes: tuple[str, ...] | None = None
    jitter: bool = False
    crashes: bool = True

    def __post_init__(self) -> None:
        if (self.base is None) == (not self.delays):
            raise ValueError("a retry rule has either delays or a base")
        if self.retries is None and self.base is not None:
            raise ValueError("a retry rule with a base must say how many retries")
        check_integer("retry.retries", self.limit, 0, limits.job_retries_max)
        for delay in (*self.delays, self.max, *(() if self.base is None else (self.base,))):
            check_integer("a retry delay", delay, limits.job_retry_ms_min, limits.job_retry_ms_max)
        if not 1.0 <= self.factor <= limits.job_retry_factor_max:
            raise ValueError(f"retry.factor must be from 1 to {limits.job_retry_factor_max}")
        if self.codes is not None:
            check_integer("the number of retry.codes", len(self.codes), 0, limits.job_retry_codes_max)
            for code in self.codes:
                check_code(code)

    @property
    def limit(self) -> int:
        return len(self.delays) if self.retries is None else self.retries

    def covers(self, code: str) -> bool:
        """Is an attempt that failed with this code followed by another, while retries remain?"""
        if code == WORKER_CRASHED:
            return self.crashes
        return self.codes is None or code in self.codes


class JobSpec(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What the tag `holdfast:job` says. `good_for` is `good_until` for schedules: so long after createdAt."""

    sent_at: int | None = None
    good_until: int | None = None
    good_for: int | None = None
    retry: RetryRule | None = None
    key: str | None = None
    unique: str | None = None
    on_unique: OnUnique = "existing"

    def __post_init__(self) -> None:
        for name, instant in (("sentAt", self.sent_at), ("goodUntil", self.good_until)):
            if instant is not None:
                check_integer(name, instant, 0)
        if self.good_for is not None:
            check_integer("goodFor", self.good_for, 1)
            if self.good_until is not None:
                raise ValueError("goodUntil and goodFor both limit the waiting time: give one of them")
        for name, text in (("key", self.key), ("unique", self.unique)):
            if text is not None:
                check_text(name, text, limits.job_key_bytes_max)
        if self.on_unique != "existing" and self.unique is None:
            raise ValueError("onUnique needs a unique key: give unique")

    def deadline(self, created_at: int) -> int | None:
        if self.good_for is not None:
            return min(created_at + self.good_for, limits.instant_ms_max)
        return self.good_until


_spec_decoder: Final = msgspec.json.Decoder(JobSpec)


@lru_cache(maxsize=1024)  # a request is checked when it is built and read again when it is applied
def parse_job(text: str) -> JobSpec:
    try:
        return _spec_decoder.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"tag holdfast:job is not valid: {error}") from None


class QueueSpec(
    Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """What the tag `holdfast:queue` says of an execution that waits in a queue."""

    key: str | None = None
    overlap: KeyOverlap = "wait"

    def __post_init__(self) -> None:
        if self.key is not None:
            check_text("key", self.key, limits.job_key_bytes_max)
        elif self.overlap != "wait":
            raise ValueError("overlap needs a key by which to limit")


class QueuePlace(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The place of an execution in a queue. From its first claim until it is over it counts there."""

    key: str | None = None
    entered_at: int | None = None


_queue_decoder: Final = msgspec.json.Decoder(QueueSpec)


@lru_cache(maxsize=1024)
def parse_queue(text: str) -> QueueSpec:
    try:
        return _queue_decoder.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"tag holdfast:queue is not valid: {error}") from None


class Attempt(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """One run of a job's function that has ended. `number` counts from 1; `version` is that of its claim.

    `error` is what was told of a failure that another attempt followed, of the latest few. That of the last
    attempt is the value of the promise.
    """

    number: int
    version: int
    outcome: Literal["COMPLETED", "FAILED"]
    started_at: int
    finished_at: int
    will_retry: bool = False
    code: str | None = None
    pid: str | None = None
    error: str | None = None


class Job(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """What is stored about a job, in its task's record.

    `enqueued_at` is when it becomes or became eligible: its delay, its latest retry. `unique` is queue/key,
    as it is indexed. Who claimed it last is kept when it ends, and cleared when it goes back unstarted.
    """

    sent_at: int
    enqueued_at: int
    good_until: int | None = None
    retry: RetryRule | None = None
    key: str | None = None
    unique: str | None = None
    claimed_at: int | None = None
    claimed_by: str | None = None
    next_retry_at: int | None = None
    attempts: tuple[Attempt, ...] = ()
    outcome: JobOutcome | None = None
    code: str | None = None
    finished_at: int | None = None


class JobView(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A job as the wire shows it, at an instant: past its `good_until`, unstarted, it is EXPIRED."""

    status: JobStatus
    queue: str
    priority: int
    sent_at: int
    enqueued_at: int
    good_until: int | None = None
    retry: RetryRule | None = None
    key: str | None = None
    unique: str | None = None
    claimed_at: int | None = None
    claimed_by: str | None = None
    acquired_at: int | None = None
    started_at: int | None = None
    next_retry_at: int | None = None
    retries: int = 0
    attempts: tuple[Attempt, ...] = ()
    outcome: JobOutcome | None = None
    code: str | None = None
    finished_at: int | None = None


class Rate(Struct, frozen=True, rename="camel", gc=False):
    """At most `count` jobs are started in any stretch of `per_ms`."""

    count: int
    per_ms: int

    def __post_init__(self) -> None:
        check_integer("rate.count", self.count, 1, limits.rate_count_max)
        check_integer("rate.perMs", self.per_ms, 1, limits.rate_ms_max)


def check_weights(weights: dict[str, int]) -> None:
    check_integer("the number of weights", len(weights), 0, limits.fair_weights_max)
    for key, weight in weights.items():
        check_text("a key of weights", key, limits.job_key_bytes_max)
        check_integer("a weight", weight, 1, limits.fair_weight_max)


class QueueRecord(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The limits of a queue. `meters` are the recent grants by key ("" for the whole queue), where a rate is
    set: pairs of an instant and how many count until then. `turns` are of a fair queue, by priority: the
    highest turn that was granted (see engine/queue_lines.py)."""

    name: str
    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: Rate | None = None
    key_rate: Rate | None = None
    paused: bool = False
    running: int | None = None
    meters: dict[str, tuple[tuple[int, int], ...]] = {}
    fair: bool = False
    weights: dict[str, int] = {}
    turns: dict[int, int] = {}

    @property
    def is_gated(self) -> bool:
        """Must a claim look at this record? Queues without limits never do."""
        limits_set = (self.concurrency, self.key_concurrency, self.running, self.rate, self.key_rate)
        return self.paused or self.has_turns or any(limit is not None for limit in limits_set)

    @property
    def has_turns(self) -> bool:
        """Is it fair, or was it once, so that tasks with turns may be waiting in it?"""
        return self.fair or bool(self.turns)

    @property
    def counts_held(self) -> bool:
        return any(it is not None for it in (self.concurrency, self.key_concurrency, self.running))


class QueueView(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A queue as the wire shows it. `pending` counts all that wait, `delayed` those not yet eligible."""

    name: str
    paused: bool
    pending: int
    delayed: int
    claimed: int
    running: int
    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: Rate | None = None
    key_rate: Rate | None = None
    fair: bool = False
    weights: dict[str, int] = {}
    running_limit: int | None = None
