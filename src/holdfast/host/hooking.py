"""What users hang into the work of an app: middlewares, carried context variables, extensions; metrics."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast, overload

from holdfast.host.app_metrics import AppMetrics, render
from holdfast.host.bridge import AppBridge
from holdfast.host.handle import Workflow
from holdfast.host.workflow_shapes import is_durable
from holdfast.jobs.errors import PlainWorkflow
from holdfast.jobs.findings import note
from holdfast.payloads.errors import BadSetting
from holdfast.steps.hooks import Hooks
from holdfast.steps.middleware import Kind, Middleware
from holdfast.steps.observer import Observer
from holdfast.workflow.errors import DuplicateWorkflow
from holdfast.workflow.registry import Registry

M = TypeVar("M", bound=Middleware)


class Extension(Protocol):
    """What `app.use` takes: an object that hangs itself into an app."""

    def install(self, app: Any, /) -> None: ...


class Hooking:
    hooks: Hooks
    _metrics: AppMetrics
    _bridge: AppBridge
    registry: Registry
    _start: Callable[..., Any]

    @overload
    def middleware(self, function: M, /) -> M: ...
    @overload
    def middleware(self, /, *kinds: Kind) -> Callable[[M], M]: ...
    def middleware(self, /, *given: Any) -> Any:
        """Put a generator with one `yield` around what this app does: docs/reference/middleware.md.

        `kinds`: "start", "send" and "tell" on the caller's side; "workflow", "step" and "task" where
        the code runs. All of them if none is given. Around a step or a task it runs once for each attempt;
        around a workflow once for each replay, so there it must be deterministic and cannot wait.

        >>> @app.middleware("step", "task")
        ... def timed(invocation):
        ...     began = time.monotonic()
        ...     yield
        ...     print(invocation.name, time.monotonic() - began)
        """
        if len(given) == 1 and not isinstance(given[0], str):
            self.hooks.middlewares.add(given[0])
            return given[0]

        def add(function: M) -> M:
            self.hooks.middlewares.add(function, cast("tuple[Kind, ...]", given))
            return function

        return add

    def carry(self, variable: ContextVar[Any], /, *, name: str | None = None, type: Any = Any) -> None:  # noqa: A002
        """Pass a context variable on: to what is started or sent where it is set, to its steps (also in
        threads and child processes), to what these start, and with messages.

        Its value is recorded with the start, as JSON through the app's codec; `type` is what it is decoded
        to. All values together have at most 4,096 bytes as they are stored.

        >>> tenant: ContextVar[str] = ContextVar("tenant")
        >>> app.carry(tenant)
        """
        self.hooks.carried.add(variable, name, type)

    def use(self, extension: Extension | Observer, /) -> None:
        """Add an extension: `app.use(OpenTelemetry())`, `app.use(Sentry())`, or an observer of your own."""
        install = getattr(extension, "install", None)
        if isinstance(extension, type):
            name = extension.__name__
            raise BadSetting(f"app.use got the class {name}; write app.use({name}())")
        if install is None and not isinstance(extension, Observer):
            raise BadSetting(f"app.use takes an extension or an observer, not {extension!r}")
        self.hooks.add_extension(extension)
        if install is not None:
            install(self)

    def fallback(self, function: Callable[..., Any], /) -> Workflow[..., Any]:
        """A workflow for every name that is not declared here. It gets the name, then the arguments.

        Executions keep the name that they were started under. A worker of an older deployment takes names
        that only a newer one declares, so use this where names are data: interpreters, webhooks, plugins.

        >>> @app.fallback
        ... async def anything(name: str, *args, **kwargs): ...
        """
        workflow = Workflow(self._start, function, "*", 1, None, None)
        try:
            if not is_durable(function):
                raise PlainWorkflow("The fallback is a plain function")
            self.registry.add_fallback(workflow)
        except (DuplicateWorkflow, PlainWorkflow) as error:
            note(error, function)
        return workflow

    def metrics(self) -> str:
        """What this app has counted, as Prometheus text: executions and tasks that began and ended here, by
        name; how long they waited and took. With a node of its own, that node's queues too.

        In asyncio use `metrics_async`.
        """
        return self._bridge.block(self._render())

    async def metrics_async(self) -> str:
        return await self._bridge.bridge(self._render())

    async def _render(self) -> str:
        return await render(self._metrics, self._bridge.session)
