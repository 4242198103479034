"""Everything that is wrong with how an app declares its tasks, workflows, queues and schedules.

What a declaration refuses by itself is collected while its module is imported (findings.py); this looks at
what is there afterwards, and would fail only later: at a send, on a worker, at three in the morning.
"""

import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final

from holdfast.jobs.errors import TasksError
from holdfast.jobs.outcome import stored_fields
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.task import DEFAULT_QUEUE, AnyTask
from holdfast.payloads.errors import WorkerError
from holdfast.payloads.findings import Finding, finding, place_of
from holdfast.payloads.jsonable import find_foreign_class
from holdfast.payloads.payloads import Payloads, decoder_of
from holdfast.payloads.signature import Signature, signature_of
from holdfast.steps.processes import named, reaches
from holdfast.steps.providers import Providers
from holdfast.workflow.registry import Registry


class MissingAnnotation(TasksError):
    """A parameter or result without a type is not checked, and comes back as JSON has it."""

    code = "HF7001"
    hint = "Annotate every parameter and the result; `Any` says that you mean it."


class NotJson(TasksError):
    """A type that cannot be stored as JSON."""

    code = "HF7002"
    hint = "Use builtins, dataclasses, attrs, msgspec or pydantic models, datetimes, enums, UUIDs, Decimals."


class NotImportable(TasksError):
    """A function for a process of its own that a child process cannot find."""

    code = "HF7003"
    hint = "Define it at the top level of a module, under its own name."


class UndeclaredQueue(TasksError):
    """A task of a queue that nobody declared, in an app that declares its queues."""

    code = "HF7004"
    hint = 'Declare it with app.queue("..."), or correct the name.'


class ModeMismatch(TasksError):
    """A mode that does not fit the function."""

    code = "HF7005"
    hint = 'Leave mode out, or use "async" for async def and "thread" or "process" for def.'


class ImportFailed(TasksError):
    """The module of the app raised while it was imported."""

    code = "HF7006"
    hint = "Run `python -c 'import MODULE'` to see the traceback."


class ScheduleArgumentsMismatch(TasksError):
    """A schedule whose arguments do not fit the function."""

    code = "HF7007"
    hint = "Give them with args= and kwargs=, or give the parameters defaults."


_Kind: Final = inspect.Parameter


def check(
    registry: Registry, tasks: TaskRegistry, payloads: Payloads, group: str, providers: Providers
) -> list[Finding]:
    found: list[Finding] = []
    for workflow in registry:
        found += [
            _at(error, workflow.function)
            for error in _check_types(providers, workflow.name, workflow.function)
        ]
    for task in tasks:
        found += [_at(error, task.function) for error in _check_task(task, tasks, providers)]
    for recurrence in tasks.recurrences.values():
        try:
            recurrence.request(payloads, group, None, providers)
        except (WorkerError, ValueError) as error:
            what = error.what if isinstance(error, WorkerError) else str(error)
            found.append(_at(ScheduleArgumentsMismatch(f"{recurrence.id}: {what}"), recurrence.work.function))
    return found


def _at(error: TasksError, function: Callable[..., Any]) -> Finding:
    return finding(error, *place_of(function))


def _check_task(task: AnyTask, tasks: TaskRegistry, providers: Providers) -> Iterator[TasksError]:
    yield from _check_types(providers, task.name, task.function, task.returns)
    yield from _check_storable(task.name, stored_fields(task.error_type))
    if tasks.limits and task.queue != DEFAULT_QUEUE and task.queue not in tasks.limits:
        known = ", ".join(sorted(tasks.limits))
        yield UndeclaredQueue(f"{task.name} goes to the queue {task.queue!r}; declared are {known}")
    is_async = inspect.iscoroutinefunction(task.function)
    if (task.mode == "async") != is_async and task.mode in ("async", "thread"):
        yield ModeMismatch(
            f'{task.name} has mode="{task.mode}" and is {"an async" if is_async else "a plain"} def'
        )
    if task.mode == "process":
        for name in providers.wanted_by(task.function):
            yield ModeMismatch(f"{task.name} runs in a process of its own, where {name!r} cannot be provided")
        module, qualname = task.function.__module__, task.function.__qualname__
        if named(module, qualname) is not task or not reaches(module):
            yield NotImportable(
                f"{task.name} runs in a process of its own, which cannot find {module}:{qualname}"
            )


def _check_types(
    providers: Providers, name: str, function: Callable[..., Any], returns: Any = None
) -> Iterator[TasksError]:
    signature = signature_of(function)
    missing = _missing(function)
    if missing:
        yield MissingAnnotation(f"{name} has no type for {', '.join(missing)}")
    yield from _check_storable(name, _types(signature, returns, providers.wanted_by(function)))


def _check_storable(name: str, types: Iterable[tuple[str, Any]]) -> Iterator[TasksError]:
    for what, type_ in types:
        try:
            decoder_of(type_)
            foreign = find_foreign_class(type_)
        except Exception as error:  # msgspec raises TypeError, models whatever they like
            yield NotJson(f"{name}: {what} cannot be stored: {error}".rstrip("."))
        else:
            if foreign is not None:
                yield NotJson(f"{name}: {what} cannot be stored: {foreign.__qualname__} is no data")


def _missing(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return []
    annotations = getattr(inspect.unwrap(function), "__annotations__", {})
    names = [each for each in parameters if each not in annotations]
    return [*map(repr, names), *(["its result"] if "return" not in annotations else [])]


def _types(signature: Signature, returns: Any, supplied: Container[str]) -> Iterator[tuple[str, Any]]:
    for parameter in signature.parameters or ():
        if parameter.type is not Any and parameter.name not in supplied:
            yield f"the parameter {parameter.name!r}", parameter.type
    result = signature.returns if returns is None else returns
    if result is not Any:
        yield "its result", result
