"""Reads of a node besides requests: tasks to offer again, its backlog, its health. Changes nothing.

Like a commit these are generators of store steps, so they run on every store and never beside a half-written
transaction.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine import Footprint, Rules, WorkingSet
from holdfast.engine.queue_use import QueueUse, queue_use, waiting_max
from holdfast.engine.queues import find_queue
from holdfast.engine.scans import (
    ClaimPlace,
    ClaimScan,
    HeldRow,
    HeldScan,
    Page,
    ScheduleScan,
    WaitingRow,
    WaitingScan,
    place_of,
)
from holdfast.engine.view import is_open, see_promise
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.messages import Execute
from holdfast.protocol.records import Millis, Promise, TaskRef
from holdfast.store.interface import Backlog, CorruptRecord, CountBacklog, Find, Load, Now, Save, Work

backlog_groups_max: Final = 100


class NodeStats(Struct):
    """Counted since the node was made."""

    commits: int = 0
    committed_requests: int = 0
    failed_commits: int = 0
    sweeps: int = 0
    forgotten: int = 0  # promises, by retention
    store_healthy: bool = True  # did the latest commit succeed?
    failure: type[BaseException] | None = None  # of the latest one that did not


def read_offers(
    group: str, now: Millis, limit: int, after: ClaimPlace | None = None
) -> Work[tuple[list[Execute], ClaimPlace | None]]:
    """The execute messages of pending tasks that wait for a worker of a group, best first; and the place of
    the last, if more may follow. Of these tasks no promise is read, and nothing of those before `after`."""
    scan = ClaimScan((group,), now, limit, view=True)
    if after is None:
        found: list[str] = yield Find(scan)
    else:
        found = yield Find(replace(scan, after=after))
        if len(found) < limit:
            found += yield Find(replace(scan, limit=limit - len(found), ceiling=after.priority - 1))
    ws = WorkingSet(Rules())
    readable = yield from _load_readable_tasks(ws, found)
    tasks = [task for task_id in readable if (task := ws.task(task_id)) is not None]
    offers = [
        Execute(task.target, TaskRef(task.id, task.version), task.dialect, task.woken_by is not None)
        for task in tasks
        if task.state == "pending" and is_open(task, now)
    ]
    return offers, place_of(tasks[-1]) if tasks and len(found) == limit else None


def _load_readable_tasks(ws: WorkingSet, ids: Sequence[str]) -> Work[Sequence[str]]:
    with suppress(CorruptRecord):
        yield Load(ws, Footprint(task_views=set(ids)))
        return ids
    readable: list[str] = []
    for task_id in ids:
        with suppress(CorruptRecord):
            yield Load(ws, Footprint(task_views={task_id}))
            readable.append(task_id)
    return readable


def load_readable(ws: WorkingSet, ids: Sequence[str]) -> Work[Sequence[str]]:
    """Look at these; answers with those that can be read, which are all but always all."""
    with suppress(CorruptRecord):
        yield Load(ws, Footprint(views=set(ids)))
        return ids
    readable: list[str] = []
    for promise_id in ids:
        with suppress(CorruptRecord):
            yield Load(ws, Footprint(views={promise_id}))
            readable.append(promise_id)
    return readable


def read_promises(promise_ids: Sequence[str], now: Millis) -> Work[list[Promise]]:
    ws = WorkingSet(Rules())
    readable = yield from load_readable(ws, promise_ids)
    now = yield Now(now)
    found = (ws.promise(promise_id) for promise_id in readable)
    return [see_promise(promise, ws, now) for promise in found if promise is not None]


def read_backlog(now: Millis) -> Work[Backlog]:
    backlog: Backlog = yield CountBacklog(now, backlog_groups_max)
    return backlog


def read_queue_use(name: str, now: Millis) -> Work[QueueUse]:
    ws, group = WorkingSet(Rules()), queue_group(name)
    yield Load(ws, Footprint(queue_views={name}))
    held: list[HeldRow] = yield Find(HeldScan((group,)))
    waiting: list[WaitingRow] = yield Find(WaitingScan(group, waiting_max))
    now = yield Now(now)
    return queue_use(find_queue(name, ws), held, waiting, now)


def read_pulse() -> Work[None]:
    yield Find(ScheduleScan(Page("", "", 1), {}))


def write_pulse(now: Millis, debug: bool) -> Work[None]:
    """The time, which may be written whenever it is real."""
    now = yield Now(now)
    yield Save(WorkingSet(Rules()), None if debug else now)
