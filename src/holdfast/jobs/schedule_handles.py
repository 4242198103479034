"""Schedules at run time: making them, finding them, changing one. `app.schedules` is a `Schedules`.

1. A schedule that is made here is an agreement under its id, as an execution is: the same one twice is one,
   and anything else under its id is refused (`ScheduleExists`).
2. It has no declaration, so it is never an orphan: it goes on until it is deleted.
3. Each function here exists twice, for scripts and with `_async` for asyncio; both do the same work.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar, TypeVarTuple

from msgspec import Struct

from holdfast.client.caller import Caller, expect
from holdfast.client.errors import Refused
from holdfast.jobs.errors import BadOption, ScheduleExists, ScheduleNotFound
from holdfast.jobs.options import WithOptions, instant
from holdfast.jobs.schedules import Recurrence, declare_recurrence, is_same, read_rhythm
from holdfast.jobs.task_client import TaskApp
from holdfast.payloads.durations import Duration, datetime_of
from holdfast.payloads.user_tags import check_id
from holdfast.protocol import tags
from holdfast.protocol.records import Millis, Overlap, Schedule
from holdfast.protocol.replies import (
    BackfillReply,
    Empty,
    PromiseReply,
    ReplyData,
    ScheduleReply,
    SchedulesReply,
)
from holdfast.protocol.requests import (
    RequestData,
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    SchedulePause,
    ScheduleSearch,
    ScheduleTrigger,
    ScheduleUpdate,
)

Ts = TypeVarTuple("Ts")
D = TypeVar("D", bound=ReplyData)

page_size: Final = 100


class ScheduleInfo(Struct, frozen=True):
    """One schedule, as it was when you asked.

    `next_run_at`: None while it is paused. `last_run_at`: None if it has not run. `declared_by`: the group of
    the app whose code declares it; None if it was made at run time. `is_orphan`: this app declared it once,
    and does not any more.
    """

    id: str
    cron: str
    timezone: str | None
    overlap: Overlap | None
    catch_up: int | None
    created_at: datetime
    next_run_at: datetime | None
    last_run_at: datetime | None
    paused_at: datetime | None
    declared_by: str | None
    is_orphan: bool


class SchedulePage(Struct, frozen=True):
    """Some schedules, by id. `cursor`: there may be more; `list(cursor=...)` gives the next page."""

    schedules: list[ScheduleInfo]
    cursor: str | None = None

    def __iter__(self) -> Iterator[ScheduleInfo]:
        return iter(self.schedules)

    def __len__(self) -> int:
        return len(self.schedules)


class Schedules:
    """
    daily = app.schedules.create("rep-acme", report, "acme", cron="0 9 * * *", timezone="Europe/Paris")
    app.schedules.get("rep-acme").pause()
    """

    def __init__(self, task_app: TaskApp) -> None:
        self._task_app = task_app

    def create(
        self,
        id: str,  # noqa: A002
        work: Callable[[*Ts], Any] | WithOptions,
        /,
        *args: *Ts,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        catch_up: int | None = None,
        good_for: Duration | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> "ScheduleHandle":
        """Run a task or a workflow again and again; the options are those of `@app.schedule`.

        Arguments come after the function; those by name are in `kwargs`. What `with_options` says holds for
        each run: queue, priority, limit_key, tags, timeout, and of a task its retries.

        Creating the same again is fine; if something else has the id, `ScheduleExists` is raised. Crash: it
        is durable when this returns, and the node fires it wherever workers are.
        """
        given = {**locals()}
        return self._task_app.block(self._create(self._read(given)))

    async def create_async(
        self,
        id: str,  # noqa: A002
        work: Callable[[*Ts], Any] | WithOptions,
        /,
        *args: *Ts,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        catch_up: int | None = None,
        good_for: Duration | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> "ScheduleHandle":
        given = {**locals()}
        return await self._task_app.bridge(self._create(self._read(given)))

    def get(self, id: str) -> "ScheduleHandle":  # noqa: A002
        """The handle of a schedule that exists. Raises `ScheduleNotFound`."""
        handle = ScheduleHandle(self._task_app, id)
        handle.info()
        return handle

    async def get_async(self, id: str) -> "ScheduleHandle":  # noqa: A002
        handle = ScheduleHandle(self._task_app, id)
        await handle.info_async()
        return handle

    def list(
        self, *, prefix: str | None = None, limit: int = page_size, cursor: str | None = None
    ) -> SchedulePage:
        """A page of schedules, by id, with their next and last runs."""
        return self._task_app.block(self._list(prefix, limit, cursor))

    async def list_async(
        self, *, prefix: str | None = None, limit: int = page_size, cursor: str | None = None
    ) -> SchedulePage:
        return await self._task_app.bridge(self._list(prefix, limit, cursor))

    def _read(self, given: dict[str, Any]) -> Recurrence:
        check_id(given["id"])
        recurrence = declare_recurrence(given["work"], given, is_declared=False)
        assert recurrence is not None, "what is wrong was raised"
        return recurrence

    async def _create(self, wanted: Recurrence) -> "ScheduleHandle":
        request = request_of(self._task_app, wanted)
        stored = (await self._task_app.task_client.caller.ask(request, ScheduleReply)).schedule
        if not is_same(request, stored):
            raise ScheduleExists(f"The schedule {wanted.id!r} already exists, with another definition")
        return ScheduleHandle(self._task_app, wanted.id)

    async def _list(self, prefix: str | None, limit: int, cursor: str | None) -> SchedulePage:
        caller = self._task_app.task_client.caller
        page = await caller.ask(ScheduleSearch(None, prefix, limit, cursor), SchedulesReply)
        return SchedulePage([read_schedule(self._task_app, each) for each in page.schedules], page.cursor)


class ScheduleHandle:
    """One schedule, from outside. All of it raises `ScheduleNotFound` once it is deleted."""

    def __init__(self, task_app: TaskApp, schedule_id: str) -> None:
        self.id = schedule_id
        self._task_app = task_app

    def info(self) -> ScheduleInfo:
        """Its definition, and its next and last run."""
        return self._task_app.block(self._info())

    async def info_async(self) -> ScheduleInfo:
        return await self._task_app.bridge(self._info())

    def pause(self) -> None:
        """Fire no more runs until `resume`. Missed runs are skipped; `backfill` runs them."""
        self._task_app.block(self._ask(SchedulePause(self.id, True), ScheduleReply))

    async def pause_async(self) -> None:
        await self._task_app.bridge(self._ask(SchedulePause(self.id, True), ScheduleReply))

    def resume(self) -> None:
        """Fire runs again, from now on."""
        self._task_app.block(self._ask(SchedulePause(self.id, False), ScheduleReply))

    async def resume_async(self) -> None:
        await self._task_app.bridge(self._ask(SchedulePause(self.id, False), ScheduleReply))

    def trigger(self) -> str:
        """One run now, also while it is paused. Gives its id, for `app.handle` or `app.task_handle`.

        With `overlap="skip"` and a run that is not over, it gives the id of that one.
        """
        return self._task_app.block(self._trigger())

    async def trigger_async(self) -> str:
        return await self._task_app.bridge(self._trigger())

    def backfill(self, since: datetime, until: datetime) -> int:
        """Run the occurrences from `since` to `until`, both included, that have no run yet. Gives how many.

        They start side by side, whatever `overlap` says. Crash: what was created stays; the same call again
        creates only the rest.
        """
        return self._task_app.block(self._backfill(since, until))

    async def backfill_async(self, since: datetime, until: datetime) -> int:
        return await self._task_app.bridge(self._backfill(since, until))

    def update(
        self,
        work: Callable[[*Ts], Any] | WithOptions | None = None,
        /,
        *args: *Ts,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        catch_up: int | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Change what is given; with a task or a workflow and its arguments, also what is run.

        It stays paused if it was. A new `cron`, `every` or `timezone` counts from now.
        """
        given = {**locals()}
        self._task_app.block(self._ask(self._changes(given), ScheduleReply))

    async def update_async(
        self,
        work: Callable[[*Ts], Any] | WithOptions | None = None,
        /,
        *args: *Ts,
        cron: str | None = None,
        every: Duration | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        catch_up: int | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        given = {**locals()}
        await self._task_app.bridge(self._ask(self._changes(given), ScheduleReply))

    def delete(self) -> None:
        """Delete it. Runs that it has started continue."""
        self._task_app.block(self._ask(ScheduleDelete(self.id), Empty))

    async def delete_async(self) -> None:
        await self._task_app.bridge(self._ask(ScheduleDelete(self.id), Empty))

    async def _ask(self, request: RequestData, returns: type[D]) -> D:
        try:
            return await self._task_app.task_client.caller.ask(request, returns)
        except Refused as error:
            if error.status == 404:
                raise ScheduleNotFound(f"There is no schedule {self.id!r}") from None
            raise

    async def _info(self) -> ScheduleInfo:
        return read_schedule(self._task_app, (await self._ask(ScheduleGet(self.id), ScheduleReply)).schedule)

    async def _trigger(self) -> str:
        return (await self._ask(ScheduleTrigger(self.id), PromiseReply)).promise.id

    async def _backfill(self, since: datetime, until: datetime) -> int:
        count, next_at, until_ms = 0, instant("since", since), instant("until", until)
        if until_ms < next_at:
            raise BadOption("until must not be before since")
        more: Millis | None = next_at
        while more is not None:
            reply = await self._ask(ScheduleBackfill(self.id, more, until_ms), BackfillReply)
            count, more = count + len(reply.ids), reply.next_at
        return count

    def _changes(self, given: dict[str, Any]) -> ScheduleUpdate:
        read = read_rhythm(given)
        if given["work"] is None:
            return ScheduleUpdate(self.id, **read)
        placeholder = {"cron": "* * * * *", "every": None, "timezone": None, "good_for": None}
        new = declare_recurrence(given["work"], given | placeholder | {"id": self.id}, is_declared=False)
        assert new is not None, "what is wrong was raised"
        request = request_of(self._task_app, new)
        return ScheduleUpdate(
            self.id,
            promise_timeout=request.promise_timeout,
            promise_param=request.promise_param,
            promise_tags=request.promise_tags,
            **read,
        )

    def __repr__(self) -> str:
        return f"<schedule {self.id}>"


def request_of(task_app: TaskApp, wanted: Recurrence) -> ScheduleCreate:
    priority = task_app.tasks.priority_of(wanted.queue or "")
    if wanted.queue is not None:
        task_app.tasks.note_use(wanted.queue)
    return wanted.request(task_app.payloads, task_app.group, priority, task_app.providers)


def read_schedule(task_app: TaskApp, schedule: Schedule) -> ScheduleInfo:
    declared_by = schedule.promise_tags.get(tags.DECLARED_BY)
    is_known = schedule.id in task_app.tasks.recurrences
    return ScheduleInfo(
        schedule.id,
        schedule.cron,
        schedule.timezone,
        schedule.overlap,
        schedule.catch_up,
        datetime_of(schedule.created_at),
        None if schedule.paused_at is not None else datetime_of(schedule.next_run_at),
        None if schedule.last_run_at is None else datetime_of(schedule.last_run_at),
        None if schedule.paused_at is None else datetime_of(schedule.paused_at),
        declared_by,
        declared_by == task_app.group and not is_known,
    )


async def schedule_pages(caller: Caller, **search: Any) -> AsyncIterator[list[Schedule]]:
    """All that a search finds, a page at a time."""
    cursor: str | None = None
    while True:
        [reply] = await caller.replies([ScheduleSearch(limit=page_size, cursor=cursor, **search)])
        page = expect(reply, SchedulesReply)
        yield page.schedules
        if page.cursor is None:
            return
        cursor = page.cursor
