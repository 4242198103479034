"""Calls in progress on the event loop of a session: started in asyncio, or handed over by other threads.

`TrackedCalls` are those that were started in asyncio, on the session's own loop:

1. A call is held until it has ended: a loop alone would let it be garbage collected half-way.
2. Who stops waiting for it does not cancel it.
3. Closing waits for it. What fails while nobody awaits it is logged.
4. The node has them in the order in which they were asked for.

`Crossing` has those that other threads hand over, and wait for:

5. Whoever stops waiting cancels the call: what nobody waits for is not waited for by us either.
6. Closing waits for it a while and cancels the rest. Whoever waits then gets ClosedTooSoon.
"""

import asyncio
import concurrent.futures
import logging
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.host.errors import ClosedTooSoon
from holdfast.payloads.error_values import text_of
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.app")

T = TypeVar("T")
A = TypeVar("A")


class TrackedCall:
    """One such piece of work. Await it as often as you like, or not at all."""

    task: "asyncio.Future[None]"

    def __init__(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        self._prepare(what)
        self._work = work
        self.task = asyncio.ensure_future(self._do(work))
        self.task.add_done_callback(self._ended)

    def _prepare(self, what: str) -> None:
        self._what = what
        self._calls: TrackedCalls | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._was_heard = False
        self._is_called_off = False
        self._has_begun = False
        self._withdrawn: Exception | None = None
        self._process = os.getpid()

    def __await__(self) -> Generator[Any, None, None]:
        self.check()
        if self.task.done():
            self._was_heard = True
            self.task.result()
            return
        waiter = self.task.get_loop().create_future()
        self._waiters.append(waiter)
        yield from waiter

    def check(self) -> None:
        """Before somebody waits for it. Raises if he would wait for himself. What the node does not have yet
        is withdrawn then: whoever got the error would not expect that it is done."""
        if self._withdrawn is not None:
            raise self._withdrawn
        if self._calls is None or self._calls.check is None or self.task.done():
            return
        try:
            self._calls.check()
        except Exception as error:
            if not self._has_begun:
                self._withdrawn, self._was_heard = error, True
                self._work.close()
                self.task.cancel()
            raise

    @property
    def is_inherited(self) -> bool:
        """Was it begun by the process that this one was forked from? Then nobody here can wait for it."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Is this its loop? What is done in somebody's own transaction may be on another than the app's."""
        return self.task.get_loop() is asyncio.get_running_loop()

    def hold(self, calls: "TrackedCalls") -> None:
        self._calls = calls

    def call_off(self) -> None:
        self._is_called_off = True
        self.task.cancel()

    async def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._has_begun = True
        try:
            await work
        except asyncio.CancelledError:
            if not self._is_called_off:
                raise
            error = self._closed_too_soon()
            self._tell(error)
            raise error from None
        except BaseException as error:
            self._tell(error)
            raise
        self._tell(None)

    def _closed_too_soon(self) -> ClosedTooSoon:
        return ClosedTooSoon(f"The app was closed before {self._what} was answered")

    def _tell(self, error: BaseException | None) -> None:
        """From within the task, and not after it: that would cost every call one more turn of the loop."""
        if self._calls is not None:
            self._calls.note_sent(self)
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

    def _ended(self, task: "asyncio.Future[None]") -> None:
        if self._calls is not None:
            self._calls.let_go(self)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        for waiter in self._waiters:  # it was cancelled, perhaps before it had begun
            self._was_heard |= waiter.cancel()
        if error is not None and not self._was_heard:
            said = printable(text_of(error) or type(error).__name__)
            log.error("%s failed, and its result was never awaited: %s", printable(self._what), said)


class SentRequest(Generic[A]):
    """What a node in this process was asked for. Follow it with a `SentCall`, or await it."""

    __slots__ = ("answering", "read")

    def __init__(
        self, answering: "asyncio.Future[A]", read: Callable[[A], Coroutine[Any, Any, None] | None]
    ) -> None:
        """`read` raises what the answer says was refused, or gives what is left to be done, if anything."""
        self.answering = answering
        self.read = read

    def __await__(self) -> Generator[Any, None, None]:
        rest = self.read((yield from self.answering))
        if rest is not None:
            yield from rest.__await__()


class SentCall(TrackedCall, Generic[A]):
    """One that a node in this process has already: only its answer is missing, so it needs no task."""

    def __init__(self, what: str, sent: SentRequest[A]) -> None:
        self._prepare(what)
        self._has_begun = True
        self._read = sent.read
        self._rest: asyncio.Task[None] | None = None
        self.task = sent.answering.get_loop().create_future()
        sent.answering.add_done_callback(self._answered)

    def call_off(self) -> None:
        self._end(self._closed_too_soon())
        if self._rest is not None:
            self._rest.cancel()

    def _answered(self, answering: "asyncio.Future[A]") -> None:
        try:
            rest = self._read(answering.result())
        except BaseException as error:
            self._end(error)
            return
        if rest is None:
            self._end(None)
        else:
            self._rest = asyncio.ensure_future(rest)
            self._rest.add_done_callback(self._rest_done)

    def _rest_done(self, rest: "asyncio.Task[None]") -> None:
        self._end(asyncio.CancelledError() if rest.cancelled() else rest.exception())

    def _end(self, error: BaseException | None) -> None:
        if self.task.done():  # it was called off
            return
        if isinstance(error, asyncio.CancelledError):
            self.task.cancel()
        else:
            self._tell(error)
            if error is None:
                self.task.set_result(None)
            else:
                self.task.set_exception(error)
        self._ended(self.task)


class TrackedCalls:
    """All of it that is on its way on one event loop."""

    def __init__(self) -> None:
        self.check: Callable[[], None] | None = None  # called before somebody waits for one of them
        self._under_way: dict[asyncio.Future[None], TrackedCall] = {}
        self._unsent: set[asyncio.Future[None]] = set()

    @property
    def has_unsent(self) -> bool:
        """Is there one that the node may not have yet? What is asked for later must not overtake it."""
        return bool(self._unsent)

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> TrackedCall:
        call = self.hold(TrackedCall(what, work))
        self._unsent.add(call.task)
        return call

    def hold(self, call: TrackedCall) -> TrackedCall:
        call.hold(self)
        self._under_way[call.task] = call
        return call

    def note_sent(self, call: TrackedCall | None = None) -> None:
        """The node has it now, or it is over. Without one: the call whose task runs."""
        task = asyncio.current_task() if call is None else call.task
        if task is not None:
            self._unsent.discard(task)

    async def let_others_begin(self) -> None:
        """What was asked for before, and has not begun, begins first."""
        if self._unsent:
            await asyncio.sleep(0)

    def let_go(self, call: TrackedCall) -> None:
        self._under_way.pop(call.task, None)
        self._unsent.discard(call.task)

    async def finish(self, within_s: float) -> None:
        """Wait for all of it, and for what is asked for meanwhile; after that time call off what is left."""
        now = asyncio.get_running_loop().time
        ends_s = now() + within_s
        while self._under_way and now() < ends_s:
            await asyncio.wait([*self._under_way], timeout=ends_s - now())
        for begun in [*self._under_way.values()]:
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
