"""A node: one process that runs the engine on a store.

1. Nobody is answered before the commit that holds the request is durable.
2. Requests that arrive while a commit is on its way form the next group. A group is bounded, and so is the
   queue in front of it; past that a request is refused with 429 and has changed nothing. A store that many
   nodes share takes several groups at once, as long as they do not meet.
3. Timers are exact: the node knows the next instant at which something is due and sleeps until then.
4. Messages leave after their commit, before its replies, straight from memory. Other nodes are told of them
   after that.
5. `stop` finishes and answers everything that was accepted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random, SystemRandom
from time import perf_counter
from typing import Final, Self

from holdfast.engine import Rules
from holdfast.engine.queue_use import QueueUse
from holdfast.engine.scans import ClaimPlace
from holdfast.node.bulk import ADDRESS, BulkRunner
from holdfast.node.changes import Changes
from holdfast.node.clock import Alarm, Clock, SteadyClock, far_clock, wall_clock
from holdfast.node.cluster import Cluster
from holdfast.node.crashes import tell_crashes, tell_stuck
from holdfast.node.foreign_writes import ForeignWriteWatcher, Watched
from holdfast.node.group import CommitContext, CommitOutcome, Stopwatch, run_group, run_sweep
from holdfast.node.health import failure_of
from holdfast.node.janitor import Janitor
from holdfast.node.message_router import MessageRouter, WorkerMailbox, mailbox_capacity
from holdfast.node.observed import Observed
from holdfast.node.patience import Patience
from holdfast.node.queue import RequestQueue, Submission
from holdfast.node.reads import (
    NodeStats,
    read_backlog,
    read_offers,
    read_promises,
    read_pulse,
    read_queue_use,
    write_pulse,
)
from holdfast.node.retention import RetentionProgress, collect_page
from holdfast.node.unreadable import Unreadable
from holdfast.node.waiting_claims import Granted, IdleWorker, TakenClaim, WaitingClaims
from holdfast.protocol import limits
from holdfast.protocol.errors import Overloaded, Refusal, Stopping
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import DebugReset, DebugSnap, DebugStart, DebugStop, Request
from holdfast.protocol.wire import refuse
from holdfast.store.interface import Backlog, Handover, RunsApart, Store, Work

log = logging.getLogger("holdfast.node")

queue_requests_max: Final = 20_000
timer_sleep_s_max: Final = 60.0  # the wall clock may be set; look at it at least this often
store_rest_ms: Final = 1_000


class Node:
    """
    async with Node(SqliteStore("holdfast.db")) as node:
        [reply] = await node.request([request])
    """

    def __init__(
        self,
        store: Store,
        *,
        rules: Rules | None = None,
        clock: Clock = wall_clock,
        debug: bool = False,
        chance: Random | None = None,
        retention_ms: int | None = None,
        sweeps: bool = True,
        stopwatch: Stopwatch = perf_counter,
        timer_sleep_s_max: float = timer_sleep_s_max,
    ) -> None:
        self.router = MessageRouter()
        self._claims = WaitingClaims(self.router)
        self.stats = NodeStats()
        self._store = store
        self._rules = rules or Rules()
        self._read_clock = clock
        self._debug = debug
        self._queue = RequestQueue()
        self._lanes = 1 if debug else store.parallel_groups
        self._under_way = 0
        self._busy: set[str] = set()  # the roots of the groups that are under way, where there can be several
        self._awake = self._sweeping = self._swept_last = self._stopping = False
        self._patience = Patience(self._wake)
        self._stopwatch, self._unreadable = stopwatch, Unreadable()
        bus = None if debug else store.bus
        self.observed = Observed(store, self.router)
        self._cluster = None if bus is None else Cluster(self, bus, chance or SystemRandom())
        self._foreign_writes = (
            ForeignWriteWatcher(self, store) if isinstance(store, Watched) and not debug else None
        )
        self.watch_foreign_writes(self.observed.feed.note_unknown)
        self._janitor = None if debug or not sweeps else Janitor(self.collect_some, retention_ms)
        self._bulk = BulkRunner(self, is_idle=debug or not sweeps)
        self._idle = asyncio.Event()
        self._idle.set()
        self._alarm = Alarm(lambda: self._clock.now(), self.want_sweep, timer_sleep_s_max)
        self._sweep_wanted, self._sweeps = False, sweeps  # not: beside a node that does

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = self._new_clock(await self._store.open(), self._loop.time)
        if self._cluster is not None:
            await self._cluster.start()
        if self._foreign_writes is not None:
            await self._foreign_writes.start()
        if self._janitor is not None:
            self._janitor.start()
        self._bulk.start()
        self.want_sweep()  # what fell due while nobody was here

    def _new_clock(self, latest: Millis, beat: Callable[[], float]) -> SteadyClock:
        if self._store.keeps_time:  # whoever sets the clock of this machine must not matter
            return far_clock(lambda: latest, lambda: int(beat() * 1000))
        return SteadyClock(self._read_clock, latest, beat)

    async def stop(self) -> None:
        """Take nothing new; finish and answer what was accepted; close the store."""
        await self._bulk.stop()
        if self._stopping:
            return
        self._stopping, self._sweep_wanted = True, False
        self._alarm.stop()
        for background in (self._foreign_writes, self._janitor):
            if background is not None:
                await background.stop()
        await self._idle.wait()
        await self.observed.stop()
        if self._cluster is not None:
            await self._cluster.stop()
        await self._store.close()

    def connect(self, group: str, member: str, capacity: int = mailbox_capacity) -> WorkerMailbox:
        """Receive the messages for a worker of a group, from now on and what waited for it."""
        if self._cluster is not None:
            self._cluster.announce_worker(group)
        return self.router.connect(group, member, capacity)

    def leave_claim(self, worker: IdleWorker) -> Callable[[], None]:
        """Claim for a worker in the commit that offers it a task. Returns a way to withdraw."""
        return (lambda: None) if self._debug else self._claims.leave(worker)

    def expect_foreign_write(self, due: Millis | None) -> None:
        """Somebody else is about to commit to our store what will be due at an instant."""
        if self._foreign_writes is not None and not self._stopping:
            self._foreign_writes.expect()
            if due is not None:
                self.note_due(due)

    def watch_foreign_writes(self, look: Callable[[], Awaitable[None]]) -> None:
        """Look whenever somebody else has committed to our store: they cannot tell us what they did."""
        if self._foreign_writes is not None:
            self._foreign_writes.watchers.append(look)

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        """Apply requests in order in one commit; return their replies once it is durable."""
        return await self.submit(requests)

    def submit(self, requests: Sequence[Request]) -> "asyncio.Future[list[Reply]]":
        """The same, with a future to await. It may be dropped: what was asked for is done all the same."""
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        submission = Submission(requests, future)
        refusal = self._admission(submission)
        if refusal is not None:
            future.set_result([refuse(refusal)] * len(requests))
        else:
            self._queue.put(submission)
            self._wake()
        return future

    def request_apart(self, requests: Sequence[Request]) -> list[Reply]:
        """Heartbeats, from a thread that may wait, while our own loop stands still. They make no messages,
        and what they leave is due later than we think: that costs a look."""
        assert isinstance(self._store, RunsApart), "other stores need a loop"
        context = CommitContext(self._clock.peek(), self._rules, self._debug)
        return self._store.run_apart(lambda: run_group(requests, context)).replies

    def now(self) -> Millis:
        """What the clock shows by which everything here is judged. Any thread may ask."""
        return self._clock.peek()

    async def offers(self, group: str, limit: int) -> list[Execute]:
        """Tasks that wait for a worker of a group, best first, as messages to be sent again."""
        return (await self.offers_after(None, group, limit))[0]

    async def offers_after(
        self, place: ClaimPlace | None, group: str, limit: int
    ) -> tuple[list[Execute], ClaimPlace | None]:
        """The same from a place on, and the place to go on from, if there may be more."""
        now = self._clock.now()
        return await self._store.transact(lambda: read_offers(group, now, limit, place))

    async def backlog(self) -> Backlog:
        now = self._clock.now()
        return await self._store.transact(lambda: read_backlog(now))

    async def queue_use(self, name: str) -> QueueUse:
        now = self._clock.now()
        return await self._store.transact(lambda: read_queue_use(name, now))

    async def check(self) -> None:
        """Raise if the store cannot be read; or written, if the latest commit failed.

        Whoever is told so may send nothing more: the next commit is not to be waited for.
        """
        await self._store.transact(read_pulse)
        if not self.stats.store_healthy:
            now = self._clock.now()
            await self._store.transact(lambda: write_pulse(now, self._debug))
            self.stats.store_healthy = True

    async def find_promises(self, promise_ids: Sequence[str]) -> list[Promise]:
        """Those of these promises that exist, as they are now."""
        now = self._clock.now()
        return await self._store.transact(lambda: read_promises(promise_ids, now))

    async def collect_garbage(self, older_than_ms: int, limit: int | None = None) -> int:
        """Forget whole executions that have been settled for longer than this; at least `limit` promises,
        if there are as many. A little at a time: requests go on meanwhile. Answers how many promises went.
        """
        progress = RetentionProgress()
        while progress.after is not None and (limit is None or progress.forgotten < limit):
            progress = await self.collect_some(progress, older_than_ms)
        return progress.forgotten

    async def collect_some(
        self, progress: RetentionProgress, older_than_ms: int | None, *, dry_run: bool = False
    ) -> RetentionProgress:
        """One page of that, in one short transaction. `dry_run` only counts."""
        reading = self._clock.now()
        work = partial(collect_page, progress, older_than_ms, reading, dry_run=dry_run)
        done = await self._store.transact(work)
        if not dry_run:
            self.stats.forgotten += done.forgotten - progress.forgotten
            self.observed.feed.note(Changes(more=done.forgotten > progress.forgotten))
        return done

    @property
    def queued_count(self) -> int:
        return self._queue.request_count

    def _admission(self, submission: Submission) -> Refusal | None:
        if self._stopping:
            return Stopping("This node is stopping")
        queued = self._queue.request_count
        if queued + len(submission.requests) > queue_requests_max:
            return Overloaded(f"{queued} requests are waiting, the limit is {queue_requests_max}")
        held, router = self._queue.bytes + submission.bytes, self.router
        is_roomy = (
            held <= limits.queue_bytes_max
            and held + router.waiting_bytes + router.mailbox_bytes <= limits.node_bytes_max
        )
        return None if is_roomy or not queued else self._queue.refuse_bytes(submission, router.held_bytes)

    # --- commits -------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Start what can be started. Not at once: whoever else is ready in this turn of the loop, or was
        just answered and has the next request ready, joins the group."""
        if not self._awake:
            self._awake = True
            self._idle.clear()
            self._loop.call_soon(self._commit_next)

    def _commit_next(self) -> None:
        """Sweeps and groups take turns: however much is due, whoever waits is next after one sweep."""
        self._awake = False
        while self._under_way < self._lanes:
            may_sweep = (
                self._sweep_wanted and not self._sweeping and not (self._debug and self.router.is_paused)
            )
            if may_sweep and not (self._swept_last and self._queue):
                self._start_sweep()
            elif self._queue.request_count and self._may_begin() and (group := self._take_group()):
                self._swept_last = False
                requests = [request for submission in group for request in submission.requests]
                is_work = self._claims.workers and True in [each.makes_work for each in group]
                taken = self._claims.take() if is_work else ()
                finish = partial(self._finish_group, group, requests, taken)
                self._start(partial(run_group, requests, group=group), requests, taken, finish)
            elif may_sweep:
                self._start_sweep()
            else:
                break
        if not self._under_way:
            self._idle.set()

    def _start_sweep(self) -> None:
        self._sweep_wanted, self._sweeping, self._swept_last = False, True, True
        taken = self._claims.take() if self._claims.workers else ()
        self._start(run_sweep, (), taken, partial(self._finish_sweep, taken))

    def _may_begin(self) -> bool:
        return self._under_way == self._sweeping or self._patience.is_over(self._queue.request_count)

    def _take_group(self) -> list[Submission]:
        if self._lanes == 1:
            return self._queue.take_group()
        self._patience.renew()
        group = self._queue.take_group_beside(self._busy)
        for submission in group:
            self._busy |= submission.roots
        return group

    def _start(
        self,
        work: Callable[[CommitContext], Work[CommitOutcome]],
        requests: Sequence[Request],
        taken: Sequence[TakenClaim],
        finish: "Callable[[asyncio.Future[CommitOutcome]], None]",
    ) -> None:
        """Hand work to the store without a task of its own: a turn of the loop saved on every commit."""
        self._under_way += 1
        context = self._context(requests, taken)
        asked_at, began = self._clock.read(), self._stopwatch()

        def done(result: "asyncio.Future[CommitOutcome]") -> None:
            self._under_way -= 1
            if requests:
                self.observed.commit_times.append((self._stopwatch() - began, len(requests)))
            if self._store.keeps_time and result.exception() is None:
                self._clock.follow(result.result().now, asked_at)
            finish(result)

        under_way = self._store.transact(lambda: work(context))
        if isinstance(under_way, Handover):
            under_way.told_first = done
        else:
            asyncio.ensure_future(under_way).add_done_callback(done)

    def _finish_group(
        self,
        group: list[Submission],
        requests: list[Request],
        taken: Sequence[TakenClaim],
        done: "asyncio.Future[CommitOutcome]",
    ) -> None:
        put_off: list[Submission] = []
        error = done.exception()
        if error is None:
            outcome = done.result()
            self.stats.commits += 1
            self.stats.committed_requests += len(outcome.replies)
            self.stats.store_healthy = True
        else:
            unknown = refuse(failure_of(error))
            # The lines of code behind it are the same for all such failures until a commit succeeds.
            first = error if self.stats.store_healthy or self.stats.failure is not type(error) else None
            log.error("a commit failed. %s", unknown.data, extra={"requests": len(requests)}, exc_info=first)
            self.stats.failed_commits += 1
            self.stats.store_healthy, self.stats.failure = False, type(error)
            # It may have been carried out all the same, and nobody was told what is due since.
            now = self._clock.now()
            outcome = CommitOutcome([unknown] * len(requests), [], now + store_rest_ms, now, is_due_new=False)
        granted = outcome.granted if error is None else None
        self._queue.let_go(group)
        self._deliver(outcome.messages, taken, granted)
        start = 0
        for number, submission in enumerate(group):
            if self._lanes > 1:
                self._busy -= submission.roots
            if number in outcome.put_off:
                put_off.append(submission)
                continue
            end = start + len(submission.requests)
            if not submission.future.done():  # the caller may have gone away; what it asked for is done
                submission.future.set_result(outcome.replies[start:end])
            start = end
        if put_off:
            self._queue.put_back(put_off)
        if self._debug:
            self._follow_debug(requests)
        self._after_commit(outcome)

    def _finish_sweep(self, taken: Sequence[TakenClaim], done: "asyncio.Future[CommitOutcome]") -> None:
        self._sweeping = False
        error = done.exception()
        if error is None:
            outcome = done.result()
            self.stats.sweeps += 1
            self._unreadable.leave_out(outcome.unread, outcome.now)
            tell_crashes(outcome.crashes)
            tell_stuck(outcome.stuck)
        else:
            log.error("handling what was due failed; it will be tried again", exc_info=error)
            now = self._clock.now()
            outcome = CommitOutcome([], [], now + store_rest_ms, now)
        self._deliver(outcome.messages, taken, outcome.granted if error is None else None)
        self._after_commit(outcome)

    def _context(self, requests: Sequence[Request], claims: Sequence[TakenClaim]) -> CommitContext:
        looks = self._debug and any(isinstance(request.data, DebugSnap) for request in requests)
        now = self._clock.now()
        waiting = self.router.waiting if looks else ()
        left_out = self._unreadable.left_out(now)
        feed = self.observed.feed
        tells = feed.is_wanted and feed.is_read and not feed.is_full
        return CommitContext(now, self._rules, self._debug, waiting, left_out, self._stopwatch, tells, claims)

    def _deliver(self, messages: Sequence[Message], taken: Sequence[TakenClaim], granted: Granted) -> None:
        """Before the replies. Who is woken so asks in one commit with what they ask next who are answered."""
        if taken:
            self._claims.answer(taken, granted)
        if messages:
            try:
                self.router.deliver(messages)
                if any(message.address == ADDRESS for message in messages):
                    self._bulk.wake()
            except Exception:  # they are invitations; what is next must not wait for them
                log.exception("messages could not be delivered")

    def _after_commit(self, outcome: CommitOutcome) -> None:
        self._unreadable.note(outcome.unread, outcome.now)
        if self.observed.feed.is_wanted:
            self.observed.feed.note(outcome.changes)
        if outcome.tally is not None:
            self.observed.rates.note(outcome.tally, outcome.now)
        if outcome.shortest_keep_ms is not None and self._janitor is not None:
            self._janitor.note_kept(outcome.shortest_keep_ms)
        if outcome.next_due is not None and self._alarm.is_sooner(outcome.next_due):
            self.note_due(outcome.next_due)
            if self._cluster is not None and outcome.is_due_new:  # the rest they were told by who wrote it
                self._cluster.announce_due(outcome.next_due)
        if self._queue.request_count or self._sweep_wanted:
            self._wake()
        elif not (self._under_way or self._awake):
            self._idle.set()

    def _follow_debug(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if isinstance(request.data, DebugStart):
                self.router.pause()
            elif isinstance(request.data, DebugStop):
                self.router.resume()
                self.want_sweep()
            elif isinstance(request.data, DebugReset):
                self.router.clear()

    # --- timers --------------------------------------------------------------------------------------

    def note_due(self, instant: Millis) -> None:
        """Something will be due at this instant, as far as anybody knows: look then."""
        if not self._stopping:
            self._alarm.note(instant)

    def want_sweep(self) -> None:
        """Look at once for what is due."""
        if not self._stopping:
            self._alarm.forget()
            self._sweep_wanted = self._sweeps
            self._wake()
