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
        check_text("promiseId", self.promise_id)
        check_integer("promiseTimeout", self.promise_timeout, 0)
        check_text("cron", self.cron, limits.cron_bytes_max)
        check_cron(self.cron)
        check_value("promiseParam", self.promise_param)
        check_tags(self.promise_tags)
        if tags.DELAY in self.promise_tags:
            raise ValueError("promiseTags cannot hold resonate:delay, which is one fixed instant")
        job = tags.job_of(self.promise_tags)
        if job is not None and (job.good_until is not None or job.sent_at is not None):
            raise ValueError(
                "the job of a schedule cannot have sentAt or goodUntil, one fixed instant: use goodFor"
            )
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.catch_up is not None:
            check_integer("catchUp", self.catch_up, 1, limits.catch_up_max)


class ScheduleDelete(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class ScheduleSearch(RequestData, frozen=True):
    tags: dict[str, str] | None = None
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)
        if self.tags is not None:
            check_entries("tags", self.tags)
