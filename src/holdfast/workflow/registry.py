"""Workflows by name and version: what a task asks for, and what this process can run."""

import copy
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Generic, Literal, ParamSpec, Self, TypeVar, get_args

from holdfast.payloads.durations import Duration, seconds
from holdfast.payloads.interactive import is_interactive
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall
from holdfast.payloads.user_tags import check_id, check_user_tags
from holdfast.protocol.jobs import KeyOverlap
from holdfast.protocol.requests import OnExisting
from holdfast.runtime.slot import slot
from holdfast.steps.hooks import Hooks
from holdfast.steps.providers import Depends, Provided
from holdfast.workflow.asyncio_loop.main import in_asyncio
from holdfast.workflow.errors import BadStartOption, DuplicateWorkflow, NotAWorkflow, UnknownWorkflow
from holdfast.workflow.fallback import FallbackFunctions
from holdfast.workflow.generations import read_keep
from holdfast.workflow.guard import guard
from holdfast.workflow.operations import CallOperation
from holdfast.workflow.placement import Placement, read_crashes, read_grace

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class Callee(Generic[P, T_co]):
    """What is not a workflow and can be called by one all the same; the call gives a `T_co`."""

    @property
    def callee_name(self) -> str:
        raise NotImplementedError

    def as_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, waits: bool) -> CallOperation:
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
        keep_generations: int | None = None,
        is_kept_warm: bool = True,
    ) -> None:
        self.function = function
        self.loop = loop
        self.keep_generations = keep_generations
        self.is_kept_warm = is_kept_warm  # in memory, while it is suspended
        self.name = name
        self.version = version
        self.group = group
        self.timeout_s = timeout_s
        self.tags = check_user_tags(tags)
        self.id: str | None = None  # of the next execution, by `with_options`
        self.placement = Placement()
        self.on_existing: OnExisting = "return"
        self.connection: Any = None  # with the transaction in which it is started
        self.is_method = False
        self.instance: Any = None  # of a method, as it was reached
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __set_name__(self, owner: type[Any], name: str) -> None:
        """It is a method: `self` is what the app provides for the class."""
        self.is_method = True
        annotations = self.function.__annotations__
        annotations.setdefault("self", Annotated[owner, Depends(owner)])

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        bound = copy.copy(self)
        bound.instance = instance
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        worker_context: Any = getattr(slot.scheduler and slot.scheduler.world, "worker_context", None)
        if self.instance is not None:
            function: Callable[..., T_co] = self.function
            return function(self.instance, *args, **kwargs)
        if worker_context is None:
            return self.function(*args, **kwargs)
        args, kwargs = worker_context.provided.complete(self.function, args, kwargs)
        return self.function(*args, **kwargs)

    def arguments(
        self, call: StoredCall, payloads: Payloads, provided: Provided
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with: what was stored, and what the app provides."""
        args, kwargs = payloads.bind_arguments(self.function, call, provided.names(self.function))
        kwargs |= provided.fill(self.function)
        return ((kwargs.pop("self"), *args), kwargs) if self.is_method else (args, kwargs)

    @property
    def callee_name(self) -> str:
        return self.name

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
        grace: Duration | None = None,
        group: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        limit_key: str | None = None,
        overlap: KeyOverlap | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        connection: Any = None,
        on_existing: OnExisting | None = None,
    ) -> Self:
        """The same workflow with other options. Options that you leave out stay as they are.

        `id`: the id of the execution; without it, a call in a workflow gets its id from its place in the
        code. `tags`: added to those it has. `timeout`: its deadline; then its code sees `Cancelled`.
        `grace`: how long it may clean up after that (30 s); then it is ended. `group`: the workers that run
        it. `queue`: the queue in which it waits. `limit_key`: the key for limits per key. `overlap`: if
        another with this key is open in the queue, wait for the limits ("wait"), refuse this one
        ("reject"), or ask the other one to cancel ("replace"). `priority`: higher ones first. `delay`, `at`:
        start no earlier than after this time, or at this instant. `connection`: start it inside the
        transaction that is open on it, so if and only if you commit. `on_existing`: if an execution has the
        id, return that one ("return"), raise `IdTaken` ("reject"), start again if it has failed
        ("again_if_failed"), or cancel it if it is open and start again ("replace").
        """
        if on_existing is not None:
            check_on_existing(on_existing)
        if group is not None and queue is not None:
            raise BadStartOption("group and queue both say whose workers run it: give one of them")
        other = copy.copy(self)
        other.id = self.id if id is None else check_id(id)
        other.tags = self.tags | check_user_tags(tags)
        other.timeout_s = self.timeout_s if timeout is None else seconds("timeout", timeout)
        other.group = self.group if group is None else group
        other.placement = self.placement.refined(
            queue=queue,
            priority=priority,
            limit_key=limit_key,
            overlap=overlap,
            delay=delay,
            at=at,
            grace=grace,
        )
        other.connection = self.connection if connection is None else connection
        other.on_existing = self.on_existing if on_existing is None else on_existing
        return other

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"


def check_on_existing(given: Any) -> OnExisting:
    if given not in get_args(OnExisting):
        raise BadStartOption(f"on_existing must be one of {', '.join(get_args(OnExisting))}, not {given!r}")
    return given  # type: ignore[no-any-return]


# How the options of a workflow that can be wrong are read.
workflow_options: Final[dict[str, Callable[[Any], Any]]] = {
    "timeout": partial(seconds, "timeout"),
    "tags": check_user_tags,
    "keep_generations": read_keep,
    "crashes": read_crashes,
    "grace": read_grace,
}


def check_workflow(given: object) -> None:
    if not isinstance(given, WorkflowDefinition):
        name = getattr(given, "__qualname__", None) or getattr(given, "name", None) or repr(given)
        raise NotAWorkflow(f"{name} is a {type(given).__name__}, not a workflow")


class Registry:
    def __init__(self) -> None:
        self.hooks = Hooks()
        self._workflows: dict[str, dict[int, WorkflowDefinition[..., Any]]] = {}
        self._fallback: WorkflowDefinition[..., Any] | None = None
        self._functions: FallbackFunctions | None = None
        self.subscriptions: list[tuple[str, WorkflowDefinition[..., Any]]] = []  # events that start them

    def add(self, workflow: WorkflowDefinition[..., Any]) -> None:
        versions = self._workflows.setdefault(workflow.name, {})
        other = versions.get(workflow.version)
        if other is not None and not is_interactive():
            here, there = (_where(found.function) for found in (workflow, other))
            raise DuplicateWorkflow(
                f"Workflow {workflow.name!r} version {workflow.version} is defined twice: {there} and {here}"
            )
        versions[workflow.version] = workflow

    def add_fallback(self, workflow: WorkflowDefinition[..., Any]) -> None:
        if self._fallback is not None and not is_interactive():
            here, there = (_where(found.function) for found in (workflow, self._fallback))
            raise DuplicateWorkflow(f"There are two fallbacks: {there} and {here}")
        self._fallback, self._functions = workflow, FallbackFunctions(workflow.function)

    def _by_fallback(self, name: str) -> WorkflowDefinition[..., Any] | None:
        if self._fallback is None or self._functions is None:
            return None
        found = copy.copy(self._fallback)
        found.name, found.function = name, self._functions.of(name)
        return found

    def subscribe(self, event: str, workflow: WorkflowDefinition[..., Any]) -> None:
        self.subscriptions.append((event, workflow))

    def find(self, name: str, version: int | None = None) -> WorkflowDefinition[..., Any]:
        """That version; without one (or 0), the newest. Of a name that nobody declared, the fallback."""
        versions = self._workflows.get(name, {})
        if not versions and (fallback := self._by_fallback(name)) is not None:
            return fallback
        chosen = version or max(versions, default=0)
        if chosen not in versions:
            known = (
                f"versions {', '.join(map(str, sorted(versions)))}"
                if versions
                else ", ".join(sorted(self._workflows))
            )
            asked = f" version {version}" if version else ""
            raise UnknownWorkflow(
                f"Workflow {name!r}{asked} is not registered here (known: {known or 'none'})"
            )
        return versions[chosen]

    def __iter__(self) -> "Any":
        return (workflow for versions in self._workflows.values() for workflow in versions.values())


def _where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
