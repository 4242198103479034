"""Work that other threads hand to the event loop of a session, and wait for.

1. Whoever stops waiting calls the work off: what nobody waits for is not waited for by us either.
2. Closing waits for it a while and calls off the rest. Whoever waits then gets ClosedTooSoon.
"""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from holdfast.host.errors import ClosedTooSoon

T = TypeVar("T")


class Crossing:
    """All of it that is under way on one loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def hand_over(
        self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
    ) -> "concurrent.futures.Future[T]":
        """On any thread."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        loop.call_soon_threadsafe(self._begin, work, future)
        return future

    async def finish(self, within_s: float) -> None:
        """Nothing more is handed over. Wait for what was, and after that time call it off."""
        await asyncio.sleep(0)  # what was handed over before has begun by then
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=within_s)
        self._is_over = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks])

    def _begin(self, work: Coroutine[Any, Any, T], future: "concurrent.futures.Future[T]") -> None:
        """On the loop."""
        if future.cancelled():
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        future.add_done_callback(partial(_call_off, task, asyncio.get_running_loop()))
        task.add_done_callback(partial(self._end, work, future))

    def _end(
        self,
        work: Coroutine[Any, Any, T],
        future: "concurrent.futures.Future[T]",
        task: "asyncio.Task[T]",
    ) -> None:
        self._tasks.discard(task)
        work.close()  # one that was cancelled may not even have begun
        with suppress(concurrent.futures.InvalidStateError):  # nobody waits any more
            if task.cancelled():
                if self._is_over:
                    future.set_exception(ClosedTooSoon("The app was closed before this was answered"))
                else:
                    future.cancel()
                    future.set_running_or_notify_cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())


def _call_off(
    task: "asyncio.Task[Any]", loop: asyncio.AbstractEventLoop, future: "concurrent.futures.Future[Any]"
) -> None:
    if future.cancelled() and not task.done():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)
