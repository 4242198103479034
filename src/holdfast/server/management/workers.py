"""`/v1/workers`: who works here, and what each knows to run; `/v1/declarations`: all that can be started.

Workers tell of themselves (node/workers.py). Those that do not, such as workers in other languages, are known
by their connection to this node alone.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from holdfast.node.workers import KnownWorker
from holdfast.protocol.ids import is_covered
from holdfast.protocol.jobs import queue_group, queue_of
from holdfast.protocol.requests import TaskSearch
from holdfast.protocol.workers import Declaration, WorkerReport
from holdfast.server.errors import BadManagementRequest, Forbidden, NoSuchWorker
from holdfast.server.grants import Grant
from holdfast.server.management.call import Call, Json

workers_max: Final = 50  # on one page
held_max: Final = 100  # that are named, of one worker
declarations_max: Final = 200  # on one page
_ALIVE: Final = ("running", "draining", "drained")


async def find(call: Call) -> Json:
    """By id. `held` are the executions and background tasks that it has claimed, the first hundred."""
    after, now = call.text("cursor") or "", call.now()
    most = call.page_limit("limit", workers_max)
    told = await _told(call, after, most, now)
    connected = _connected(call)
    ids = sorted({*told, *(each for each in connected if each > after)})
    page = ids[:most]
    if not page:
        return {"workers": [], "cursor": None}
    declared = await _declared_by_digest(call)
    found = await call.ask_all([TaskSearch(pid=each, limit=held_max) for each in page])
    workers = [
        _show(each, told.get(each), connected.get(each), declared)
        | {"held": [task["id"] for task in held["tasks"]], "more": "cursor" in held}
        for each, held in zip(page, found, strict=True)
    ]
    return {"workers": workers, "cursor": page[-1] if len(ids) > len(page) else None}


async def _told(call: Call, after: str, most: int, now: int) -> dict[str, KnownWorker]:
    """Those that this caller may see, by id: more than a page holds, if there are."""
    found: dict[str, KnownWorker] = {}
    while len(found) <= most and (page := await call.node.observed.workers.page(after, now)):
        after = page[-1].report.id
        found |= {each.report.id: each for each in page if _is_covered(each, call.grant)}
    return found


async def get(call: Call) -> Json:
    worker = await _known(call)
    connected, declared = _connected(call), await _declared_by_digest(call)
    held = await call.ask(TaskSearch(pid=call.id, limit=held_max))
    shown = _show(call.id, worker, connected.get(call.id), declared)
    return shown | {"held": [task["id"] for task in held["tasks"]], "more": "cursor" in held}


async def tell(call: Call) -> Json:
    """For workers: what they are, and what they know to run. Answers with what the worker shall do."""
    report = msgspec.convert(call.body | {"id": call.id}, WorkerReport)
    grant, workers = call.grant, call.node.observed.workers
    grant.require_group(report.group)
    for queue in report.queues:
        grant.require("queue", queue)
    for each in report.declarations or ():
        if each.group is not None:
            grant.require_group(each.group)
        if each.queue is not None:
            grant.require("queue", each.queue)
    scope = await workers.scope_of(report.id)
    if scope is not None and not grant.covers(scope):
        raise Forbidden("A worker that this token does not cover has that id")
    orders = await workers.tell(report, call.now(), grant.prefix)
    answer: Json = msgspec.to_builtins(orders)
    return answer


async def drain(call: Call) -> Json:
    """It claims nothing more and finishes what it holds."""
    return await _order(call, drain=True)


async def undrain(call: Call) -> Json:
    return await _order(call, drain=False)


async def declarations(call: Call) -> Json:
    """What some worker has declared in the last weeks, by kind, name and version; the latest of each."""
    kind, name = call.text("kind"), call.text("name")
    if kind not in (None, "workflow", "task", "entity"):
        raise BadManagementRequest(f"kind={kind[:40]!r} is not one of workflow, task, entity")
    most = call.page_limit("limit", declarations_max)
    after = call.text("cursor") or ""
    rows = await _all_declared(call)
    wanted = {
        key: row
        for key, row in sorted(rows.items())
        if key > after and kind in (None, row["kind"]) and name in (None, row["name"])
    }
    page = [*wanted][:most]
    cursor = page[-1] if len(wanted) > len(page) else None
    return {"declarations": [wanted[key] for key in page], "cursor": cursor}


async def declaration_of(
    call: Call, kind: str, name: str, version: int = 0, *, is_believed: bool = True
) -> Json | None:
    """That of a version, or of the newest one. It decides what is sent where, so a worker is believed only
    if its token covers all that the caller's does: nobody draws to himself what others send."""
    rows = (await _all_declared(call, is_believed=is_believed)).values()
    found = [row for row in rows if (row["kind"], row["name"]) == (kind, name)]
    fitting = [row for row in found if version in (0, row["version"])]
    return max(fitting, key=lambda row: row["version"], default=None)


