"""How an execution waits for its next message: for a moment with its claim, or suspended until it is called.

It owns that alone: what else there is to do is decided by `execution.py`, which this is a part of.

1. An execution that waits for its next message keeps its claim for a moment if that pays (lingering.py).
2. Between two calls of an entity none of its code runs (next_call.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PreloadReply, Reply
from holdfast.protocol.requests import PromiseRegisterListener, RequestData
from holdfast.workflow.errors import ClaimGone
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.fiber_world import FiberWorld
from holdfast.workflow.generations import BoundCall
from holdfast.workflow.lingering import Lingering
from holdfast.workflow.next_call import NextCall, records_in
from holdfast.workflow.running_steps import RunningSteps


class MessageWaits(FiberWorld):
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

    def _write(self, *asked: RequestData) -> Awaitable[list[Reply]]:
        raise NotImplementedError

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        raise NotImplementedError

    def _has_changes(self) -> bool:
        raise NotImplementedError

    async def _wait_at_most(self, limit_s: float) -> bool:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError

    def _notice(self, promise: Promise) -> None:
        raise NotImplementedError

    @property
    def is_entity(self) -> bool:
        workflow = self.bound.workflow
        return workflow is not None and not workflow.is_kept_warm

    @property
    def is_cancelled(self) -> bool:
        """Has its code seen a request to cancel?"""
        return self._progress.is_cancelled

    # --- for a message -----------------------------------------------------------------------------------

    @property
    def _may_linger(self) -> bool:
        """Shall it keep its claim for a moment, in which the next message may come?"""
        runner = self.worker_context.runner
        if self.bound.workflow is None or runner.is_stopping:
            return False
        return self._lingering.pays(runner.executions, is_entity=self.is_entity)

    async def _linger(self) -> None:
        [awaited] = self._progress.awaited(self.scheduler.waiting())
        began_s = self._loop.time()
        withdraw = self.worker_context.inbox.hear(awaited, self._notice)
        try:
            self._learn_from(await self._write(PromiseRegisterListener(awaited, self.worker_context.address)))
            self._lingering.wrote(began_s, self._loop.time())
            if not self._has_changes():
                await self._wait_at_most(self._lingering.moment_s)
        finally:
            withdraw()
        self._lingering.ended(has_changes=self._has_changes())

    async def _await_call(self, number: int) -> list[Promise] | None:
        """Wait for the next call of an entity, for a moment or suspended (None): see next_call.py. If there
        is something to do, what is known of it."""
        self._has_code = False
        call = NextCall(self.id, self.version, self._writer.generation, number)
        asked: list[RequestData] = [call.fence]
        if self._may_linger:
            found = await self._linger_for(call)
            is_called = any(each.state != "pending" for each in found)
            self._lingering.ended(has_changes=is_called)
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

    def _stop_listening(self) -> None:
        for withdraw in self._listening.values():
            withdraw()
        self._listening.clear()
