"""schedule.*: promises that are created repeatedly, and how a schedule fires.

1. A run's id is made of the schedule's id and an instant, so one occurrence is one run, whoever fires it.
2. Whoever changes a schedule fires first what was due before: a change never reaches back.
"""

from typing import Final

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
from holdfast.protocol.records import NOTHING, Millis, Promise, Schedule, ScheduleEntry
from holdfast.protocol.replies import (
    EMPTY,
    BackfillReply,
    PromiseReply,
    Reply,
    ScheduleReply,
    SchedulesReply,
)
from holdfast.protocol.requests import (
    Request,
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    SchedulePause,
    ScheduleSearch,
    ScheduleTrigger,
    ScheduleUpdate,
)
from holdfast.protocol.requests.schedules import SCHEDULE_ID, TIMESTAMP
from holdfast.protocol.text import check_text

_occurrence_records: Final = 4  # to find one by its cron expression takes about as long as to load so many
_definition: Final = tuple(name for name in ScheduleUpdate.__struct_fields__ if name != "id")


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
        _check_template(data.promise_id, data.id)
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


def _check_template(template: str, schedule_id: str) -> None:
    longest = _fill_template(template, schedule_id, limits.instant_ms_max)
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


def update(request: Request, data: ScheduleUpdate, ws: WorkingSet, now: Millis) -> Reply:
    """What is due was due by the old definition. A new rhythm counts from now."""
    entry = fire_due(find_schedule(data.id, ws), ws, now)
    given = {name: getattr(data, name) for name in _definition if getattr(data, name) is not None}
    schedule = replace(entry.schedule, **given)
    if data.promise_id is not None:
        _check_template(data.promise_id, data.id)
    dialect = entry.dialect
    if data.promise_tags is not None:
        dialect = request.dialect
        target_of(data.promise_tags, dialect)
    if schedule.paused_at is None and ("cron" in given or "timezone" in given):
        schedule = replace(schedule, next_run_at=next_occurrence(schedule.cron, schedule.timezone, now))
    ws.put_schedule(data.id, ScheduleEntry(schedule, dialect))
    return Reply(200, ScheduleReply(schedule))


def pause(request: Request, data: SchedulePause, ws: WorkingSet, now: Millis) -> Reply:
    """What was due before is fired. What comes while it is paused is missed, and not made up for."""
    entry = fire_due(find_schedule(data.id, ws), ws, now)
    schedule, paused = entry.schedule, data.paused is not False
    if paused and schedule.paused_at is None:
        schedule = replace(schedule, paused_at=now, next_run_at=limits.instant_ms_max)
    elif not paused and schedule.paused_at is not None:
        next_run_at = next_occurrence(schedule.cron, schedule.timezone, now)
        schedule = replace(schedule, paused_at=None, next_run_at=next_run_at)
    ws.put_schedule(data.id, ScheduleEntry(schedule, entry.dialect))
    return Reply(200, ScheduleReply(schedule))


def trigger(request: Request, data: ScheduleTrigger, ws: WorkingSet, now: Millis) -> Reply:
    """One run now, also of a paused schedule. The answer is its promise, or the one that is in its way."""
    entry = fire_due(find_schedule(data.id, ws), ws, now)
    schedule = entry.schedule
    promise_id = occurrence_id(schedule, now)
    promise = ws.promise(promise_id)
    if promise is None:
        in_the_way = _in_the_way(schedule, schedule.last_run_at, ws, now)
        if in_the_way is not None:
            return Reply(200, PromiseReply(in_the_way))
        entries, target = _entries_of(entry, promise_id)
        make_place(entries, target, request.scope, ws, now)
        holder = held_key(entries, target, request.scope, ws, now)
        if holder is not None:
            return Reply(200, PromiseReply(see_promise(holder, ws, now)))
        promise = _create_run(entry, promise_id, entries, target, now, ws, now)
    ws.put_schedule(data.id, ScheduleEntry(replace(schedule, last_run_at=now), entry.dialect))
    return Reply(200, PromiseReply(see_promise(promise, ws, now)))


