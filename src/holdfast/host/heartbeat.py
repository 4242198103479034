"""The heartbeat of a worker: at half the lease, one request for all that it holds.

What is held past the end of its lease by our own clock is lost, whether or not the node can say so. One timer
watches over all of it: most leases are moved on, or given up, long before it rings.

The loop may stand still because of what a user's function does on it. Then another thread beats instead: see
loop_watch.py.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from holdfast.client.caller import ask
from holdfast.client.interface import Client
from holdfast.host.runners import Run
from holdfast.protocol import limits
from holdfast.protocol.records import TaskRef
from holdfast.protocol.replies import HeartbeatReply, Reply
from holdfast.protocol.requests import Request, TaskHeartbeat

log = logging.getLogger("holdfast.worker")


class Heartbeat:
    """`held` is what is to be kept, by id. `lose` is told what is not ours any more, because the node says so
    or by our own clock; `doubt` what something has woken while it is held."""

    def __init__(
        self,
        client: Client,
        pid: str,
        lease_ms: int,
        held: Callable[[], Mapping[str, Run]],
        lose: Callable[[Run], None],
        doubt: Callable[[Run], None],
    ) -> None:
        self._client = client
        self.pid = pid
        self._lease_ms = lease_ms
        self._half_s = lease_ms / 2000
        self._held = held
        self._lose = lose
        self._doubt = doubt
        self._holding = asyncio.Event()
        self._due = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._watch: asyncio.TimerHandle | None = None
        self._rings_at_s = inf

    def lease_end_s(self) -> float:
        """When a lease asked for now will end at the earliest, by our own clock."""
        return self._loop.time() + self._lease_ms / 1000

    def begin(self, lease_ends_s: float) -> None:
        """Something is held, at first until then."""
        self._holding.set()
        if lease_ends_s < self._rings_at_s:
            self._ring_at(lease_ends_s)
        if lease_ends_s - self._loop.time() < self._half_s:  # the answer was long under way
            self._due.set()

    async def run(self) -> None:
        try:
            while True:
                await self._holding.wait()  # who holds nothing has nothing to keep
                await self._rest()
                if self._held():
                    await self.beat()
                else:
                    self._holding.clear()
        finally:
            self._ring_at(inf)

    async def _rest(self) -> None:
        timer = self._loop.call_later(self._half_s, self._due.set)
        try:
            await self._due.wait()
        finally:
            timer.cancel()
            self._due.clear()

    def _ring_at(self, instant_s: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._rings_at_s = instant_s
        self._watch = None if instant_s == inf else self._loop.call_at(instant_s, self._ring)

    def _ring(self) -> None:
        now_s = self._loop.time()
        for one in [*self._held().values()]:
            if one.lease_ends_s <= now_s:
                self._lose(one)
        ends_s = (one.lease_ends_s for one in self._held().values())
        self._ring_at(min((end_s for end_s in ends_s if end_s > now_s), default=inf))

    async def beat(self) -> None:
        refs = [TaskRef(one.id, one.version) for one in self._held().values()]
        for part in _parts(refs):
            await self._keep(part)

    def beat_apart(self, send: Callable[[Sequence[Request]], Sequence[Reply]]) -> None:
        """The same from another thread, while the loop stands still; and for all that the node holds for us.

        Nothing is kept if something is over by our own clock: then this process itself stood still.
        """
        now_s = time.monotonic()  # what the loop shows may stand still with it
        try:
            held = self._held()
        except RuntimeError:  # it changed meanwhile: the loop goes on
            return
        if any(one.lease_ends_s <= now_s for one in held.values()):
            return
        parts = [*_parts([TaskRef(one.id, one.version) for one in held.values()])]
        replies = send([ask(self._heartbeat(part)) for part in (*parts, [])])
        for part, reply in zip(parts, replies, strict=False):
            if isinstance(reply.data, HeartbeatReply):
                lost = set(reply.data.lost or ())
                for ref in part:
                    if ref not in lost:  # before the loop goes on, and looks which leases are over
                        held[ref.id].lease_ends_s = now_s + self._lease_ms / 1000
                self._loop.call_soon_threadsafe(
                    self._notice_woken, part, reply.data, now_s + self._lease_ms / 1000
                )

    def _heartbeat(self, refs: list[TaskRef]) -> TaskHeartbeat:
        return TaskHeartbeat(self.pid, refs, check_woken=True)

    async def _keep(self, refs: list[TaskRef]) -> None:
        lease_ends_s = self.lease_end_s()
        try:
            [reply] = await self._client.request([ask(self._heartbeat(refs))])
        except Exception:  # a node that cannot be reached is no reason to die
            log.warning("a heartbeat could not be sent", exc_info=True)
            return
        if isinstance(reply.data, HeartbeatReply):
            self._notice_woken(refs, reply.data, lease_ends_s)

    def _notice_woken(self, refs: list[TaskRef], reply: HeartbeatReply, lease_ends_s: float) -> None:
        held, lost, woken = self._held(), set(reply.lost or ()), set(reply.woken or ())
        for ref in refs:
            one = held.get(ref.id)
            if one is None or one.version != ref.version:
                continue  # it was let go meanwhile
            if ref in lost:
                self._lose(one)
                continue
            one.lease_ends_s = lease_ends_s
            if ref in woken:
                self._doubt(one)


def _parts(refs: list[TaskRef]) -> Iterator[list[TaskRef]]:
    for start in range(0, len(refs), limits.heartbeat_tasks_max):
        yield refs[start : start + limits.heartbeat_tasks_max]
