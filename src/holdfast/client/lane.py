"""An ordered lane to a node: what waits goes out as one array, and the next array when that one is answered.

1. One array is under way at a time, so requests are applied in the order in which they were issued. That is
   more than the order of one execution's writes, and costs nothing: what waits goes together anyway.
2. Requests issued while an array is under way join the next one. Under load arrays grow by themselves, and
   the node makes one commit of each. An array is bounded in envelopes and in bytes.
3. Requests that were issued together stay together, up to an array's bound: all are repeated or none.
4. What fails is put back in front, in order, if it may be repeated (`retries`), and else raises. A caller
   waits no longer than `limit_s`.
5. What waits is bounded; past `waiting_requests_max` a request raises and was not sent.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct, field

from holdfast.client.connection import Connection, Link, Opener, Response
from holdfast.client.endpoints import Endpoint, Route, growing_rest
from holdfast.client.errors import (
    BadReply,
    ClientClosed,
    ClientError,
    OutcomeUnknown,
    TimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.retries import is_repeatable, is_turned_away, is_undecided
from holdfast.client.wire import decode_replies, encode_request
from holdfast.node.clock import SteadyClock, far_clock
from holdfast.protocol.limits import batch_envelopes_max
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

log = logging.getLogger("holdfast.client")

array_bytes_max: Final = 524_288  # a larger submission still goes out, alone
waiting_requests_max: Final = 20_000
retry_after_s_max: Final = 30.0


class Manner(Struct, frozen=True):
    """How a client talks to its nodes."""

    token: str | None = None
    tls: ssl.SSLContext | None = None
    limit_s: float = 30.0  # what a caller waits for at most, retries included
    attempt_s: float = 10.0  # one round trip; also opening a connection
    persistent: bool = True  # keep trying within limit_s, or raise at the first failure
    connect: Opener = Connection.open
    chance: Random = field(default_factory=Random)  # spreads load, guards nothing
    clock: SteadyClock = field(default_factory=far_clock)  # follows the node's


class _Submission:
    """Requests that were issued together."""

    __slots__ = ("body", "deadline_s", "future", "requests", "sent", "trouble")

    def __init__(
        self, requests: Sequence[Request], future: "asyncio.Future[list[Reply]]", deadline_s: float
    ) -> None:
        self.deadline_s = deadline_s
        self.requests = requests
        self.body = b",".join(map(encode_request, requests))
        self.future = future
        self.sent = False
        self.trouble: BaseException | None = None

    def fail(self, error: ClientError) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            error.__cause__ = self.trouble


class Lane:
    def __init__(self, endpoints: Sequence[Endpoint], manner: Manner) -> None:
        self._route = Route(endpoints, manner.chance)
        self._manner = manner
        self._queue: deque[_Submission] = deque()
        self._timed: deque[_Submission] = deque()  # all that wait, those that have waited longest first
        self._alarm: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._wanted = asyncio.Event()
        self._connection: Link | None = None
        self._worker: asyncio.Task[None] | None = None
        self._turned_away = 0
        self._closed = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self._closed:
            raise ClientClosed("This client was closed")
        if len(requests) > batch_envelopes_max:
            first = await self.request(requests[:batch_envelopes_max])
            return first + await self.request(requests[batch_envelopes_max:])
        if self._waiting + len(requests) > waiting_requests_max:
            raise TooManyWaiting(f"{self._waiting} requests are waiting, the most is {waiting_requests_max}")
        loop = asyncio.get_running_loop()
        submission = _Submission(requests, loop.create_future(), loop.time() + self._manner.limit_s)
        self._time(submission, loop)
        self._queue.append(submission)
        self._waiting += len(requests)
        self._wanted.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="holdfast-lane")
        return await submission.future

    def _time(self, submission: _Submission, loop: asyncio.AbstractEventLoop) -> None:
        """One alarm for all: nearly every request is answered long before it rings."""
        while self._timed and self._timed[0].future.done():
            self._timed.popleft()
        self._timed.append(submission)
        if self._alarm is None:
            self._alarm = loop.call_at(submission.deadline_s, self._time_up, loop)

    def _time_up(self, loop: asyncio.AbstractEventLoop) -> None:
        soon = loop.time() + 0.01  # a timer may ring a little before its time
        while self._timed and (self._timed[0].future.done() or self._timed[0].deadline_s <= soon):
            submission = self._timed.popleft()
            submission.fail(self._late(submission))
        first = self._timed[0].deadline_s if self._timed else None
        self._alarm = None if first is None else loop.call_at(first, self._time_up, loop)

    def _late(self, submission: _Submission) -> ClientError:
        limit = f"within {self._manner.limit_s:g} s"
        if submission.sent:
            return TimedOut(f"{self._route.current} did not answer {limit}")
        reason = f" ({submission.trouble})" if submission.trouble else ""
        return Unreachable(f"{self._route.current} could not be reached {limit}{reason}")

    async def close(self) -> None:
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self._disconnect()
        for submission in self._queue:
            submission.fail(ClientClosed("This client was closed"))
        self._queue.clear()

    # --- the worker ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if not self._queue:
                self._wanted.clear()
                await self._wanted.wait()
            batch = self._take()
            try:
                await self._carry(batch)
            except asyncio.CancelledError:
                for submission in batch:
                    submission.fail(ClientClosed("This client was closed"))
                raise
            except Exception as error:  # a defect: let it hurt those it concerns, and nobody after them
                log.exception("an array of requests could not be handled")
                self._abort()
                for submission in batch:
                    submission.fail(OutcomeUnknown(f"The client failed: {_reason(error)}"))

    def _take(self) -> list[_Submission]:
        batch: list[_Submission] = []
        count = size = 0
        while self._queue:
            submission = self._queue[0]
            if not submission.future.done():
                count += len(submission.requests)
                size += len(submission.body)
                if batch and (count > batch_envelopes_max or size > array_bytes_max):
                    break
                batch.append(submission)
            self._queue.popleft()
            self._waiting -= len(submission.requests)
        return batch

    def _put_back(self, batch: Sequence[_Submission]) -> None:
        self._queue.extendleft(reversed(batch))
        self._waiting += sum(len(submission.requests) for submission in batch)

    async def _carry(self, batch: list[_Submission]) -> None:
        if not batch:
            return
        try:
            connection = await self._connect()
        except (OSError, ssl.SSLError) as error:
            await self._not_sent(batch, error)
            return
        for submission in batch:
            submission.sent = True
        asked_at = self._manner.clock.read()
        try:
            async with asyncio.timeout(self._manner.attempt_s):
                response = await connection.post(
                    b"[" + b",".join(submission.body for submission in batch) + b"]"
                )
        except OSError as error:
            self._abort()
            await self._unanswered(batch, error)
            return
        self._route.succeeded()
        if response.node_now is not None:
            self._manner.clock.follow(response.node_now, asked_at)
        await self._answered(batch, response)

    async def _connect(self) -> Link:
        if self._connection is None or not self._connection.is_usable:
            await self._disconnect()
            async with asyncio.timeout(self._manner.attempt_s):
                self._connection = await self._manner.connect(
                    self._route.current, self._manner.token, self._manner.tls
                )
        return self._connection

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def _not_sent(self, batch: list[_Submission], error: OSError) -> None:
        place = self._route.current
        rest_s = self._route.failed()
        for submission in batch:
            submission.trouble = error
            if not self._manner.persistent and self._route.rounds:
                submission.fail(Unreachable(f"{place} could not be reached: {_reason(error)}"))
        self._put_back([submission for submission in batch if not submission.future.done()])
        await asyncio.sleep(rest_s)

    async def _unanswered(self, batch: list[_Submission], error: OSError) -> None:
        place = self._route.current
        rest_s = self._route.failed()
        for submission in batch:
            submission.trouble = error
            if not self._manner.persistent or not is_repeatable(submission.requests):
                kinds = ", ".join(sorted({request.kind for request in submission.requests}))
                submission.fail(OutcomeUnknown(f"{place} did not answer {kinds}: {_reason(error)}"))
        self._put_back([submission for submission in batch if not submission.future.done()])
        await asyncio.sleep(rest_s)

    async def _answered(self, batch: list[_Submission], response: Response) -> None:
        requests = [request for submission in batch for request in submission.requests]
        try:
            replies = decode_replies(requests, response.body)
        except BadReply as error:
            for submission in batch:
                submission.fail(BadReply(f"{self._route.current}, HTTP {response.status}: {error.what}"))
            await self._disconnect()
            return
        again: list[_Submission] = []
        start = 0
        for submission in batch:
            end = start + len(submission.requests)
            share = replies[start:end]
            start = end
            if submission.future.done():
                continue  # the caller has gone; what it asked for is done
            if self._manner.persistent and _may_come_again(submission, share):
                again.append(submission)
            else:
                submission.future.set_result(share)
        await self._wait_for_room(again, response)

    async def _wait_for_room(self, again: list[_Submission], response: Response) -> None:
        """The node refused these for now. Keep their order: whatever came later waits behind them."""
        if not again:
            self._turned_away = 0
            return
        self._turned_away += 1
        self._put_back(again)
        if response.status == 503:
            await self._disconnect()  # it is stopping: another node may have its place
        asked_s = min(response.retry_after_s or 0.0, retry_after_s_max)
        await asyncio.sleep(max(asked_s, growing_rest(self._turned_away, self._manner.chance)))


def _may_come_again(submission: _Submission, replies: Sequence[Reply]) -> bool:
    if all(map(is_turned_away, replies)):
        return True
    return all(map(is_undecided, replies)) and is_repeatable(submission.requests)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return str(error) or type(error).__name__
