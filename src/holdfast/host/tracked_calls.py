"""What was asked for in asyncio and is on its way, whether anybody awaits it or not.

1. It is held until it has ended: a loop alone would let it be forgotten half-way.
2. Who stops waiting for it does not call it off.
3. Closing waits for it. What fails while nobody waits is told in the log: nothing is dropped without a word.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Generator
from typing import Any

from holdfast.host.errors import ClosedTooSoon
from holdfast.payloads.error_values import text_of
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.app")


class TrackedCall:
    """One such piece of work. Await it as often as you like, or not at all."""

    def __init__(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        self._what = what
        self._askers = 0
        self._is_called_off = False
        self._process = os.getpid()
        self.task = asyncio.ensure_future(self._do(work))
        self.task.add_done_callback(self._ended)

    def __await__(self) -> Generator[Any, None, None]:
        self._askers += 1
        try:
            yield from asyncio.shield(self.task).__await__()
        finally:
            self._askers -= 1

    @property
    def is_inherited(self) -> bool:
        """Was it begun by the process that this one was forked from? Then nobody here can wait for it."""
        return self._process != os.getpid()

    def call_off(self) -> None:
        self._is_called_off = True
        self.task.cancel()

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            if self._is_called_off:
                raise ClosedTooSoon(f"The app was closed before {self._what} was answered") from None
            raise

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not self._askers:
            said = printable(text_of(error) or type(error).__name__)
            log.error("%s failed while nobody awaited it: %s", printable(self._what), said)


class TrackedCalls:
    """All of it that is on its way on one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[None], TrackedCall] = {}

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> TrackedCall:
        begun = TrackedCall(what, work)
        self._under_way[begun.task] = begun
        begun.task.add_done_callback(self._under_way.pop)
        return begun

    async def finish(self, within_s: float) -> None:
        """Wait for all of it, and for what is asked for meanwhile; after that time call off what is left."""
        now = asyncio.get_running_loop().time
        ends_s = now() + within_s
        while self._under_way and now() < ends_s:
            await asyncio.wait([*self._under_way], timeout=ends_s - now())
        for begun in self._under_way.values():
            begun.call_off()
        if self._under_way:
            await asyncio.wait([*self._under_way])


class Done:
    """What is over already, for those who await it all the same."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield
