"""schedule.*"""

from __future__ import annotations

from typing import Final

from msgspec import field

from holdfast.protocol import limits, tags
from holdfast.protocol.cron import check_cron, check_timezone
from holdfast.protocol.records import Overlap, Value
from holdfast.protocol.requests.checks import RequestData, check_page, check_tags, check_value
from holdfast.protocol.text import check_entries, check_integer, check_text

# What a promiseId may hold in place of the occurrence's instant and of the schedule's id.
TIMESTAMP: Final = "{{.timestamp}}"
SCHEDULE_ID: Final = "{{.id}}"

# What takes a while to check or to carry out, because it reads cron expressions.
costly_schedule_kinds: Final = frozenset({"schedule.create", "schedule.update", "schedule.backfill"})


class ScheduleGet(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleCreate(RequestData, frozen=True):
    id: str
    cron: str
    promise_id: str
    promise_timeout: int
    promise_param: Value = field(default_factory=Value)
    promise_tags: dict[str, str] = field(default_factory=dict[str, str])
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        _check_definition(self)


class ScheduleUpdate(RequestData, frozen=True):
    """What is not given stays as it is."""

    id: str
    cron: str | None = None
    promise_id: str | None = None
    promise_timeout: int | None = None
    promise_param: Value | None = None
    promise_tags: dict[str, str] | None = None
    timezone: str | None = None
    overlap: Overlap | None = None
    catch_up: int | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        _check_definition(self)


def _check_definition(data: ScheduleCreate | ScheduleUpdate) -> None:
    if data.promise_id is not None:
        check_text("promiseId", data.promise_id)
    if data.promise_timeout is not None:
        check_integer("promiseTimeout", data.promise_timeout, 0)
    if data.cron is not None:
        check_text("cron", data.cron, limits.cron_bytes_max)
        check_cron(data.cron)
    if data.promise_param is not None:
        check_value("promiseParam", data.promise_param)
    if data.promise_tags is not None:
        _check_promise_tags(data.promise_tags)
    if data.timezone is not None:
        check_timezone(data.timezone)
    if data.catch_up is not None:
        check_integer("catchUp", data.catch_up, 0, limits.catch_up_max)


def _check_promise_tags(entries: dict[str, str]) -> None:
    check_tags(entries)
    if tags.DELAY in entries:
        raise ValueError("promiseTags cannot hold resonate:delay, which is one fixed instant")
    job = tags.job_of(entries)
    if job is not None and (job.good_until is not None or job.sent_at is not None):
        raise ValueError(
            "the job of a schedule cannot have sentAt or goodUntil, one fixed instant: use goodFor"
        )


class ScheduleDelete(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class SchedulePause(RequestData, frozen=True):
    """Pause it, or with `paused` false let it go on."""

    id: str
    paused: bool | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleTrigger(RequestData, frozen=True):
    """One run now, beside those of its cron expression."""

    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleBackfill(RequestData, frozen=True):
    """The runs of the occurrences from `since` to `until`, both included, that have none yet."""

    id: str
    since: int
    until: int

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_integer("since", self.since, 0)
        check_integer("until", self.until, 0)
        if self.until < self.since:
            raise ValueError("until must not be before since")


class ScheduleSearch(RequestData, frozen=True):
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)
