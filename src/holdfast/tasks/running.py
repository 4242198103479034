"""One attempt at a task in this process: how it is performed, and what is said of it when it ends.

    claimed -> starting -> running -> ending -> gone
                              \\---------------> gone, when nobody wants the result any more

1. The function begins only after the store knows that it does: a claim that started it, or an answered start.
2. Async functions are tasks of the loop, plain ones run in threads, `mode="process"` in a child of its own,
   which also judges the result: what crosses is the verdict.
3. Past its time limit an attempt is stopped as far as that is possible (a task is cancelled, a child killed,
   a thread told by the signal and left to itself) and fails with TIME_LIMIT_EXCEEDED. A child that dies
   fails its attempt with WORKER_CRASHED at once.
4. `lose` is for results that nobody wants: the lease is lost, the task was cancelled. Nothing is said then.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply
from holdfast.protocol.requests import PromiseSettle, RequestData, SettleAction, TaskFail, TaskFulfill
from holdfast.runtime.signals import Signal
from holdfast.runtime.step import Step
from holdfast.tasks import child
from holdfast.tasks.codes import OperationalCode
from holdfast.tasks.conclusion import Conclusion, conclude, conclude_error, ours
from holdfast.tasks.outbox import Letter
from holdfast.tasks.outcome import CODE
from holdfast.tasks.registry import AnyTask, TaskRegistry
from holdfast.worker.info import ExecutionInfo, never_ms, of_step
from holdfast.worker.payload import Payloads
from holdfast.worker.performance import Outcome, StepCall
from holdfast.worker.retry import NEVER
from holdfast.worker.signature import Call
from holdfast.worker.steps import StepRunner

State = Literal["claimed", "starting", "running", "ending", "gone"]

_nobody: Final = Signal()  # above the signals of all attempts; it is never set


class Run:
    """A task that this process holds."""

    __slots__ = (
        "_call",
        "_step",
        "_timeout_at",
        "attempt",
        "id",
        "is_lost",
        "is_refused",
        "lease_ends_s",
        "letter",
        "state",
        "task",
        "version",
    )

    def __init__(self, claim: AcquireReply, task: AnyTask, call: Call, lease_ends_s: float) -> None:
        self.id = claim.task.id
        self.version = claim.task.version
        self.attempt = claim.task.retries + 1
        self.task = task
        self.lease_ends_s = lease_ends_s
        self.state: State = "claimed"
        self.is_lost = False
        self.is_refused = False  # the node did not take its result; it was told so instead
        self.letter: Letter | None = None  # its last word, on its way
        self._call = call
        self._timeout_at = claim.promise.timeout_at
        self._step: Step | None = None

    def begin(self, runner: StepRunner, payloads: Payloads, ended: "Callable[[Run, Outcome], None]") -> None:
        """Perform the function; `ended` is called on the loop. Raises when it cannot even be called."""
        task = self.task
        if task.mode == "process":
            step = Step(task.name, child.order(task, self._call), (), {}, _nobody)
        else:
            args, kwargs = payloads.bind_arguments(task.function, self._call)
            step = Step(task.name, task.function, args, kwargs, _nobody)
        step.context.run(of_step.set, self._info())
        self._step = step
        self.state = "running"
        runner.start(StepCall(step, NEVER, task.time_limit_s, task.mode), partial(ended, self))

    def lose(self, reason: Exception) -> None:
        """Nobody wants the result: stop."""
        self.is_lost = True
        if self._step is not None and self.state == "running":
            self._step.call_off(reason)

    def _info(self) -> ExecutionInfo:
        timeout_at = self._timeout_at
        deadline = datetime.fromtimestamp(timeout_at / 1000, UTC) if timeout_at < never_ms else None
        return ExecutionInfo(self.id, self.task.name, self.attempt, deadline, self.version)


def resolve(claim: AcquireReply, registry: TaskRegistry, payloads: Payloads, lease_ends_s: float) -> Run:
    """The attempt that a claim asks for. Raises UnknownTask or UndecodablePayload."""
    call = payloads.decode_call(claim.promise.param)
    return Run(claim, registry.find(call.function), call, lease_ends_s)


def last_word(run: Run, outcome: Outcome, payloads: Payloads) -> RequestData:
    """What is said of an attempt that has ended."""
    if outcome.error is not None:
        conclusion = conclude_error(run.task, outcome.error, payloads)
    elif run.task.mode == "process":
        conclusion = child.with_codec(outcome.value, payloads)
    else:
        conclusion = conclude(run.task, outcome.value, payloads)
    try:
        return _said(run, conclusion)
    except ValueError as refusal:  # it is larger than the protocol allows
        return unstorable(run, str(refusal), payloads)


def misfit(run: Run, error: Exception, payloads: Payloads) -> RequestData:
    """What is said when the function could not be called."""
    return _said(run, conclude_error(run.task, error, payloads))


def unstorable(run: Run, why: str, payloads: Payloads) -> RequestData:
    """What is said when the node does not take the result."""
    what = f"The result of {run.task.name} cannot be stored: {why}"
    return _said(run, ours(OperationalCode.WORKER_SERIALIZATION_ERROR, what[:1_000], payloads))


def wordless(run: Run) -> RequestData:
    """What is said when nothing else can be: an end without a word is better than none."""
    code = OperationalCode.UNHANDLED_EXCEPTION
    return TaskFail(run.id, run.version, code, Value({CODE: code}))


def _said(run: Run, conclusion: Conclusion) -> RequestData:
    code, value = conclusion.code, conclusion.value
    if code is None:
        return TaskFulfill(run.id, run.version, SettleAction(PromiseSettle(run.id, "resolved", value)))
    if conclusion.is_final:
        return TaskFulfill(run.id, run.version, SettleAction(PromiseSettle(run.id, "rejected", value)))
    return TaskFail(run.id, run.version, code, value, conclusion.delay_ms)
