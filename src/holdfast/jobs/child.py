"""Both sides of a task in a child process. The stored call goes there, the attempt's result comes back.

The child finds the task by the module and name of its function, types the arguments, runs it and judges the
result there, where the classes of its exceptions are. The codec stays with the parent.
"""

from binascii import a2b_base64
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from msgspec import Raw
from msgspec.structs import replace

from holdfast.jobs.outcome import AttemptResult, conclude_error, perform
from holdfast.jobs.task import AnyTask, TaskDefinition
from holdfast.payloads.errors import BadArguments, StepNotImportable
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall
from holdfast.protocol.records import Value
from holdfast.steps.child import begun, find_here
from holdfast.steps.here import info_here
from holdfast.steps.middleware import Invocation, call_inside
from holdfast.steps.processes import named, reaches


def order(task: AnyTask, call: StoredCall, headers: dict[str, str] | None = None) -> Callable[[], Any]:
    """What the step of this task is: to be performed by a child."""
    module, qualname = task.function.__module__, task.function.__qualname__
    if named(module, qualname) is not task or not reaches(module):
        raise StepNotImportable(
            f"The task {task.name} cannot run in a process of its own: {module}:{qualname} is something else"
        )
    return partial(run_here, module, qualname, call.args_json, call.kwargs_json, headers)


def run_here(
    module: str,
    qualname: str,
    args: tuple[Raw, ...],
    kwargs: dict[str, Raw],
    headers: dict[str, str] | None = None,
) -> AttemptResult:
    """In the child."""
    found: Any = find_here(module, qualname)
    if not isinstance(found, TaskDefinition):
        raise StepNotImportable(f"{module}:{qualname} is not a task that runs in a process of its own")
    task = cast(AnyTask, found)
    payloads = Payloads()
    try:
        bound, named_too = payloads.bind_arguments(task.function, StoredCall(qualname, args, kwargs))
    except BadArguments as error:
        return conclude_error(task, error, payloads)
    begun()
    return perform(task, lambda: _call(task, bound, named_too, headers), payloads)


def _call(
    task: AnyTask, args: tuple[Any, ...], kwargs: dict[str, Any], headers: dict[str, str] | None
) -> Any:
    """With the middlewares that the app of the task has in this process."""
    middlewares, info = task.middlewares, info_here()
    if middlewares is None or info is None or not middlewares.around["task"]:
        return task.function(*args, **kwargs)
    invocation = Invocation(
        "task", task.name, info.id, args, kwargs, attempt=info.attempt, headers=dict(headers or {})
    )
    return call_inside(middlewares.enter(invocation), task.function)


cast(Any, run_here).announces_itself = True


def with_codec(attempt_result: AttemptResult, payloads: Payloads) -> AttemptResult:
    """In the parent: the result of the attempt, as it is stored."""
    value = attempt_result.value
    if value.data is None:
        return attempt_result
    encoded: Value = payloads.encode(Raw(a2b_base64(value.data)), value.headers)
    return replace(attempt_result, value=encoded)
