"""The work of one commit: a group of requests, or one sweep over what is due.

Both are generators of store steps, so they run unchanged on every store. One load serves the group; each
request is applied in the order of arrival; one save ends it. A request that needs more than was loaded is
applied again after a further load. So a record that cannot be read refuses only the requests that need it.
"""

import logging
from collections.abc import Callable, Sequence
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
    WorkingSet,
    apply,
    earliest_due,
    footprint,
    scan_of,
    sweep_requests,
)
from holdfast.engine.pages import found_footprint
from holdfast.engine.scans import HeldRow, class_of, scope_of
from holdfast.node.budget import (
    ArrayBudget,
    Budget,
    QueueCounts,
    claim_steps,
    commit_steps_max,
    record_steps,
)
from holdfast.node.changes import NO_CHANGES, Changes, note_changes
from holdfast.node.crashes import Crash, HaltedByCrashes, find_crashes, find_stuck
from holdfast.node.looking import Look, look
from holdfast.node.queue import Submission
from holdfast.node.rates import Tally, shortest_keep, tally
from holdfast.node.unreadable import Unread, unreadable_rest_ms
from holdfast.node.waiting_claims import TakenClaim, carry_out_waiting, load_gates
from holdfast.protocol import limits
from holdfast.protocol.errors import AnswerTooLarge, DebugDisabled, InternalFault, Overloaded
from holdfast.protocol.messages import Message, newest_by_key
from holdfast.protocol.records import Millis
from holdfast.protocol.repeatable import may_be_repeated
from holdfast.protocol.replies import EventsReply, Reply, StreamReply
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
    StreamAppend,
    TaskClaim,
    TaskFence,
    TaskFulfill,
)
from holdfast.protocol.wire import refuse
from holdfast.store.interface import (
    CorruptRecord,
    Find,
    FindDue,
    Load,
    LoadAll,
    Now,
    Save,
    TookTooLong,
    TooMuchAtOnce,
    Work,
)

log = logging.getLogger("holdfast.node")

# Whoever waits is answered after the sweep that is under way: it must be short.
sweep_limit: Final = 500
sweep_part: Final = 50
sweep_steps_max: Final = 16_000
sweep_s_max: Final = 0.05
reloads_max: Final = 1_000
claim_read_at_once: Final = 32  # nobody knows how large records are before they are read
fault_rest_ms: Final = 1_000
queue_kinds: Final = (QueueGet, QueueSet, QueuePause, QueueSearch)
plain_kinds: Final = frozenset({PromiseCreate, PromiseSettle, StreamAppend, TaskFence, TaskFulfill})
_too_much: Final = refuse(Overloaded("This array asks for more than one commit has time for"))
_too_large: Final = refuse(AnswerTooLarge("The records before this one have used up the room of the answer"))
_too_heavy: Final = refuse(
    Overloaded(f"The records that this array names hold more than {limits.commit_bytes_max} bytes")
)
nobody: Final[frozenset[int]] = frozenset()
debug_kinds: Final = (DebugStart, DebugStop, DebugReset, DebugSnap, DebugTick)

Stopwatch = Callable[[], float]  # in seconds


def _stands_still() -> float:
    return 0.0


class CommitOutcome(Struct, frozen=True):
    """What a commit leaves to be done once it is durable."""

    replies: list[Reply]
    messages: list[Message]
    next_due: Millis | None
    now: Millis
    is_due_new: bool = True  # `next_due` is of something that this commit has written
    unread: Sequence[Unread] = ()
    put_off: frozenset[int] = frozenset()  # which parts of the group were not carried out
    crashes: Sequence[Crash] = ()
    stuck: Sequence[HaltedByCrashes] = ()
    changes: Changes | None = None  # None: something, and nobody knows what
    tally: Tally | None = None  # of what began and ended
    shortest_keep_ms: int | None = None  # of what ended and says how long it is kept
    granted: Sequence[Reply | None] = ()  # to the claims that went along; None: not carried out


class CommitContext(Struct, frozen=True):
    """What a group has to know about the node at the instant it runs."""

    reading: Millis  # of the node's clock
    rules: Rules
    debug: bool
    waiting: Sequence[Message] = ()
    left_out: frozenset[RequestData] = frozenset()  # of what is due: it could not be read a moment ago
    stopwatch: Stopwatch = _stands_still
    tells_changes: bool = False
    claims: Sequence[TakenClaim] = ()  # that wait for what this commit offers: see waiting_claims.py


