"""Calls in progress on the event loop of a session: started in asyncio, or handed over by other threads.

`TrackedCalls` are those that were started in asyncio, on the session's own loop:

1. A call is held until it has ended: a loop alone would let it be garbage collected half-way.
2. Who stops waiting for it does not cancel it.
3. Closing waits for it. What fails while nobody awaits it is logged.

`Crossing` has those that other threads hand over, and wait for:

4. Whoever stops waiting cancels the call: what nobody waits for is not waited for by us either.
5. Closing waits for it a while and cancels the rest. Whoever waits then gets ClosedTooSoon.
"""

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from holdfast.host.errors import ClosedTooSoon
from holdfast.payloads.error_values import text_of
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.app")

T = TypeVar("T")


class TrackedCall:
    """One such piece of work. Await it as often as you like, or not at all."""

    def __init__(
        self,
        what: str,
        work: Coroutine[Any, Any, None],
        then: "Callable[[asyncio.Task[None]], object] | None" = None,
    ) -> None:
        """`then` is called when it has ended."""
        self._what = what
        self._then = then
        self._waiters: list[asyncio.Future[None]] = []
        self._was_heard = False
        self._is_called_off = False
        self._process = os.getpid()
        self.task = asyncio.ensure_future(self._do(work))
        self.task.add_done_callback(self._ended)

    def __await__(self) -> Generator[Any, None, None]:
        if self.task.done():
            self._was_heard = True
            self.task.result()
            return
        waiter = self.task.get_loop().create_future()
        self._waiters.append(waiter)
        yield from waiter

    @property
    def is_inherited(self) -> bool:
        """Was it begun by the process that this one was forked from? Then nobody here can wait for it."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Is this its loop? What is done in somebody's own transaction may be on another than the app's."""
        return self.task.get_loop() is asyncio.get_running_loop()

    def call_off(self) -> None:
        self._is_called_off = True
        self.task.cancel()

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            if not self._is_called_off:
                raise
            error = ClosedTooSoon(f"The app was closed before {self._what} was answered")
            self._tell(error)
            raise error from None
        except BaseException as error:
            self._tell(error)
            raise
        self._tell(None)

    def _tell(self, error: BaseException | None) -> None:
        """From within the task, and not after it: that would cost every call one more turn of the loop."""
        for waiter in self._waiters:
            if waiter.done():  # it has stopped waiting
                continue
            self._was_heard = True
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
                waiter.exception()  # the task has it too: nobody need be told that it was not looked at
        self._waiters.clear()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if self._then is not None:
            self._then(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        for waiter in self._waiters:  # it was cancelled, perhaps before it had begun
            self._was_heard |= waiter.cancel()
        if error is not None and not self._was_heard:
            said = printable(text_of(error) or type(error).__name__)
            log.error("%s failed, and its result was never awaited: %s", printable(self._what), said)


class TrackedCalls:
    """All of it that is on its way on one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[None], TrackedCall] = {}

    @property
    def has_any(self) -> bool:
        return bool(self._under_way)

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> TrackedCall:
        begun = TrackedCall(what, work, self._under_way.pop)
        self._under_way[begun.task] = begun
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

    def __repr__(self) -> str:
        return "<done>"


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


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
