"""The steps of one execution that are under way: who runs, who takes long, who has ended and is not recorded.

1. A step that ended is told once, and only while somebody still counts it as running.
2. One alarm for all steps: most end long before it rings.
3. A step is started with what the app provides, and in a Context that says whose step it is.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final

from msgspec.structs import replace

from holdfast.payloads.errors import StepCalledOff, StepsClosed
from holdfast.steps.emitter import Emitter, emitter_here
from holdfast.steps.info import ExecutionInfo, of_step
from holdfast.steps.retry import NEVER
from holdfast.steps.step_run import StepCall, StepOutcome
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import ClaimGone
from holdfast.workflow.logs import tell_step_failed
from holdfast.workflow.operations import StepOperation

announce_s: Final = 2.0


class RunningSteps:
    def __init__(self, worker_context: WorkerContext, wake: Callable[[], None]) -> None:
        self.running: dict[str, float] = {}  # and when each is late
        self.late: list[str] = []  # take long, not yet announced
        self.finished: list[tuple[str, StepOutcome]] = []  # not yet recorded
        self._worker_context = worker_context
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None

    def start(
        self,
        promise_id: str,
        step: StepOperation,
        info: ExecutionInfo,
        wanted: Callable[[str], bool],
        *,
        at_once: bool,
    ) -> None:
        """Begin a step. When it ends and is still `wanted`, it is among the finished."""
        options = step.options
        failed = partial(
            tell_step_failed, info.id, info.workflow, self._worker_context.pid, step.name, promise_id
        )
        retry = options.retry or NEVER
        call = StepCall(step, retry, options.timeout_s, options.mode, at_once=at_once, failed=failed)
        if step.database is None:
            step.placed = self._worker_context.provided.place(step.function, step.args, step.kwargs)

        context = self._worker_context
        emitter = Emitter(context.client, context.payloads, info.id, info.token, info.id, promise_id)

        def done(outcome: StepOutcome) -> None:
            if self.running.pop(promise_id, None) is not None and wanted(promise_id):
                self.finished.append((promise_id, outcome))
                self._wake()

        self.running[promise_id] = self._loop.time() + announce_s
        if self._alarm is None:
            self._alarm = self._loop.call_later(announce_s, self._look_for_late)
        step.context.run(of_step.set, replace(info, step=promise_id, attempt=1))
        step.context.run(emitter_here.set, emitter)
        self._worker_context.runner.start(call, lambda outcome: emitter.finish(outcome, done))

    def take_finished(self) -> list[tuple[str, StepOutcome]]:
        finished, self.finished = self.finished, []
        if any(map(_is_cut_short, finished)):
            raise ClaimGone("whoever performs its steps has closed")
        return finished

    def take_late(self) -> list[str]:
        late, self.late = self.late, []
        return [key for key in late if key in self.running]

    def close(self) -> None:
        self.running.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _look_for_late(self) -> None:
        soon = self._loop.time() + 0.01  # a timer may ring a little before its time
        self.late += [key for key, late_at in self.running.items() if late_at <= soon]
        self.running |= dict.fromkeys(self.late, inf)
        first = min(self.running.values(), default=inf)
        self._alarm = None if first == inf else self._loop.call_at(first, self._look_for_late)
        self._wake()


def _is_cut_short(finished: tuple[str, StepOutcome]) -> bool:
    """Did it end because this process ends? Then nothing is known of it."""
    error = finished[1].error
    return isinstance(error, StepCalledOff) and isinstance(error.__cause__, StepsClosed)
