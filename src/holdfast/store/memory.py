"""A store in memory: the reference that the others are compared with, and fast tests for users.

Nothing survives the process. A transaction that fails leaves no trace, because `Save` is its last step
that can fail and writes only what is complete.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from holdfast.engine import Due, Footprint, Scan, WorkingSet
from holdfast.engine.newest import ExecutionScan, ExecutionStretch, ExecutionTally
from holdfast.engine.queue_lines import has_entered, is_counted, is_queued, key_of
from holdfast.engine.scans import (
    ClaimPlace,
    ClaimScan,
    HeldScan,
    LeaseScan,
    Page,
    PromiseScan,
    QueueCountScan,
    QueueScan,
    ScheduleScan,
    Span,
    StretchScan,
    TaskScan,
    TreeScan,
    WaitingScan,
    place_of,
)
from holdfast.protocol import limits, tags
from holdfast.protocol.address import claim_group, poll_group
from holdfast.protocol.generations import branch_of, generation_of
from holdfast.protocol.ids import is_covered, lies_within
from holdfast.protocol.jobs import JobStatus, QueueRecord, queue_of
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import Listener, Millis, Promise, ScheduleEntry, Task
from holdfast.protocol.sizes import fitting, promise_bytes, whole_promise_bytes
from holdfast.protocol.streams import Streams, answer_id
from holdfast.store import memory_queues
from holdfast.store.documents import Document, perform_in_memory
from holdfast.store.interface import (
    Backlog,
    Bus,
    CountBacklog,
    Find,
    FindDue,
    GroupBacklog,
    Load,
    LoadAll,
    Now,
    Result,
    Save,
    Step,
    TooMuchAtOnce,
    Work,
    drive,
)
from holdfast.store.loading import next_elements, weighed_from
from holdfast.store.memory_lanes import Lanes


class MemoryStore:
    parallel_groups = 1
    keeps_time = False
    bus: Bus | None = None

    def __init__(self) -> None:
        self._clock: Millis = 0
        self._documents: dict[tuple[str, str], Document] = {}
        self._one_at_a_time = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self.promises: dict[str, Promise] = {}
        self.tasks: dict[str, Task] = {}
        self.callbacks: dict[str, dict[str, None]] = {}
        self.listeners: dict[str, dict[str, Listener]] = {}
        self.schedules: dict[str, ScheduleEntry] = {}
        self.branches: dict[str, dict[str, None]] = {}
        self.watched: set[str] = set()
        self.uniques: dict[str, str] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.streams: dict[str, Streams] = {}
        self.lanes = Lanes()

    async def open(self) -> Millis:
        return self._clock

    async def close(self) -> None:
        pass

    def transact(self, work: Callable[[], Work[Result]]) -> Awaitable[Result]:
        """Nothing is waited for, so it is done at once."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self.run(work))
        except Exception as error:
            future.set_exception(error)
        return future

    def run(self, work: Callable[[], Work[Result]]) -> Result:
        with self._one_at_a_time:
            return drive(work(), self._perform)

    def run_apart(self, work: Callable[[], Work[Result]]) -> Result:
        return self.run(work)

    def _perform(self, step: Step) -> Any:
        match step:
            case Now(reading):
                return reading
            case Load(ws, footprint, bytes_max):
                if bytes_max is not None:
                    self._weigh(footprint, bytes_max)
                return self._load(ws, footprint)
            case Save(ws, clock):
                return self._save(ws, clock)
            case Find(scan):
                return self._find(scan)
            case FindDue(now, limit):
                return self._find_due(now, limit)
            case CountBacklog(now, groups_max):
                return self._count_backlog(now, groups_max)
            case LoadAll(ws):
                everything = Footprint(promises={*self.promises}, obligations={*self.promises})
                everything.schedules.update(self.schedules)
                everything.queues.update(self.queues)
                everything.streams.update(self.streams)
                return self._load(ws, everything)
            case _:
                return perform_in_memory(self._documents, step)

    def _load(self, ws: WorkingSet, footprint: Footprint) -> None:
        owing = footprint.obligations | footprint.listened
        wanted = footprint.promises | owing | footprint.branches_of | footprint.views
        only_tasks = set(footprint.task_views)
        branches = set(footprint.branches)
        for unique in footprint.uniques:
            holder = self.uniques.get(unique)
            ws.fill_unique(unique, holder)
            if holder is not None:
                wanted.add(holder)
        for name in footprint.placed:
            members = memory_queues.placed(self.tasks.values(), name)
            ws.lines.fill_places(name, members, map(ws.tasks.get, ws.changed_tasks))
            wanted.update(members)
        for name in footprint.families:
            ws.fill_family(name, self._family_of(name))
        for name in footprint.queues | footprint.queue_views | footprint.gates:
            ws.fill_queue(name, self.queues.get(name))
        for line in footprint.turns:
            if ws.lines.must_be_read(line, ws.queues):
                ws.lines.fill_turn(line, memory_queues.last_turn(self.tasks.values(), line))
        for promise_id in footprint.branches_of & self.promises.keys():
            promise = self.promises[promise_id]
            branch = branch_of(promise)
            if branch is not None and tags.JOB not in promise.tags and promise_id not in footprint.known:
                branches.add(branch)
            if generation_of(promise).number:
                wanted.add(cancel_id(promise_id))
            task = self.tasks.get(promise_id)
            if task is not None and task.woken_by is not None:
                wanted.add(task.woken_by)
        for promise_id in owing:
            awaiters = self.callbacks.get(promise_id, {})
            only_tasks.update(awaiters)
            ws.fill_obligations(promise_id, awaiters, self.listeners.get(promise_id, {}).values())
        for branch in branches:
            members, end = self._first_of(branch)
            wanted.update(members)
            ws.fill_branch(branch, members, end)
        for promise_id in wanted:
            if (found := self.promises.get(promise_id)) is not None:
                ws.fill_promise(found)
            if (task := self.tasks.get(promise_id)) is not None:
                ws.fill_task(task)
        ws.fill_absent(wanted)
        for task_id in only_tasks:
            if (task := self.tasks.get(task_id)) is not None:
                ws.fill_task(task)
            ws.tasks.setdefault(task_id, None)
        for execution_id in footprint.streams | footprint.stream_views:
            ws.fill_streams(execution_id, self.streams.get(execution_id))
        if footprint.appends:
            elements = next_elements(ws, footprint)
            answers = {answer_id(name) for name in elements}
            self._load(ws, Footprint(promises=answers, obligations=elements))
        for schedule_id in footprint.schedules | footprint.schedule_views:
            ws.fill_schedule(schedule_id, self.schedules.get(schedule_id))

    def _family_of(self, name: str) -> list[str]:
        """Open tasks below it, and others that it waits for."""
        found = (
            task.id
            for task in self.tasks.values()
            if task.state != "fulfilled"
            and task.id != name
            and (lies_within(task.id, name) or name in self.callbacks.get(task.id, {}))
        )
        return sorted(found)[: limits.mended_records_max]

    def _weigh(self, footprint: Footprint, bytes_max: int) -> None:
        named = footprint.promises | footprint.obligations | footprint.listened | footprint.branches_of
        found = [self.promises[key] for key in named | footprint.views if key in self.promises]
        if len(found) > weighed_from and sum(map(promise_bytes, found)) > bytes_max:
            raise TooMuchAtOnce(f"{len(found)} records hold more than {bytes_max} bytes")

    def _first_of(self, branch: str) -> tuple[list[str], str | None]:
        """What is read of a branch, and the last id if that is not all."""
        members = sorted(self.branches.get(branch, {}))
        sizes = (whole_promise_bytes(self.promises[member]) for member in members)
        count = min(limits.preload_records_max, fitting(sizes, limits.preload_bytes_max) + 1)
        return members[:count], members[count - 1] if count < len(members) else None

    def _save(self, ws: WorkingSet, clock: Millis | None) -> None:
        if ws.cleared:
            self._clear()
        if ws.forgotten:
            self._forget(ws.forgotten)
        for promise_id in ws.changed_promises:
            if (promise := ws.promises[promise_id]) is not None:
                if promise_id in ws.replaced and (before := self.promises.get(promise_id)) is not None:
                    self.branches.get(before.tags.get(tags.BRANCH, ""), {}).pop(promise_id, None)
                self.promises[promise_id] = promise
                if promise.state == "pending" and ws.is_watched(promise_id):
                    self.watched.add(promise_id)
                else:
                    self.watched.discard(promise_id)
                branch = promise.tags.get(tags.BRANCH)
                if branch is not None:
                    self.branches.setdefault(branch, {})[promise_id] = None
        for task_id in ws.changed_tasks:
            if (task := ws.tasks[task_id]) is not None:
                self._keep_unique(self.tasks.get(task_id), task)
                self.tasks[task_id] = task
                self.lanes.put(task, self.promises[task_id])
        for awaited, awaiter in ws.added_callbacks:
            self.callbacks.setdefault(awaited, {})[awaiter] = None
        for awaited, awaiter in ws.removed_callbacks:
            self.callbacks.get(awaited, {}).pop(awaiter, None)
        for execution_id in ws.changed_streams:
            if (streams := ws.streams[execution_id]) is not None:
                self.streams[execution_id] = streams
        for (promise_id, address), listener in ws.added_listeners.items():
            self.listeners.setdefault(promise_id, {})[address] = listener
        for promise_id in ws.discharged:
            self.callbacks.pop(promise_id, None)
            self.listeners.pop(promise_id, None)
        for schedule_id in ws.changed_schedules:
            entry = ws.schedules[schedule_id]
            if entry is None:
                self.schedules.pop(schedule_id, None)
            else:
                self.schedules[schedule_id] = entry
        for name in ws.changed_queues:
            if (queue := ws.queues[name]) is not None:
                self.queues[name] = queue
        self._clock = clock or self._clock
        ws.saved()

    def _forget(self, forgotten: Mapping[str, None]) -> None:
        for promise_id in forgotten:
            if (promise := self.promises.pop(promise_id, None)) is not None:
                self.branches.get(promise.tags.get(tags.BRANCH, ""), {}).pop(promise_id, None)
            task = self.tasks.pop(promise_id, None)
            unique = None if task is None or task.job is None else task.job.unique
            if unique is not None and self.uniques.get(unique) == promise_id:
                del self.uniques[unique]
            self.streams.pop(promise_id, None)
            self.lanes.drop(promise_id)
            self.watched.discard(promise_id)
            self.callbacks.pop(promise_id, None)
            self.listeners.pop(promise_id, None)
        for awaiters in self.callbacks.values():
            for awaiter in awaiters.keys() & forgotten.keys():
                del awaiters[awaiter]

    def _keep_unique(self, before: Task | None, after: Task) -> None:
        """A unique key has one holder, or what other stores refuse would pass here."""
        former = None if before is None or before.job is None else before.job.unique
        if former is not None and self.uniques.get(former) == after.id:
            del self.uniques[former]
        if after.job is not None and after.job.unique is not None and after.state != "fulfilled":
            holder = self.uniques.setdefault(after.job.unique, after.id)
            assert holder == after.id, f"{after.job.unique!r} is held by {holder!r} and {after.id!r}"

    def _find(self, scan: Scan) -> list[Any]:
        match scan:
            case ExecutionScan():
                return self.lanes.find(scan, self.promises)
            case ExecutionStretch():
                return self.lanes.end_of(scan)
            case ExecutionTally():
                return self.lanes.count(scan, self.promises)
            case HeldScan(groups):
                return memory_queues.held(self.tasks.values(), groups)
            case WaitingScan():
                return memory_queues.waiting(self.tasks.values(), scan.group, scan.limit)
            case QueueScan(page):
                used = {
                    queue
                    for task in self.tasks.values()
                    if is_queued(task)
                    and (task.state == "pending" or is_counted(task))
                    and (queue := queue_of(claim_group(task.target) or "")) is not None
                }
                return _stretch(used | self.queues.keys(), page)[: page.limit]
            case QueueCountScan(names, limit):
                return [
                    (name, *(min(count, limit) for count in memory_queues.count(self.tasks.values(), name)))
                    for name in names
                ]
            case PromiseScan(page, now, spans, wanted):
                return [
                    key
                    for key in _stretch(self.promises, page)
                    if _in_spans(self.promises[key], spans, now)
                    and _has_tags(self.promises[key].tags, wanted)
                ][: page.limit]
            case TaskScan(page):
                return [key for key in _stretch(self.tasks, page) if self._matches(self.tasks[key], scan)][
                    : page.limit
                ]
            case ScheduleScan(page, wanted):
                return [
                    key
                    for key in _stretch(self.schedules, page)
                    if _has_tags(self.schedules[key].schedule.promise_tags, wanted)
                ][: page.limit]
            case StretchScan(kind, page):
                keys = _stretch(getattr(self, kind), page)
                if scan.status is not None:
                    keys = [key for key in keys if _has_status(self.tasks[key], scan.status)]
                if scan.origin is not None:
                    keys = [key for key in keys if self._belongs(self.promises[key], (scan.origin,))]
                return keys[page.limit - 2 : page.limit]
            case TreeScan(roots, limit, str(after)):
                later = _stretch(self.promises, Page(after, "", limit))
                return [key for key in later if self._belongs(self.promises[key], roots)][:limit]
            case TreeScan(roots, limit):
                return [key for key in self.promises if self._belongs(self.promises[key], roots)][:limit]
            case ClaimScan(groups, now, limit):
                offered = [
                    _claim_order(place_of(task))
                    for task in self.tasks.values()
                    if task.state == "pending"
                    and not task.parked
                    and task.timeout_at > now
                    and task.priority <= scan.ceiling
                    and (group := claim_group(task.target)) in groups
                    and (has_entered(task) or group not in scan.entered)
                    and (has_entered(task) or key_of(task) not in scan.without.get(group or "", ()))
                    and (scan.scope is None or is_covered(task.id, scan.scope))
                    and (scan.after is None or _is_behind(place_of(task), scan.after))
                ]
                return [entry[-1] for entry in sorted(offered)[:limit]]
            case LeaseScan(pid, now):
                return sorted(
                    task.id
                    for task in self.tasks.values()
                    if task.state == "acquired" and task.pid == pid and task.timeout_at > now
                )

    def _belongs(self, promise: Promise, roots: tuple[str, ...]) -> bool:
        return promise.tags.get(tags.ORIGIN) in roots or any(lies_within(promise.id, root) for root in roots)

    def _matches(self, task: Task, scan: TaskScan) -> bool:
        return (
            _in_spans(task, scan.spans, scan.now)
            and (scan.target is None or task.target == scan.target)
            and (scan.group is None or poll_group(task.target) == scan.group)
            and (scan.pid is None or task.pid == scan.pid)
            and (scan.status is None or _has_status(task, scan.status))
            and _has_tags(self.promises[task.id].tags, scan.tags)
        )

    def _find_due(self, now: Millis, limit: int) -> Due:
        instants = (
            [(self.promises[promise_id].timeout_at, promise_id) for promise_id in self.watched],
            [(task.due_at, task.id) for task in self.tasks.values() if task.due_at is not None],
            [(entry.schedule.next_run_at, key) for key, entry in self.schedules.items()],
        )
        due = [sorted(pair for pair in kind if pair[0] <= now)[:limit] for kind in instants]
        taken = {pair for kind in due for pair in kind}
        ahead = [pair[0] for kind in instants for pair in kind if pair not in taken]
        promises, tasks, schedules = ([key for _, key in kind] for kind in due)
        return Due(promises, tasks, schedules, min(ahead, default=None))

    def _count_backlog(self, now: Millis, groups_max: int) -> Backlog:
        offered: dict[str, list[Millis]] = {}
        waiting = leases = 0
        for task in self.tasks.values():
            group = claim_group(task.target)
            if task.state == "acquired":
                leases += 1
            elif task.state == "pending" and (task.parked or group is None):
                waiting += 1
            elif task.state == "pending" and group is not None:
                offered.setdefault(group, []).append(task.created_at)
        groups = [GroupBacklog(group, len(created), min(created)) for group, created in offered.items()]
        groups.sort(key=lambda entry: (-entry.pending, entry.group))
        due = self._find_due(now, len(self.promises) + len(self.schedules) + 1)
        due_count = len(due.promises) + len(due.tasks) + len(due.schedules)
        states = [task.state for task in self.tasks.values()]
        suspended, halted = states.count("suspended"), states.count("halted")
        return Backlog(groups[:groups_max], leases, waiting, due_count, suspended, halted)


