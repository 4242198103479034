"""What every client of a node offers, however far away the node is."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from holdfast.node.waiting_claims import IdleWorker
from holdfast.protocol.messages import Message
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.workers import WorkerOrders, WorkerReport

MessageStream = AsyncIterator[Message]


class Client(Protocol):
    """
    [reply] = await client.request([ask(PromiseGet("invoice-7"))])
    async with client.messages("workers", "worker-1") as messages:
        async for message in messages: ...
    """

    def request(self, requests: Sequence[Request]) -> Awaitable[list[Reply]]:
        """Apply requests in order in one commit; their replies, in order, once it is durable.

        What is too large for one commit (`client.packing`) is applied in several, each once the one before it
        is durable.

        A refusal is a reply (`expect` makes an exception of it). Only a node that cannot be talked to raises:
        see `holdfast.client.errors`. Requests issued one after the other are applied in that order, also when
        nobody waited for the replies in between; only the write of a claim may overtake, if the node turns
        away for now what was issued before it for others. Cancelling the call does not take back what was
        sent.
        """
        ...

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        """The messages for one worker of a group, until the block is left or the client is closed.

        A message is an invitation, never the only trace of work: it may be lost or come twice. Its `address`
        is the one it was sent to, or this worker's own where the wire does not tell.
        """
        ...

    async def close(self) -> None:
        """End all streams and connections. What still waits for a reply raises `ClientClosed`."""
        ...


@runtime_checkable
class TellsOfWorkers(Protocol):
    """A client whose node keeps what workers tell of themselves."""

    async def tell_of_worker(self, report: WorkerReport) -> WorkerOrders: ...


@runtime_checkable
class KeepsClaims(Protocol):
    """A client whose node claims for idle workers in the commit that offers them a task."""

    def leave_claim(self, worker: IdleWorker) -> Callable[[], None]:
        """From now on, until the returned function is called or the client is closed."""
        ...
