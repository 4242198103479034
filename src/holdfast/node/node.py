"""A node: one process that runs the engine on a store.

1. Nobody is answered before the commit that holds the request is durable.
2. Requests that arrive while a commit is on its way form the next group. A group is bounded, and so is the
   queue in front of it; past that a request is refused with 429 and has changed nothing. A store that many
   nodes share takes several groups at once, as long as they do not meet.
3. Timers are exact: the node knows the next instant at which something is due and sleeps until then.
4. Messages leave after their commit, straight from memory. Other nodes are told of them after that.
5. `stop` finishes and answers everything that was accepted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random, SystemRandom
from types import TracebackType
from typing import Final, Self

from holdfast.engine import Rules
from holdfast.node.clock import Clock, SteadyClock, far_clock, wall_clock
from holdfast.node.cluster import Cluster
from holdfast.node.group import Moment, Outcome, run_group, run_sweep
from holdfast.node.janitor import Janitor
from holdfast.node.outsiders import Outsiders, Watched
from holdfast.node.post_office import Mailbox, PostOffice, mailbox_capacity
from holdfast.node.queue import RequestQueue, Submission
from holdfast.node.reads import NodeStats, read_backlog, read_offers, read_promises, read_pulse, write_pulse
from holdfast.node.retention import Progress, collect_page
from holdfast.node.unreadable import Unreadable
from holdfast.protocol.errors import Overloaded, Refusal, Stopping, StoreUnavailable
from holdfast.protocol.messages import Execute
from holdfast.protocol.records import Millis, Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import DebugReset, DebugSnap, DebugStart, DebugStop, Request
from holdfast.protocol.wire import refuse
from holdfast.store.interface import Backlog, Store, Work

log = logging.getLogger("holdfast.node")

queue_requests_max: Final = 20_000
timer_sleep_s_max: Final = 60.0  # the wall clock may be set; look at it at least this often
store_rest_ms: Final = 1_000
# Where several groups may be under way, a few large ones cost less than many small ones. So another is begun
# beside the first only when this many requests wait, or when they have waited this long.
crowd_requests: Final = 128
patience_s: Final = 0.004


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
    ) -> None:
        self.office = PostOffice()
        self.stats = NodeStats()
        self._store = store
        self._rules = rules or Rules()
        self._read_clock = clock
        self._debug = debug
        self._queue = RequestQueue()
        self._lanes = 1 if debug else store.parallel_groups
        self._under_way = 0
        self._busy: set[str] = set()  # the roots of the groups that are under way, where there can be several
        self._awake = False
        self._impatience: asyncio.TimerHandle | None = None
        self._sweeping = False
        self._unreadable = Unreadable()
        self._stopping = False
        bus = None if debug else store.bus
        self._cluster = None if bus is None else Cluster(self, bus, chance or SystemRandom())
        self._outsiders = Outsiders(self, store) if isinstance(store, Watched) and not debug else None
        self._janitor = None if retention_ms is None or debug else Janitor(self.collect_some, retention_ms)
        self._idle = asyncio.Event()
        self._idle.set()
        self._next_due: Millis | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_wanted = False
        self._sweeps = sweeps  # False: beside a node that does
        self.timer_sleep_s_max = timer_sleep_s_max  # a clock that nobody sets needs no second look

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = self._new_clock(await self._store.open(), self._loop.time)
        if self._cluster is not None:
            await self._cluster.start()
        if self._outsiders is not None:
            await self._outsiders.start()
        if self._janitor is not None:
            self._janitor.start()
        self.want_sweep()  # what fell due while nobody was here

    def _new_clock(self, latest: Millis, beat: Callable[[], float]) -> SteadyClock:
        if self._store.keeps_time:  # whoever sets the clock of this machine must not matter
            return far_clock(lambda: latest, lambda: int(beat() * 1000))
        return SteadyClock(self._read_clock, latest, beat)

    async def stop(self) -> None:
        """Take nothing new; finish and answer what was accepted; close the store."""
        if self._stopping:
            return
        self._stopping = True
        self._cancel_timer()
        self._sweep_wanted = False
        if self._outsiders is not None:
            await self._outsiders.stop()
        if self._janitor is not None:
            await self._janitor.stop()
        await self._idle.wait()
        if self._cluster is not None:
            await self._cluster.stop()
        await self._store.close()

    def connect(self, group: str, member: str, capacity: int = mailbox_capacity) -> Mailbox:
        """Receive the messages for a worker of a group, from now on and what waited for it."""
        if self._cluster is not None:
            self._cluster.announce_worker(group)
        return self.office.connect(group, member, capacity)

    def expect_outsiders(self, due: Millis | None) -> None:
        """Somebody else is about to commit to our store what will be due at an instant."""
        if self._outsiders is not None and not self._stopping:
            self._outsiders.expect()
            if due is not None:
                self.note_due(due)

    def watch_outsiders(self, look: Callable[[], Awaitable[None]]) -> None:
        """Look whenever somebody else has committed to our store: they cannot tell us what they did."""
        if self._outsiders is not None:
            self._outsiders.watchers.append(look)

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        """Apply requests in order in one commit; return their replies once it is durable."""
        return await self.submit(requests)

    def submit(self, requests: Sequence[Request]) -> "asyncio.Future[list[Reply]]":
        """The same, with a future to await. It may be dropped: what was asked for is done all the same."""
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        refusal = self._admission(len(requests))
        if refusal is not None:
            future.set_result([refuse(refusal)] * len(requests))
        else:
            self._queue.put(Submission(requests, future))
            self._wake()
        return future

    def now(self) -> Millis:
        """What the clock shows by which everything here is judged. Any thread may ask."""
        return self._clock.peek()

    async def offers(self, group: str, limit: int) -> list[Execute]:
        """Tasks that wait for a worker of a group, best first, as messages to be sent again."""
        now = self._clock.now()
        return await self._store.transact(lambda: read_offers(group, now, limit))

    async def backlog(self) -> Backlog:
        now = self._clock.now()
        return await self._store.transact(lambda: read_backlog(now))

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
        progress = Progress()
        while progress.after is not None and (limit is None or progress.forgotten < limit):
            progress = await self.collect_some(progress, older_than_ms)
        return progress.forgotten

    async def collect_some(
        self, progress: Progress, older_than_ms: int, *, dry_run: bool = False
    ) -> Progress:
        """One page of that, in one short transaction. `dry_run` only counts."""
        reading = self._clock.now()
        done = await self._store.transact(
            lambda: collect_page(progress, older_than_ms, reading, dry_run=dry_run)
        )
        if not dry_run:
            self.stats.forgotten += done.forgotten - progress.forgotten
        return done

    @property
    def queued_count(self) -> int:
        return self._queue.request_count

    def _admission(self, count: int) -> Refusal | None:
        if self._stopping:
            return Stopping("This node is stopping")
        queued = self._queue.request_count
        if queued + count > queue_requests_max:
            return Overloaded(f"{queued} requests are waiting, the most is {queue_requests_max}")
        return None

    # --- commits -------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Start what can be started. Not at once: whoever else is ready in this turn of the loop, or was
        just answered and has the next request ready, joins the group."""
        if not self._awake:
            self._awake = True
            self._idle.clear()
            self._loop.call_soon(self._commit_next)

    def _commit_next(self) -> None:
        self._awake = False
        while self._under_way < self._lanes:
            if self._sweep_wanted and not self._sweeping and not self._office_asleep:
                self._sweep_wanted = False
                self._sweeping = True
                self._start(run_sweep, (), self._finish_sweep)
            elif self._may_begin() and (group := self._take_group()):
                requests = [request for submission in group for request in submission.requests]
                finish = partial(self._finish_group, group, requests)
                self._start(partial(run_group, requests), requests, finish)
            else:
                break
        if not self._under_way:
            self._idle.set()

    def _may_begin(self) -> bool:
        if self._under_way == self._sweeping or self._queue.request_count >= crowd_requests:
            return True
        if self._impatience is None and self._queue:
            self._impatience = self._loop.call_later(patience_s, self._wake)
        return self._impatience is not None and self._impatience.when() <= self._loop.time()

    @property
    def _office_asleep(self) -> bool:
        return self._debug and self.office.is_paused

    def _take_group(self) -> list[Submission]:
        if self._lanes == 1:
            return self._queue.take_group()
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
        group = self._queue.take_group_beside(self._busy)
        for submission in group:
            self._busy |= submission.roots
        return group

    def _start(
        self,
        work: Callable[[Moment], Work[Outcome]],
        requests: Sequence[Request],
        finish: "Callable[[asyncio.Future[Outcome]], None]",
    ) -> None:
        """Hand work to the store without a task of its own: a turn of the loop saved on every commit."""
        self._under_way += 1
        moment = self._moment(requests)
        asked_at = self._clock.read()

        def done(result: "asyncio.Future[Outcome]") -> None:
            self._under_way -= 1
            if self._store.keeps_time and result.exception() is None:
                self._clock.follow(result.result().now, asked_at)
            finish(result)

        asyncio.ensure_future(self._store.transact(lambda: work(moment))).add_done_callback(done)

    def _finish_group(
        self, group: list[Submission], requests: list[Request], done: "asyncio.Future[Outcome]"
    ) -> None:
        error = done.exception()
        if error is None:
            outcome = done.result()
            self.stats.commits += 1
            self.stats.committed_requests += len(requests)
            self.stats.store_healthy = True
        else:
            self.stats.failed_commits += 1
            self.stats.store_healthy = False
            log.error("a commit failed", extra={"requests": len(requests)}, exc_info=error)
            unknown = refuse(StoreUnavailable(f"The store failed: {type(error).__name__}"))
            # It may have been carried out all the same, and nobody was told what is due since.
            now = self._clock.now()
            outcome = Outcome([unknown] * len(requests), [], now + store_rest_ms, now, is_due_new=False)
        start = 0
        for submission in group:
            if self._lanes > 1:
                self._busy -= submission.roots
            end = start + len(submission.requests)
            if not submission.future.done():  # the caller may have gone away; what it asked for is done
                submission.future.set_result(outcome.replies[start:end])
            start = end
        if self._debug:
            self._follow_debug(requests)
        self._after_commit(outcome)

    def _finish_sweep(self, done: "asyncio.Future[Outcome]") -> None:
        self._sweeping = False
        error = done.exception()
        if error is None:
            outcome = done.result()
            self.stats.sweeps += 1
            self._unreadable.leave_out(outcome.unread, outcome.now)
        else:
            log.error("a sweep failed; it will be tried again", exc_info=error)
            now = self._clock.now()
            outcome = Outcome([], [], now + store_rest_ms, now)
        self._after_commit(outcome)

    def _moment(self, requests: Sequence[Request]) -> Moment:
        looks = self._debug and any(isinstance(request.data, DebugSnap) for request in requests)
        now = self._clock.now()
        waiting = self.office.waiting if looks else ()
        return Moment(now, self._rules, self._debug, waiting, self._unreadable.left_out(now))

    def _after_commit(self, outcome: Outcome) -> None:
        self._unreadable.note(outcome.unread, outcome.now)
        if outcome.messages:
            try:
                self.office.deliver(outcome.messages)
            except Exception:  # they are invitations; what is next must not wait for them
                log.exception("messages could not be delivered")
        if outcome.next_due is not None and self._is_sooner(outcome.next_due):
            self.note_due(outcome.next_due)
            if self._cluster is not None and outcome.is_due_new:  # the rest they were told by who wrote it
                self._cluster.announce_due(outcome.next_due)
        self._wake()

    def _follow_debug(self, requests: Sequence[Request]) -> None:
        for request in requests:
            match request.data:
                case DebugStart():
                    self.office.pause()
                case DebugStop():
                    self.office.resume()
                    self.want_sweep()
                case DebugReset():
                    self.office.clear()
                case _:
                    pass

    # --- timers --------------------------------------------------------------------------------------

    def _is_sooner(self, instant: Millis) -> bool:
        return self._next_due is None or instant < self._next_due

    def note_due(self, instant: Millis) -> None:
        """Something will be due at this instant, as far as anybody knows: look then."""
        if self._is_sooner(instant):
            self._next_due = instant
            self._set_timer()

    def _set_timer(self) -> None:
        self._cancel_timer()
        if self._next_due is not None and not self._stopping:
            ahead_s = max(0.0, (self._next_due - self._clock.now()) / 1000)
            self._timer = self._loop.call_later(min(ahead_s, self.timer_sleep_s_max), self._ring)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._next_due is not None and self._clock.now() < self._next_due:
            self._set_timer()
        else:
            self.want_sweep()

    def want_sweep(self) -> None:
        """Look at once for what is due."""
        if not self._stopping:
            self._next_due = None
            self._sweep_wanted = self._sweeps
            self._wake()
