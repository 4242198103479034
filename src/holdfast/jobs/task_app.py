"""What a task needs of the app that it belongs to: its clock, its formats, and the ways to the session."""

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.result import Err, Ok
from holdfast.jobs.send_request import ClockReading, SendError, SendRequest
from holdfast.jobs.task_client import TaskClient
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Promise
from holdfast.steps.providers import Providers

Result = TypeVar("Result")
Sent = Ok[Promise] | Err[SendError]


class TaskApp(Protocol):
    payloads: Payloads
    tasks: TaskRegistry
    providers: Providers

    @property
    def task_client(self) -> TaskClient:
        """Of the open session: for work that runs there."""
        ...

    def read_clock(self) -> ClockReading: ...

    def fresh(self) -> str:
        """The end of an id that nobody else has."""
        ...

    def block(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result: ...

    def bridge(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]: ...

    def send_inside(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        """Send as part of the caller's own transaction."""
        ...

    async def send_inside_async(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]: ...
