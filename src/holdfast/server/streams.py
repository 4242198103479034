"""`GET /poll/{group}/{id}`: a worker's messages as server-sent events.

1. A message leaves its mailbox only to be written; what could not be written goes back to the message router.
2. A worker that does not read is dropped after a while; what it had not read goes to others. Messages stay in
   its mailbox, where they are counted, until it has read what came before. Those that were taken out and are
   not written yet count among what it has not read (`budgets.py`).
3. A stream is ended by the server after a while (`events.py`). Coming back loses nothing: what was taken in
   between waits, and a worker that connects is offered what its group has pending.
4. An event is `data: <json>` and an empty line; between events there may be comments.
"""

import asyncio
import logging
from random import Random
from typing import Final
from urllib.parse import unquote_to_bytes

from holdfast.node.message_router import WorkerMailbox
from holdfast.node.node import Node
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.sizes import message_bytes
from holdfast.protocol.text import check_text
from holdfast.protocol.wire import encode_message
from holdfast.server.asgi import Receive, Scope, Send
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.errors import BadStreamPath, TooMany
from holdfast.server.events import EventWriter, frame, keep_alive
from holdfast.server.metrics import Metrics
from holdfast.server.offers import Offers
from holdfast.server.settings import Settings

log = logging.getLogger("holdfast.server")

write_bytes_max: Final = 262_144


class EventStreams:
    def __init__(
        self,
        node: Node,
        settings: Settings,
        metrics: Metrics,
        offers: Offers,
        authenticator: Authenticator,
        url: str,
        chance: Random | None = None,
    ) -> None:
        self._node = node
        self._settings = settings
        self._metrics = metrics
        self._offers = offers
        self._authenticator = authenticator
        self._url = url
        self._chance = chance or Random()  # noqa: S311 (spreads load, guards nothing)
        self._open: dict[WorkerMailbox, None] = {}
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        for mailbox in [*self._open]:
            mailbox.close()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        group, member = _group_and_member(scope["raw_path"])
        grant = self._authenticator.grant(bearer_of(scope["headers"]))
        grant.require_group(group)
        grant.require_change("Taking the messages of a worker")
        if len(self._open) >= self._settings.streams_max or self._stopping:
            raise TooMany("No further stream can be opened now")
        writer = EventWriter(scope, send, self._settings, self._metrics, self._chance)
        await writer.begin()
        mailbox = self._node.connect(group, member, self._settings.stream_buffer_messages)
        writer.on_lost(mailbox.close)
        self._open[mailbox] = None
        self._metrics.streams += 1
        self._metrics.streams_opened += 1
        try:
            self._offers.worker_connected(group, mailbox.unread)
            await self._pump(mailbox, writer)
        finally:
            writer.connection.on_lost = None
            mailbox.close()
            self._open.pop(mailbox, None)
            self._metrics.streams -= 1
            self._offers.worker_gone(group)

    async def _pump(self, mailbox: WorkerMailbox, writer: EventWriter) -> None:
        while not mailbox.is_closed and writer.wait_s > 0:
            if not await writer.until_read():
                return
            messages: list[Message] = []
            try:
                async with asyncio.timeout(writer.wait_s):
                    messages = await mailbox.receive()
            except TimeoutError:
                if not await writer.write(keep_alive):
                    return
            if messages:
                unsent = await self._write_messages(messages, writer)
                if unsent:
                    mailbox.close()  # first, or they would come back to where nobody reads
                    self._node.router.deliver(unsent)
                    return
                self._offers.worker_read(mailbox.group)
        mailbox.close()
        await writer.end()

    async def _write_messages(self, messages: list[Message], writer: EventWriter) -> list[Message]:
        """Write them in order; return those that were not written."""
        start = 0
        while start < len(messages):
            end, size = start, 0
            frames: list[bytes] = []
            while end < len(messages) and size < write_bytes_max:
                frame = self._frame(messages[end])
                frames.append(frame)
                size += len(frame)
                end += 1
            writer.connection.in_hand_bytes = sum(map(message_bytes, messages[end:]))
            if not await writer.write(b"".join(frames)):
                writer.connection.in_hand_bytes = 0
                self._count(messages[start:], "returned")
                return messages[start:]
            self._count(messages[start:end], "sent")
            start = end
        return []

    def _frame(self, message: Message) -> bytes:
        try:
            return frame(encode_message(message, self._url))
        except Exception:  # the others must not suffer for one that nobody could ever be told
            log.exception("a message could not be encoded")
            return b""

    def _count(self, messages: list[Message], outcome: str) -> None:
        for message in messages:
            kind = "execute" if isinstance(message, Execute) else "unblock"
            self._metrics.count_delivery(kind, "stream", outcome)


def _group_and_member(raw_path: bytes) -> tuple[str, str]:
    """The path as it was sent, so that an encoded slash is part of a name."""
    parts = [part for part in raw_path.split(b"/") if part]
    try:
        if len(parts) != 3:
            raise ValueError("the path has the wrong number of parts")
        group, member = (unquote_to_bytes(part).decode() for part in parts[1:])
        check_text("the group", group)
        check_text("the id", member)
    except ValueError as error:
        raise BadStreamPath(f"This is not the path of a stream: {error}") from None
    return group, member