def run_group(
    requests: Sequence[Request], context: CommitContext, group: Sequence[Submission] = ()
) -> Work[CommitOutcome]:
    """`group` says what came together; otherwise all of them did. What there is no time for is put off."""
    commit = Commit(context)
    try:
        needed = group[0].footprint if len(group) == 1 else footprint(requests)
        yield Load(commit.ws, needed, limits.commit_bytes_max)
    except CorruptRecord:
        pass
    except TooMuchAtOnce:  # each request loads its own, as long as there is room
        commit.is_crowded = True
    yield from commit.look_at_the_clock()
    replies: list[Reply] = []
    if not group:
        yield from commit.answer_array(requests, replies)
        yield from commit.save()
        return commit.outcome(replies)
    put_off: set[int] = set()
    budget: Budget | None = None
    whole = ArrayBudget(len(requests), commit.spent)
    for number, part in enumerate(group):
        if budget is None and part.flow is not None:  # others are free of it, until something is put off
            budget = Budget(len(requests))
        is_full = whole.is_over(commit.spent) or (commit.is_crowded and commit.is_full)
        if not is_full and (budget is None or budget.admits(part, commit.spent)):
            if len(part.requests) != 1 or not commit.answer_at_once(part.requests[0], replies):
                yield from commit.answer_array(part.requests, replies)
        else:
            put_off.add(number)
    if context.claims:
        yield from carry_out_waiting(commit, context.claims)
    yield from commit.save()
    return commit.outcome(replies, frozenset(put_off))


def run_sweep(context: CommitContext) -> Work[CommitOutcome]:
    """Carry out what is due, up to a limit of number, work and time; `next_due` says when to come back."""
    commit = Commit(context)
    yield from commit.look_at_the_clock()
    due: Due = yield FindDue(commit.now, sweep_limit)
    left = yield from commit.sweep_some(due)
    replies, unread_count = commit.swept, len(commit.unread)
    crashes = find_crashes(commit.ws, due.tasks, commit.now)
    stuck = find_stuck(commit.ws, due.tasks, commit.now)
    if context.claims:
        yield from carry_out_waiting(commit, context.claims)
    yield from commit.save()
    written_due = commit.next_due
    commit.note_due(commit.now if left else due.next_at)
    is_due_new = written_due is not None and commit.next_due == written_due
    carried_out = sum(reply.status == 200 for reply in replies)
    is_stuck = not carried_out and not due.is_empty
    if (is_stuck or carried_out + unread_count < len(replies)) and commit.next_due is not None:
        # Something due cannot be carried out. Keep trying, but do not spin on it.
        commit.next_due = max(commit.next_due, commit.now + fault_rest_ms)
    if commit.unread or context.left_out:
        commit.note_due(commit.now + unreadable_rest_ms)
    return replace(commit.outcome([]), is_due_new=is_due_new, crashes=crashes, stuck=stuck)


def _shown(reply: Reply) -> int:
    """The steps that it took to show a page of what its request has named together."""
    if isinstance(reply.data, EventsReply):
        return len(reply.data.events)
    return len(reply.data.promises) if isinstance(reply.data, StreamReply) else 0


