"""How an execution waits: beside its steps, for a moment with its claim, or suspended until it is called.

It owns the waiting alone: what there is to do is decided by `execution.py`, which this is a part of.

1. Whoever waits beside steps hears also of what settles outside, and asks again after a while: messages may
   be lost.
2. An execution that waits for its next message keeps its claim for a moment if that pays (lingering.py).
3. Between two calls of an entity none of its code runs (next_call.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PreloadReply, PromiseReply, Reply
from holdfast.protocol.requests import PromiseGet, PromiseRegisterListener, RequestData
from holdfast.workflow.errors import ClaimGone
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.fiber_world import FiberWorld
from holdfast.workflow.generations import BoundCall
from holdfast.workflow.lingering import Lingering
from holdfast.workflow.next_call import NextCall, records_in
from holdfast.workflow.running_steps import RunningSteps


class WaitingExecution(FiberWorld):
    bound: BoundCall
    lease_ends_s: float
    is_leaving: bool
    _loop: asyncio.AbstractEventLoop
    _writer: FencedWriter
    _steps: RunningSteps
    _lingering: Lingering
    _listening: dict[str, Callable[[], None]]
    _waiter: asyncio.Future[bool] | None
    _awaiting: Sequence[str]
    _is_doubtful: bool
    _has_code: bool

    @property
    def _is_entity(self) -> bool:
        workflow = self.bound.workflow
        return workflow is not None and not workflow.is_kept_warm

    # --- for a message -----------------------------------------------------------------------------------

    @property
    def _may_linger(self) -> bool:
        """Shall it keep its claim for a moment, in which the next message may come?"""
        workflow = self.bound.workflow
        return workflow is not None and self._lingering.pays(
            self.worker_context.runner.executions, is_entity=self._is_entity
        )

    async def _linger(self) -> None:
        [awaited] = self._progress.awaited(self.scheduler.waiting())
        began_s = self._loop.time()
        withdraw = self.worker_context.inbox.hear(awaited, self._notice)
        try:
            self._learn_from(await self._write(PromiseRegisterListener(awaited, self.worker_context.address)))
            self._lingering.wrote(began_s, self._loop.time())
            if not self._has_news():
                await self._wait_at_most(self._lingering.moment_s)
        finally:
            withdraw()
        self._lingering.ended(has_news=self._has_news())

    async def _await_call(self, number: int) -> list[Promise] | None:
        """Wait for the next call of an entity, for a moment or suspended (None): see next_call.py. If there
        is something to do, what is known of it."""
        self._has_code = False
        call = NextCall(self.id, self.version, self._writer.generation, number)
        asked: list[RequestData] = [call.fence]
        if self._may_linger:
            found = await self._linger_for(call)
            is_called = any(each.state != "pending" for each in found)
            self._lingering.ended(has_news=is_called)
            if is_called or self._is_doubtful or self._writer.is_lost:
                self._has_code = True
                return found
            if self._loop.time() >= self.lease_ends_s:
                raise ClaimGone(self.id)
            asked.clear()
        self.is_leaving = True
        began_s = self._loop.time()
        replies = await self._writer.ask([*asked, call.suspension])
        if replies[-1].status == 200:
            self._awaiting = [call.id]
            self._lingering.suspended(began_s, self._loop.time())
            return None
        self.is_leaving = False
        self._has_code = True
        refused = replies[-1].data
        self._is_doubtful |= isinstance(refused, PreloadReply) and refused.cursor is not None
        return records_in(replies)

    async def _linger_for(self, call: NextCall) -> list[Promise]:
        """Ask for a call, and stay for a moment if there is none. What is known of it then."""
        found: list[Promise] = []

        def hear(message: Promise) -> None:
            found.append(message)
            self._wake()

        began_s = self._loop.time()
        withdraw = self.worker_context.inbox.hear(call.id, hear)
        try:
            listen = PromiseRegisterListener(call.id, self.worker_context.address)
            found += records_in(await self._writer.ask([call.fence, listen]))
            self._lingering.wrote(began_s, self._loop.time())
            is_called = any(each.state != "pending" for each in found)
            if not (is_called or self._is_doubtful or self._writer.is_lost):
                await self._wait_at_most(self._lingering.moment_s)
        finally:
            withdraw()
        return found

    # --- waiting and asking ----------------------------------------------------------------------------

    def _write(self, *asked: RequestData) -> Awaitable[list[Reply]]:
        """One commit: what was chosen and is not durable yet, then what is asked."""
        progress = self._progress
        unwritten, progress.unwritten = progress.unwritten, []
        writing = self._writer.write(unwritten, asked)
        ended = progress.ended
        is_told = ended.noted and ended.may_be_told(unwritten, asked)
        return ended.tell_after(writing) if is_told else writing

    async def _look(self, promise_ids: Sequence[str]) -> None:
        self._learn_from(await self._writer.ask([PromiseGet(key) for key in promise_ids]))

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply.data, PromiseReply):
                self._progress.learn(reply.data.promise)

    def _has_news(self) -> bool:
        """Is there anything to do besides waiting for steps?"""
        steps, progress, asked = self._steps, self._progress, self._progress.asked
        if steps.finished or asked.arrived or asked.fresh or steps.late or progress.is_cancel_due:
            return True
        return self._is_doubtful or self._writer.is_lost or self.scheduler.done

    async def _wait(self) -> None:
        """Steps are running. Hear also of what settles outside meanwhile."""
        if self._progress.is_urgent:
            await self._write()
        unheard = self._progress.to_hear(self._listening)
        if unheard:
            await self._listen(unheard)
        while not self._has_news():
            limit_s = self.worker_context.listen_again_s
            if not self._listening or limit_s is None:
                self._waiter = self._loop.create_future()
                await self._waiter
            elif not await self._wait_at_most(limit_s):
                await self._listen([*self._listening])  # a message may have been lost

    async def _wait_at_most(self, limit_s: float) -> bool:
        """Until `_wake`. False: that time is over. `asyncio.wait` would take a turn of the loop more, and
        `wait_for` swallows a cancellation that comes together with the news, on Python 3.11."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(limit_s, self._wake, False)
        try:
            return await waiter
        finally:
            timer.cancel()

    def _wake(self, has_news: bool = True) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(has_news)

    async def _listen(self, promise_ids: list[str]) -> None:
        listen = [PromiseRegisterListener(key, self.worker_context.address) for key in promise_ids]
        for promise_id in promise_ids:
            if promise_id not in self._listening:
                self._listening[promise_id] = self.worker_context.inbox.hear(promise_id, self._notice)
        self._learn_from(await self._writer.ask(listen))

    def _notice(self, promise: Promise) -> None:
        """A promise that this execution listens to has settled."""
        self._progress.learn(promise)
        self._wake()

    def _stop_listening(self) -> None:
        for withdraw in self._listening.values():
            withdraw()
        self._listening.clear()
