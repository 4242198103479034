"""App: what a user constructs. It knows workflows and tasks, opens a node (or talks to one), runs a worker.

The work is asynchronous and lives in one `Session` on one event loop: the caller's own inside
`async with app`, otherwise that of a background thread. Everything here is a thin bridge to it.
"""

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from holdfast.client.tls import find_certificate
from holdfast.handle import Handle as Handle
from holdfast.node.clock import wall_clock
from holdfast.session import Session
from holdfast.settings import declare_settings, default_concurrency, default_lease_s, settings_here
from holdfast.tasks.declaring import Declaring
from holdfast.tasks.desk import Desk
from holdfast.tasks.findings import named_options, note, read_options
from holdfast.tasks.home import Sent
from holdfast.tasks.order import Order, fresh_end
from holdfast.unawaited import Done, Unawaited
from holdfast.worker.durations import Duration
from holdfast.worker.execution_errors import DuplicateWorkflow, NoAsyncioHere
from holdfast.worker.no_loop import is_in_workflow
from holdfast.worker.payload import Codec
from holdfast.worker.providers import Providers
from holdfast.worker.registry import Registry, Workflow, check_workflow, workflow_options
from holdfast.worker.signature import signature_of
from holdfast.worker.user_ids import check_id
from holdfast.worker.user_tags import check_user_tags

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Tags = Mapping[str, str]


