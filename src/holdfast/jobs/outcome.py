"""Results of attempts: from what a function returned or raised to what is stored, and back.

A success is stored as the value itself, as its annotation says. A failure is stored as every error here is
(`__type`, `message`), with `code`, `data` and the exception beside it; the code is a header too, so that the
engine can read it. What the engine decides on its own (expired, cancelled, crashed) has no data.

1. A raised `RetryAfter` chooses the delay of the next attempt, `GiveUp` that there is none. So may any error,
   by `retry_after` and `retryable`. Whether there is a next attempt at all is for the retry policy to decide.
2. What the function did not do itself (it ran out of time, its process died) has a code of ours.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from inspect import isawaitable
from types import NoneType
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.jobs.codes import ContractCode, OperationalCode, OutcomeCode, RetrievalCode, as_code
from holdfast.jobs.errors import BadCode
from holdfast.jobs.result import TaskError, TaskResult
from holdfast.jobs.task import AnyTask
from holdfast.payloads import error_values
from holdfast.payloads.errors import (
    BadArguments,
    PayloadTooLarge,
    StepExited,
    StepNotImportable,
    StepProcessDied,
    StepTimedOut,
    UndecodablePayload,
    UnencodablePayload,
    WorkerError,
)
from holdfast.payloads.payloads import Payloads, dump, load
from holdfast.protocol import limits
from holdfast.protocol.records import NOTHING, Promise, Value
from holdfast.steps.errors import BadProvider, NotProvided
from holdfast.steps.retry import GiveUp, Snooze, attribute_of, chosen_by

CODE: Final = "holdfast-code"
WORKER: Final = "holdfast-worker"

AnyResult = TaskResult[Any, TaskError]


class AttemptResult(Struct, frozen=True):
    """What an attempt came to, ready to be stored. `code` is None for a success."""

    value: Value = NOTHING
    code: str | None = None
    message: str | None = None  # of a failure, for people; so is `trace`
    trace: str | None = None
    delay_ms: int | None = None  # until the next attempt, if the function chose it
    is_final: bool = False  # no retry shall follow
    snooze_ms: int | None = None  # it asks to be run again after so long, and has not failed


class _Stored(Struct, frozen=True):
    code: str = ""
    message: str | None = None
    data: Raw = Raw(b"null")
    fields: dict[str, Raw] = {}  # what its class has beyond those of TaskError
    exception: Any = None


def conclude(task: AnyTask, returned: Any, payloads: Payloads) -> AttemptResult:
    """What the function returned: a TaskResult, or a plain value that counts as ok."""
    if isinstance(returned, TaskResult):
        result = cast(AnyResult, returned)
        if result.is_err:
            return _conclude_err(task, result.err_value, payloads)
        returned = result.ok_value
    elif task.gives_result:
        what = f"{task.name} is annotated to return a TaskResult and returned {type(returned).__name__}"
        return store_error(TaskError(ContractCode.RETURN_TYPE_MISMATCH, what), payloads)
    try:
        if returned is None and task.returns is not NoneType:
            load(b"null", task.returns)
        return AttemptResult(payloads.round_trip(returned, task.returns)[0])
    except UndecodablePayload as error:
        code: str = ContractCode.RETURN_TYPE_MISMATCH
        return store_error(TaskError(code, f"{task.name} returned something else: {error.what}"), payloads)
    except UnencodablePayload as error:
        return store_error(TaskError(OperationalCode.WORKER_SERIALIZATION_ERROR, error.what), payloads)


def _conclude_err(task: AnyTask, error: TaskError, payloads: Payloads) -> AttemptResult:
    """An error that the function returned is one of the class that it promises."""
    if task.error_type is not TaskError:
        try:
            _as_promised(load(dump(_described(error)), _Stored), task.error_type, None)
        except UnencodablePayload:
            pass  # storing it says so
        except Exception as problem:
            what = problem.what if isinstance(problem, UndecodablePayload) else str(problem)
            text = f"{task.name} returned {error.error_code}, which is no {task.error_type.__name__}: {what}"
            return store_error(TaskError(ContractCode.RETURN_TYPE_MISMATCH, text), payloads)
    return store_error(error, payloads)


def conclude_error(
    task: AnyTask,
    error: BaseException,
    payloads: Payloads,
    attempt: int | None = None,
    time_limit_s: float | None = None,
) -> AttemptResult:
    """It raised, or was stopped, or could not be called."""
    if isinstance(error, Snooze):
        return AttemptResult(snooze_ms=_bounded_ms(error.delay_s))
    code = _our_code(error)
    if isinstance(error, StepTimedOut) and attempt is not None:  # what it says counts the attempts of a step
        what = f"Attempt {attempt} of the task {task.name} took longer than {time_limit_s or 0:g} s"
        return store_error(TaskError(OperationalCode.TIME_LIMIT_EXCEEDED, what), payloads)
    if code is not None:
        return store_error(TaskError(code, error_values.text_of(error)), payloads)
    if isinstance(error, StepExited) and error.__cause__ is not None:
        error = error.__cause__
    raised = TaskError(task.code_of(error), error_values.text_of(error), None, error)
    return replace(store_error(raised, payloads), delay_ms=_chosen_delay_ms(error), is_final=_gives_up(error))


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


def _chosen_delay_ms(error: BaseException) -> int | None:
    chosen_s = chosen_by(error)
    return None if chosen_s is None else _bounded_ms(chosen_s)


def _bounded_ms(delay_s: float) -> int:
    return min(max(round(delay_s * 1000), limits.job_retry_ms_min), limits.job_retry_ms_max)


def store_error(error: TaskError, payloads: Payloads) -> AttemptResult:
    stored = _described(error)
    if error.exception is not None:
        stored["exception"] = error_values.describe(error.exception)
    try:
        value = payloads.encode(stored, {CODE: stored["code"]})
        trace = stored.get("exception", {}).get("traceback")
        return AttemptResult(value, stored["code"], stored["message"], trace)
    except PayloadTooLarge:
        text = f"{(error.message or '')[:1_000]} ... (its data and traceback are too large to be stored)"
        return store_error(TaskError(error.error_code, text), payloads)
    except UnencodablePayload as problem:
        what = f"The data of {error.error_code} cannot be stored: {problem.what}"
        return store_error(TaskError(OperationalCode.WORKER_SERIALIZATION_ERROR, what), payloads)


def _described(error: TaskError) -> dict[str, Any]:
    described: dict[str, Any] = {
        "__type": "error",
        "name": type(error).__name__,
        "message": error.message or "",
        "code": str(error.error_code),
    }
    if error.data is not None:
        described["data"] = error.data
    if own := {name: getattr(error, name) for name in _own_fields(type(error))}:
        described["fields"] = own
    return described


def read_result(
    promise: Promise,
    returns: Any,
    error_type: type[TaskError],
    payloads: Payloads,
    known: Mapping[str, type[Exception]],
) -> AnyResult:
    """What a promise of a task says became of it."""
    try:
        if promise.state == "resolved":
            return TaskResult(ok=payloads.decode(promise.value, Any if returns is NoneType else returns))
        if promise.state == "rejected" and promise.value.data:
            return TaskResult(err=_stored_error(promise.value, error_type, payloads, known))
        if promise.state == "pending":
            return failure(RetrievalCode.RESULT_NOT_READY, f"{promise.id} is not over yet")
        return TaskResult(err=_decided(promise, error_type))
    except (UndecodablePayload, BadCode) as error:  # whoever speaks the protocol may have stored it
        return failure(OperationalCode.RESULT_DESERIALIZATION_ERROR, error.what)


def failure(code: str, message: str, data: Any = None) -> AnyResult:
    return TaskResult(err=TaskError(code, message, data))


def _stored_error(
    value: Value, error_type: type[TaskError], payloads: Payloads, known: Mapping[str, type[Exception]]
) -> TaskError:
    stored = payloads.decode(value, _Stored)
    if not stored.code:  # it is no object of ours: what the failure was called stands beside it
        code = (value.headers or {}).get(CODE, OperationalCode.UNHANDLED_EXCEPTION)
        stored = replace(stored, code=code)
    exception = None if stored.exception is None else error_values.restore(stored.exception, known)
    try:
        return _as_promised(stored, error_type, exception)
    except Exception:  # the code matters more than the class, which may ask for what is not there
        return TaskError(as_code(stored.code), stored.message or None, load(stored.data), exception)


def _as_promised(stored: _Stored, error_type: type[TaskError], exception: BaseException | None) -> TaskError:
    data = load(stored.data, _types_of(error_type)["data"])
    own = {
        name: load(stored.fields[name], type_)
        for name, type_ in _own_fields(error_type).items()
        if name in stored.fields
    }
    code, message = as_code(stored.code), stored.message or None
    return error_type(error_code=code, message=message, data=data, exception=exception, **own)


def stored_fields(error_type: type[TaskError]) -> list[tuple[str, Any]]:
    """The fields of an error that are stored as their types say, for whoever checks these."""
    named = {"data": _types_of(error_type)["data"], **_own_fields(error_type)}
    whose = error_type.__name__
    return [(f"{name!r} of {whose}", type_) for name, type_ in named.items() if type_ is not Any]


def _own_fields(error_type: type[TaskError]) -> dict[str, Any]:
    common = TaskError.__struct_fields__
    return {name: type_ for name, type_ in _types_of(error_type).items() if name not in common}


@cache
def _types_of(error_type: type[TaskError]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(error_type)}


_said: Final = {
    "rejected": (OperationalCode.UNHANDLED_EXCEPTION, "failed"),
    "rejected_canceled": (OutcomeCode.TASK_CANCELLED, "was cancelled"),
    "rejected_timedout": (OutcomeCode.TASK_TIMED_OUT, "passed its deadline"),
}
_sentences: Final = {
    OutcomeCode.TASK_EXPIRED: "was not started before its good_until",
    OutcomeCode.TASK_CANCELLED: "was cancelled",
    OutcomeCode.TASK_TIMED_OUT: "passed its deadline",
    OperationalCode.WORKER_CRASHED: "was running in a process that died or fell silent",
}


def _decided(promise: Promise, error_type: type[TaskError]) -> TaskError:
    """An outcome that no function had a part in."""
    headers = promise.value.headers or {}
    code, sentence = _said[promise.state]
    found = as_code(headers.get(CODE, code))
    data = {"task_id": promise.id, "worker_id": headers.get(WORKER)}
    return TaskError(found, f"{promise.id} {_sentences.get(found, sentence)}", data)  # type: ignore[call-overload]
