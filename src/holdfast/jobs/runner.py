"""Runs the background tasks that a host claims: finds the function, performs it, builds the final request.

1. Async functions are tasks of the loop, plain ones run in threads, `mode="process"` in a child process,
   which also builds the result: only that crosses.
2. Past its time limit an attempt is stopped as far as that is possible (a task is cancelled, a child killed,
   a thread gets its signal and is left to itself) and fails with TIME_LIMIT_EXCEEDED. A child that dies
   fails its attempt with WORKER_CRASHED at once.
3. Once a run is lost (lease lost, task cancelled), its result is dropped. So is one that comes too late, and
   a line is logged.
4. What cannot be run here (an unknown name, another codec) is given back. The engine waits longer each time
   before it offers it again, and no attempt is counted.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

from holdfast.client.interface import Client
from holdfast.jobs import child
from holdfast.jobs.codes import OperationalCode
from holdfast.jobs.errors import TaskLost
from holdfast.jobs.outcome import CODE, AttemptResult, conclude, conclude_error, store_error
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.result import TaskError
from holdfast.jobs.task import AnyTask
from holdfast.jobs.telling import tell_failed, write_trouble
from holdfast.payloads.errors import StepCalledOff
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall
from holdfast.protocol import tags
from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply, Reply
from holdfast.protocol.requests import (
    PromiseSettle,
    RequestData,
    SettleAction,
    TaskFail,
    TaskFulfill,
    TaskRelease,
    TaskSnooze,
)
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import Step
from holdfast.steps.emitter import Emitter, emitter_here
from holdfast.steps.info import ExecutionInfo, never_ms, of_step
from holdfast.steps.providers import Provided, Providers
from holdfast.steps.retry import NEVER
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepCall, StepOutcome

log = logging.getLogger("holdfast.tasks")

_nobody: Final = Signal()  # above the signals of all attempts; it is never set

Ended = Callable[[RequestData | None], None]


class JobRun:
    """One attempt at a task that this process holds."""

    __slots__ = (
        "attempt",
        "attempt_result",
        "call",
        "execution",
        "id",
        "is_lost",
        "is_refused",
        "lease_ends_s",
        "step",
        "task",
        "time_limit_s",
        "timeout_at",
        "version",
    )

    def __init__(self, claim: AcquireReply, task: AnyTask, call: StoredCall, lease_ends_s: float) -> None:
        self.id = claim.task.id
        self.version = claim.task.version
        self.attempt = claim.task.retries + 1
        self.task = task
        self.call = call
        self.lease_ends_s = lease_ends_s
        self.timeout_at = claim.promise.timeout_at
        own_limit = claim.promise.tags.get(tags.TIME_LIMIT, "")
        self.time_limit_s = int(own_limit) / 1000 if own_limit.isdecimal() else task.time_limit_s
        self.execution = claim.promise.tags.get(tags.PARENT, self.id)  # whose streams it appends to
        self.step: Step | None = None
        self.is_lost = False
        self.is_refused = False  # the node did not take its result; it was told so instead
        self.attempt_result: AttemptResult | None = None  # what its final request says

    @property
    def info(self) -> ExecutionInfo:
        deadline = datetime.fromtimestamp(self.timeout_at / 1000, UTC) if self.timeout_at < never_ms else None
        return ExecutionInfo(self.id, self.task.name, self.attempt, deadline, self.version)


class JobRunner:
    writes_results = False

    def __init__(
        self,
        payloads: Payloads,
        registry: TaskRegistry,
        steps: StepRunner,
        *,
        pid: str,
        provided: Provided | None = None,
        grace_s: float = 60.0,
        client: Client | None = None,
    ) -> None:
        """`client`: by which tasks emit to the streams of their execution."""
        self.grace_s = grace_s
        self._payloads = payloads
        self._registry = registry
        self._steps = steps
        self._pid = pid
        self._client = client
        self._provided = provided or Provided(Providers())
        self._loop = asyncio.get_running_loop()

    def left_behind(self) -> int:
        """Threads and tasks that still perform what nobody wants."""
        return self._steps.left_behind

    def accept(self, claim: AcquireReply, lease_ends_s: float) -> JobRun | TaskRelease:
        try:
            call = self._payloads.decode_call(claim.promise.param)
            return JobRun(claim, self._registry.find(call.function), call, lease_ends_s)
        except Exception as error:
            fields = {"execution": claim.task.id, "worker": self._pid}
            log.warning("a task cannot be run here: %s", error, extra=fields)
            return TaskRelease(claim.task.id, claim.task.version)

    def begin(self, run: JobRun, ended: Ended) -> None:
        if self._loop.time() >= run.lease_ends_s:  # this process was frozen in between
            ended(TaskRelease(run.id, run.version))
            return
        try:
            run.step = self._step_of(run)
            limits = StepCall(run.step, NEVER, run.time_limit_s, run.task.mode)
            self._steps.start(limits, self._after_emitting(run, partial(self._ended, run, ended)))
        except Exception as error:  # its arguments do not fit, say
            ended(self._final(run, partial(conclude_error, run.task, error, self._payloads)))

    def _step_of(self, run: JobRun) -> Step:
        """The call to be performed. Raises when the function cannot be called."""
        task, provided = run.task, self._provided
        supplied = provided.supplied_to(task.function, task.mode)
        if task.mode == "process":
            step = Step(task.name, child.order(task, run.call), (), {}, _nobody)
        else:
            args, kwargs = self._payloads.bind_arguments(task.function, run.call, supplied)
            kwargs |= provided.fill(task.function) if supplied else {}
            step = Step(task.name, task.function, args, kwargs, _nobody)
        step.context.run(of_step.set, run.info)
        return step

    def _after_emitting(
        self, run: JobRun, done: Callable[[StepOutcome], None]
    ) -> Callable[[StepOutcome], None]:
        """Give the task a way to emit; it is done when all that is durable."""
        if self._client is None or run.step is None:
            return done
        emitter = Emitter(self._client, self._payloads, run.id, run.version, run.execution, run.id)
        run.step.context.run(emitter_here.set, emitter)
        return partial(emitter.finish, done=done)

    def doubt(self, run: JobRun) -> None:
        """Nothing wakes a background task: it waits for nothing."""

    def lose(self, run: JobRun, why: str, *, is_stopping: bool) -> None:
        log.warning("a task was stopped: %s", why, extra=self._fields(run))
        run.is_lost = True
        if run.step is not None:
            run.step.call_off(TaskLost(f"The task {run.id} was stopped here: {why}"))

    def answered(self, run: JobRun, reply: Reply, sent: int) -> RequestData | None:
        if run.attempt_result is None:  # it was given back
            return None
        if reply.status in (400, 413) and not run.is_refused:
            run.is_refused = True
            return self._final(run, partial(self._unstorable, run, str(reply.data)))
        if reply.status >= 400:
            what = "a late result was dropped" if sent == 1 else "a result was told twice or too late"
            log.warning("%s: %s", what, reply.data, extra=self._fields(run))
        elif run.attempt_result.code is not None:
            tell_failed(run.id, run.task.name, run.attempt, self._pid, run.attempt_result, reply)
        return None

    async def close(self, wait_s: float) -> None:
        await self._steps.close()

    # --- final requests --------------------------------------------------------------------------------

    def _ended(self, run: JobRun, ended: Ended, outcome: StepOutcome) -> None:
        if run.is_lost or isinstance(outcome.error, StepCalledOff):
            ended(None)
        else:
            ended(self._final(run, partial(self._result_of, run, outcome)))

    def _result_of(self, run: JobRun, outcome: StepOutcome) -> AttemptResult:
        if outcome.error is not None:
            return conclude_error(run.task, outcome.error, self._payloads, run.attempt, run.time_limit_s)
        if run.task.mode == "process":
            return child.with_codec(outcome.value, self._payloads)
        return conclude(run.task, outcome.value, self._payloads)

    def _unstorable(self, run: JobRun, why: str) -> AttemptResult:
        what = f"The result of {run.task.name} cannot be stored: {why}"[:1_000]
        return store_error(TaskError(OperationalCode.WORKER_SERIALIZATION_ERROR, what), self._payloads)

    def _final(self, run: JobRun, conclude: Callable[[], AttemptResult]) -> RequestData:
        """The final request of a run. There is always one: without it, the task would run for ever."""
        try:
            result = conclude()
            try:
                return self._request(run, result)
            except ValueError as refusal:  # it is larger than the protocol allows
                return self._request(run, self._unstorable(run, str(refusal)))
        except Exception:  # the user's codec, say
            log.exception("what became of a task could not be stored", extra=self._fields(run))
            code = OperationalCode.UNHANDLED_EXCEPTION
            run.attempt_result = AttemptResult(code=code)
            return TaskFail(run.id, run.version, code, Value({CODE: code}))

    def _request(self, run: JobRun, result: AttemptResult) -> RequestData:
        run.attempt_result = result
        if result.snooze_ms is not None:
            return TaskSnooze(run.id, run.version, result.snooze_ms)
        if result.code is not None and not result.is_final:
            error = write_trouble(result, self._payloads)
            return TaskFail(run.id, run.version, result.code, result.value, result.delay_ms, error)
        state: Literal["resolved", "rejected"] = "resolved" if result.code is None else "rejected"
        return TaskFulfill(run.id, run.version, SettleAction(PromiseSettle(run.id, state, result.value)))

    def _fields(self, run: JobRun) -> dict[str, object]:
        """What a line of the log says beside its message."""
        return {"execution": run.id, "task": run.task.name, "attempt": run.attempt, "worker": self._pid}