class App(Declaring):
    """
    app = App()                          # ./holdfast.db, a node and a worker in this process
    app = App("http://127.0.0.1:8001")   # a server; workers in this process and elsewhere

    Without a URL: HOLDFAST_URL, else `sqlite:///holdfast.db`. `worker=False` only starts and awaits.
    `retention="30d"` forgets executions that ended longer ago; with a server that is the server's setting.
    `client_cert` and `client_key` are PEM files for a server that asks for certificates (else
    HOLDFAST_CLIENT_CERT and HOLDFAST_CLIENT_KEY name them).
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
    ) -> None:
        super().__init__(codec, exception_codes, default_error_code)
        self.registry = Registry()
        self.providers = Providers()
        self.settings = declare_settings(
            url=url,
            group=group,
            worker=worker,
            concurrency=concurrency,
            lease=lease,
            token=token,
            certificate=find_certificate(client_cert, client_key),
            codec=codec,
            retention=retention,
        )
        self.unawaited = Unawaited()
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._lent: Callable[..., Any] | None = None  # holdfast.testing drives the loop

    # --- workflows -------------------------------------------------------------------------------------

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
        tags: Tags | None = None,
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
        tags: Tags | None = None,
    ) -> Any:
        """Register a workflow: an `async def`, or a generator function with `yield from`.

        Its executions carry `tags`, also those that other workflows call: `holdfast promises search --tag`.
        """

        def register(function: Callable[..., Any]) -> Workflow[..., Any]:
            given = {"timeout": timeout, "tags": tags}
            read = read_options("a workflow", given, workflow_options, function)
            limit, own_tags = read.get("timeout"), read.get("tags")
            workflow = Workflow(function, name or function.__name__, version, group, limit, own_tags)
            try:
                self.registry.add(workflow)
            except DuplicateWorkflow as error:
                note(error, function)
            return workflow

        return register if function is None else register(function)

    @overload
    def provide(self, key: type[Any] | str, source: Any, /) -> None: ...
    @overload
    def provide(self, key: type[Any] | str, /) -> Callable[[F], F]: ...
    def provide(self, key: type[Any] | str, *sources: Any) -> Any:
        """Give workflows and steps what cannot be stored: a pool of connections, a client, settings.

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
        self, workflow: Workflow[P, Coroutine[Any, Any, T]], /, *args: Any, id: str, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: Workflow[P, Generator[Any, Any, T]], /, *args: Any, id: str, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: Workflow[P, Coroutine[Any, Any, T]], /, *args: Any, tags: Tags, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: Workflow[P, Generator[Any, Any, T]], /, *args: Any, tags: Tags, **kwargs: Any
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: Workflow[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]: ...
    @overload
    def start(
        self, workflow: Workflow[P, Generator[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]: ...
    @overload
    def start(self, workflow: str, /, *args: Any, id: str | None = None, **kwargs: Any) -> Handle[Any]: ...
    def start(self, workflow: Any, /, *args: Any, **kwargs: Any) -> Handle[Any]:
        """Start an execution, or find the one that has this id. In a script it is durable when this returns,
        in asyncio after `await handle.started()`.

        Besides the workflow's own arguments: `id`, and `tags` (unless it has a parameter of that name), which
        are added to those of the workflow.

        Crash: once started it goes on wherever a worker is. Starting it again under its id changes nothing.
        """
        if isinstance(workflow, str):
            name, group, timeout_s, returns = workflow, None, None, Any
            tags = check_user_tags(kwargs.pop("tags", None))
            promise_id = self._id_of(name, kwargs.pop("id", None))
            param = self.payloads.encode_call(name, args, kwargs, 0)
        else:
            check_workflow(workflow)
            name, group, timeout_s = workflow.name, workflow.group, workflow.timeout_s
            signature = signature_of(workflow.function)
            returns = signature.returns
            own = {parameter.name for parameter in signature.parameters or ()}
            given = None if "tags" in own else kwargs.pop("tags", None)
            tags = workflow.tags | check_user_tags(given)
            promise_id = self._id_of(name, kwargs.pop("id", None))
            self.providers.check(workflow.function, kwargs)
            supplied = frozenset(self.providers.wanted_by(workflow.function))
            param = self.payloads.encode_call(name, args, kwargs, workflow.version, signature, supplied)

        async def create() -> None:
            await self.session.start(promise_id, param, group, timeout_s, tags)

        work = create()
        if self._is_here(work):
            created = self.unawaited.begin(f"the start of {promise_id[:80]}", work)
            return Handle(self, promise_id, returns, created)
        self.block(work)
        return Handle(self, promise_id, returns)

    def handle(self, id: str, returns: Any = Any) -> Handle[Any]:  # noqa: A002
        """The handle of an execution that was started elsewhere."""
        return Handle(self, check_id(id), returns)

    def resolve(self, promise_id: str, value: Any = None) -> Awaitable[None]:
        """Settle a promise that a workflow waits for. In a script it is durable when this returns.

        Settling it again changes nothing: the first outcome stands.
        """
        return self.do(f"the resolving of {check_id(promise_id)}", self._resolve(promise_id, value))

    def reject(self, promise_id: str, error: Exception) -> Awaitable[None]:
        """Settle it with an error, which is raised where the workflow awaits it."""
        return self.do(f"the rejecting of {check_id(promise_id)}", self._reject(promise_id, error))

    async def _resolve(self, promise_id: str, value: Any) -> None:
        await self.session.settle(promise_id, value)

    async def _reject(self, promise_id: str, error: Exception) -> None:
        await self.session.settle_error(promise_id, error)

    # --- tasks: declaring.py has what is said about them -----------------------------------------------

    @property
    def desk(self) -> Desk:
        return self.session.desk

    def now(self) -> int:
        return wall_clock() if self._session is None else self._session.now()

    def fresh(self) -> str:
        return fresh_end() if self._session is None else self._session.fresh()

    def _id_of(self, name: str, given: Any) -> str:
        """Without one, a fresh one: those that grow with time stay together in every index."""
        return f"{name}-{self.now():011x}{self.fresh()}" if given is None else check_id(given)

    def send_inside(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        self._open_in_thread()
        return self.session.send_inside(connection, orders)

    async def send_inside_async(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        return await self.session.send_inside_async(connection, orders)

    # --- life ------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError("The app is not open.")
        return self._session

    async def __aenter__(self) -> Self:
        self._session = Session(settings_here(self.settings), self.registry, self.providers, tasks=self.tasks)
        self._loop = asyncio.get_running_loop()
        try:
            await self._session.open()
        except BaseException:
            self._session = self._loop = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.unawaited.finish(self.settings.grace_s)
        session, self._session, self._loop = self._session, None, None
        if session is not None:
            await session.close()

    def __enter__(self) -> Self:
        self._open_in_thread()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the worker, finish what was accepted, close the store."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            loop = self._loop
            asyncio.run_coroutine_threadsafe(self.__aexit__(None, None, None), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Open the app, run `main` on its loop, close it: all a small program needs."""

        async def opened() -> T:
            async with self:
                return await main()

        return asyncio.run(opened())

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncGenerator[None]:
        """For frameworks: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def lend(
        self, session: Session | None, loop: asyncio.AbstractEventLoop | None, run: Callable[..., Any] | None
    ) -> None:
        """For holdfast.testing: work with this session, on a loop that `run` drives; None gives it back."""
        if session is not None and self._session is not None:
            raise RuntimeError("The app is open already: a test world needs it closed.")
        self._session, self._loop, self._lent = session, loop, run

    # --- bridges ---------------------------------------------------------------------------------------

    def block(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Wait for work of the session from a thread that is not its own."""
        if self._is_here(work):
            work.close()
            raise RuntimeError("This would block the event loop that has to do the work: `await` it instead.")
        if self._lent is not None:
            result: T = self._lent(work, timeout_s)
            return result
        self._open_for(work)
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        concurrent.futures.wait([future], timeout_s)
        if not future.done():  # not an except clause: the work itself may have ended with a TimeoutError
            future.cancel()
            raise TimeoutError(f"There is no result after {timeout_s} s; the execution goes on.")
        return future.result()

    def do(self, what: str, work: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Do it: at once from a script; from asyncio when this is awaited, or soon."""
        if self._is_here(work):
            return self.unawaited.begin(what, work)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.block(work)
            return Done()
        return self.bridge(work)

    def bridge(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Await work of the session from any event loop."""
        if self._is_here(work):
            return work
        self._open_for(work)
        assert self._loop is not None
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _is_here(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Is this the loop that has to do the work? Code of a workflow may not ask for any."""
        if is_in_workflow():
            work.close()
            raise NoAsyncioHere("In a workflow an app can do nothing: there it is hf.start, hf.call")
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _open_for(self, work: Coroutine[Any, Any, Any]) -> None:
        """Open; if that fails, the work that was to be done will never be."""
        try:
            self._open_in_thread()
        except BaseException:
            work.close()
            raise

    def _open_in_thread(self) -> None:
        with self._lock:
            if self._session is not None:
                return
            loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=loop.run_forever, name="holdfast-app", daemon=True)
            self._thread.start()
            try:
                asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result()
            except BaseException:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                self._thread = self._session = self._loop = None
                loop.close()
                raise
            atexit.register(self.close)
