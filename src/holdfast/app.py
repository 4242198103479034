"""App: what a user constructs. It knows workflows and tasks, opens a node (or talks to one), runs a worker.

The work is asynchronous and lives in one `Session` on one event loop: the caller's own inside
`async with app`, otherwise that of a background thread. `bridge.py` is the way to it, and has the table of
what happens in which state of the app, by who asks. Nothing of that is part of an app's public face.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, overload

from holdfast.client.caller import fresh_key
from holdfast.client.tls import find_certificate
from holdfast.host.app_metrics import AppMetrics
from holdfast.host.bridge import AppBridge
from holdfast.host.bulk import BulkHandle
from holdfast.host.conversing import Conversing
from holdfast.host.declaring_entities import DeclaringEntities
from holdfast.host.eventing import Eventing
from holdfast.host.execution_client import Start, with_entered
from holdfast.host.finding import Instant, Statuses, search_of
from holdfast.host.handle import Body, Handle as Handle, RunsWorkflow, Workflow as Workflow
from holdfast.host.hooking import Hooking
from holdfast.host.looking import Executions
from holdfast.host.queue_figures import QueueFigures
from holdfast.host.serving import Serving
from holdfast.host.session import Session
from holdfast.host.settings import (
    Orphans,
    SessionSettings,
    declare_settings,
    default_concurrency,
    default_lease_s,
)
from holdfast.host.workflow_shapes import function_of, is_durable, name_of, read_loop
from holdfast.jobs.declaring import Declaring
from holdfast.jobs.errors import PlainWorkflow
from holdfast.jobs.findings import named_options, note, read_options
from holdfast.jobs.schedule_handles import Schedules
from holdfast.payloads.durations import Duration
from holdfast.payloads.payloads import Codec
from holdfast.payloads.signature import signature_of
from holdfast.payloads.user_tags import check_id, check_user_tags
from holdfast.protocol.executions import ExecutionKind
from holdfast.protocol.ids import new_id
from holdfast.protocol.records import Value
from holdfast.steps.middleware import Entered, await_asked, telling
from holdfast.steps.providers import Providers
from holdfast.workflow.errors import BadStartOption, DuplicateWorkflow
from holdfast.workflow.placement import Placement
from holdfast.workflow.registry import (
    Registry,
    WorkflowDefinition,
    check_on_existing,
    check_workflow,
    workflow_options,
)

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Tags = Mapping[str, str]
Texts = Sequence[str]


class App(Declaring, Conversing, Eventing, DeclaringEntities, Hooking, Serving):
    """
    app = App()                          # ./holdfast.db, a node and a worker in this process
    app = App("http://127.0.0.1:8001")   # a server; workers in this process and elsewhere

    `url`: where executions are stored; without it HOLDFAST_URL, else `sqlite:///holdfast.db`.
    `group`: the name of the workers that run them. `worker`: False only starts and awaits, and runs nothing.
    `concurrency`: how many executions and tasks run at once in this process (100).
    `lease`: how long a silent worker counts as alive (20 s); then another one takes over.
    `token`: what a server asks for; without it HOLDFAST_TOKEN.
    `client_cert`, `client_key`: PEM files for a server that asks for certificates; without them
    HOLDFAST_CLIENT_CERT and HOLDFAST_CLIENT_KEY. `codec`: encrypts or compresses everything that is stored.
    `exception_codes`, `default_error_code`: the codes under which exceptions fail background tasks.
    `retention`: delete executions that ended longer ago ("30d"); a server has its own setting for that.
    `orphan_schedules`: "remove" deletes schedules that an app of this group declared once and does not
    declare any more, when a worker starts. `keep_generations`: of an execution that continues as new, how
    many past generations keep their records (0). `console`: True serves the web console on this machine
    while the app is open, at port 8002 or, if that is taken, at a free one; or give the port. With a server,
    it logs where the server has it.
    """

    @named_options("an App")
    def __init__(
        self,
        url: str | None = None,
        *,
        group: str = "default",
        worker: bool = True,
        concurrency: int = default_concurrency,
        lease: Duration = default_lease_s,
        token: str | None = None,
        client_cert: str | None = None,
        client_key: str | None = None,
        codec: Codec | None = None,
        exception_codes: Mapping[type[BaseException], str] | None = None,
        default_error_code: str | None = None,
        retention: Duration | None = None,
        orphan_schedules: Orphans = "keep",
        keep_generations: int = 0,
        console: bool | int = False,
    ) -> None:
        super().__init__(codec, exception_codes, default_error_code)
        self.registry = Registry()
        self.hooks = self.registry.hooks = self.tasks.hooks
        self._metrics = AppMetrics()
        self.hooks.observers.add(self._metrics)
        self.providers = Providers()
        certificate = find_certificate(client_cert, client_key)
        given = {"group": group, "concurrency": concurrency, "lease": lease, "retention": retention}
        given |= {"orphan_schedules": orphan_schedules, "keep_generations": keep_generations}
        self.settings = declare_settings(url, worker, token, certificate, codec, **given)
        self._bridge = AppBridge(
            self.payloads, self.tasks, self.providers, lambda: self.settings, self._make_session
        )
        self._task_app = self._bridge
        self.queue_figures = QueueFigures(self._bridge)
        self._console_port, self._may_choose_port = 8002 if console is True else int(console), console is True
        self.schedules = Schedules(self._bridge)

    # --- workflows -------------------------------------------------------------------------------------

    @overload  # the first that fits is meant
    def workflow(self, function: type[RunsWorkflow[P, T]], /) -> Workflow[P, T]: ...
    @overload
    def workflow(self, function: Callable[P, T], /) -> Workflow[P, T]: ...
    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = None,
        version: int = 1,
        group: str | None = None,
        timeout: Duration | None = None,
        grace: Duration | None = None,
        tags: Tags | None = None,
        loop: Literal["asyncio"] | None = None,
        keep_generations: int | None = None,
        crashes: int | None = None,
    ) -> Callable[[Callable[P, T]], Workflow[P, T]]: ...
    @named_options("a workflow")
    def workflow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        version: int = 1,
        group: str | None = None,
        timeout: Duration | None = None,
        grace: Duration | None = None,
        tags: Tags | None = None,
        loop: Literal["asyncio"] | None = None,
        keep_generations: int | None = None,
        crashes: int | None = None,
    ) -> Any:
        """Register a workflow: an `async def`, or a generator function with `yield from`.

        `name`: what it is recorded under; the function's own by default. `version`: a number, for a second
        workflow of the same name. `group`: the workers that run it; the app's by default. `timeout`: its
        deadline; then its code sees `Cancelled`. `grace`: how long it may clean up after that (30 s).
        `tags`: its executions have them, also those that other workflows call. `loop`: with "asyncio" the
        code runs on an asyncio event loop that is deterministic under replay: docs/reference/asyncio.md.
        `keep_generations`: as of the App, for the executions of this workflow. `crashes`: if its worker dies,
        or cannot run its code, this often in a row without progress (10), an execution is halted until
        `handle.resume()`. It waits longer after each crash.
        """

        def register(function: Callable[..., Any]) -> Workflow[..., Any]:
            given = {"timeout": timeout, "tags": tags, "loop": loop, "keep_generations": keep_generations}
            given |= {} if crashes is None else {"crashes": crashes}
            given |= {} if grace is None else {"grace": grace}
            readers: dict[str, Callable[[Any], Any]] = {
                **workflow_options,
                "loop": partial(read_loop, function),
            }
            read = read_options("a workflow", given, readers, function)
            limit, own_tags = read.get("timeout"), read.get("tags")
            named = str(name or name_of(function))
            function = function_of(function)
            own_loop, keep = read.get("loop"), read.get("keep_generations")
            workflow = Workflow(self._start, function, named, version, group, limit, own_tags, own_loop, keep)
            workflow.placement = Placement(crashes=read.get("crashes"), grace_s=read.get("grace"))
            try:
                if not is_durable(function):
                    kind = (
                        "an async generator" if inspect.isasyncgenfunction(function) else "a plain function"
                    )
                    raise PlainWorkflow(f"The workflow {named} is {kind}")
                self.registry.add(workflow)
            except (DuplicateWorkflow, PlainWorkflow) as error:
                note(error, function)
            return workflow

        return register if function is None else register(function)

    @overload
    def provide(self, key: type[Any] | str, source: Any, /) -> None: ...
    @overload
    def provide(self, key: type[Any] | str, /) -> Callable[[F], F]: ...
    def provide(self, key: type[Any] | str, *sources: Any) -> Any:
        """Inject what cannot be stored into workflows and steps: a connection pool, a client, settings.

        `source` is a value, or a factory: a function, `async` or not, or a generator that yields the value
        and closes it afterwards; its own parameters are filled in too. It opens with each worker, before the
        first claim, and closes in reverse order after the last step. Parameters annotated with the type, or
        with `Annotated[..., Depends("name")]`, get it.

        Crash: it is never recorded; another worker opens its own.

        >>> app.provide(Settings, Settings(debug=True))
        >>> @app.provide(Database)
        ... async def database(settings: Settings):
        ...     async with connect(settings) as database:
        ...         yield database
        """
        if sources:
            self.providers.add(key, *sources)
            return None

        def register(factory: F) -> F:
            self.providers.add(key, factory)
            return factory

        return register

    # --- starting --------------------------------------------------------------------------------------

    # With an id or tags the arguments are not checked: a ParamSpec leaves no room for keywords of our own.
    @overload
    def start(
        self, workflow: WorkflowDefinition[P, Body[T]], /, *args: Any, id: str, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: WorkflowDefinition[P, Body[T]], /, *args: Any, tags: Tags, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: WorkflowDefinition[P, Body[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]: ...
    @overload
    def start(self, workflow: str, /, *args: Any, id: str | None = None, **kwargs: Any) -> Handle[Any]: ...
    def start(self, workflow: Any, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Start an execution, or find the one that has this id. In a script it is durable when this returns,
        in asyncio after `await handle.started()`. The short form of `workflow.with_options(...).start(...)`.

        Options beside the workflow's own arguments, unless it has parameters of these names: `id`, `tags`
        (added to those of the workflow) and `on_existing` (for an id that is taken).

        Crash: once started, any worker continues it. Starting it again under its id changes nothing, unless
        `on_existing` says so.
        """
        if isinstance(workflow, str):
            tags = check_user_tags(kwargs.pop("tags", None))
            promise_id = self._id_of(workflow, kwargs.pop("id", None))
            on_existing = check_on_existing(kwargs.pop("on_existing", "return"))
            key = None if on_existing == "return" else fresh_key()
            entered = self.hooks.leaving("start", workflow, promise_id, args, kwargs, self.payloads)
            if entered is not None:
                args, kwargs = entered.invocation.args, entered.invocation.kwargs
            with telling(entered):
                param = self.payloads.encode_call(workflow, args, kwargs, 0)
            asked = Start(promise_id, param, tags=tags, name=workflow, on_existing=on_existing, key=key)
            return self._begin(asked, entered)
        check_workflow(workflow)
        own = {parameter.name for parameter in signature_of(workflow.function).parameters or ()}
        options = {
            key: kwargs.pop(key)
            for key in ("id", "tags", "on_existing")
            if key in kwargs and key not in own - {"id"}
        }
        return self._start(workflow.with_options(**options) if options else workflow, args, kwargs)

    def _start(
        self,
        workflow: WorkflowDefinition[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        told: tuple[Any, ...] = (),
    ) -> Handle[Any]:
        """Start what is checked and encoded here, at the call and on the caller's thread. `told`: perhaps a
        message that it gets in the same commit."""
        signature = signature_of(workflow.function)
        supplied = self.providers.check(signature, kwargs, "async")
        promise_id = self._id_of(workflow.name, workflow.id)
        entered = self.hooks.leaving("start", workflow.name, promise_id, args, kwargs, self.payloads)
        if entered is not None:
            args, kwargs = entered.invocation.args, entered.invocation.kwargs
        with telling(entered):
            param = self.payloads.encode_call(
                workflow.name, args, kwargs, workflow.version, signature, supplied
            )
        asked = Start(
            promise_id,
            param,
            workflow.group,
            workflow.timeout_s,
            workflow.tags,
            signature,
            supplied,
            workflow.placement,
            workflow.name,
            workflow.on_existing,
            None if workflow.on_existing == "return" else fresh_key(),
        )
        if told and workflow.on_existing != "return":
            raise BadStartOption(
                "start_and_tell always uses the execution that has the id, so it takes no on_existing="
            )
        if workflow.connection is None:
            with telling(entered):
                message = self._leaving("tell", promise_id, *told) if told else None
            return self._begin(asked, entered, message)
        if told:
            raise BadStartOption(
                "start_and_tell takes no connection=: start it in your transaction, tell it after the commit"
            )
        created = self._bridge.start_inside(workflow.connection, with_entered(asked, entered))
        if entered is not None:
            entered.returned(asked.id)
        return Handle(self._bridge, asked.id, asked.returns, created)

    def _begin(
        self, asked: Start, entered: Entered | None, told: tuple[Value, Entered | None] | None = None
    ) -> Handle[Any]:
        """`told`: a message, and the middlewares around it."""
        asked = with_entered(asked, entered)

        async def create() -> None:
            if told is not None:
                await self.session.conversations.start_and_tell(asked, told[0])
            else:
                await self.session.executions.start(asked)

        work = create()
        if told is not None and told[1] is not None:
            work = await_asked(told[1], work)
        if entered is not None:
            work = await_asked(entered, work, asked.id)
        if self._bridge.is_here(work):
            created = self._bridge.tracked_calls.begin(f"the start of {asked.id[:80]}", work)
            return Handle(self._bridge, asked.id, asked.returns, created)
        self._bridge.block(work)
        return Handle(self._bridge, asked.id, asked.returns)

    def handle(self, id: str, returns: Any = Any) -> Handle[Any]:  # noqa: A002
        """The handle of an execution that was started elsewhere."""
        return Handle(self._bridge, check_id(id), returns)

    def find(
        self,
        workflow: Any = None,
        *,
        status: Statuses | None = None,
        tags: Tags | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        queue: str | None = None,
        error: str | type[BaseException] | None = None,
        prefix: str | None = None,
        kind: ExecutionKind | None = None,
        schedule: str | None = None,
        order: str = "newest",
        page_size: int = 100,
    ) -> Executions:
        """Executions and background tasks, newest first: all for which everything given is true.

        `workflow`: a workflow, a task, or a name. `since`, `until`: an instant, or how long ago. `error`: the
        class of what executions failed with, or its name, or the code of tasks. `schedule`: those that a
        schedule has started.

        >>> for failed in app.find(checkout, status="failed", since="1d"):
        ...     print(failed.id, failed.error_code)
        """
        now = self._bridge.read_clock().now
        search = search_of(
            workflow, status, tags, since, until, queue, error, prefix, kind, schedule, order, page_size, now
        )
        return Executions(self._bridge, search)

    def bulk(self, id: str) -> BulkHandle:  # noqa: A002
        """The handle of a bulk operation that was started elsewhere, or by an earlier run of this program.

        >>> app.bulk("retry-monday").progress()
        """
        return BulkHandle(self._bridge, check_id(id))

    def _id_of(self, name: str, given: Any) -> str:
        """Without one, a fresh one: those that grow with time stay together in every index."""
        if given is not None:
            return check_id(given)
        return new_id(name, self._bridge.read_clock().now, self._bridge.fresh())

    # --- life ------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The connection to the node, for extensions. The app must be open."""
        return self._bridge.session

    def _make_session(self, settings: SessionSettings) -> Session:
        session = Session(settings, self.registry, self.providers, tasks=self.tasks)
        if self._console_port and not settings.is_in_child:
            session.after_open.append(partial(self._open_console, session))
        return session

    async def __aenter__(self) -> Self:
        await self._bridge.open_here()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._bridge.close_here()

    def __enter__(self) -> Self:
        self._bridge.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bridge.leave()

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self._bridge.__reduce__()

    def close(self) -> None:
        """Stop the worker, finish what was accepted, close the store.

        A caller in another thread that still waits for a result gets `ClosedTooSoon`.
        """
        self._bridge.close()

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Open the app, run `main` on its loop, and close it. A small program needs nothing else."""

        async def opened() -> T:
            async with self:
                return await main()

        return asyncio.run(opened())


def bridge_of(app: App) -> AppBridge:
    """For holdfast.testing, which gives an app a session of its own."""
    return app._bridge  # pyright: ignore[reportPrivateUsage]
