"""What an attempt came to: the verdict on what its function gave, and what the function wished for.

1. A raised `RetryAfter` chooses the delay of the next attempt, `GiveUp` that there is none. So may any error,
   by `retry_after` and `retryable`. Whether there is a next attempt at all is the retry policy's to say.
2. What the function did not do itself (it ran out of time, its process died) has a code of ours.
"""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from msgspec import Struct

from holdfast.jobs.codes import ContractCode, OperationalCode
from holdfast.jobs.outcome import StoredOutcome, judge, judge_error, store_error
from holdfast.jobs.registry import AnyTask
from holdfast.jobs.result import TaskError
from holdfast.payloads import error_values
from holdfast.payloads.errors import (
    BadArguments,
    StepExited,
    StepNotImportable,
    StepProcessDied,
    StepTimedOut,
    WorkerError,
)
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.records import NOTHING, Value
from holdfast.steps.errors import BadProvider, NotProvided
from holdfast.steps.retry import GiveUp, attribute_of, chosen_by


class AttemptResult(Struct, frozen=True):
    """Ready to be told. `code` is None for a success; `is_final` when no retry shall follow."""

    value: Value = NOTHING
    code: str | None = None
    delay_ms: int | None = None
    is_final: bool = False
    message: str | None = None  # of a failure, for people; so is `trace`
    trace: str | None = None


def conclude(task: AnyTask, returned: Any, payloads: Payloads) -> AttemptResult:
    """The function returned."""
    stored_outcome = judge(task, returned, payloads)
    return AttemptResult(
        stored_outcome.value, stored_outcome.code, message=stored_outcome.message, trace=stored_outcome.trace
    )


def conclude_error(
    task: AnyTask, error: BaseException, payloads: Payloads, attempt: int | None = None
) -> AttemptResult:
    """It raised, or was stopped, or could not be called."""
    code = _our_code(error)
    if isinstance(error, StepTimedOut) and attempt is not None:  # what it says counts the attempts of a step
        what = f"Attempt {attempt} of the task {task.name} took longer than {task.time_limit_s:g} s"
        return ours(OperationalCode.TIME_LIMIT_EXCEEDED, what, payloads)
    if code is not None:
        return ours(code, error_values.text_of(error), payloads)
    if isinstance(error, StepExited) and error.__cause__ is not None:
        error = error.__cause__
    stored_outcome = judge_error(task, error, payloads)
    return AttemptResult(
        stored_outcome.value,
        stored_outcome.code,
        _wished_ms(error),
        _gives_up(error),
        stored_outcome.message,
        stored_outcome.trace,
    )


def ours(code: str, message: str, payloads: Payloads) -> AttemptResult:
    stored_outcome: StoredOutcome = store_error(TaskError(code, message), payloads)
    return AttemptResult(stored_outcome.value, stored_outcome.code, message=stored_outcome.message)


def perform(task: AnyTask, call: Callable[[], Any], payloads: Payloads) -> AttemptResult:
    """Call it here and now, in a process that has nothing else to do."""
    try:
        returned = call()
        if isawaitable(returned):
            returned = asyncio.run(_awaited(returned))
    except BaseException as error:
        return conclude_error(task, error, payloads)
    return conclude(task, returned, payloads)


async def _awaited(returned: Any) -> Any:
    return await returned


def _our_code(error: BaseException) -> str | None:
    """The code of what the function itself did not raise."""
    match error:
        case StepTimedOut():
            return OperationalCode.TIME_LIMIT_EXCEEDED
        case StepProcessDied():
            return OperationalCode.WORKER_CRASHED
        case StepNotImportable() | NotProvided() | BadProvider():
            return OperationalCode.WORKER_RESOLUTION_ERROR
        case BadArguments():
            return ContractCode.ARGUMENT_TYPE_MISMATCH
        case _:
            return None


def _gives_up(error: BaseException) -> bool:
    if isinstance(error, WorkerError):
        return False  # `retryable` of these is about steps
    return isinstance(error, GiveUp) or attribute_of(error, "retryable") is False


def _wished_ms(error: BaseException) -> int | None:
    wished_s = chosen_by(error)
    if wished_s is None:
        return None
    return min(max(round(wished_s * 1000), limits.job_retry_ms_min), limits.job_retry_ms_max)
