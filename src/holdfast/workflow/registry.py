"""Workflows by name and version: what a task asks for, and what this process can run."""

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Literal, ParamSpec, Self, TypeVar

from holdfast.payloads.durations import Duration, seconds
from holdfast.payloads.interactive import is_interactive
from holdfast.payloads.user_tags import check_id, check_user_tags
from holdfast.protocol.jobs import KeyOverlap
from holdfast.runtime.slot import slot
from holdfast.workflow.asyncio_loop.main import in_asyncio
from holdfast.workflow.errors import BadStartOption, DuplicateWorkflow, NotAWorkflow, UnknownWorkflow
from holdfast.workflow.guard import guard
from holdfast.workflow.operations import Call
from holdfast.workflow.placement import Placement

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class Callee(Generic[P, T_co]):
    """What is not a workflow and can be called by one all the same; the call gives a `T_co`."""

    def as_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, waits: bool) -> Call:
        raise NotImplementedError


class WorkflowDefinition(Generic[P, T_co]):
    """What is known of a workflow: its function, its name and version, and how its executions are started."""

    def __init__(
        self,
        function: Callable[P, T_co],
        name: str,
        version: int,
        group: str | None,
        timeout_s: float | None,
        tags: Mapping[str, str] | None = None,
        loop: Literal["asyncio"] | None = None,
    ) -> None:
        self.function = function
        self.loop = loop
        self.name = name
        self.version = version
        self.group = group
        self.timeout_s = timeout_s
        self.tags = check_user_tags(tags)
        self.id: str | None = None  # of the next execution, by `with_options`
        self.placement = Placement()
        self.connection: Any = None  # with the transaction in which it is started
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        worker_context: Any = getattr(slot.scheduler and slot.scheduler.world, "worker_context", None)
        if worker_context is None:
            return self.function(*args, **kwargs)
        args, kwargs = worker_context.provided.complete(self.function, args, kwargs)
        return self.function(*args, **kwargs)

    @property
    def body(self) -> Callable[..., Any]:
        """What the root fiber of an execution runs."""
        guard.watch(self.function)
        return self.function if self.loop is None else in_asyncio(self.function)

    def with_options(
        self,
        *,
        id: str | None = None,  # noqa: A002
        tags: Mapping[str, str] | None = None,
        timeout: Duration | None = None,
        group: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        limit_key: str | None = None,
        overlap: KeyOverlap | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        connection: Any = None,
    ) -> Self:
        """The same workflow, started otherwise: what is not given stays as it is.

        `id`: of the execution, when it is started from outside; a call inside a workflow gets its id from its
        place there. `tags`: added to those it has. `timeout`: it must be over by then. `group`: whose workers
        run it. `queue`: where it waits, by the limits of that queue, and for the workers that serve it;
        `limit_key`: what limits per key count it by. `overlap`: while another with this key is open there, it
        waits by those limits ("wait"), is refused ("reject"), or the other one is asked to cancel
        ("replace"). `priority`: higher ones first. `delay`, `at`: it does
        not begin before that much time has passed, or that instant. `connection`: start it inside the
        transaction that is open on it, so exactly if you commit.
        """
        if group is not None and queue is not None:
            raise BadStartOption("group and queue both say whose workers run it: give one of them")
        other = copy.copy(self)
        other.id = self.id if id is None else check_id(id)
        other.tags = self.tags | check_user_tags(tags)
        other.timeout_s = self.timeout_s if timeout is None else seconds("timeout", timeout)
        other.group = self.group if group is None else group
        other.placement = self.placement.refined(
            queue=queue, priority=priority, limit_key=limit_key, overlap=overlap, delay=delay, at=at
        )
        other.connection = self.connection if connection is None else connection
        return other

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


# How the options of a workflow that can be wrong are read.
workflow_options: Final[dict[str, Callable[[Any], Any]]] = {
    "timeout": partial(seconds, "timeout"),
    "tags": check_user_tags,
}


def check_workflow(given: object) -> None:
    if not isinstance(given, WorkflowDefinition):
        name = getattr(given, "__qualname__", None) or getattr(given, "name", None) or repr(given)
        raise NotAWorkflow(f"{name} is a {type(given).__name__}, not a workflow")


class Registry:
    def __init__(self) -> None:
        self._workflows: dict[str, dict[int, WorkflowDefinition[..., Any]]] = {}

    def add(self, workflow: WorkflowDefinition[..., Any]) -> None:
        versions = self._workflows.setdefault(workflow.name, {})
        other = versions.get(workflow.version)
        if other is not None and not is_interactive():
            here, there = (_where(found.function) for found in (workflow, other))
            raise DuplicateWorkflow(
                f"Workflow {workflow.name!r} version {workflow.version} is defined twice: {there} and {here}"
            )
        versions[workflow.version] = workflow

    def find(self, name: str, version: int | None = None) -> WorkflowDefinition[..., Any]:
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
