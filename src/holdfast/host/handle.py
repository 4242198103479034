"""A workflow that can be started, and the handle of one execution: what `@app.workflow` and `start` give.

Options are separate from arguments, so that a type checker sees both: `checkout.with_options(id="order-17")`
is the same workflow, and `start` takes the arguments of its function and nothing else.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from holdfast.client.errors import Refused
from holdfast.client.refusals import known_refusal
from holdfast.host.bridge import AppBridge
from holdfast.host.details import ExecutionDetails, OperationDetails
from holdfast.host.tracked_calls import TrackedCall
from holdfast.jobs.stream_reader import StreamItem, StreamReader, read_published, stream_of, watch_of
from holdfast.payloads.durations import Duration, duration_s, seconds
from holdfast.payloads.user_tags import check_id
from holdfast.protocol.ids import new_id
from holdfast.workflow.registry import WorkflowDefinition

T = TypeVar("T")
R = TypeVar("R")

P = ParamSpec("P")
Rest = ParamSpec("Rest")
T_co = TypeVar("T_co", covariant=True)
# What the function of a workflow gives when it is called: an `async def`, or a generator function.
Body = Coroutine[Any, Any, T] | Generator[Any, Any, T]


class Handle(Generic[T]):
    """One execution, from outside. `result()` waits in a script, `await handle` in asyncio."""

    def __init__(
        self, app: AppBridge, promise_id: str, returns: Any, created: TrackedCall | None = None
    ) -> None:
        self.id = promise_id
        self._app = app
        self._returns = returns
        self._created = created

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the result; raise the error it ended with. `TimeoutError` leaves the execution running."""
        limit = None if timeout is None else duration_s(timeout)
        return self._app.block(self._outcome(), limit)

    async def started(self) -> "Handle[T]":
        """Wait until the start is durable. Raises the error if it was refused. In a script it is durable
        already.

        Crash: after this returns, any worker continues the execution. If you stop waiting, for the start or
        for the result, the start is not cancelled. An app that is closed finishes it first.

        >>> handle = await app.start(checkout, order, id=order.id).started()
        """
        created = self._created
        if created is not None and not created.is_inherited:
            is_here = created.task.done() or created.is_here
            await (created if is_here else self._app.bridge(self._creation()))
        return self

    def __await__(self) -> Generator[Any, None, T]:
        if self._created is not None:
            self._created.check()
        return self._app.bridge(self._outcome()).__await__()

    def cancel(self, *, now: bool = False) -> Awaitable[None]:
        """Ask it to cancel itself, wherever it runs: its code sees `Cancelled` and may clean up first.

        It ends as cancelled unless the code catches `Cancelled` and does not raise it again. Workflows
        that it called with `hf.call` are asked too; a task that it called is cancelled unless it has started.
        In a script the request is durable when this returns. Crash: the request is kept. `now=True` ends it
        at once, with everything it called; its code is not notified and stops at its next write.
        """
        return self._app.do(f"the cancelling of {self.id}", self._cancel(now))

    def retry(self, *, timeout: Duration | None = None) -> Awaitable[None]:
        """Continue an execution that failed, timed out or was cancelled, from where it failed.

        Recorded steps are not performed again. The operation that failed is tried again: a step, a call
        (which is itself retried), a timeout, a promise. If you fixed a bug in the workflow's own code, it
        continues after its last record. `timeout`: how long it may take from now on; by default as long as
        before. A running execution does not change. Callers that waited have got the failure; they call
        `result()` again.

        Raises `Refused` if the execution has completed, or if its code did more work after the failure (it
        cleaned up): fork it, or start it again. Crash: it is either retried or left as it was.

        >>> for failed in app.find(checkout, status="failed", since="1d"):
        ...     app.handle(failed.id).retry()
        """
        limit = None if timeout is None else seconds("timeout", timeout)
        return self._app.do(f"the retry of {self.id}", self._retry(limit))

    def fork(
        self,
        before: str,
        *,
        id: str | None = None,  # noqa: A002
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
    ) -> "Handle[T]":
        """Start a new execution with the records that this one made before a step. It continues from there by
        itself.

        `before`: the name of a step (the first one of that name), or the id of any operation. `args` and
        `kwargs`: other arguments; they must not change what the code does before that step. This execution
        stays as it is. In a script the new one is durable when this returns, in asyncio after
        `await handle.started()`. The same fork under the same id is the same execution.

        >>> handle.fork(before="charge", id="order-17-again").result()
        """
        new = new_id(self.id, self._app.read_clock().now, self._app.fresh()) if id is None else check_id(id)
        limit = None if timeout is None else seconds("timeout", timeout)
        given = None if args is None and kwargs is None else (tuple(args or ()), dict(kwargs or {}))
        work = self._fork(before, new, given, limit)
        if self._app.is_here(work):
            created = self._app.tracked_calls.begin(f"the fork {new[:80]}", work)
            return Handle(self._app, new, self._returns, created)
        self._app.block(work)
        return Handle(self._app, new, self._returns)

    def halt(self, reason: str = "halted by hand") -> Awaitable[None]:
        """No worker may run it until it is resumed. The one that runs it now stops at its next write."""
        return self._app.do(f"the halting of {self.id}", self._halt(reason))

    def resume(self) -> Awaitable[None]:
        """Continue an execution that was halted."""
        return self._app.do(f"the resuming of {self.id}", self._resume())

    async def _retry(self, timeout_s: float | None) -> None:
        await self._creation()
        await self._known(self._app.session.executions.retry(self.id, timeout_s))

    async def _fork(
        self,
        before: str,
        new: str,
        given: tuple[tuple[Any, ...], dict[str, Any]] | None,
        timeout_s: float | None,
    ) -> None:
        await self._creation()
        executions = self._app.session.executions
        param = None
        if given is not None:
            call = await self._known(executions.call_of(self.id))
            param = executions.payloads.encode_call(call.function, *given, call.version)
        await self._known(executions.fork(self.id, new, before, param, timeout_s))

    async def _halt(self, reason: str) -> None:
        await self._creation()
        await self._known(self._app.session.executions.halt(self.id, reason))

    async def _resume(self) -> None:
        await self._creation()
        await self._known(self._app.session.executions.resume(self.id))

    def info(self) -> ExecutionDetails:
        """What it is doing: its state and since when, what it waits for and at which line, its error."""
        return self._app.block(self._info())

    async def info_async(self) -> ExecutionDetails:
        return await self._app.bridge(self._info())

    def steps(self) -> list[OperationDetails]:
        """Every operation that it has recorded, in the order of the code. Results are decoded on demand."""
        return self._app.block(self._steps())

    async def steps_async(self) -> list[OperationDetails]:
        return await self._app.bridge(self._steps())

    def history(self) -> dict[str, Any]:
        """The whole execution as plain data, ready for `json.dump`: `holdfast replay` reads it."""
        return self._app.block(self._history())

    async def history_async(self) -> dict[str, Any]:
        return await self._app.bridge(self._history())

    async def _info(self) -> ExecutionDetails:
        await self._creation()
        return await self._known(self._app.session.looking.info(self.id))

    async def _steps(self) -> list[OperationDetails]:
        await self._creation()
        return await self._known(self._app.session.looking.steps(self.id))

    async def _history(self) -> dict[str, Any]:
        await self._creation()
        return await self._known(self._app.session.looking.history(self.id))

    def published(self, name: str, *, returns: Any = Any) -> Any:
        """The value that it has published last under this name; None before. In asyncio: await it.

        The node answers, so no worker has to run. The execution may be over.

        >>> handle.published("stage")
        'packed'
        """
        return self._app.result_of(read_published(self._app, self.id, name, returns, self._creation))

    def watch(self, name: str, *, returns: Any = Any) -> StreamReader[Any]:
        """What it publishes under this name, from the last value on, until it is over.

        >>> async for stage in handle.watch("stage"): ...   # in a script: for
        """
        return watch_of(self._app, self.id, name, returns, self._creation)

    def stream(self, name: str, *, after: int = 0, returns: Any = Any) -> StreamReader[StreamItem]:
        """What it emits under this name, in order, until it is over. `after`: the last number you have.

        A step that is performed again emits again: `item.step` and `item.attempt` tell. A lost connection is
        resumed; nothing is missed and nothing comes twice.

        >>> async for number, chunk in handle.stream("tokens", after=8): ...   # in a script: for
        """
        return stream_of(self._app, self.id, name, after, returns, self._creation)

    def _as_told(self) -> "ToldHandle[T]":
        return ToldHandle(self._app, self.id, self._returns, self._created)

    async def _creation(self) -> None:
        created = self._created
        if created is not None and not created.is_inherited and created.is_here:
            await created

    async def _cancel(self, now: bool) -> None:
        await self._creation()
        await self._known(self._app.session.executions.cancel(self.id, now=now))

    async def _outcome(self) -> T:
        await self._creation()
        outcome: T = await self._known(self._app.session.executions.result(self.id, self._returns))
        return outcome

    async def _known(self, asked: Awaitable[R]) -> R:
        """A refusal as the class that names it."""
        try:
            return await asked
        except Refused as refused:
            raise known_refusal(refused, self.id) from None

    def __repr__(self) -> str:
        return f"<handle of {self.id}>"