async def groups_served(call: Call, now: int) -> set[str]:
    """The groups, those of queues among them, that some worker here or at another node serves."""
    served = {worker.group for worker in call.workers()}
    async for worker in _alive(call, now):
        served |= {worker.report.group, *map(queue_group, worker.report.queues)}
    return served


async def serving(call: Call, group: str) -> tuple[list[KnownWorker], bool]:
    """Who serves a group, or the queue of that group; and do others, of whom nothing else is known?"""
    found = [worker async for worker in _alive(call, call.now()) if _serves(worker.report, group)]
    told = {worker.report.id for worker in found}
    return found, any(each.group == group and each.id not in told for each in call.workers())


def _serves(report: WorkerReport, group: str) -> bool:
    return group == report.group or group in map(queue_group, report.queues)


async def declared_now(call: Call) -> set[tuple[str, str]]:
    """Kind and name of what workers that run have declared. A schedule starts an entity as a workflow."""
    rows = (await _all_declared(call)).values()
    declared = {(row["kind"], row["name"]) for row in rows if row["workers"]}
    return declared | {("workflow", name) for kind, name in declared if kind == "entity"}


async def _alive(call: Call, now: int) -> AsyncGenerator[KnownWorker]:
    after = ""
    while page := await call.node.observed.workers.page(after, now):
        after = page[-1].report.id
        for worker in page:
            if worker.state in _ALIVE:
                yield worker


async def _all_declared(call: Call, *, is_believed: bool = False) -> dict[str, Json]:
    """Which of several with the same name counts: that of the worker seen last."""
    now = call.now()
    declared = await call.node.observed.workers.declarations()
    rows: dict[str, Json] = {}
    after = ""
    while workers := await call.node.observed.workers.page(after, now):
        after = workers[-1].report.id
        for worker in workers:
            if is_believed and not _covers_caller(worker, call.grant):
                continue
            is_alive = worker.state in _ALIVE
            for each in declared.get(worker.declared_key, ()):
                if call.grant.covers(each.queue or each.group or worker.report.group):
                    _merge(rows, each, worker.seen_at, is_alive=is_alive)
    return rows


def _merge(rows: dict[str, Json], declared: Declaration, seen_at: int, *, is_alive: bool) -> None:
    key = f"{declared.kind}/{declared.name}/{declared.version:09d}"
    row = rows.get(key)
    if row is None or (is_alive, seen_at) > (row["workers"] > 0, row["seenAt"]):
        shown: Json = {"parameters": {}, "positional": [], "returns": {}, "about": "", "version": 1}
        shown |= msgspec.to_builtins(declared)
        rows[key] = shown | {"workers": 0 if row is None else row["workers"], "seenAt": seen_at}
    rows[key]["workers"] += is_alive


async def _order(call: Call, *, drain: bool) -> Json:
    worker = await _known(call)
    await call.node.observed.workers.order(worker, drain=drain, now=call.now())
    return await get(call)


async def _known(call: Call) -> KnownWorker:
    worker = await call.node.observed.workers.find(call.id, call.now())
    if worker is None or not _is_covered(worker, call.grant):
        raise NoSuchWorker(f"No worker {call.id[:80]!r} has reported")
    return worker


def _is_covered(worker: KnownWorker, grant: Grant) -> bool:
    return grant.covers(worker.report.group)


def _covers_caller(worker: KnownWorker, grant: Grant) -> bool:
    scope = worker.report.scope
    return not scope or is_covered(grant.prefix, scope)


def _connected(call: Call) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for worker in call.workers():
        if call.grant.covers(queue_of(worker.group) or worker.group):
            groups.setdefault(worker.id, []).append(worker.group)
    return groups


async def _declared_by_digest(call: Call) -> dict[str, list[str]]:
    found = await call.node.observed.workers.declarations()
    return {key: [f"{each.name}@{each.version}" for each in some] for key, some in found.items()}


def _show(
    worker_id: str, worker: KnownWorker | None, connected: list[str] | None, declared: dict[str, list[str]]
) -> Json:
    shown: dict[str, Any] = {"id": worker_id, "connected": connected is not None}
    shown["groups"] = sorted(connected or ([] if worker is None else [worker.report.group]))
    if worker is None:
        return shown | {"state": "running", "queues": [], "declarations": []}
    report = worker.report
    for name in ("group", "queues", "host", "pid", "python", "holdfast"):
        shown[name] = getattr(report, name)
    return shown | {
        "codeVersion": report.code_version,
        "slots": {name: asdict(slots) for name, slots in report.slots.items()},
        "startedAt": report.started_at,
        "seenAt": worker.seen_at,
        "state": worker.state,
        "declarations": declared.get(worker.declared_key, []),
    }
