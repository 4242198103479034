"""Receives the messages of a group for as long as a session lives, and tells waiters which promises settled.

A node may refuse a stream for a while: tokens are changed, a limit is reached, a proxy is in between. Who is
refused today may be admitted tomorrow, so a refusal is logged and the stream is opened again, after ever
longer waits.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.client.interface import Client
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Promise
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.client")

refused_rest_s: Final = 2.0
refused_rest_s_max: Final = 30.0

looked_at_max: Final = 500  # in one transaction
Hear = Callable[[Promise], None]
Find = Callable[[Sequence[str]], Awaitable[list[Promise]]]


async def listen(client: Client, group: str, member: str, hear: Callable[[Message], None]) -> None:
    """Until the client is closed."""
    loop = asyncio.get_running_loop()
    rest_s = refused_rest_s
    while True:
        began_s = loop.time()
        try:
            async with client.messages(group, member) as messages:
                async for message in messages:
                    hear(message)
            return
        except Exception as error:
            if loop.time() - began_s > refused_rest_s_max:  # it had been let in
                rest_s = refused_rest_s
            code = error.code if isinstance(error, HoldfastError) else None
            log.error(
                "the messages of group %s cannot be received; trying again in %g s: %s",
                printable(group),
                rest_s,
                printable(str(error)),
                exc_info=code is None,  # nobody refuses like that: it is a defect
                extra={"group": group, "code": code or type(error).__name__, "worker": member},
            )
        await asyncio.sleep(rest_s)
        rest_s = min(2 * rest_s, refused_rest_s_max)


class OutcomeWait:
    """Somebody who waits until a promise is settled."""

    __slots__ = ("_error", "_waiter", "promise", "promise_id")

    def __init__(self, promise_id: str) -> None:
        self.promise_id = promise_id
        self.promise: Promise | None = None  # once it is settled
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    def hear(self, promise: Promise) -> None:
        self.promise = promise
        self._wake()

    def stop(self, error: Exception) -> None:
        """Nobody is going to tell of it: this is raised where it is waited for."""
        self._error = error
        self._wake()

    async def heard_within(self, limit_s: float) -> None:
        """Until it is settled, and not longer than this. `asyncio.wait` would take a turn of the loop more,
        and `asyncio.wait_for` swallows a cancellation that comes with the wake-up, on Python 3.11."""
        if self.promise is None and self._error is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(limit_s, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
        if self.promise is None and self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Settlements:
    def __init__(self) -> None:
        self._waiting: dict[str, list[Hear]] = {}

    def hear(self, promise_id: str, hear: Hear) -> Callable[[], None]:
        """Call `hear` once with the settled promise. Returns a way to withdraw."""
        self._waiting.setdefault(promise_id, []).append(hear)
        return lambda: self._withdraw(promise_id, hear)

    def tell(self, promise: Promise) -> None:
        for hear in self._waiting.pop(promise.id, []):
            hear(promise)

    async def look(self, find: Find) -> None:
        """Messages may have been missed: tell of what has settled without one."""
        awaited = self.awaited
        for start in range(0, len(awaited), looked_at_max):
            for promise in await find(awaited[start : start + looked_at_max]):
                if promise.state != "pending":
                    self.tell(promise)

    @property
    def awaited(self) -> list[str]:
        return [*self._waiting]

    def _withdraw(self, promise_id: str, hear: Hear) -> None:
        waiting = self._waiting.get(promise_id, [])
        if hear in waiting:
            waiting.remove(hear)
        if not waiting:
            self._waiting.pop(promise_id, None)
