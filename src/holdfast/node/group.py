"""The work of one commit: a group of requests, or one sweep over what is due.

Both are generators of store steps, so they run unchanged on every store. One load serves the group;
each request is applied in the order of arrival; one save ends it. A request that asks for something the
load did not bring is applied again after a further load. So a record that cannot be read, which makes the one
load fail, is met again only by whoever needs it, and he alone is refused.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine import (
    ClaimPlan,
    Due,
    Footprint,
    Missing,
    Rules,
    Scan,
    WorkingSet,
    apply,
    footprint,
    scan_of,
    sweep_requests,
)
from holdfast.engine.scans import (
    ClaimScan,
    HeldScan,
    LeaseScan,
    PromiseScan,
    QueueCountScan,
    QueueScan,
    ScheduleScan,
    StretchScan,
    TaskScan,
    TreeScan,
    ending_at,
    is_search,
    stretch_of,
)
from holdfast.node.queue import group_searches_max
from holdfast.node.unreadable import Unread, unreadable_rest_ms
from holdfast.protocol.errors import DebugDisabled, InternalFault, Overloaded
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    DebugReset,
    DebugSnap,
    DebugStart,
    DebugStop,
    DebugTick,
    PromiseCreate,
    PromiseSettle,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    Request,
    RequestData,
    TaskClaim,
    TaskFence,
    TaskFulfill,
)
from holdfast.protocol.wire import refuse
from holdfast.store.interface import CorruptRecord, Find, FindDue, Load, LoadAll, Now, Save, Work

log = logging.getLogger("holdfast.node")

sweep_limit: Final = 1_000
reloads_max: Final = 1_000
fault_rest_ms: Final = 1_000
queue_kinds: Final = (QueueGet, QueueSet, QueuePause, QueueSearch)
plain_kinds: Final = frozenset({PromiseCreate, PromiseSettle, TaskFence, TaskFulfill})
_too_many_searches: Final = refuse(
    Overloaded(f"One commit carries out {group_searches_max} searches, and there are more in this array")
)
debug_kinds: Final = (DebugStart, DebugStop, DebugReset, DebugSnap, DebugTick)


class Outcome(Struct, frozen=True):
    """What a commit leaves to be done once it is durable."""

    replies: list[Reply]
    messages: list[Message]
    next_due: Millis | None
    now: Millis
    is_due_new: bool = True  # `next_due` is of something that this commit has written
    unread: Sequence[Unread] = ()


class Moment(Struct, frozen=True):
    """What a group has to know about the node at the instant it runs."""

    reading: Millis  # of the node's clock
    rules: Rules
    debug: bool
    waiting: Sequence[Message] = ()
    left_out: frozenset[RequestData] = frozenset()  # of what is due: it could not be read a moment ago


def run_group(requests: Sequence[Request], moment: Moment) -> Work[Outcome]:
    commit = _Commit(moment)
    replies: list[Reply] = []
    with suppress(CorruptRecord):
        yield Load(commit.ws, footprint(requests))
    yield from commit.look_at_the_clock()
    searches = 0
    for request in requests:
        reply = commit.try_at_once(request)
        if reply is None and is_search(request.data):
            searches += 1
            if searches > group_searches_max:
                reply = _too_many_searches
        if reply is None:
            reply = yield from commit.answer(request, commit.instant_of(request))
        replies.append(reply)
    yield from commit.save()
    return commit.outcome(replies)


def run_sweep(moment: Moment) -> Work[Outcome]:
    """Carry out what is due, up to a limit; `next_due` says when to come back."""
    commit = _Commit(moment)
    yield from commit.look_at_the_clock()
    due: Due = yield FindDue(commit.now, sweep_limit)
    replies = yield from commit.sweep(due, commit.now)
    yield from commit.save()
    written_due = commit.next_due
    commit.note_due(due.next_at)
    is_due_new = written_due is not None and commit.next_due == written_due
    carried_out = sum(reply.status == 200 for reply in replies)
    is_stuck = not carried_out and not due.is_empty
    if (is_stuck or carried_out + len(commit.unread) < len(replies)) and commit.next_due is not None:
        # Something due cannot be carried out. Keep trying, but do not spin on it.
        commit.next_due = max(commit.next_due, commit.now + fault_rest_ms)
    if commit.unread or moment.left_out:
        commit.note_due(commit.now + unreadable_rest_ms)
    return replace(commit.outcome([]), is_due_new=is_due_new)


class _Commit:
    """One transaction's working set, and when the node must look again because of it."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.ws = WorkingSet(moment.rules)
        self.waiting = {message.key: message for message in moment.waiting}
        self.next_due: Millis | None = None
        self.now = moment.reading
        self.unread: list[Unread] = []

    def look_at_the_clock(self) -> Work[None]:
        """Once, after the first load and before anything is decided: a commit has one instant."""
        self.now = yield Now(self.moment.reading)

    def instant_of(self, request: Request) -> Millis:
        """The one clock of the commit; only a node in debug mode lets a request bring its own."""
        return request.debug_time if self.moment.debug and request.debug_time is not None else self.now

    def outcome(self, replies: list[Reply]) -> Outcome:
        return Outcome(replies, self.ws.messages, self.next_due, self.now, unread=self.unread)

    def note_due(self, instant: Millis | None) -> None:
        if instant is not None and (self.next_due is None or instant < self.next_due):
            self.next_due = instant

    def save(self) -> Work[None]:
        if self.ws.is_dirty:
            self.note_due(self.ws.earliest_due())
            yield Save(self.ws, None if self.moment.debug else self.now)

    def try_at_once(self, request: Request) -> Reply | None:
        """The short way for what needs records alone: nearly always the first load has brought them all."""
        if type(request.data) not in plain_kinds:
            return None
        try:
            return apply(request, self.ws, self.instant_of(request))
        except Exception:  # it was undone; the long way loads what is missing, or says what is wrong
            return None

    def answer(self, request: Request, now: Millis) -> Work[Reply]:
        run = self.debug if isinstance(request.data, debug_kinds) else self.carry_out
        try:
            return (yield from run(request, now))
        except CorruptRecord as error:
            self.unread.append((request.data, error))
            return refuse(error.as_seen_within(request.scope))

    def carry_out(self, request: Request, now: Millis) -> Work[Reply]:
        ws = self.ws
        scan = scan_of(request.data, now)
        if scan is not None:
            yield from self.save()  # a scan sees only what the store has
            scan = yield from self._within_reach(scan)
            ws.found = yield Find(scan)
            yield Load(ws, _found_footprint(scan, set(ws.found)))
        if isinstance(request.data, TaskClaim):
            yield from self._plan_claim(request.data, request.scope, now)
        elif isinstance(request.data, queue_kinds):
            yield from self._count_queues(request.data)
        for _ in range(reloads_max):
            try:
                return apply(request, ws, now)
            except Missing as missing:
                yield Load(ws, missing.footprint)
            except Exception:
                log.exception("a request failed and was undone", extra={"kind": request.kind})
                return refuse(InternalFault(f"{request.kind} failed"))
        log.error("a request asked for more and more records", extra={"kind": request.kind})
        return refuse(InternalFault(f"{request.kind} could not be loaded"))

    def _within_reach(self, scan: Scan) -> Work[Scan]:
        """A search looks at so many records and no more: meanwhile nobody else may commit."""
        self.ws.until = None
        stretch = stretch_of(scan)
        if stretch is not None:
            ends: list[str] = yield Find(stretch)
            if len(ends) == 2:
                self.ws.until = ends[0]
                return ending_at(scan, ends[0])
        return scan

    def _plan_claim(self, data: TaskClaim, scope: str | None, now: Millis) -> Work[None]:
        """Find what the claim can be given. The records of queues with limits were locked with the load."""
        ws = self.ws
        yield from self.save()
        named = {name for group in data.groups if (name := queue_of(group)) is not None}
        unknown = {name for name in named if not ws.holds_queue(name)}
        if unknown:
            yield Load(ws, Footprint(gates=unknown))
        ws.plan = plan = ClaimPlan(data, scope, ws, now)
        if plan.held_scan is not None:
            plan.count((yield Find(plan.held_scan)))
        while (scan := plan.next_scan()) is not None:
            found: list[str] = yield Find(scan)
            unread = yield from self._load_claimable(data, found)
            plan.consider(found, ws, unread)
        if plan.expired:
            yield Load(ws, Footprint(obligations=set(plan.expired)))

    def _load_claimable(self, data: TaskClaim, found: Sequence[str]) -> Work[set[str]]:
        """Answers with what cannot be read: one such task must not keep all others from being claimed."""
        unread: set[str] = set()
        try:
            yield Load(self.ws, Footprint(branches_of=set(found)))
        except CorruptRecord:
            for task_id in found:
                try:
                    yield Load(self.ws, Footprint(branches_of={task_id}))
                except CorruptRecord as error:
                    self.unread.append((data, error))
                    unread.add(task_id)
        return unread

    def _count_queues(self, data: QueueGet | QueueSet | QueuePause | QueueSearch) -> Work[None]:
        yield from self.save()
        names = tuple(self.ws.found) if isinstance(data, QueueSearch) else (data.name,)
        rows: list[tuple[str, int, int, int, int]] = yield Find(QueueCountScan(names))
        self.ws.counts = {
            name: (pending, delayed, claimed, running) for name, pending, delayed, claimed, running in rows
        }

    def sweep(self, due: Due, now: Millis) -> Work[list[Reply]]:
        requests = [each for each in sweep_requests(due) if each.data not in self.moment.left_out]
        with suppress(CorruptRecord):
            yield Load(self.ws, footprint(requests))
            tasks = map(self.ws.tasks.get, due.tasks)
            ending = {task.id for task in tasks if task is not None and task.job is not None}
            if ending:  # many of these may end now, and then whoever waits for them is needed
                yield Load(self.ws, Footprint(obligations=ending))
        replies: list[Reply] = []
        for request in requests:
            reply = yield from self.answer(request, now)
            replies.append(reply)
        return replies

    def debug(self, request: Request, now: Millis) -> Work[Reply]:
        if not self.moment.debug:
            return refuse(DebugDisabled(f"{request.kind} needs debug mode"))
        if isinstance(request.data, DebugSnap):
            yield LoadAll(self.ws)
            produced = {message.key: message for message in self.ws.messages}
            self.ws.waiting = [*(self.waiting | produced).values()]
        reply = apply(request, self.ws, now)
        if isinstance(request.data, DebugReset):
            self.waiting.clear()
            yield from self.save()
        if isinstance(request.data, DebugTick) and reply.status == 200:
            healthy = yield from self._tick(request.data.time)
            return reply if healthy else refuse(InternalFault("the sweep failed"))
        return reply

    def _tick(self, time: Millis) -> Work[bool]:
        """One whole sweep, kind by kind, each seeing what the one before it left."""
        healthy = True
        for kind in ("promises", "tasks", "schedules"):
            done: set[str] = set()
            while True:
                yield from self.save()
                due: Due = yield FindDue(time, sweep_limit)
                ids = [key for key in getattr(due, kind) if key not in done]
                if not ids:
                    break
                done.update(ids)
                none: list[str] = []
                only = {"promises": none, "tasks": none, "schedules": none, kind: ids}
                replies = yield from self.sweep(Due(**only, next_at=None), time)
                healthy = healthy and all(reply.status == 200 for reply in replies)
        return healthy


def _found_footprint(scan: Scan, found: set[str]) -> Footprint:
    match scan:
        case TreeScan() | StretchScan():
            raise AssertionError("no request asks for that")
        case ScheduleScan():
            return Footprint(schedule_views=found)
        case QueueScan():
            return Footprint(queue_views=found)
        case LeaseScan():
            return Footprint(promises=found)
        case PromiseScan() | TaskScan() | ClaimScan():  # here, offers to be repeated
            return Footprint(views=found)
        case HeldScan() | QueueCountScan():
            raise AssertionError("counts are no ids")
