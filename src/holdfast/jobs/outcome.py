"""Outcomes as they are stored: what a function returned or raised, and what a promise says became of it.

A success is the value itself, as its annotation says. A failure is an object in the manner of every error
here (`__type`, `message`), with `code`, `data` and the exception beside it; the code is a header too, so that
the engine can read it. What the engine decides on its own (expired, cancelled, crashed) has no data.
"""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.jobs.codes import ContractCode, OperationalCode, OutcomeCode, RetrievalCode, as_code
from holdfast.jobs.errors import BadCode
from holdfast.jobs.result import TaskError, TaskResult
from holdfast.jobs.task import TaskDefinition
from holdfast.payloads import error_values
from holdfast.payloads.errors import PayloadTooLarge, UndecodablePayload, UnencodablePayload
from holdfast.payloads.payloads import Payloads, dump, load
from holdfast.protocol.records import Promise, Value

CODE: Final = "holdfast-code"
WORKER: Final = "holdfast-worker"

AnyTask = TaskDefinition[..., Any, Any, Any]
AnyResult = TaskResult[Any, TaskError]


class StoredOutcome(Struct, frozen=True):
    """What an attempt came to, ready to be stored. `code` is None for a success; what a failure says stands
    beside it, for people."""

    value: Value
    code: str | None = None
    message: str | None = None
    trace: str | None = None


class _Stored(Struct, frozen=True):
    code: str = ""
    message: str | None = None
    data: Raw = Raw(b"null")
    fields: dict[str, Raw] = {}  # what its class has beyond those of TaskError
    exception: Any = None


def judge(task: AnyTask, returned: Any, payloads: Payloads) -> StoredOutcome:
    """What the function returned: a TaskResult, or a plain value that counts as ok."""
    if isinstance(returned, TaskResult):
        result = cast(AnyResult, returned)
        if result.is_err:
            return _judge_err(task, result.err_value, payloads)
        returned = result.ok_value
    elif task.gives_result:
        what = f"{task.name} is annotated to return a TaskResult and returned {type(returned).__name__}"
        return store_error(TaskError(ContractCode.RETURN_TYPE_MISMATCH, what), payloads)
    try:
        if returned is None and task.returns is not NoneType:
            load(b"null", task.returns)
        return StoredOutcome(payloads.round_trip(returned, task.returns)[0])
    except UndecodablePayload as error:
        code: str = ContractCode.RETURN_TYPE_MISMATCH
        return store_error(TaskError(code, f"{task.name} returned something else: {error.what}"), payloads)
    except UnencodablePayload as error:
        return store_error(TaskError(OperationalCode.WORKER_SERIALIZATION_ERROR, error.what), payloads)


def _judge_err(task: AnyTask, error: TaskError, payloads: Payloads) -> StoredOutcome:
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


def judge_error(task: AnyTask, error: BaseException, payloads: Payloads) -> StoredOutcome:
    """What it raised, under the code that the task or the app gives to such an exception."""
    return store_error(TaskError(task.code_of(error), error_values.text_of(error), None, error), payloads)


def store_error(error: TaskError, payloads: Payloads) -> StoredOutcome:
    stored = _described(error)
    if error.exception is not None:
        stored["exception"] = error_values.describe(error.exception)
    try:
        value = payloads.encode(stored, {CODE: stored["code"]})
        trace = stored.get("exception", {}).get("traceback")
        return StoredOutcome(value, stored["code"], stored["message"], trace)
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
