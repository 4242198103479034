"""Everything that is wrong with how an app declares its tasks, workflows, queues and schedules.

What a declaration refuses by itself is collected while its module is imported (findings.py); this looks at
what is there afterwards, and would fail only later: at a send, on a worker, at three in the morning.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from holdfast.tasks.errors import TasksError
from holdfast.tasks.findings import Finding, finding, place_of
from holdfast.tasks.outcome import stored_fields
from holdfast.tasks.registry import AnyTask, TaskRegistry
from holdfast.tasks.task import DEFAULT_QUEUE
from holdfast.worker.errors import WorkerError
from holdfast.worker.jsonable import find_foreign_class
from holdfast.worker.payload import Payloads, decoder_of
from holdfast.worker.processes import named, reaches
from holdfast.worker.registry import Registry
from holdfast.worker.signature import Signature, signature_of


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


class ScheduleMisfit(TasksError):
    """A schedule whose arguments do not fit the function."""

    code = "HF7007"
    hint = "Give them with args= and kwargs=, or give the parameters defaults."


class NotAWorkflow(TasksError):
    """A workflow that is neither an async def nor a generator function."""

    code = "HF7008"
    hint = "Write it as async def, or with yield from; a plain function is a task or a step."


_Kind: Final = inspect.Parameter


def check(registry: Registry, tasks: TaskRegistry, payloads: Payloads, group: str) -> list[Finding]:
    found: list[Finding] = []
    for workflow in registry:
        found += [_at(error, workflow.function) for error in _check_workflow(workflow.function)]
        found += [_at(error, workflow.function) for error in _check_types(workflow.name, workflow.function)]
    for task in tasks:
        found += [_at(error, task.function) for error in _check_task(task, tasks)]
    for recurrence in tasks.recurrences.values():
        try:
            recurrence.request(payloads, group, None)
        except (WorkerError, ValueError) as error:
            what = error.what if isinstance(error, WorkerError) else str(error)
            found.append(_at(ScheduleMisfit(f"{recurrence.id}: {what}"), recurrence.work.function))
    return found


def _at(error: TasksError, function: Callable[..., Any]) -> Finding:
    return finding(error, *place_of(function))


def _check_workflow(function: Callable[..., Any]) -> Iterator[TasksError]:
    if not (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)):
        yield NotAWorkflow(f"{getattr(function, '__name__', function)} is a plain function")


def _check_task(task: AnyTask, tasks: TaskRegistry) -> Iterator[TasksError]:
    yield from _check_types(task.name, task.function, task.returns)
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
        module, qualname = task.function.__module__, task.function.__qualname__
        if named(module, qualname) is not task or not reaches(module):
            yield NotImportable(
                f"{task.name} runs in a process of its own, which cannot find {module}:{qualname}"
            )


def _check_types(name: str, function: Callable[..., Any], returns: Any = None) -> Iterator[TasksError]:
    signature = signature_of(function)
    missing = _missing(function)
    if missing:
        yield MissingAnnotation(f"{name} has no type for {', '.join(missing)}")
    yield from _check_storable(name, _types(signature, returns))


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


def _types(signature: Signature, returns: Any) -> Iterator[tuple[str, Any]]:
    for parameter in signature.parameters or ():
        if parameter.type is not Any:
            yield f"the parameter {parameter.name!r}", parameter.type
    result = signature.returns if returns is None else returns
    if result is not Any:
        yield "its result", result
