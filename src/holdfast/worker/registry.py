"""Workflows by name and version: what a task asks for, and what this process can run."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Generic, ParamSpec, TypeVar

from holdfast.runtime.slot import slot
from holdfast.worker.durations import seconds
from holdfast.worker.execution_errors import DuplicateWorkflow, NotAWorkflow, UnknownWorkflow
from holdfast.worker.operations import Call
from holdfast.worker.user_tags import check_user_tags

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class Callee(Generic[P, T_co]):
    """What is not a workflow and can be called by one all the same; the call gives a `T_co`."""

    def as_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, waits: bool) -> Call:
        raise NotImplementedError


class Workflow(Generic[P, T_co]):
    """A function that survives. Called directly inside another workflow it runs there, as part of it."""

    def __init__(
        self,
        function: Callable[P, T_co],
        name: str,
        version: int,
        group: str | None,
        timeout_s: float | None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self.group = group
        self.timeout_s = timeout_s
        self.tags = check_user_tags(tags)
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        around: Any = getattr(slot.scheduler and slot.scheduler.world, "around", None)
        if around is None:
            return self.function(*args, **kwargs)
        args, kwargs = around.provided.complete(self.function, args, kwargs)
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


# How the options of a workflow that can be wrong are read.
workflow_options: Final[dict[str, Callable[[Any], Any]]] = {
    "timeout": partial(seconds, "timeout"),
    "tags": check_user_tags,
}


def check_workflow(given: object) -> None:
    if not isinstance(given, Workflow):
        name = getattr(given, "__qualname__", None) or getattr(given, "name", None) or repr(given)
        raise NotAWorkflow(f"{name} is a {type(given).__name__}, not a workflow")


class Registry:
    def __init__(self) -> None:
        self._workflows: dict[str, dict[int, Workflow[..., Any]]] = {}

    def add(self, workflow: Workflow[..., Any]) -> None:
        versions = self._workflows.setdefault(workflow.name, {})
        other = versions.get(workflow.version)
        if other is not None:
            here, there = (_where(found.function) for found in (workflow, other))
            raise DuplicateWorkflow(
                f"Workflow {workflow.name!r} version {workflow.version} is defined twice: {there} and {here}"
            )
        versions[workflow.version] = workflow

    def find(self, name: str, version: int | None = None) -> Workflow[..., Any]:
        """That version; without one (or 0), the newest."""
        versions = self._workflows.get(name, {})
        chosen = version or max(versions, default=0)
        if chosen not in versions:
            known = ", ".join(sorted(self._workflows)) or "none"
            raise UnknownWorkflow(
                f"Workflow {name!r} version {chosen} is not registered here (known: {known})"
            )
        return versions[chosen]

    def __iter__(self) -> "Any":
        return (workflow for versions in self._workflows.values() for workflow in versions.values())


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
