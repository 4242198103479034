"""schedule.*: promises that are created repeatedly, and how a schedule fires."""

from msgspec.structs import replace

from holdfast.engine.job_state import is_expired
from holdfast.engine.jobs import expire
from holdfast.engine.overlap import make_place
from holdfast.engine.promises import held_key, new_promise, target_of
from holdfast.engine.scans import page_of
from holdfast.engine.transitions import offer, settle
from holdfast.engine.view import is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.cron import due_occurrences, next_occurrence
from holdfast.protocol.errors import InvalidField, KeyBusy, KeyTaken, ScheduleMissing, TaskRunning
from holdfast.protocol.records import NOTHING, Millis, Schedule, ScheduleEntry
from holdfast.protocol.replies import EMPTY, Reply, ScheduleReply, SchedulesReply
from holdfast.protocol.requests import (
    Request,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    ScheduleSearch,
)
from holdfast.protocol.requests.schedules import SCHEDULE_ID, TIMESTAMP
from holdfast.protocol.text import check_text


def find_schedule(schedule_id: str, ws: WorkingSet) -> ScheduleEntry:
    entry = ws.schedule(schedule_id)
    if entry is None:
        raise ScheduleMissing(schedule_id)
    return entry


def get(request: Request, data: ScheduleGet, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, ScheduleReply(find_schedule(data.id, ws).schedule))


def create(request: Request, data: ScheduleCreate, ws: WorkingSet, now: Millis) -> Reply:
    entry = ws.schedule(data.id)
    if entry is None:
        target_of(data.promise_tags, request.dialect)
        _check_template(data)
        schedule = Schedule(
            data.id,
            data.cron,
            data.promise_id,
            data.promise_timeout,
            data.promise_param,
            data.promise_tags,
            now,
            next_occurrence(data.cron, data.timezone, now),
            None,
            data.timezone,
            data.overlap,
            data.catch_up,
        )
        entry = ScheduleEntry(schedule, request.dialect)
        ws.put_schedule(data.id, entry)
    return Reply(200, ScheduleReply(entry.schedule))


def _check_template(data: ScheduleCreate) -> None:
    longest = _fill_template(data.promise_id, data.id, limits.instant_ms_max)
    try:
        check_text("promiseId with its templates filled in", longest)
    except ValueError as error:
        raise InvalidField(str(error)) from None


def delete(request: Request, data: ScheduleDelete, ws: WorkingSet, now: Millis) -> Reply:
    find_schedule(data.id, ws)
    ws.put_schedule(data.id, None)
    return Reply(200, EMPTY)


def search(request: Request, data: ScheduleSearch, ws: WorkingSet, now: Millis) -> Reply:
    page, cursor = page_of(ws.found, ws.until, data.limit, limits.schedule_page_size)
    entries = (ws.schedule(schedule_id) for schedule_id in page)
    return Reply(200, SchedulesReply([entry.schedule for entry in entries if entry is not None], cursor))


def fire(entry: ScheduleEntry, ws: WorkingSet, now: Millis) -> None:
    """Create the promises of every occurrence that is due and not too far back."""
    schedule = entry.schedule
    most = schedule.catch_up or limits.catch_up
    last_run_at = schedule.last_run_at
    due = due_occurrences(schedule.cron, schedule.timezone, schedule.next_run_at, now, most)
    ws.need(occurrence_id(schedule, occurrence) for occurrence in due)
    for occurrence in due:
        promise_id = occurrence_id(schedule, occurrence)
        if ws.promise(promise_id) is None:
            if not _make_room(schedule, last_run_at, ws, now):
                continue
            _fire_one(entry, promise_id, occurrence, ws, now)
        last_run_at = occurrence
    next_run_at = next_occurrence(schedule.cron, schedule.timezone, now)
    ws.put_schedule(
        schedule.id,
        ScheduleEntry(replace(schedule, next_run_at=next_run_at, last_run_at=last_run_at), entry.dialect),
    )


def _make_room(schedule: Schedule, last_run_at: Millis | None, ws: WorkingSet, now: Millis) -> bool:
    """What the overlap policy says about the promise that was fired last. May the next one be fired?"""
    if schedule.overlap in (None, "allow") or last_run_at is None:
        return True
    last = ws.promise(occurrence_id(schedule, last_run_at))
    if last is None or see_promise(last, ws, now).state != "pending":
        return True
    if schedule.overlap == "skip":
        return False
    settle(last, "rejected_canceled", NOTHING, now, None, ws, now)
    return True


def _fire_one(entry: ScheduleEntry, promise_id: str, occurrence: Millis, ws: WorkingSet, now: Millis) -> None:
    schedule = entry.schedule
    entries = dict.fromkeys(tags.LINEAGE, promise_id) | schedule.promise_tags | {tags.SCHEDULE: schedule.id}
    timeout_at = min(occurrence + schedule.promise_timeout, limits.instant_ms_max)
    target = target_of(schedule.promise_tags, entry.dialect)
    if _is_taken(entries, target, ws, now):
        return
    _, task = new_promise(
        promise_id,
        schedule.promise_param,
        entries,
        timeout_at,
        None,
        target,
        entry.dialect,
        ws,
        occurrence,
        now,
    )
    if task is not None and is_open(task, now):
        offer(task, ws, now)
    elif task is not None and is_expired(task, now):
        expire(task, ws, now)


def _is_taken(entries: dict[str, str], target: str | None, ws: WorkingSet, now: Millis) -> bool:
    """Does something else hold the key of this occurrence, so that it is left out?"""
    try:
        make_place(entries, target, None, ws, now)
        return held_key(entries, target, None, ws, now) is not None
    except (KeyBusy, KeyTaken, TaskRunning):
        return True


def occurrence_id(schedule: Schedule, occurrence: Millis) -> str:
    return _fill_template(schedule.promise_id, schedule.id, occurrence)


def _fill_template(template: str, schedule_id: str, occurrence: Millis) -> str:
    return template.replace(TIMESTAMP, str(occurrence)).replace(SCHEDULE_ID, schedule_id)
