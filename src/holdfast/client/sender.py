"""Sends requests to a node in order: what waits goes out as one array, the next array when that is answered.

1. Arrays go out on one connection, in the order in which their requests were issued, and the node takes them
   one after the other: so requests are applied in that order. That is more than the order of one execution's
   writes, and costs nothing: what waits goes together anyway.
2. Requests issued while an array is under way join the next one. Under load arrays grow by themselves, and
   the node makes one commit of each. An array is bounded in envelopes and in bytes (`packing`).
3. When many executions write, a second array is sent behind the first if that pays (`overlap`): while the
   node is busy with one half of them, this process goes on with the other. Only writes of claims go there,
   and none of a claim that the first has a write of: if the node turns the first array away and takes the
   second, these were overtaken.
4. Requests that were issued together stay together, up to an array's bound: all are repeated or none.
5. What fails is put back in front, in order, if it may be repeated (`retries`), and else raises. A caller
   waits no longer than `limit_s`.
6. What waits is bounded; past `waiting_requests_max` a request raises and was not sent.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from msgspec import Struct, field

from holdfast.client.connection import Broken, Connection, Link, Opener, Response
from holdfast.client.endpoints import Endpoint, EndpointTurn, growing_rest
from holdfast.client.errors import (
    BadReply,
    ClientClosed,
    ClientError,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.overlap import Overlap
from holdfast.client.packing import Packing, PendingRequests
from holdfast.client.retries import is_left_out, is_repeatable, is_turned_away, is_undecided
from holdfast.client.wire import decode_plain_refusal, decode_replies
from holdfast.node.clock import SteadyClock, far_clock
from holdfast.node.end_tasks import end_tasks
from holdfast.protocol.limits import batch_envelopes_max
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request

log = logging.getLogger("holdfast.client")

waiting_requests_max: Final = 20_000
retry_after_s_max: Final = 30.0
# Answers without an envelope. After the first, nothing has reached the node; the others are also what some
# proxies say after they have passed the request on.
unheard_statuses: Final = (413, 429)
unknown_statuses: Final = (408, 502, 503, 504)


class ClientConfig(Struct, frozen=True):
    """How a client talks to its nodes."""

    token: str | None = None
    tls: ssl.SSLContext | None = None
    limit_s: float = 30.0  # what a caller waits for at most, retries included
    attempt_s: float = 10.0  # one round trip; also opening a connection
    persistent: bool = True  # keep trying within limit_s, or raise at the first failure
    connect: Opener = Connection.open
    chance: Random = field(default_factory=Random)  # spreads load, guards nothing
    clock: SteadyClock = field(default_factory=far_clock)  # follows the node's
    overlap: Callable[[], Overlap] = Overlap  # of each sender


class _Array(NamedTuple):
    batch: list[PendingRequests]
    asked_at: Millis  # by the clock that follows the node's


class _Refusal(NamedTuple):
    status: int  # of what was refused for now; the response of an array has its own
    response: Response


class Sender:
    def __init__(self, endpoints: Sequence[Endpoint], config: ClientConfig) -> None:
        self._route = EndpointTurn(endpoints, config.chance)
        self._config = config
        self._packing = Packing()
        self._timed: deque[PendingRequests] = deque()  # all that wait, those that have waited longest first
        self._alarm: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self._connection: Link | None = None
        self._under_way: deque[_Array] = deque()
        self._overlap = config.overlap()
        # To be sent again, or further, when nothing is under way.
        self._turned_back: list[PendingRequests] = []
        self._turned_back_by: _Refusal | None = None  # if it must rest before that
        self._looking = False
        self._worker: asyncio.Task[None] | None = None
        self._turned_away = 0
        self._closed = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self._closed:
            raise ClientClosed("This client was closed")
        if len(requests) > batch_envelopes_max:
            first = await self.request(requests[:batch_envelopes_max])
            return first + await self.request(requests[batch_envelopes_max:])
        waiting = self._packing.waiting
        if waiting + len(requests) > waiting_requests_max:
            raise TooManyWaiting(f"{waiting} requests are waiting, the limit is {waiting_requests_max}")
        loop = asyncio.get_running_loop()
        submission = PendingRequests(requests, loop.create_future(), loop.time() + self._config.limit_s)
        self._time(submission, loop)
        self._packing.put(submission)
        self._wanted.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="holdfast-sender")
        elif self._under_way and not self._looking:
            self._looking = True
            loop.call_soon(self._send_second)
        return await submission.future

    def _time(self, submission: PendingRequests, loop: asyncio.AbstractEventLoop) -> None:
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

    def _late(self, submission: PendingRequests) -> ClientError:
        limit = f"within {self._config.limit_s:g} s"
        reason = f" ({_reason(submission.trouble)})" if submission.trouble else ""
        if submission.sent:
            return RequestTimedOut(f"{self._route.current} did not answer {limit}{reason}")
        return Unreachable(f"{self._route.current} could not be reached {limit}{reason}")

    async def close(self) -> None:
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        await end_tasks([self._worker])
        await self._disconnect()
        for submission in self._packing.queue:
            submission.fail(ClientClosed("This client was closed"))
        self._packing.queue.clear()

    # --- the worker ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if not self._packing.queue and not self._under_way:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                await self._carry()
            except asyncio.CancelledError:
                self._give_up(ClientClosed("This client was closed"))
                raise
            except Exception as error:  # a defect: let it hurt those it concerns, and nobody after them
                log.exception("sending an array of requests failed")
                self._abort()
                self._give_up(OutcomeUnknown(f"The client failed: {_reason(error)}"))

    def _give_up(self, error: ClientError) -> None:
        for submission in [*self._all_under_way(), *self._turned_back]:
            submission.fail(error)
        self._under_way.clear()
        self._turned_back.clear()
        self._turned_back_by = None

    def _all_under_way(self) -> list[PendingRequests]:
        return [submission for array in self._under_way for submission in array.batch]

    async def _carry(self) -> None:
        """Send what waits, if nothing is under way; then hear the answer to what was sent first."""
        if not self._under_way:
            await self._send_first()
            if not self._under_way:
                return
        assert self._connection is not None
        try:
            async with asyncio.timeout(self._config.attempt_s):
                response = await self._connection.receive()
        except OSError as error:
            self._abort()
            await self._unanswered(error)
            return
        self._overlap.answered(asyncio.get_running_loop().time())
        array = self._under_way.popleft()
        if response.node_now is not None:
            self._config.clock.follow(response.node_now, array.asked_at)
        await self._answered(array, response)

    async def _send_first(self) -> None:
        batch = self._packing.take(self._first_envelopes_max())
        if not batch:
            return
        self._under_way.append(_Array(batch, 0))
        try:
            connection = await self._connect()
        except (OSError, ssl.SSLError) as error:
            self._under_way.clear()
            await self._not_sent(batch, error)
        else:
            self._under_way.clear()
            self._send(connection, batch)
            self._send_second()

    def _first_envelopes_max(self) -> int:
        """Half of what waits, if the rest can go behind it."""
        enough = self._overlap.pays and self._packing.waiting >= 2 * self._overlap.requests_min
        halves = enough and self._packing.queue[-1].claim is not None
        return min((self._packing.waiting + 1) // 2, batch_envelopes_max) if halves else batch_envelopes_max

    def _send_second(self) -> None:
        """Behind an array that is under way, when there is enough that need not wait for its answer."""
        self._looking = False
        connection = self._connection
        if (
            len(self._under_way) == 1
            and self._under_way[0].batch[-1].is_whole
            and self._overlap.pays
            and self._packing.waiting >= self._overlap.requests_min
            and not self._turned_back
            and connection is not None
            and connection.is_usable
        ):
            claims = {submission.claim for submission in self._under_way[0].batch}
            batch = self._packing.take(beside=claims)
            if batch:
                self._send(connection, batch)

    def _send(self, connection: Link, batch: list[PendingRequests]) -> None:
        for submission in batch:
            submission.sent = True
        self._under_way.append(_Array(batch, self._config.clock.read()))
        connection.send(b"[" + b",".join(body for each in batch for body in each.packed_bodies) + b"]")

    async def _connect(self) -> Link:
        if self._connection is None or not self._connection.is_usable:
            await self._disconnect()
            async with asyncio.timeout(self._config.attempt_s):
                self._connection = await self._config.connect(
                    self._route.current, self._config.token, self._config.tls
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

    async def _not_sent(self, batch: list[PendingRequests], error: OSError) -> None:
        place = self._route.current
        rest_s = self._route.failed()
        for submission in batch:
            submission.trouble = error
            if not self._config.persistent and self._route.rounds:
                submission.fail(Unreachable(f"{place} could not be reached: {_reason(error)}"))
        self._packing.put_back([submission for submission in batch if not submission.future.done()])
        await asyncio.sleep(rest_s)

    async def _unanswered(self, error: OSError) -> None:
        """The connection broke: nothing that is under way will be answered."""
        place = self._route.current
        rest_s = self._route.failed()
        batch = self._all_under_way()
        self._under_way.clear()
        for submission in batch:
            submission.trouble = error
            if not self._config.persistent or not is_repeatable(submission.packed_requests):
                kinds = ", ".join(sorted({request.kind for request in submission.packed_requests}))
                submission.fail(OutcomeUnknown(f"{place} did not answer {kinds}: {_reason(error)}"))
        self._packing.put_back([*self._turned_back, *(each for each in batch if not each.future.done())])
        self._turned_back.clear()
        self._turned_back_by = None
        await asyncio.sleep(rest_s)

    async def _answered(self, array: _Array, response: Response) -> None:
        if response.status == 413 and self._packing.is_smaller_after(array.batch):
            self._turned_back += (each for each in array.batch if not each.future.done())
        else:
            try:
                replies = _read(array.batch, response)
            except BadReply as error:
                await self._unreadable(array, response, error)
                return
            self._route.succeeded()
            self._hand_out(array.batch, replies, response)
        if self._turned_back and not self._under_way:
            await self._come_again()
        elif not self._turned_back:
            self._turned_away = 0

    async def _unreadable(self, array: _Array, response: Response, error: BadReply) -> None:
        """Something else than a node has answered."""
        self._abort()
        if response.status in unknown_statuses:
            self._under_way.appendleft(array)
            await self._unanswered(Broken(f"HTTP {response.status} from what stands before it"))
            return
        for submission in array.batch:
            submission.fail(BadReply(f"{self._route.current}, HTTP {response.status}: {error.what}"))
        if self._under_way or self._turned_back:
            await self._unanswered(Broken("An answer before it could not be read"))

    def _hand_out(self, batch: list[PendingRequests], replies: list[Reply], response: Response) -> None:
        start = 0
        for submission in batch:
            end = start + submission.packed
            share = replies[start:end]
            start = end
            if submission is batch[0]:
                share = share[: _answered_count(submission, share)]
            if submission.future.done():
                continue  # the caller has gone; what it asked for is done
            if self._config.persistent and _may_come_again(submission, share, submission is batch[0]):
                submission.trouble = Refused(share[-1].status, str(share[-1].data), share[-1].code)
                self._turned_back.append(submission)
                self._turned_back_by = _Refusal(share[-1].status, response)
            elif not submission.answer(share):
                self._turned_back.append(submission)

    async def _come_again(self) -> None:
        """Keep their order: whatever came later waits behind them."""
        self._packing.put_back(self._turned_back)
        self._turned_back.clear()
        refusal, self._turned_back_by = self._turned_back_by, None
        if refusal is None:
            self._turned_away = 0
        else:
            await self._wait_for_room(*refusal)

    async def _wait_for_room(self, status: int, response: Response) -> None:
        """The node refused something for now."""
        self._turned_away += 1
        if response.status in (429, 503):  # it takes nothing from us at all: another node may
            await self._disconnect()
            self._route.failed()
        # A node that stops, or whose store fails, cannot tell when it, or another, will be there again.
        asked_s = min(response.retry_after_s or 0.0, retry_after_s_max) if status == 429 else 0.0
        await asyncio.sleep(asked_s + growing_rest(self._turned_away, self._config.chance))


def _read(batch: Sequence[PendingRequests], response: Response) -> list[Reply]:
    requests = [request for submission in batch for request in submission.packed_requests]
    try:
        return decode_replies(requests, response.body)
    except BadReply:
        if response.status not in unheard_statuses:
            raise
        return [decode_plain_refusal(response.status, response.body)] * len(requests)


def _answered_count(submission: PendingRequests, replies: Sequence[Reply]) -> int:
    """All, or those before the first that was left out: what comes after it is asked for again."""
    first = next((n for n, reply in enumerate(replies) if is_left_out(reply)), 0)
    return first if first and is_repeatable(submission.packed_requests[first:]) else len(replies)


def _may_come_again(submission: PendingRequests, replies: Sequence[Reply], is_first: bool) -> bool:
    if all(map(is_turned_away, replies)):
        return True
    if not is_first and any(map(is_left_out, replies)):  # what is first would be left out again
        return is_repeatable(submission.packed_requests)
    return all(map(is_undecided, replies)) and is_repeatable(submission.packed_requests)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return str(error) or type(error).__name__
