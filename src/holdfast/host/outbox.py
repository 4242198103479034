"""Requests of a worker that leave together, in one array: one commit for all that ended meanwhile.

1. What is put in one turn of the loop, or while as many arrays as allowed are under way, leaves together.
2. Just before an array leaves, `compose` may add to it. So a claim is written last, when it is known how many
   slots are free, and sees in its own commit what the requests before it gave back.
3. A request is answered exactly once: with the reply, however often it had to be sent, or with None when it
   was put with `once` and its fate is unknown.
4. A node that cannot be reached is no reason to die or to forget: its requests wait and are sent again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.client.caller import ask, busy_rest_s, is_busy, rest_s
from holdfast.client.errors import ClientClosed
from holdfast.client.interface import Client
from holdfast.node.end_tasks import end_tasks
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, RequestData

log = logging.getLogger("holdfast.worker")

array_requests_max: Final = 500

Answered = Callable[[Reply | None], None]


class PendingRequest:
    """One request and who waits for its reply."""

    __slots__ = ("answered", "once", "request", "sent")

    def __init__(self, request: Request, answered: Answered, *, once: bool) -> None:
        self.request = request
        self.answered = answered
        self.once = once
        self.sent = 0  # how often it left; from the second time on it may find its work done

    @property
    def data(self) -> RequestData:
        return self.request.data


class Outbox:
    def __init__(self, client: Client, compose: Callable[[], None], *, arrays_max: int = 2) -> None:
        self._client = client
        self._compose = compose
        self._arrays_max = arrays_max
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PendingRequest] = deque()
        self._under_way: dict[asyncio.Future[list[Reply]], None] = {}
        self._is_due = False
        self._rests = False
        self._tries = 0  # in a row that a busy or silent node made of no use
        self._closed = False

    def put(self, data: RequestData, answered: Answered, *, once: bool = False) -> PendingRequest:
        pending = PendingRequest(ask(data), answered, once=once)
        self._waiting.append(pending)
        self.nudge()
        return pending

    def nudge(self) -> None:
        """There is, or `compose` would have, something to send."""
        if not self._is_due and not self._rests and len(self._under_way) < self._arrays_max:
            self._is_due = True
            self._loop.call_soon(self._send)

    async def drain(self) -> None:
        """Wait until everything that was put is answered."""
        while self._waiting or self._under_way:
            self.nudge()
            if self._under_way:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(busy_rest_s / 10 if self._rests else 0)

    async def close(self) -> None:
        """Forget what was not sent, and whoever waits for replies."""
        self._closed = True
        self._waiting.clear()
        await end_tasks(self._under_way)

    def _send(self) -> None:
        if self._closed or self._rests:
            self._is_due = False
            return
        self._compose()  # which may put more: they leave now, not in a turn of their own
        self._is_due = False
        if not self._waiting:
            return
        waiting = [self._waiting.popleft() for _ in range(min(len(self._waiting), array_requests_max))]
        for pending in waiting:
            pending.sent += 1
        try:
            asked = asyncio.ensure_future(self._client.request([pending.request for pending in waiting]))
        except ClientClosed:
            return
        self._under_way[asked] = None
        asked.add_done_callback(partial(self._arrived, waiting))
        if self._waiting:
            self.nudge()

    def _arrived(self, waiting: list[PendingRequest], asked: "asyncio.Future[list[Reply]]") -> None:
        try:
            if not asked.cancelled():
                self._answer(waiting, asked)
        finally:
            self._under_way.pop(asked, None)
            if not self._closed:
                self.nudge()

    def _answer(self, waiting: list[PendingRequest], asked: "asyncio.Future[list[Reply]]") -> None:
        error = asked.exception()
        if isinstance(error, ClientClosed):
            return
        if error is not None:
            log.warning("the node could not be reached", exc_info=error, extra={"requests": len(waiting)})
            self._again(waiting)
            return
        refused: list[PendingRequest] = []
        for pending, reply in zip(waiting, asked.result(), strict=True):
            if is_busy(reply):
                refused.append(pending)
            else:
                pending.answered(reply)
        if refused:
            self._again(refused)
        else:
            self._tries = 0

    def _again(self, waiting: list[PendingRequest]) -> None:
        """Send them once more after a rest, before what came later."""
        for pending in reversed(waiting):
            if pending.once:
                pending.answered(None)
            else:
                self._waiting.appendleft(pending)
        self._rests = True
        self._tries += 1
        self._loop.call_later(rest_s(self._tries), self._rested)

    def _rested(self) -> None:
        self._rests = False
        if not self._closed:
            self.nudge()
