"""Fakes for steps and background tasks: `World(app, replace={charge: fake})`.

1. A fake is called with the arguments of the call, in place of the function; retries, time limits, the record
   and replay are those of the real one. What it returns is read as the real one's type.
2. What is no function that can be replaced is refused when the world is made, not ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.jobs.task import TaskDefinition
from holdfast.payloads.errors import BadSetting
from holdfast.runtime.step import Step
from holdfast.workflow.registry import WorkflowDefinition
from holdfast.workflow.step_functions import StepFunction

Fakes = Mapping[Any, Callable[..., Any]]


class Replaced:
    """The functions that are replaced, and by what."""

    def __init__(self, fakes: Fakes | None = None) -> None:
        self._by_function = {
            _function_of(given): _checked(given, fake) for given, fake in (fakes or {}).items()
        }

    def put_into(self, step: Step) -> None:
        if self._by_function:
            step.function = self._by_function.get(step.function, step.function)


def _function_of(given: Any) -> Callable[..., Any]:
    if isinstance(given, StepFunction):
        plain: Callable[..., Any] = given.plain  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return plain
    if isinstance(given, TaskDefinition):
        task: TaskDefinition[..., Any, Any, Any] = given  # pyright: ignore[reportUnknownVariableType]
        if task.mode == "process":
            raise BadSetting(
                f"replace: {task.name} runs in a process of its own; replace what it calls there"
            )
        return task.function
    if isinstance(given, WorkflowDefinition):
        name: str = given.name  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        raise BadSetting(f"replace: {name} is a workflow; replace its steps and tasks")
    if not callable(given):
        raise BadSetting(f"replace: {given!r} is not a function, so no step can call it")
    function: Callable[..., Any] = given
    return function


def _checked(given: Any, fake: Any) -> Callable[..., Any]:
    if not callable(fake):
        raise BadSetting(f"replace: {fake!r} cannot be called in place of {given!r}")
    called: Callable[..., Any] = fake
    return called
