"""One attempt at a task in this process: how it is performed, and what is said of it when it ends.

1. Async functions are tasks of the loop, plain ones run in threads, `mode="process"` in a child of its own,
   which also judges the result: what crosses is the verdict.
2. Past its time limit an attempt is stopped as far as that is possible (a task is cancelled, a child killed,
   a thread told by the signal and left to itself) and fails with TIME_LIMIT_EXCEEDED. A child that dies
   fails its attempt with WORKER_CRASHED at once.
3. `lose` is for results that nobody wants: the lease is lost, the task was cancelled. Nothing is said then.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from holdfast.jobs import child
from holdfast.jobs.attempt_result import AttemptResult, conclude, conclude_error, ours
from holdfast.jobs.codes import OperationalCode
from holdfast.jobs.outcome import CODE
from holdfast.jobs.registry import AnyTask, TaskRegistry
from holdfast.jobs.telling import write_trouble
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall
from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply
from holdfast.protocol.requests import PromiseSettle, RequestData, SettleAction, TaskFail, TaskFulfill
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import Step
from holdfast.steps.info import ExecutionInfo, never_ms, of_step
from holdfast.steps.providers import Provided
from holdfast.steps.retry import NEVER
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepCall, StepOutcome

_nobody: Final = Signal()  # above the signals of all attempts; it is never set


class JobRun:
    """A task that this process holds."""

    __slots__ = (
        "_call",
        "_step",
        "_timeout_at",
        "attempt",
        "attempt_result",
        "id",
        "is_lost",
        "is_refused",
        "lease_ends_s",
        "task",
        "version",
    )

    def __init__(self, claim: AcquireReply, task: AnyTask, call: StoredCall, lease_ends_s: float) -> None:
        self.id = claim.task.id
        self.version = claim.task.version
        self.attempt = claim.task.retries + 1
        self.task = task
        self.lease_ends_s = lease_ends_s
        self.is_lost = False
        self.is_refused = False  # the node did not take its result; it was told so instead
        self.attempt_result: AttemptResult | None = None  # what its final request says
        self._call = call
        self._timeout_at = claim.promise.timeout_at
        self._step: Step | None = None

    def begin(
        self,
        runner: StepRunner,
        payloads: Payloads,
        provided: Provided,
        ended: Callable[[StepOutcome], None],
    ) -> None:
        """Perform the function; `ended` is called on the loop. Raises when it cannot even be called."""
        task = self.task
        supplied = provided.supplied_to(task.function, task.mode)
        if task.mode == "process":
            step = Step(task.name, child.order(task, self._call), (), {}, _nobody)
        else:
            args, kwargs = payloads.bind_arguments(task.function, self._call, supplied)
            kwargs |= provided.fill(task.function) if supplied else {}
            step = Step(task.name, task.function, args, kwargs, _nobody)
        step.context.run(of_step.set, self._info())
        self._step = step
        runner.start(StepCall(step, NEVER, task.time_limit_s, task.mode), ended)

    def lose(self, reason: Exception) -> None:
        """Nobody wants the result: stop."""
        self.is_lost = True
        if self._step is not None:
            self._step.call_off(reason)

    def _info(self) -> ExecutionInfo:
        timeout_at = self._timeout_at
        deadline = datetime.fromtimestamp(timeout_at / 1000, UTC) if timeout_at < never_ms else None
        return ExecutionInfo(self.id, self.task.name, self.attempt, deadline, self.version)


def resolve(claim: AcquireReply, registry: TaskRegistry, payloads: Payloads, lease_ends_s: float) -> JobRun:
    """The attempt that a claim asks for. Raises UnknownTask or UndecodablePayload."""
    call = payloads.decode_call(claim.promise.param)
    return JobRun(claim, registry.find(call.function), call, lease_ends_s)


def final_request(run: JobRun, outcome: StepOutcome, payloads: Payloads) -> RequestData:
    """What is said of an attempt that has ended."""
    if outcome.error is not None:
        attempt_result = conclude_error(run.task, outcome.error, payloads, run.attempt)
    elif run.task.mode == "process":
        attempt_result = child.with_codec(outcome.value, payloads)
    else:
        attempt_result = conclude(run.task, outcome.value, payloads)
    try:
        return _said(run, attempt_result, payloads)
    except ValueError as refusal:  # it is larger than the protocol allows
        return unstorable(run, str(refusal), payloads)


def refuse_arguments(run: JobRun, error: Exception, payloads: Payloads) -> RequestData:
    """What is said when the function could not be called."""
    return _said(run, conclude_error(run.task, error, payloads), payloads)


def unstorable(run: JobRun, why: str, payloads: Payloads) -> RequestData:
    """What is said when the node does not take the result."""
    what = f"The result of {run.task.name} cannot be stored: {why}"
    return _said(run, ours(OperationalCode.WORKER_SERIALIZATION_ERROR, what[:1_000], payloads), payloads)


def final_request_without_value(run: JobRun) -> RequestData:
    """What is said when nothing else can be: an end without a word is better than none."""
    code = OperationalCode.UNHANDLED_EXCEPTION
    run.attempt_result = AttemptResult(code=code)
    return TaskFail(run.id, run.version, code, Value({CODE: code}))


def _said(run: JobRun, attempt_result: AttemptResult, payloads: Payloads) -> RequestData:
    run.attempt_result = attempt_result
    code, value = attempt_result.code, attempt_result.value
    if code is None:
        return TaskFulfill(run.id, run.version, SettleAction(PromiseSettle(run.id, "resolved", value)))
    if attempt_result.is_final:
        return TaskFulfill(run.id, run.version, SettleAction(PromiseSettle(run.id, "rejected", value)))
    error = write_trouble(attempt_result, payloads)
    return TaskFail(run.id, run.version, code, value, attempt_result.delay_ms, error)
