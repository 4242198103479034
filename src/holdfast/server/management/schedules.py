"""`/v1/schedules`: created, listed, looked at with their next and last runs, steered, deleted.

What a schedule runs is named as plain data: a workflow or a background task, and its arguments as JSON. What
it means to pause, to trigger or to backfill one is the engine's.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.cron import next_occurrence
from holdfast.protocol.jobs import JobSpec, RetryRule, check_queue, queue_group
from holdfast.protocol.plain_json import plain_call
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    ExecutionSearch,
    ScheduleBackfill,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
    SchedulePause,
    ScheduleSearch,
    ScheduleTrigger,
    ScheduleUpdate,
)
from holdfast.server.errors import BadManagementRequest, IdInUse
from holdfast.server.management.arguments import check_arguments
from holdfast.server.management.beginning import default_group
from holdfast.server.management.call import Call, Json
from holdfast.server.management.shapes import RESERVED, show_call
from holdfast.server.management.tasks import declared_queue

runs_shown: Final = 5
_RUN_ID: Final = "{{.id}}-{{.timestamp}}"
_ABOUT_WORK: Final = (
    "args",
    "kwargs",
    "version",
    "group",
    "queue",
    "priority",
    "limitKey",
    "retry",
    "tags",
    "check",
)
_DEFINITION: Final = (
    "cron",
    "promiseTimeout",
    "promiseParam",
    "promiseTags",
    "timezone",
    "overlap",
    "catchUp",
)


async def find(call: Call) -> Json:
    search = ScheduleSearch(
        tags=call.tags(), prefix=call.text("prefix"), limit=call.integer("limit"), cursor=call.text("cursor")
    )
    page = await call.ask(search)
    shown = await call.show_all(page["schedules"], show)
    return {"schedules": shown, "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    """With its next runs, and the last ones as executions. Of runs among many others, those that a search by
    tag comes to."""
    last = ExecutionSearch(tags={tags.SCHEDULE: call.id}, limit=runs_shown)
    schedule, runs = await call.ask_all([ScheduleGet(call.id), last])
    found: Json = schedule["schedule"]
    shown = show(found)
    return shown | {"nextRuns": _next_runs(found), "lastRuns": runs["executions"]}


async def create(call: Call) -> Json:
    """The same again is fine; another one under the id is refused."""
    schedule_id, cron = call.field("id", str), _cron(call)
    if not schedule_id:
        raise BadManagementRequest("id must be the id of the schedule")
    if cron is None:
        raise BadManagementRequest("A schedule has either cron or every")
    work = await _work(call)
    if work is None:
        raise BadManagementRequest("workflow or task must name what is run")
    param, entries = work
    timeout = _timeout(call)
    creation = ScheduleCreate(
        schedule_id,
        cron,
        _RUN_ID,
        limits.instant_ms_max if timeout is None else timeout,
        param,
        entries,
        call.field("timezone", str),
        call.field("overlap", str),
        call.field("catchUp", int),
    )
    stored = await call.ask_for("schedule", msgspec.convert(_plain(creation), ScheduleCreate))
    if any(stored.get(name) != _plain(creation).get(name) for name in _DEFINITION):
        raise IdInUse(f"Another schedule has the id {schedule_id!r} already")
    return show(stored)


async def update(call: Call) -> Json:
    """What is not given stays as it is. What is run is given as a whole."""
    work = await _work(call)
    param, entries = (None, None) if work is None else work
    if entries is not None:
        stored = await call.ask_for("schedule", ScheduleGet(call.id))
        if tags.DECLARED_BY in stored["promiseTags"]:
            entries[tags.DECLARED_BY] = stored["promiseTags"][tags.DECLARED_BY]
    change = ScheduleUpdate(
        call.id,
        _cron(call),
        None,
        _timeout(call),
        param,
        entries,
        call.field("timezone", str),
        call.field("overlap", str),
        call.field("catchUp", int),
    )
    return show(await call.ask_for("schedule", msgspec.convert(_plain(change), ScheduleUpdate)))


async def pause(call: Call) -> Json:
    """No more runs until it is resumed."""
    return show(await call.ask_for("schedule", SchedulePause(call.id, True)))


async def resume(call: Call) -> Json:
    """Runs again, from now on."""
    return show(await call.ask_for("schedule", SchedulePause(call.id, False)))


async def trigger(call: Call) -> Json:
    """One run now; the answer names it, or the one that is in its way."""
    promise = await call.ask_for("promise", ScheduleTrigger(call.id))
    return {"id": promise["id"]}


async def backfill(call: Call) -> Json:
    """The runs of past occurrences, some at a time: `nextAt` is the `since` with which to go on."""
    since, until = call.field("since", int), call.field("until", int)
    if since is None or until is None:
        raise BadManagementRequest("since and until must be instants, in milliseconds")
    return await call.ask(ScheduleBackfill(call.id, since, until))


async def delete(call: Call) -> Json:
    """What it has started goes on."""
    schedule = await call.ask_for("schedule", ScheduleGet(call.id))
    await call.ask(ScheduleDelete(call.id))
    return show(schedule)


def _cron(call: Call) -> str | None:
    cron, every = call.field("cron", str), call.field("every", int)
    if cron is not None and every is not None:
        raise BadManagementRequest("A schedule has either cron or every")
    return cron if every is None else f"@every {every}s"


def _timeout(call: Call) -> int | None:
    timeout = call.field("timeout", float | int)  # type: ignore[arg-type]
    return None if timeout is None else round(timeout * 1000)


async def _work(call: Call) -> tuple[Value, dict[str, str]] | None:
    """What is run: the param and the tags of each run."""
    workflow, task = call.field("workflow", str), call.field("task", str)
    if not workflow and not task:
        _refuse(call, _ABOUT_WORK, "is about what is run: give workflow or task, too")
        return None
    if workflow and task:
        raise BadManagementRequest("A schedule runs either a workflow or a task")
    if workflow:
        _refuse(call, ("retry",), "is for a background task: a workflow has it in its code")
    else:
        _refuse(call, ("group", "version"), "is for a workflow: leave it out for a background task")
    given = call.text_fields("tags") or {}
    if any(name.startswith(RESERVED) for name in given):
        raise BadManagementRequest(f"Tags that begin with {' or '.join(RESERVED)} are the protocol's own")
    entries: dict[str, str] = {**given, tags.SCOPE: "global"}
    queue, limit_key = call.field("queue", str), call.field("limitKey", str)
    if queue is not None:
        check_queue(queue)
    version = call.field("version", int, 0 if workflow else 1)
    args, kwargs = call.field("args", list, []), call.field("kwargs", dict, {})
    if call.field("check", bool, True):
        kind, wanted = ("workflow", version) if workflow else ("task", 0)
        await check_arguments(call, kind, workflow or task, wanted, args, kwargs)
    if workflow:
        entries |= {**_workflow_place(call, queue, limit_key), tags.WORKFLOW: workflow}
    else:
        retry = call.field("retry", dict)
        rule = None if retry is None else msgspec.convert(retry, RetryRule)
        spec = JobSpec(retry=rule, key=limit_key)
        entries |= {
            tags.TARGET: f"poll://any@{queue_group(queue or await declared_queue(call, task))}",
            tags.JOB: msgspec.json.encode(spec).decode(),
            tags.TASK: task,
        }
    if priority := call.field("priority", int, 0):
        entries[tags.PRIORITY] = str(priority)
    return plain_call(workflow or task, args, kwargs, version), entries


def _refuse(call: Call, names: Sequence[str], why: str) -> None:
    """What would be left out in silence."""
    for name in names:
        if call.body.get(name) is not None:
            raise BadManagementRequest(f"{name} {why}")


def _workflow_place(call: Call, queue: str | None, limit_key: str | None) -> dict[str, str]:
    group = call.field("group", str)
    if queue is not None:
        if group is not None:
            raise BadManagementRequest("queue and group both say who runs it: give one of them")
        return tags.queued(queue, limit_key, "wait")
    if limit_key is not None:
        raise BadManagementRequest("limitKey is what the limits of a queue count by: give queue, too")
    return {tags.TARGET: target_of(group or default_group)}


def _plain(data: ScheduleCreate | ScheduleUpdate) -> Any:
    """As the wire has it; read again from there, it checks itself."""
    return {name: value for name, value in msgspec.to_builtins(data).items() if value is not None}


def _next_runs(schedule: Json) -> list[int]:
    if "pausedAt" in schedule:
        return []
    runs = [schedule["nextRunAt"]]
    while len(runs) < runs_shown:
        runs.append(next_occurrence(schedule["cron"], schedule.get("timezone"), runs[-1]))
    return runs


def show(schedule: Json) -> Json:
    names = (
        "id", "cron", "timezone", "overlap", "catchUp", "createdAt", "nextRunAt", "lastRunAt", "pausedAt",
    )  # fmt: skip
    shown = {name: schedule[name] for name in names if name in schedule}
    if "pausedAt" in shown:
        del shown["nextRunAt"]
    return shown | {"call": show_call(schedule["promiseParam"]), "tags": schedule["promiseTags"]}
