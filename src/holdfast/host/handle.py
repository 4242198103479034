"""The handle of an execution: what `app.start` gives."""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, Protocol, Self, TypeVar

from holdfast.host.session import Session
from holdfast.host.tracked_calls import TrackedCall
from holdfast.payloads.durations import Duration, duration_s

T = TypeVar("T")


class Bridge(Protocol):
    """What a handle needs of its app."""

    @property
    def session(self) -> Session: ...

    def block(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T: ...

    def bridge(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]: ...

    def do(self, what: str, work: Coroutine[Any, Any, None]) -> Awaitable[None]: ...


class Handle(Generic[T]):
    """One execution, from outside. `result()` waits in a script, `await handle` in asyncio."""

    def __init__(
        self, app: "Bridge", promise_id: str, returns: Any, created: TrackedCall | None = None
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
            await (created if created.task.done() else self._app.bridge(self._creation()))
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

    async def _creation(self) -> None:
        if self._created is not None and not self._created.is_inherited:
            await self._created

    async def _cancel(self, now: bool) -> None:
        await self._creation()
        await self._app.session.executions.cancel(self.id, now=now)

    async def _outcome(self) -> T:
        await self._creation()
        outcome: T = await self._app.session.executions.result(self.id, self._returns)
        return outcome

    def __repr__(self) -> str:
        return f"<handle of {self.id}>"
