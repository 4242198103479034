"""What a task needs of the app that it belongs to: its clock, its formats, and the ways to the session."""

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.protocol.records import Promise
from holdfast.tasks.desk import Desk
from holdfast.tasks.order import Order, SendError
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.result import Err, Ok
from holdfast.worker.payload import Payloads

Result = TypeVar("Result")
Sent = Ok[Promise] | Err[SendError]


class Home(Protocol):
    payloads: Payloads
    tasks: TaskRegistry

    @property
    def desk(self) -> Desk:
        """Of the open session: for work that runs there."""
        ...

    def now(self) -> int: ...

    def fresh(self) -> str:
        """The end of an id that nobody else has."""
        ...

    def block(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result: ...

    def bridge(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]: ...

    def send_inside(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        """Send as part of the caller's own transaction."""
        ...

    async def send_inside_async(self, connection: Any, orders: Sequence[Order]) -> list[Sent]: ...
