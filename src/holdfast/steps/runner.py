"""The step runner: performs steps outside the fibers, on an asyncio loop, and tells how each ended.

Sync functions run in threads, `async def` ones as tasks of the loop, those asked for with mode "process" in
child processes, and those asked for with mode "inline" right on the loop's thread: for functions that take
microseconds and for virtual time, as nothing else runs meanwhile.

    runner = StepRunner()
    runner.start(StepCall(step, retry, time_limit_s=30), done)  # done(outcome), on the loop's thread, once

1. `start` may be called on a fiber's stack: it runs no user code and calls no one back. Who is no fiber may
   ask for an async step to begin at once.
2. When a step's signal is set, a pending retry is dropped, a task is cancelled, a child is killed. A thread
   cannot be stopped: its function is told by the signal and left to finish, and the step ends at once. So
   is a task that swallows its cancellation, after a few seconds of grace.
3. A time limit is per attempt, counts from when the function begins, and does the same to the attempt. An
   attempt in a thread may therefore still be at it when the next one begins: let it watch its signal.
4. After `close` there is no child of this runner, and no thread or task but those left to finish. What was
   emitted and is on its way by then is given up: its step is performed again elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from holdfast.payloads.errors import StepsClosed
from holdfast.steps.child import AppLocation
from holdfast.steps.here import current_attempt
from holdfast.steps.loop_tasks import LoopTasks
from holdfast.steps.processes import Processes
from holdfast.steps.step_run import CANCEL_GRACE_S, Mode, RunningStep, StepCall, StepOutcome, StepRun
from holdfast.steps.threads import Threads

__all__ = ["Mode", "RunningStep", "StepCall", "StepOutcome", "StepRunner", "current_attempt"]

THREADS_MAX: Final = 40
PROCESSES_MAX: Final = os.cpu_count() or 1


class StepRunner:
    """Performs steps for all executions of a worker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        threads_max: int = THREADS_MAX,
        processes_max: int = PROCESSES_MAX,
        app_location: AppLocation | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.loop = loop or asyncio.get_running_loop()
        self.context = copy_context()
        self.threads = Threads(self.loop, threads_max)
        self.processes = Processes(processes_max, app_location)
        self.loop_tasks = LoopTasks(self.loop, self.context)
        self.tasks_left_behind: set[asyncio.Task[Any]] = set()
        self.sending: set[asyncio.Task[None]] = set()  # what steps have emitted, and is on its way
        self.random = random
        self.executions = 0  # that a worker drives, and that may ask for steps
        self.is_stopping = False  # the worker claims no more: an execution leaves at the end of a generation
        self._running: dict[StepRun, None] = {}
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._closed = False

    def start(self, call: StepCall, done: Callable[[StepOutcome], None]) -> None:
        """Begin a step. `done` gets its outcome on the loop's thread, exactly once; after this returned,
        unless the step is to begin `at_once`.

        It must be quick and may not count on `asyncio.current_task()`, which may be the step's own.
        """
        if self._closed:
            raise StepsClosed(f"The step {call.step.name} was started on a runner that is closed")
        StepRun(self, call, done).start()

    def running(self) -> list[RunningStep]:
        """The steps under way, oldest first."""
        return sorted((each.describe() for each in self._running), key=lambda each: -each.running_s)

    @property
    def left_behind(self) -> int:
        """Threads and tasks that still perform a step which timed out or was called off, and will not end."""
        return self.threads.left_behind + len(self.tasks_left_behind)

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until no step is under way; False when that took longer than `timeout_s`."""
        if not self._running:
            return True
        idle: asyncio.Future[None] = self.loop.create_future()
        self._idle_waiters.append(idle)
        await asyncio.wait([idle], timeout=timeout_s)
        return idle.done()

    async def close(self) -> None:
        """Call off every step and take down what performed it. Their `done` gets StepCalledOff."""
        self._closed = True
        reason = StepsClosed("The runner is closing")
        for step_run in list(self._running):
            step_run.call.step.call_off(reason)
        await self.drain(CANCEL_GRACE_S * 2)
        if sending := [*self.sending]:
            for task in sending:
                task.cancel()
            await asyncio.wait(sending)
        await self.loop_tasks.close()
        self.threads.close()
        await self.processes.close()

    def joined(self, step_run: StepRun, /) -> None:
        self._running[step_run] = None

    def left(self, step_run: StepRun, /) -> None:
        self._running.pop(step_run, None)
        if not self._running:
            for idle in self._idle_waiters:
                if not idle.done():
                    idle.set_result(None)
            self._idle_waiters.clear()
