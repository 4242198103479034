"""The steps of one execution that are under way: who runs, who takes long, who has ended and is not recorded.

1. A step that ended is told once, and only while somebody still counts it as running.
2. One alarm for all steps: most end long before it rings.
3. A step is started with what the app provides, and in a Context that says whose step it is.
4. One that waits longer than `rest_s` for its next attempt is not under way: it has ended with an outcome
   that rests, and is started again, with what is known of the attempts before.
"""

import asyncio
from collections.abc import Callable, Container
from functools import partial
from math import inf
from typing import Any, Final

from holdfast.payloads.errors import StepCalledOff, StepsClosed
from holdfast.protocol.failures import Failure, Tried, failures_max
from holdfast.protocol.records import TaskView
from holdfast.protocol.reported import ReportedProgress
from holdfast.runtime.step import Step
from holdfast.steps.here import StepClaim
from holdfast.steps.info import read_progress
from holdfast.steps.middleware import Entered, Invocation
from holdfast.steps.observer import FailedAttempt
from holdfast.steps.retry import NEVER
from holdfast.steps.step_run import StepCall, StepOutcome
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import ClaimGone
from holdfast.workflow.logs import failure_of, tell_step_failed
from holdfast.workflow.operations import StepOperation

announce_s: Final = 2.0
rest_s: Final = 5.0  # a shorter wait is not worth the writes that it takes to suspend


class RunningSteps:
    def __init__(
        self, worker_context: WorkerContext, asked: Container[str], wake: Callable[[], None]
    ) -> None:
        """`asked`: what the code waits for. A step that is not in it any more is not wanted."""
        self._asked = asked
        self.running: dict[str, float] = {}  # and when each is late
        self.late: list[str] = []  # take long, not yet announced
        self.finished: list[tuple[str, StepOutcome]] = []  # not yet recorded
        self.reported: dict[str, ReportedProgress] = {}  # what earlier attempts told of their progress
        self.failures: dict[str, list[Failure]] = {}  # of attempts that another one follows, nor recorded
        self._worker_context = worker_context
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None

    def start(
        self, promise_id: str, step: StepOperation, claim: StepClaim, tried: Tried | None, *, at_once: bool
    ) -> None:
        """Begin a step. When it ends and is still wanted, it is among the finished."""
        context, options = self._worker_context, step.options
        step.id, step.claim = promise_id, claim
        now_s = self._loop.time()
        retry = options.retry or NEVER
        call = StepCall(step, retry, options.timeout_s, options.mode, at_once, self._failed, began_s=now_s)
        if options.retry is not None:
            call.rest_s = rest_s
        if tried is not None:
            call.made = tried.attempts
            call.elapsed_s = max(0, context.now() - tried.began_at) / 1000
        if step.database is None:
            if step.is_supplied:
                step.placed = context.provided.place(step.function, step.args, step.kwargs)
            if context.hooks.middlewares.around["step"]:
                step.around = self.around
        self.running[promise_id] = now_s + announce_s
        if self._alarm is None:
            self._alarm = self._loop.call_later(announce_s, self._look_for_late)
        if self.reported and (told := self.reported.get(promise_id)) is not None:
            step.progress = read_progress(told)
        context.runner.start(call, partial(self._performed, step))

    def around(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], attempt: int) -> Entered:
        """What is put around each attempt of a step."""
        info, promise_id = step.claim.info, step.id
        assert promise_id is not None
        invocation = Invocation("step", step.name, promise_id, args, kwargs, attempt, info.id, info.workflow)
        return self._worker_context.hooks.middlewares.enter(invocation)

    def learn_reported(self, task: TaskView) -> None:
        """What earlier attempts have told of their progress, as a claim says."""
        self.reported = {told.step: told for told in task.progress or ()}

    def _performed(self, step: StepOperation, outcome: StepOutcome) -> None:
        """It is over when all that it has emitted is durable."""
        if step.emitter is not None:
            step.emitter.finish(outcome, partial(self._ended, step))
            return
        self._ended(step, outcome)

    def _ended(self, step: StepOperation, outcome: StepOutcome) -> None:
        promise_id = step.id
        assert promise_id is not None
        if self.running.pop(promise_id, None) is not None and promise_id in self._asked:
            self.finished.append((promise_id, outcome))
            self._wake()

    def _failed(self, step: Step, attempt: int, error: Exception, delay_s: float | None) -> None:
        """What follows a failed attempt is kept with it until that is recorded."""
        context, info, name, promise_id = self._worker_context, step.claim.info, step.name, step.id
        assert promise_id is not None
        tell_step_failed(info.id, info.workflow, context.pid, name, promise_id, attempt, error, delay_s)
        failed = FailedAttempt(
            "step", promise_id, info.id, info.workflow, name, attempt, error, delay_s, delay_s is None
        )
        context.observers.tell("attempt_failed", failed)
        if delay_s is not None:
            kept = self.failures.setdefault(promise_id, [])
            kept.append(failure_of(attempt, context.now(), error))
            del kept[:-failures_max]

    def take_finished(self) -> list[tuple[str, StepOutcome]]:
        finished, self.finished = self.finished, []
        for _, outcome in finished:
            if outcome.error is not None and _is_cut_short(outcome.error):
                raise ClaimGone("the step runner is closed")
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


def _is_cut_short(error: Exception) -> bool:
    """Did it end because this process ends? Then nothing is known of it."""
    return isinstance(error, StepCalledOff) and isinstance(error.__cause__, StepsClosed)
