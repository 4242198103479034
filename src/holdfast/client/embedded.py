"""A node in the same process. Nothing can get lost on the way, so there is nothing to repeat."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

from holdfast.client.errors import ClientClosed
from holdfast.client.interface import MessageStream
from holdfast.node import Node
from holdfast.node.post_office import Mailbox
from holdfast.protocol.messages import Message
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request


class EmbeddedClient:
    """
    client = EmbeddedClient(node)

    The node belongs to whoever started it: closing the client ends its streams and leaves the node running.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._mailboxes: set[Mailbox] = set()
        self._closed = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        self._check_open()
        return await self._node.request(requests) if requests else []

    @asynccontextmanager
    async def messages(self, group: str, member: str) -> AsyncGenerator[MessageStream]:
        self._check_open()
        mailbox = self._node.connect(group, member)
        self._mailboxes.add(mailbox)
        try:
            yield _read(mailbox)
        finally:
            self._mailboxes.discard(mailbox)
            mailbox.close()

    async def close(self) -> None:
        self._closed = True
        for mailbox in [*self._mailboxes]:
            mailbox.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("This client was closed")


async def _read(mailbox: Mailbox) -> AsyncIterator[Message]:
    while messages := await mailbox.receive():
        for message in messages:
            yield message
