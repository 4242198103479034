"""A worker's message stream over HTTP: server-sent events, connected again whenever it ends.

A node ends every stream now and then, and nodes die. Either way the stream connects again, to the next
node if there are several, and goes on. What was sent in between waits at the node or is offered again. A
stream on which nothing arrives for `silence_s_max`, not even a comment, counts as dead. Reading slowly holds
the node back, and nothing piles up here.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final, Self
from urllib.parse import quote

import msgspec

from holdfast.client.connection import Broken, Link
from holdfast.client.endpoints import Endpoint, EndpointTurn
from holdfast.client.errors import Refused
from holdfast.client.sender import ClientConfig
from holdfast.client.wire import decode_message
from holdfast.protocol.messages import Message
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.client")

silence_s_max: Final = 60.0
short_s: Final = 1.0
event_bytes_max: Final = 16 * 1024 * 1024


class HttpMessageStream:
    """Iterate over it. It ends when it is closed; it raises `Refused` when the node will not have it."""

    def __init__(self, endpoints: Sequence[Endpoint], config: ClientConfig, group: str, member: str) -> None:
        self._route = EndpointTurn(endpoints, config.chance)
        self._config = config
        self._path = f"/poll/{quote(group, safe='')}/{quote(member, safe='')}"
        self._address = f"poll://uni@{group}/{member}"
        self._arrived: deque[Message] = deque()
        self._events: AsyncIterator[list[bytes]] | None = None
        self._connection: Link | None = None
        self._reading: asyncio.Task[None] | None = None
        self._closed = False
        self._connected_at = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while not self._arrived and not self._closed:
            # In a task of its own, so that `close` can end the wait and cancelling a reader harms nothing.
            if self._reading is None:
                self._reading = asyncio.create_task(self._read(), name="holdfast-stream")
            await asyncio.wait([self._reading])
            done, self._reading = self._reading, None
            if not done.cancelled():
                done.result()
        if not self._arrived or self._closed:
            raise StopAsyncIteration
        return self._arrived.popleft()

    async def close(self) -> None:
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        self._drop()

    async def _read(self) -> None:
        """One step: at least one message, or one connection fewer."""
        try:
            if self._events is None:
                self._events = await self._connect()
            events = await anext(self._events, None)
        except OSError as error:
            self._drop()
            log.info(
                "the stream of messages could not be opened; trying again: %s",
                error,
                extra={"endpoint": str(self._route.current)},
            )
            await asyncio.sleep(self._route.failed())
            return
        if events is None:
            self._drop()  # the node ended it in good order; if it does so at once, something is wrong
            if asyncio.get_running_loop().time() - self._connected_at < short_s:
                await asyncio.sleep(self._route.failed())
            return
        try:
            messages = [decode_message(event, self._address) for event in events]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # What it invites to is offered again, so nothing is lost by hearing it elsewhere or later.
            self._drop()
            log.error(
                "a message cannot be read: %s",
                printable(str(error)),
                extra={"endpoint": str(self._route.current)},
            )
            await asyncio.sleep(self._route.failed())
            return
        self._route.succeeded()
        self._arrived.extend(message for message in messages if message is not None)

    async def _connect(self) -> AsyncIterator[list[bytes]]:
        async with asyncio.timeout(self._config.attempt_s):
            self._connection = await self._config.connect(
                self._route.current, self._config.token, self._config.tls
            )
            status, body = await self._connection.listen(self._path, silence_s_max)
        self._connected_at = asyncio.get_running_loop().time()
        if status in (429, 500, 502, 503, 504):
            raise Broken(f"{self._route.current} answered {status}")
        if status != 200:
            raise Refused(status, f"{self._route.current} refused the message stream with HTTP {status}")
        return events_of(body)

    def _drop(self) -> None:
        self._events = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The data of the server-sent events that came together. Comments, names and ids are passed over."""
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        if b"\r" in buffer:
            buffer = buffer.replace(b"\r\n", b"\n")
        *events, buffer = buffer.split(b"\n\n")
        yield [data for event in events if (data := _data_of(event)) is not None]
        if len(buffer) > event_bytes_max:
            raise Broken(f"A message is larger than {event_bytes_max} bytes")


def _data_of(event: bytes) -> bytes | None:
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