def backfill(request: Request, data: ScheduleBackfill, ws: WorkingSet, now: Millis) -> Reply:
    """Runs of past occurrences, oldest first, some at a time. They are created now, so that their deadlines
    lie ahead, and side by side: the overlap policy is about runs that follow each other.
    """
    entry = find_schedule(data.id, ws)
    if data.until > now + limits.backfill_ahead_ms_max:
        raise InvalidField(f"until must not lie ahead: it is {now} now, and not yet {data.until}")
    until = min(data.until, now)
    schedule = entry.schedule
    occurrences: list[Millis] = []
    instant = next_occurrence(schedule.cron, schedule.timezone, data.since - 1)
    while instant <= until and len(occurrences) < limits.backfill_runs_max:
        occurrences.append(instant)
        instant = next_occurrence(schedule.cron, schedule.timezone, instant)
    ws.handled += _occurrence_records * len(occurrences)
    runs = dict.fromkeys(occurrence_id(schedule, occurrence) for occurrence in occurrences)
    ws.need(runs)
    created = [
        promise_id
        for promise_id in runs
        if ws.promise(promise_id) is None and _fire_one(entry, promise_id, now, ws, now)
    ]
    return Reply(200, BackfillReply(created, instant if instant <= until else None))


def fire_due(entry: ScheduleEntry, ws: WorkingSet, now: Millis) -> ScheduleEntry:
    """The schedule after whatever is due has been fired."""
    schedule = entry.schedule
    return entry if schedule.paused_at is not None or schedule.next_run_at > now else _fire(entry, ws, now)


def _fire(entry: ScheduleEntry, ws: WorkingSet, now: Millis) -> ScheduleEntry:
    """Create the promises of every occurrence that is due and not too far back."""
    schedule = entry.schedule
    most = limits.catch_up if schedule.catch_up is None else schedule.catch_up
    last_run_at = schedule.last_run_at
    due = due_occurrences(schedule.cron, schedule.timezone, schedule.next_run_at, now, max(most, 1))
    if not most:  # a sweep is always a little late, so being late is not yet being missed
        due = [occurrence for occurrence in due if now - occurrence <= limits.late_run_ms_max]
    ws.handled += _occurrence_records * len(due)
    ws.need(occurrence_id(schedule, occurrence) for occurrence in due)
    for occurrence in due:
        promise_id = occurrence_id(schedule, occurrence)
        if ws.promise(promise_id) is None:
            if _in_the_way(schedule, last_run_at, ws, now) is not None:
                continue
            _fire_one(entry, promise_id, occurrence, ws, now)
        last_run_at = occurrence
    next_run_at = next_occurrence(schedule.cron, schedule.timezone, now)
    fired = ScheduleEntry(replace(schedule, next_run_at=next_run_at, last_run_at=last_run_at), entry.dialect)
    ws.put_schedule(schedule.id, fired)
    return fired


def _in_the_way(
    schedule: Schedule, last_run_at: Millis | None, ws: WorkingSet, now: Millis
) -> Promise | None:
    """Of the run that was fired last, what the overlap policy says. Its promise, if no other may be fired."""
    if schedule.overlap in (None, "allow") or last_run_at is None:
        return None
    last = ws.promise(occurrence_id(schedule, last_run_at))
    if last is None or see_promise(last, ws, now).state != "pending":
        return None
    if schedule.overlap == "skip":
        return last
    settle(last, "rejected_canceled", NOTHING, now, None, ws, now)
    return None


def _fire_one(entry: ScheduleEntry, promise_id: str, created_at: Millis, ws: WorkingSet, now: Millis) -> bool:
    """Create one run, unless another job holds its unique key."""
    entries, target = _entries_of(entry, promise_id)
    if _is_taken(entries, target, ws, now):
        return False
    _create_run(entry, promise_id, entries, target, created_at, ws, now)
    return True


def _entries_of(entry: ScheduleEntry, promise_id: str) -> tuple[dict[str, str], str | None]:
    """The tags of a run, and who shall work on it."""
    given = entry.schedule.promise_tags
    entries = dict.fromkeys(tags.LINEAGE, promise_id) | given | {tags.SCHEDULE: entry.schedule.id}
    return entries, target_of(given, entry.dialect)


def _create_run(
    entry: ScheduleEntry,
    promise_id: str,
    entries: dict[str, str],
    target: str | None,
    created_at: Millis,
    ws: WorkingSet,
    now: Millis,
) -> Promise:
    schedule = entry.schedule
    timeout_at = min(created_at + schedule.promise_timeout, limits.instant_ms_max)
    promise, task = new_promise(
        promise_id,
        schedule.promise_param,
        entries,
        timeout_at,
        None,
        target,
        entry.dialect,
        ws,
        created_at,
        now,
    )
    if task is not None and is_open(task, now):
        offer(task, ws, now)
    elif task is not None and is_expired(task, now):
        expire(task, ws, now)
    return promise


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
