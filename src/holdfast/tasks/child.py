"""Both sides of a task in a process of its own. What crosses is the call as stored, and the conclusion.

The child finds the task by the module and name of its function, types the arguments, runs it and judges the
result there, where the classes of its exceptions are. The codec stays with the parent.
"""

from binascii import a2b_base64
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from msgspec import Raw

from holdfast.protocol.records import Value
from holdfast.tasks.conclusion import Conclusion, conclude_error, perform
from holdfast.tasks.registry import AnyTask
from holdfast.tasks.task import Task
from holdfast.worker.child import begun, find_here
from holdfast.worker.errors import BadArguments, StepNotImportable
from holdfast.worker.payload import Payloads
from holdfast.worker.processes import named, reaches
from holdfast.worker.signature import Call


def order(task: AnyTask, call: Call) -> Callable[[], Any]:
    """What the step of this task is: to be performed by a child."""
    module, qualname = task.function.__module__, task.function.__qualname__
    if named(module, qualname) is not task or not reaches(module):
        raise StepNotImportable(
            f"The task {task.name} cannot run in a process of its own: {module}:{qualname} is another thing"
        )
    return partial(run_here, module, qualname, call.args_json, call.kwargs_json)


def run_here(module: str, qualname: str, args: tuple[Raw, ...], kwargs: dict[str, Raw]) -> Conclusion:
    """In the child."""
    found: Any = find_here(module, qualname)
    if not isinstance(found, Task):
        raise StepNotImportable(f"{module}:{qualname} is no task in a process of its own")
    task = cast(AnyTask, found)
    payloads = Payloads()
    try:
        bound, named_too = payloads.bind_arguments(task.function, Call(qualname, args, kwargs))
    except BadArguments as error:
        return conclude_error(task, error, payloads)
    begun()
    return perform(task, lambda: task.function(*bound, **named_too), payloads)


cast(Any, run_here).announces_itself = True


def with_codec(conclusion: Conclusion, payloads: Payloads) -> Conclusion:
    """In the parent: the conclusion as it is stored."""
    value = conclusion.value
    if value.data is None:
        return conclusion
    encoded: Value = payloads.encode(Raw(a2b_base64(value.data)), value.headers)
    return Conclusion(encoded, conclusion.code, conclusion.delay_ms, conclusion.is_final)