class Commit:
    """One transaction's working set, and when the node must look again because of it."""

    def __init__(self, context: CommitContext) -> None:
        self.context = context
        self.ws = WorkingSet(context.rules)
        self.waiting = newest_by_key(context.waiting) if context.waiting else {}
        self.next_due: Millis | None = None
        self.now = context.reading
        self.unread: list[Unread] = []
        self.swept: list[Reply] = []
        self.looked = 0  # steps of scans
        self.is_crowded = False  # its requests name more than there is room for
        self.changes: Changes | None = Changes() if context.tells_changes else NO_CHANGES
        self.tally: Tally | None = None
        self.shortest_keep_ms: int | None = None
        self.granted: list[Reply | None] = [None] * len(context.claims)
        self._counts = QueueCounts()

    @property
    def is_full(self) -> bool:
        return self.is_crowded and self.ws.read_bytes > limits.commit_bytes_max

    @property
    def spent(self) -> int:
        """The steps that this commit has taken: see budget.py."""
        return self.looked + self._counts.steps + self.ws.handled * record_steps

    def look_at_the_clock(self) -> Work[None]:
        """Once, after the first load and before anything is decided: a commit has one instant."""
        self.now = yield Now(self.context.reading)

    def instant_of(self, request: Request) -> Millis:
        """The one clock of the commit; only a node in debug mode lets a request bring its own."""
        return request.debug_time if self.context.debug and request.debug_time is not None else self.now

    def outcome(self, replies: list[Reply], put_off: frozenset[int] = nobody) -> CommitOutcome:
        return CommitOutcome(
            replies,
            self.ws.messages,
            self.next_due,
            self.now,
            unread=self.unread,
            put_off=put_off,
            changes=self.changes,
            tally=self.tally,
            shortest_keep_ms=self.shortest_keep_ms,
            granted=self.granted,
        )

    def note_due(self, instant: Millis | None) -> None:
        if instant is not None and (self.next_due is None or instant < self.next_due):
            self.next_due = instant

    def save(self) -> Work[None]:
        if self.ws.is_dirty:
            self.note_due(earliest_due(self.ws))
            if self.changes is NO_CHANGES:
                self.changes = None
            elif self.changes is not None:
                note_changes(self.ws, self.changes)
            if self.ws.changed_tasks:
                self.tally = tally(self.ws, self.tally)
                self.shortest_keep_ms = shortest_keep(self.ws, self.shortest_keep_ms)
            if self.ws.changed_tasks or self.ws.cleared:
                self._counts.forget()
            yield Save(self.ws, None if self.context.debug else self.now)

    def answer_array(self, requests: Sequence[Request], replies: list[Reply]) -> Work[None]:
        """Their replies go behind those that are there."""
        budget, before = ArrayBudget(len(requests), self.spent), len(replies)
        for request in requests:
            reply: Reply | None = None
            if self.is_crowded and self.is_full and len(replies) > before:
                reply = _too_large if may_be_repeated(request) else _too_heavy
            elif budget.refuses(request.data, self.spent) and not self.context.debug:
                reply = _too_much  # whoever debugs has no neighbours to wait for him
            elif len(requests) > 1 and self.answer_at_once(request, replies):  # one alone was tried before
                continue
            if reply is None:
                reply = yield from self.answer(request, self.instant_of(request))
            replies.append(reply)

    def answer_at_once(self, request: Request, replies: list[Reply]) -> bool:
        """The short way for what needs records alone: nearly always the first load has brought them all."""
        if type(request.data) not in plain_kinds or class_of(request.data) not in (None, "wide"):
            return False
        try:
            now = self.instant_of(request) if self.context.debug else self.now
            replies.append(apply(request, self.ws, now))
        except Exception:  # it was undone; the long way loads what is missing, or says what is wrong
            return False
        return True

    def answer(self, request: Request, now: Millis) -> Work[Reply]:
        run = self.debug if isinstance(request.data, debug_kinds) else self.carry_out
        try:
            return (yield from run(request, now))
        except CorruptRecord as error:
            self.unread.append((request.data, error))
            return refuse(error.as_seen_within(request.scope))
        except TookTooLong as error:
            self.looked += commit_steps_max
            return refuse(error)

    def carry_out(self, request: Request, now: Millis) -> Work[Reply]:
        ws = self.ws
        scan = scan_of(request.data, now)
        if isinstance(scan, Look):
            # What is only shown to one caller is not kept until the commit is over.
            ws = WorkingSet(ws.rules)
            yield from self.save()  # a scan sees only what the store has
            self.looked += yield from look(scan, scope_of(request.data, request.scope), ws)
        elif scan is not None:
            yield from self.save()
            ws.found = yield Find(scan)
            yield Load(ws, found_footprint(scan, set(ws.found)))
        if isinstance(request.data, TaskClaim):
            yield from self._plan_claim(request.data, request.scope, now)
        elif isinstance(request.data, queue_kinds):
            yield from self.save()
            names = ws.found if isinstance(request.data, QueueSearch) else [request.data.name]
            yield from self._counts.count(names, ws)
        ws.families.clear()
        for _ in range(reloads_max):
            try:
                reply = apply(request, ws, now)
                self.looked += _shown(reply)
                if ws.forgotten or ws.replaced:  # what comes next finds them gone, or as they are now
                    yield from self.save()
                return reply
            except Missing as missing:
                if missing.footprint.turns or missing.footprint.families:
                    yield from self.save()  # these are found in the store
                yield Load(ws, missing.footprint)
                self.is_crowded = self.is_crowded or ws.read_bytes > limits.commit_bytes_max
            except Exception:
                log.exception("a request failed and was rolled back", extra={"kind": request.kind})
                return refuse(InternalFault(f"{request.kind} failed"))
        log.error("a request kept asking for more records and was refused", extra={"kind": request.kind})
        return refuse(InternalFault(f"{request.kind} could not be loaded"))

    def _plan_claim(self, data: TaskClaim, scope: str | None, now: Millis) -> Work[None]:
        """Find what the claim can be given. The records of queues with limits were locked with the load."""
        ws = self.ws
        yield from self.save()
        yield from load_gates(data.groups, ws)
        ws.plan = plan = ClaimPlan(data, scope, ws, now)
        held: list[HeldRow] = [] if plan.held_scan is None else (yield Find(plan.held_scan))
        self.looked += sum(counted for _, _, counted, _ in held)
        plan.count(held)
        while (scan := plan.next_scan()) is not None:
            found: list[str] = yield Find(scan)
            self.looked += claim_steps if scope is not None or scan.without else len(found)
            for start in range(0, len(found), claim_read_at_once):
                if plan.is_full:
                    break
                piece = found[start : start + claim_read_at_once]
                unread = yield from self._load_claimable(data, piece)
                plan.consider(piece, ws, unread)
            plan.end_round(len(found))
        if plan.expired:
            yield Load(ws, Footprint(obligations=set(plan.expired)))

    def _load_claimable(self, data: TaskClaim, found: Sequence[str]) -> Work[set[str]]:
        """Answers with what cannot be read: one such task must not keep all others from being claimed."""
        unread: set[str] = set()
        known = set(data.known)
        try:
            yield Load(self.ws, Footprint(branches_of=set(found), known=known))
        except CorruptRecord:
            for task_id in found:
                try:
                    yield Load(self.ws, Footprint(branches_of={task_id}, known=known))
                except CorruptRecord as error:
                    self.unread.append((data, error))
                    unread.add(task_id)
        return unread

    def sweep_some(self, due: Due) -> Work[int]:
        """A part of each kind in turn, until this has taken long enough. Answers how many were left."""
        left = len(due.promises) + len(due.tasks) + len(due.schedules)
        began = self.context.stopwatch()
        for start in range(0, sweep_limit, sweep_part):
            end = start + sweep_part
            part = Due(due.promises[start:end], due.tasks[start:end], due.schedules[start:end], None)
            requests = yield from self._load_due(part)
            left -= len(sweep_requests(part)) - len(requests)
            for request in requests:
                if self.swept and self._has_swept_enough(began):
                    return left
                self.swept.append((yield from self.answer(request, self.now)))
                left -= 1
        return left

    def _has_swept_enough(self, began: float) -> bool:
        return (
            self.spent >= sweep_steps_max
            or self.ws.read_bytes >= limits.sweep_bytes_max
            or self.context.stopwatch() - began >= sweep_s_max
        )

    def sweep(self, due: Due, now: Millis) -> Work[list[Reply]]:
        requests = yield from self._load_due(due)
        replies: list[Reply] = []
        for request in requests:
            reply = yield from self.answer(request, now)
            replies.append(reply)
        return replies

    def _load_due(self, due: Due) -> Work[list[Request]]:
        requests = [each for each in sweep_requests(due) if each.data not in self.context.left_out]
        with suppress(CorruptRecord, TooMuchAtOnce):  # then each loads its own
            yield Load(self.ws, footprint(requests), limits.sweep_bytes_max)
            tasks = map(self.ws.tasks.get, due.tasks)
            ending = {task.id for task in tasks if task is not None and task.job is not None}
            if ending:  # many of these may end now, and then whoever waits for them is needed
                yield Load(self.ws, Footprint(obligations=ending))
        return requests

    def debug(self, request: Request, now: Millis) -> Work[Reply]:
        if not self.context.debug:
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
                only: dict[str, list[str]] = {"promises": [], "tasks": [], "schedules": [], kind: ids}
                replies = yield from self.sweep(Due(**only, next_at=None), time)
                healthy = healthy and all(reply.status == 200 for reply in replies)
        return healthy
