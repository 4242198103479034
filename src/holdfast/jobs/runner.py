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
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Literal

from holdfast.client.interface import Client
from holdfast.jobs import child
from holdfast.jobs.codes import OperationalCode
from holdfast.jobs.errors import TaskLost
from holdfast.jobs.outcome import CODE, AttemptResult, conclude, conclude_error, store_error
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.result import TaskError
from holdfast.jobs.task import AnyTask
from holdfast.jobs.telling import tell_failed, write_trouble
from holdfast.payloads.durations import datetime_of
from holdfast.payloads.errors import StepCalledOff
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall
from holdfast.protocol import tags
from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply, Reply, TaskReply
from holdfast.protocol.requests import (
    PromiseSettle,
    RequestData,
    SettleAction,
    TaskFail,
    TaskFulfill,
    TaskRelease,
    TaskSnooze,
)
from holdfast.runtime.step import Step
from holdfast.steps.here import StepClaim
from holdfast.steps.info import ExecutionInfo, never_ms, read_progress
from holdfast.steps.middleware import Entered, Invocation
from holdfast.steps.observer import FailedAttempt, TaskAttempt
from holdfast.steps.providers import Provided, Providers
from holdfast.steps.retry import NEVER
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepCall, StepOutcome

log = logging.getLogger("holdfast.tasks")

Ended = Callable[[RequestData | None], None]


class JobRun:
    """One attempt at a task that this process holds."""

    __slots__ = (
        "attempt",
        "attempt_result",
        "began_s",
        "call",
        "error",
        "execution",
        "id",
        "is_lost",
        "is_refused",
        "lease_ends_s",
        "param",
        "progress",
        "step",
        "task",
        "time_limit_s",
        "timeout_at",
        "version",
        "waited_s",
    )

    is_leaving: Final = False  # the host itself sends what ends it

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
        self.param = claim.promise.param
        self.progress = read_progress(claim.task.progress[0]) if claim.task.progress else None
        self.waited_s = _waited_s(claim)
        self.began_s = 0.0
        self.error: BaseException | None = None  # that the function raised
        self.step: Step | None = None
        self.is_lost = False
        self.is_refused = False  # the node did not take its result; it was told so instead
        self.attempt_result: AttemptResult | None = None  # what its final request says

    @property
    def info(self) -> ExecutionInfo:
        deadline = datetime_of(self.timeout_at) if self.timeout_at < never_ms else None
        return ExecutionInfo(
            self.id, self.task.name, self.attempt, deadline, self.version, progress=self.progress
        )


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
        self.known_now: Sequence[str] = ()
        self._payloads = payloads
        self._registry = registry
        self._steps = steps
        self._pid = pid
        self._client = client
        self._provided = provided or Provided(Providers())
        self._hooks = registry.hooks
        self._loop = asyncio.get_running_loop()

    def left_behind(self) -> int:
        """Threads and tasks that still perform what nobody wants."""
        return self._steps.left_behind

    def known(self, task_ids: Iterable[str]) -> list[str]:
        """A background task has no preload."""
        return []

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
            run.began_s = self._loop.time()
            self._hooks.observers.tell("task_began", self._described(run))
            self._steps.start(limits, partial(self._performed, run, run.step, ended))
        except Exception as error:  # its arguments do not fit, say
            ended(self._final(run, partial(conclude_error, run.task, error, self._payloads)))

    def _step_of(self, run: JobRun) -> Step:
        """The call to be performed. Raises when the function cannot be called."""
        task, provided = run.task, self._provided
        supplied = provided.supplied_to(task.function, task.mode)
        if task.mode == "process":  # middlewares are in the child, too
            step = Step(task.name, child.order(task, run.call, run.param.headers), (), {}, None)
        else:
            args, kwargs = self._payloads.bind_arguments(task.function, run.call, supplied)
            kwargs |= provided.fill(task.function) if supplied else {}
            step = Step(task.name, task.function, args, kwargs, None)
            if self._hooks.middlewares.around["task"]:
                step.around = partial(self._around, run)
        if self._hooks.carried.variables:
            step.context = self._hooks.carried.context(run.param, self._payloads)
        step.claim = StepClaim(
            run.info,
            self._loop,
            self._client,
            self._payloads,
            run.execution,
            self._pid,
            self._steps.sending,
        )
        return step

    def _around(
        self, run: JobRun, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any], attempt: int
    ) -> Entered:
        headers = dict(run.param.headers or {})
        invocation = Invocation("task", step.name, run.id, args, kwargs, attempt=run.attempt, headers=headers)
        return self._hooks.middlewares.enter(invocation)

    def _performed(self, run: JobRun, step: Step, ended: Ended, outcome: StepOutcome) -> None:
        """It is over when all that it has emitted is durable."""
        if step.emitter is None:
            self._ended(run, ended, outcome)
        else:
            step.emitter.finish(outcome, partial(self._ended, run, ended))

    def doubt(self, run: JobRun) -> None:
        """Nothing wakes a background task: it waits for nothing."""

    def leave(self, *, is_leaving: bool) -> None:
        """A background task runs to its end."""

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
        if reply.status < 400:
            self._tell_ended(run, run.attempt_result, reply)
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

    def _described(self, run: JobRun, took_s: float = 0.0, **how: Any) -> TaskAttempt:
        return TaskAttempt(run.id, run.task.name, run.task.queue, run.attempt, run.waited_s, took_s, **how)

    def _tell_ended(self, run: JobRun, result: AttemptResult, reply: Reply) -> None:
        """The node has taken it, and has said whether another attempt follows."""
        job = reply.data.task.job if isinstance(reply.data, TaskReply) else None
        is_over = job is None or job.outcome is not None
        took_s = self._loop.time() - run.began_s
        if result.snooze_ms is None:
            ended = self._described(run, took_s, code=result.code, is_over=is_over)
            self._hooks.observers.tell("task_ended", ended)
        if run.error is not None and result.code is not None:
            failed = FailedAttempt(
                "task", run.id, run.id, run.task.name, run.task.name, run.attempt, run.error, None, is_over
            )
            self._hooks.observers.tell("attempt_failed", failed)

    def _result_of(self, run: JobRun, outcome: StepOutcome) -> AttemptResult:
        run.error = outcome.error
        if outcome.error is not None:
            return conclude_error(run.task, outcome.error, self._payloads, run.attempt, run.time_limit_s)
        if run.task.mode == "process":
            return child.with_codec(outcome.value, self._payloads)
        return conclude(run.task, outcome.value, self._payloads)

    def _unstorable(self, run: JobRun, why: str) -> AttemptResult:
        what = f"The result of {run.task.name} cannot be stored: {why}"[:1_000]
        return store_error(TaskError(OperationalCode.WORKER_SERIALIZATION_ERROR, what), self._payloads)

    def _final(self, run: JobRun, conclude: Callable[[], AttemptResult]) -> RequestData:
        """The final request of a run. There is always one: without it, the task would run forever."""
        try:
            result = conclude()
            try:
                return self._request(run, result)
            except ValueError as refusal:  # it is larger than the protocol allows
                return self._request(run, self._unstorable(run, str(refusal)))
        except Exception:  # the user's codec, say
            log.exception("the outcome of a task could not be stored", extra=self._fields(run))
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


def _waited_s(claim: AcquireReply) -> float:
    """From when it might have begun to when it was claimed."""
    job = claim.task.job
    if job is None or job.claimed_at is None:
        return 0.0
    return max(0, job.claimed_at - job.enqueued_at) / 1000
