"""What a worker tells its node, many requests in one array: one commit for all that ended meanwhile.

1. What is put in one turn of the loop, or while as many arrays as allowed are under way, leaves together.
2. Just before an array leaves, `compose` may add to it. So a claim is written last, when it is known how many
   slots are free, and sees in its own commit what the requests before it gave back.
3. A letter is answered exactly once: with the reply, however often it had to be sent, or with None when it
   was put with `once` and its fate is unknown.
4. A node that cannot be reached is no reason to die or to forget: letters wait and are sent again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.client.asking import ask
from holdfast.client.errors import ClientClosed
from holdfast.client.interface import Client
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, RequestData

log = logging.getLogger("holdfast.tasks")

array_requests_max: Final = 500
rest_s: Final = 0.5

Answered = Callable[[Reply | None], None]


class Letter:
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
        self._letters: deque[Letter] = deque()
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._is_due = False
        self._rests = False
        self._closed = False

    def put(self, data: RequestData, answered: Answered, *, once: bool = False) -> Letter:
        letter = Letter(ask(data), answered, once=once)
        self._letters.append(letter)
        self.nudge()
        return letter

    def nudge(self) -> None:
        """There is, or `compose` would have, something to send."""
        if not self._is_due and not self._rests and len(self._under_way) < self._arrays_max:
            self._is_due = True
            self._loop.call_soon(self._send)

    async def drain(self) -> None:
        """Wait until everything that was put is answered."""
        while self._letters or self._under_way:
            self.nudge()
            if self._under_way:
                await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(rest_s / 10 if self._rests else 0)

    async def close(self) -> None:
        """Forget what was not sent, and whoever waits for replies."""
        self._closed = True
        self._letters.clear()
        under_way = [*self._under_way]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _send(self) -> None:
        if self._closed or self._rests:
            self._is_due = False
            return
        self._compose()  # which may put letters: they leave now, not in a turn of their own
        self._is_due = False
        if not self._letters:
            return
        letters = [self._letters.popleft() for _ in range(min(len(self._letters), array_requests_max))]
        task = asyncio.create_task(self._deliver(letters))
        self._under_way[task] = None
        task.add_done_callback(self._arrived)
        if self._letters:
            self.nudge()

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if not self._closed:
            self.nudge()

    async def _deliver(self, letters: list[Letter]) -> None:
        for letter in letters:
            letter.sent += 1
        try:
            replies = await self._client.request([letter.request for letter in letters])
        except ClientClosed:
            return
        except Exception:
            log.warning("the node could not be asked", exc_info=True, extra={"requests": len(letters)})
            self._again(letters)
            return
        refused: list[Letter] = []
        for letter, reply in zip(letters, replies, strict=True):
            if reply.status in (429, 503):
                refused.append(letter)
            else:
                letter.answered(reply)
        if refused:
            self._again(refused)

    def _again(self, letters: list[Letter]) -> None:
        """Send them once more after a rest, before what came later."""
        for letter in reversed(letters):
            if letter.once:
                letter.answered(None)
            else:
                self._letters.appendleft(letter)
        self._rests = True
        self._loop.call_later(rest_s, self._rested)

    def _rested(self) -> None:
        self._rests = False
        if not self._closed:
            self.nudge()
