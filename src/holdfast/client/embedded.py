"""A node in the same process. Nothing can get lost on the way, so there is nothing to repeat."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Self

from holdfast.client.errors import ClientClosed
from holdfast.client.interface import MessageStream
from holdfast.node import Node
from holdfast.node.message_router import WorkerMailbox
from holdfast.node.waiting_claims import IdleWorker
from holdfast.protocol.messages import Message
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.workers import WorkerOrders, WorkerReport


class EmbeddedClient:
    """
    client = EmbeddedClient(node)

    The node belongs to whoever started it: closing the client ends its streams and leaves the node running.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._mailboxes: set[WorkerMailbox] = set()
        self._withdrawals: list[Callable[[], None]] = []  # of claims that wait at the node
        self._closed = False

    def request(self, requests: Sequence[Request]) -> Awaitable[list[Reply]]:
        if self._closed:
            self._check_open()
        return self._node.submit(requests) if requests else _nothing()

    def now(self) -> Millis:
        """The node's clock."""
        return self._node.now()

    async def tell_of_worker(self, report: WorkerReport) -> WorkerOrders:
        self._check_open()
        return await self._node.observed.workers.tell(report, self._node.now())

    def leave_claim(self, worker: IdleWorker) -> Callable[[], None]:
        self._check_open()
        withdraw = self._node.leave_claim(worker)
        self._withdrawals.append(withdraw)
        return withdraw

    @asynccontextmanager
    async def messages(self, group: str, member: str) -> AsyncGenerator[MessageStream]:
        self._check_open()
        mailbox = self._node.connect(group, member)
        stream = _MailboxStream(mailbox)
        self._mailboxes.add(mailbox)
        try:
            yield stream
        finally:
            self._mailboxes.discard(mailbox)
            stream.close()

    async def close(self) -> None:
        self._closed = True
        for withdraw in self._withdrawals:
            withdraw()
        for mailbox in [*self._mailboxes]:
            mailbox.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("This client was closed")


def _nothing() -> "asyncio.Future[list[Reply]]":
    future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
    future.set_result([])
    return future


class _MailboxStream:
    """Reads a mailbox message by message. A reader may be cancelled and come back; nothing is lost by it."""

    def __init__(self, mailbox: WorkerMailbox) -> None:
        self._mailbox = mailbox
        self._arrived: deque[Message] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if not self._arrived:
            self._arrived.extend(await self._mailbox.receive())
        if not self._arrived:
            raise StopAsyncIteration
        return self._arrived.popleft()

    def close(self) -> None:
        """What was not read goes to somebody else."""
        for message in self._arrived:
            self._mailbox.put(message)
        self._arrived.clear()
        self._mailbox.close()
