"""An event loop with virtual time: when everything waits, its clock jumps to the next timer.

Only for code that waits on timers and futures of this loop: nothing else can wake it.

1. What is ready runs in the order in which it became ready; timers of one instant in the order in which they
   were set. Nothing else decides the order: no address, no hash, no version of Python.
2. What runs on behalf of a `Process` is marked by its context. A process that is dead runs nothing more, not
   even a `finally`: that is kill -9, at whatever await it was. One that is frozen runs later what it missed.
"""

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from holdfast.payloads.errors import AnotherLoop

Result = TypeVar("Result")


class Stuck(RuntimeError):
    """All wait for something that cannot come: no timer is set, and no work is left."""


def check_no_other_loop() -> None:
    """A jumping loop is driven by whoever waits for something of it, so no other loop can be."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AnotherLoop("A World has an event loop of its own, and another one is running here")


class Process:
    """What lives and dies together: everything that was started in its context, and what that started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.missed: list[LoopTurn] = []
        self.turns = 0
        self.dies_after: int | None = None  # so many turns from its start
        self.on_death: list[Callable[[], None]] = []
        self.context = Context()
        self.context.run(_process.set, self)

    def admits(self, turn: "LoopTurn") -> bool:
        """May this happen now? A turn of a frozen process is kept for later."""
        if self.is_dead:
            return False
        if self.is_frozen:
            self.missed.append(turn)
            return False
        self.turns += 1
        if self.dies_after is not None and self.turns > self.dies_after:
            self.die()
            return False
        return True

    def die(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            for tell in self.on_death:
                tell()

    def __repr__(self) -> str:
        return f"<process {self.name}>"


_process: ContextVar[Process | None] = ContextVar("holdfast process", default=None)


class LoopTurn(asyncio.TimerHandle):
    """One callback, and on whose behalf it is."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.process: Process | None = context.get(_process)

    def run(self) -> None:
        self._run()


class JumpingLoop(asyncio.BaseEventLoop):
    """`like_uvloop`: its timers behave as those of uvloop, on which a server runs. A delay of zero runs
    before what became ready earlier; a timer rings when the loop's time is still just below its instant."""

    def __init__(self, epoch_ms: int = 0, *, like_uvloop: bool = False) -> None:
        super().__init__()
        self._like_uvloop = like_uvloop
        self.jumped_s = 0.0
        self.turns = 0
        self.turns_still_max = 10_000_000  # at one instant: past it, somebody goes round in circles
        self._still_since = 0
        self.tasks: list[tuple[asyncio.Task[Any], Process | None]] | None = (
            None  # for whoever asks to keep them
        )
        self._epoch_ms = epoch_ms
        self._line: deque[LoopTurn] = deque()
        self._undone: list[LoopTurn] = []
        self._timers: list[tuple[float, int, LoopTurn]] = []
        self._set_count = 0
        self._ended = False

    # --- time ------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.jumped_s

    def millis(self) -> int:
        """The virtual time, in milliseconds since 1970."""
        return self._epoch_ms + round(self.jumped_s * 1000)

    # --- what is to happen -----------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> LoopTurn:
        if self._ended:
            raise RuntimeError("Event loop is closed")
        turn = LoopTurn(self.jumped_s, callback, args, self, copy_context() if context is None else context)
        self._line.append(turn)
        return turn

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> LoopTurn:
        if not self.is_running():
            check_no_other_loop()
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> LoopTurn:
        return self.call_at(self.jumped_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> LoopTurn:
        shown = math.nextafter(when, math.inf) if self._like_uvloop else when
        turn = LoopTurn(shown, callback, args, self, copy_context() if context is None else context)
        if self._like_uvloop and when <= self.jumped_s:
            self._line.appendleft(turn)
            return turn
        self._set_count += 1
        heapq.heappush(self._timers, (when, self._set_count, turn))
        return turn

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        if self.tasks is not None:
            context = options.get("context")
            self.tasks.append((task, _process.get() if context is None else context.get(_process)))
        return task

    def thaw(self, process: Process) -> None:
        """Let a frozen process continue: what it missed happens now."""
        if process.is_dead or not process.is_frozen:
            return
        process.is_frozen = False
        self._line.extend(process.missed)
        process.missed.clear()

    # --- what happens ----------------------------------------------------------------------------------

    def _run_once(self) -> None:
        line, timers = self._line, self._timers
        if not line:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if timers:
                self._jump_to(timers[0][0])
            elif not getattr(self, "_stopping", False):
                raise Stuck(
                    "Every execution waits for something that cannot happen. "
                    "Is there a promise that nobody settles?"
                )
        while timers and timers[0][0] <= self.jumped_s:
            line.append(heapq.heappop(timers)[2])
        for _ in range(len(line)):
            turn = line.popleft()
            if turn.cancelled():
                continue
            if turn.process is not None and not turn.process.admits(turn):
                self._undone.append(turn)  # kept, so that nothing notices that it never happens
                continue
            self.turns += 1
            turn.run()

    def _jump_to(self, instant: float) -> None:
        if instant > self.jumped_s:
            self.jumped_s = instant
            self._still_since = self.turns
        elif self.turns - self._still_since > self.turns_still_max:
            raise Stuck(
                f"Virtual time does not advance: {self.turns_still_max} callbacks ran at one instant."
            )

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def close(self) -> None:
        self._ended = True
        self._line.clear()
        self._timers.clear()
        super().close()

    def bury(self) -> None:
        """End everything that still runs, without a report."""
        kept, self.tasks = self.tasks or [], None
        tasks = dict.fromkeys([*(task for task, _ in kept), *asyncio.all_tasks(self)])
        self.close()
        with catch_warnings():
            simplefilter("ignore")  # what was killed before it began was never awaited, which is no mistake
            _end(tasks)
            for things in (kept, tasks, self._undone):
                things.clear()


def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if not task.done():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(BaseException):
                task.get_coro().close()


def run_jumping(main: Coroutine[Any, Any, Result], loop: JumpingLoop) -> Result:
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