def _claim_order(place: ClaimPlace) -> tuple[int, int, Millis, Millis, str]:
    return -place.priority, place.turn, place.ready_at, place.created_at, place.id


def _is_behind(place: ClaimPlace, other: ClaimPlace) -> bool:
    return place.priority == other.priority and _claim_order(place) > _claim_order(other)


def _has_status(task: Task, status: JobStatus) -> bool:
    """As the record stands, whatever the time is."""
    if task.job is None:
        return False
    if task.state == "acquired":
        return status == ("CLAIMED" if task.started_at is None else "RUNNING")
    return status == (task.job.outcome if task.state == "fulfilled" else "PENDING")


def _stretch(ids: Iterable[str], page: Page) -> list[str]:
    until = page.until
    return sorted(
        key
        for key in ids
        if key > page.after and key.startswith(page.prefix) and (until is None or key <= until)
    )


def _in_spans(record: Promise | Task, spans: tuple[Span, ...], now: Millis) -> bool:
    return not spans or any(_in_span(record, span, now) for span in spans)


def _in_span(record: Promise | Task, span: Span, now: Millis) -> bool:
    timer = record.timer if isinstance(record, Task) else tags.is_timer(record.tags)
    return (
        record.state == span.state
        and (span.deadline == "any" or (record.timeout_at > now) == (span.deadline == "ahead"))
        and (span.timer is None or timer == span.timer)
    )


def _has_tags(found: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(found.get(key) == value for key, value in wanted.items())
