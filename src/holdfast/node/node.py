"""A node: one process that runs the engine on a store.

1. Nobody is answered before the commit that holds the request is durable.
2. Requests that arrive while a commit is on its way form the next group. A group is bounded, and so is the
   queue in front of it; past that a request is refused with 429 and has changed nothing.
3. Timers are exact: the node knows the next instant at which something is due and sleeps until then.
4. Messages leave after their commit, straight from memory.
5. `stop` finishes and answers everything that was accepted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Final, Self

from holdfast.engine import Rules
from holdfast.node.clock import Clock, SteadyClock, wall_clock
from holdfast.node.group import Moment, Outcome, run_group, run_sweep
from holdfast.node.post_office import Mailbox, PostOffice, mailbox_capacity
from holdfast.node.reads import NodeStats, read_backlog, read_offers, read_pulse
from holdfast.protocol.errors import Overloaded, Refusal, Stopping, StoreUnavailable
from holdfast.protocol.messages import Execute
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import DebugReset, DebugSnap, DebugStart, DebugStop, Request
from holdfast.protocol.wire import refuse
from holdfast.store.interface import Backlog, Store, Work

log = logging.getLogger("holdfast.node")

group_requests_max: Final = 512
queue_requests_max: Final = 20_000
timer_sleep_s_max: Final = 60.0  # the wall clock may be set; look at it at least this often
store_rest_ms: Final = 1_000


class _Submission:
    """Requests that came together, answered together."""

    __slots__ = ("future", "requests")

    def __init__(self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]") -> None:
        self.requests = requests
        self.future = future


class Node:
    """
    async with Node(SqliteStore("holdfast.db")) as node:
        [reply] = await node.request([request])
    """

    def __init__(
        self, store: Store, *, rules: Rules | None = None, clock: Clock = wall_clock, debug: bool = False
    ) -> None:
        self.office = PostOffice()
        self.stats = NodeStats()
        self._store = store
        self._rules = rules or Rules()
        self._read_clock = clock
        self._debug = debug
        self._queue: deque[_Submission] = deque()
        self._queued = 0
        self._committing = False
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._next_due: Millis | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_wanted = False
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
        self._clock = SteadyClock(self._read_clock, await self._store.open())
        self._want_sweep()  # what fell due while nobody was here

    async def stop(self) -> None:
        """Take nothing new; finish and answer what was accepted; close the store."""
        if self._stopping:
            return
        self._stopping = True
        self._cancel_timer()
        self._sweep_wanted = False
        await self._idle.wait()
        await self._store.close()

    def connect(self, group: str, member: str, capacity: int = mailbox_capacity) -> Mailbox:
        """Receive the messages for a worker of a group, from now on and what waited for it."""
        return self.office.connect(group, member, capacity)

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        """Apply requests in order in one commit; return their replies once it is durable."""
        refusal = self._admission(len(requests))
        if refusal is not None:
            return [refuse(refusal)] * len(requests)
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        self._queue.append(_Submission(requests, future))
        self._queued += len(requests)
        self._wake()
        return await future

    async def offers(self, group: str, limit: int) -> list[Execute]:
        """Tasks that wait for a worker of a group, best first, as messages to be sent again."""
        now = self._clock.now()
        return await self._store.transact(lambda: read_offers(group, now, limit))

    async def backlog(self) -> Backlog:
        now = self._clock.now()
        return await self._store.transact(lambda: read_backlog(now))

    async def check(self) -> None:
        """Raise if the store cannot be read."""
        await self._store.transact(read_pulse)

    @property
    def queued_count(self) -> int:
        return self._queued

    def _admission(self, count: int) -> Refusal | None:
        if self._stopping:
            return Stopping("This node is stopping")
        if self._queued + count > queue_requests_max:
            return Overloaded(f"{self._queued} requests are waiting, the most is {queue_requests_max}")
        return None

    # --- commits -------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Start a commit, unless one is under way: then its end will start the next."""
        if not self._committing:
            self._committing = True
            self._idle.clear()
            # Not at once: whoever else is ready in this turn of the loop joins the group.
            self._loop.call_soon(self._commit_next)

    def _commit_next(self) -> None:
        if self._sweep_wanted and not self._office_asleep:
            self._sweep_wanted = False
            self._start(run_sweep, (), self._finish_sweep)
        elif self._queue:
            group = self._take_group()
            requests = [request for submission in group for request in submission.requests]
            self._start(partial(run_group, requests), requests, partial(self._finish_group, group, requests))
        else:
            self._committing = False
            self._idle.set()

    @property
    def _office_asleep(self) -> bool:
        return self._debug and self.office.is_paused

    def _take_group(self) -> list[_Submission]:
        group = [self._queue.popleft()]
        size = len(group[0].requests)
        while self._queue and size + len(self._queue[0].requests) <= group_requests_max:
            submission = self._queue.popleft()
            size += len(submission.requests)
            group.append(submission)
        self._queued -= size
        return group

    def _start(
        self,
        work: Callable[[Moment], Work[Outcome]],
        requests: Sequence[Request],
        finish: "Callable[[asyncio.Future[Outcome]], None]",
    ) -> None:
        """Hand work to the store without a task of its own: a turn of the loop saved on every commit."""
        moment = self._moment(requests)
        asyncio.ensure_future(self._store.transact(lambda: work(moment))).add_done_callback(finish)

    def _finish_group(
        self, group: list[_Submission], requests: list[Request], done: "asyncio.Future[Outcome]"
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
            outcome = Outcome([unknown] * len(requests), [], None)
        start = 0
        for submission in group:
            end = start + len(submission.requests)
            if not submission.future.done():  # the caller may have gone away; what it asked for is done
                submission.future.set_result(outcome.replies[start:end])
            start = end
        if self._debug:
            self._follow_debug(requests)
        self._after_commit(outcome)

    def _finish_sweep(self, done: "asyncio.Future[Outcome]") -> None:
        error = done.exception()
        if error is None:
            outcome = done.result()
            self.stats.sweeps += 1
        else:
            log.error("a sweep failed; it will be tried again", exc_info=error)
            outcome = Outcome([], [], self._clock.now() + store_rest_ms)
        self._after_commit(outcome)

    def _moment(self, requests: Sequence[Request]) -> Moment:
        looks = self._debug and any(isinstance(request.data, DebugSnap) for request in requests)
        return Moment(self._clock.now(), self._rules, self._debug, self.office.waiting if looks else ())

    def _after_commit(self, outcome: Outcome) -> None:
        if outcome.messages:
            self.office.deliver(outcome.messages)
        if outcome.next_due is not None:
            self._note_due(outcome.next_due)
        # Not at once: whoever was just answered may have the next request ready.
        self._loop.call_soon(self._commit_next)

    def _follow_debug(self, requests: Sequence[Request]) -> None:
        for request in requests:
            match request.data:
                case DebugStart():
                    self.office.pause()
                case DebugStop():
                    self.office.resume()
                    self._want_sweep()
                case DebugReset():
                    self.office.clear()
                case _:
                    pass

    # --- timers --------------------------------------------------------------------------------------

    def _note_due(self, instant: Millis) -> None:
        if self._next_due is None or instant < self._next_due:
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
            self._want_sweep()

    def _want_sweep(self) -> None:
        if not self._stopping:
            self._next_due = None
            self._sweep_wanted = True
            self._wake()