class ToldHandle(Handle[T]):
    """What `start_and_tell` gives: a handle that is awaited for the message, as `tell` is, and not for the
    result, which comes when nobody tells the execution anything any more."""

    def __await__(self) -> Generator[Any, None, Handle[T]]:  # type: ignore[override]
        return self.started().__await__()

    async def started(self) -> Handle[T]:
        await super().started()
        return Handle(self._app, self.id, self._returns, self._created)


Begin = Callable[..., Handle[Any]]


class RunsWorkflow(Protocol[P, T_co]):
    """A class that is a workflow by its method `run`."""

    def run(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class Workflow(WorkflowDefinition[P, T_co]):
    """A function that survives. Called directly inside another workflow it runs there, as part of it."""

    def __init__(self, begin: Begin, function: Callable[P, T_co], name: str, *options: Any) -> None:
        super().__init__(function, name, *options)
        self._begin = begin

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(
        self: "Workflow[Concatenate[Any, Rest], T]", instance: object, owner: type[Any] | None = None
    ) -> "Workflow[Rest, T]": ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        """As a method: the workflow of that object."""
        return super().__get__(instance, owner)

    def start(self: "Workflow[P, Body[T]]", *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """Start an execution from outside, or find the one that has this id; in a workflow it is `hf.start`
        or `hf.call`. In a script it is durable when this returns, in asyncio after `await handle.started()`.

        Crash: once started, any worker continues it. Starting it again under its id changes nothing. With
        `with_options(connection=...)` it exists if and only if you commit; on a connection that is awaited,
        `await handle.started()` before you do.

        >>> handle = checkout.with_options(id="order-17", tags={"customer": "4"}).start(card, cents)
        """
        return self._begin(self, args, kwargs)

    def start_and_tell(
        self: "Workflow[P, Body[T]]", message: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> ToldHandle[T]:
        """Send a message to the execution with this id, and start it in the same commit if it is not there.

        `args` are those of the workflow, and count only for the start. In a script both are durable when this
        returns. In asyncio await it: both are durable then, and you have the handle; await that for the
        result. Raises `ExecutionOver` when it has ended, and `IdTaken` when something else runs under the id.

        >>> basket.with_options(id="order-17").start_and_tell(Item("tea", 5))
        """
        handle = self._begin(self, args, kwargs, (message,))
        return handle._as_told()  # pyright: ignore[reportPrivateUsage]
