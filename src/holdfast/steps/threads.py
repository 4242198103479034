"""Threads for steps that block: bounded, made when needed, cheap to cross.

The loop hands a `ThreadRun` over; a thread performs it; the loop gets it back. The standard pool would do, at
three times the price: it makes a lock and a condition per call and wakes the loop once per result.

1. Everything but `_work` runs on the loop's thread, so the counts need no lock.
2. A thread that finishes while a wake-up is on its way adds to that one. The flag is lowered before the
   results are taken, so none is left behind.
3. A thread cannot be stopped. A ticket that nobody waits for any more is *left behind*: it keeps its thread,
   and its place under `threads_max`, until its function returns. Threads are daemons, so one that never does
   cannot keep the process alive.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from inspect import iscoroutine
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, Final

JOIN_S_MAX: Final = 1.0


class ThreadRun:
    """One call for a thread, and what came of it."""

    __slots__ = ("began_at", "dropped", "ended", "error", "thread", "value", "work")

    def __init__(self, work: Callable[[], Any], ended: Callable[[ThreadRun], None]) -> None:
        self.work: Callable[[], Any] | None = work
        self.ended = ended
        self.began_at: float | None = None
        self.thread: Thread | None = None
        self.dropped = False
        self.value: Any = None
        self.error: BaseException | None = None


class Threads:
    """A pool that belongs to one event loop."""

    def __init__(self, loop: AbstractEventLoop, threads_max: int, name: str = "holdfast-step") -> None:
        self._loop = loop
        self._threads_max = threads_max
        self._name = name
        self._threads: list[Thread] = []
        self._queue: SimpleQueue[ThreadRun | None] = SimpleQueue()
        self._results: deque[ThreadRun] = deque()
        self._outstanding = 0
        self._left_behind: set[ThreadRun] = set()
        self._waking = False
        self._closed = False
        self._context = copy_context()

    @property
    def left_behind(self) -> int:
        """How many threads still perform what nobody waits for."""
        return len(self._left_behind)

    def submit(self, ticket: ThreadRun) -> None:
        assert not self._closed
        self._outstanding += 1
        if self._outstanding > len(self._threads) < self._threads_max:
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(ticket)

    def drop(self, ticket: ThreadRun) -> None:
        """Nobody waits for it any more: it is skipped if it has not begun, and left behind if it has."""
        ticket.dropped = True
        self._left_behind.add(ticket)

    def close(self) -> None:
        """End the threads. Those left behind end when their functions return."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        busy = {ticket.thread for ticket in self._left_behind}
        for thread in self._threads:
            if thread not in busy:
                thread.join(JOIN_S_MAX)

    def _work(self) -> None:
        time = self._loop.time
        while (ticket := self._queue.get()) is not None:
            if not ticket.dropped:
                ticket.thread = current_thread()
                ticket.began_at = time()
                assert ticket.work is not None
                try:
                    ticket.value = ticket.work()
                except BaseException as error:
                    ticket.error = error
            ticket.work = None
            self._results.append(ticket)
            del ticket
            if not self._waking:
                self._waking = True
                with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                    self._loop.call_soon_threadsafe(self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._waking = False
        while self._results:
            ticket = self._results.popleft()
            self._outstanding -= 1
            self._left_behind.discard(ticket)
            if not ticket.dropped:
                ticket.ended(ticket)
            elif iscoroutine(ticket.value):
                ticket.value.close()  # nobody will await it
