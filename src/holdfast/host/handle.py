"""A workflow that can be started, and the handle of one execution: what `@app.workflow` and `start` give.

Options are separate from arguments, so that a type checker sees both: `checkout.with_options(id="order-17")`
is the same workflow, and `start` takes the arguments of its function and nothing else.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, ParamSpec, Self, TypeVar

from holdfast.host.bridge import AppBridge
from holdfast.host.looking import ExecutionDetails, OperationDetails
from holdfast.host.tracked_calls import TrackedCall
from holdfast.jobs.stream_reader import StreamItem, StreamReader, read_published, stream_of, watch_of
from holdfast.payloads.durations import Duration, duration_s
from holdfast.workflow.registry import WorkflowDefinition

T = TypeVar("T")

P = ParamSpec("P")
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

    async def started(self) -> Self:
        """Wait until the start is durable; raise what it was refused with. In a script it is so already.

        Crash: after this returns the execution goes on wherever a worker is. Who stops waiting, also for the
        result, does not call the start off; an app that is closed finishes it first.

        >>> handle = await app.start(checkout, order, id=order.id).started()
        """
        created = self._created
        if created is not None and not created.is_inherited:
            is_here = created.task.done() or created.is_here
            await (created if is_here else self._app.bridge(self._creation()))
        return self

    def __await__(self) -> Generator[Any, None, T]:
        return self._app.bridge(self._outcome()).__await__()

    def cancel(self, *, now: bool = False) -> Awaitable[None]:
        """Ask it to cancel itself, wherever it runs: its code sees `Cancelled` and may clean up first.

        It ends as cancelled unless the code catches `Cancelled` and does not raise it again. What it called
        with `hf.call` is asked too; a task that it called is cancelled unless it has begun. In a script the
        request is durable when this returns. Crash: it is not forgotten. `now=True` ends it at once; its code
        is told nothing and stops at its next write.
        """
        return self._app.do(f"the cancelling of {self.id}", self._cancel(now))

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
        return await self._app.session.looking.info(self.id)

    async def _steps(self) -> list[OperationDetails]:
        await self._creation()
        return await self._app.session.looking.steps(self.id)

    async def _history(self) -> dict[str, Any]:
        await self._creation()
        return await self._app.session.looking.history(self.id)

    def published(self, name: str, *, returns: Any = Any) -> Any:
        """The value that it has published last under this name; None before. In asyncio: await it.

        The node answers: no worker need be awake, and it may be over.

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

    async def _creation(self) -> None:
        created = self._created
        if created is not None and not created.is_inherited and created.is_here:
            await created

    async def _cancel(self, now: bool) -> None:
        await self._creation()
        await self._app.session.executions.cancel(self.id, now=now)

    async def _outcome(self) -> T:
        await self._creation()
        outcome: T = await self._app.session.executions.result(self.id, self._returns)
        return outcome

    def __repr__(self) -> str:
        return f"<handle of {self.id}>"


Begin = Callable[..., Handle[Any]]


class Workflow(WorkflowDefinition[P, T_co]):
    """A function that survives. Called directly inside another workflow it runs there, as part of it."""

    def __init__(self, begin: Begin, function: Callable[P, T_co], name: str, *options: Any) -> None:
        super().__init__(function, name, *options)
        self._begin = begin

    def start(self: "Workflow[P, Body[T]]", *args: P.args, **kwargs: P.kwargs) -> Handle[T]:
        """Start an execution from outside, or find the one that has this id; in a workflow it is `hf.start`
        or `hf.call`. In a script it is durable when this returns, in asyncio after `await handle.started()`.

        Crash: once started it goes on wherever a worker is. Starting it again under its id changes nothing.
        With `with_options(connection=...)` it exists exactly if you commit; on a connection that is awaited,
        `await handle.started()` before you do.

        >>> handle = checkout.with_options(id="order-17", tags={"customer": "4"}).start(card, cents)
        """
        return self._begin(self, args, kwargs)

    def start_and_tell(
        self: "Workflow[P, Body[T]]", message: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> Handle[T]:
        """Send a message to the execution with this id, and start it in the same commit if it is not there.

        `args` are those of the workflow, and count only for the start. In a script both are durable when this
        returns, in asyncio after `await handle.started()`. Raises `ExecutionOver` when it has ended, and
        `IdTaken` when something else runs under the id.

        >>> basket.with_options(id="order-17").start_and_tell(Item("tea", 5))
        """
        return self._begin(self, args, kwargs, (message,))
