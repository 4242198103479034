"""Server-sent events on one connection: written as fast as the client reads them, and no faster.

1. Nothing is written while the client has much to read. One that reads nothing for `stream_write_timeout_s`
   is dropped, and counted as a slow reader.
2. While there is nothing to say, a comment every `stream_keep_alive_s` keeps proxies and clients from
   giving up.
3. Every stream is ended before 300 s have passed (one published client goes deaf then), each at a moment of
   its own, so that not all readers come back at once. Whoever comes back goes on where he was.
4. The client's leaving is noticed at once (`on_lost`), whatever the writer waits for.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from holdfast.server.asgi import Scope, Send, extension
from holdfast.server.metrics import Metrics
from holdfast.server.settings import Settings

if TYPE_CHECKING:
    from holdfast.server.connection import ServerConnection

jitter: Final = 0.1
keep_alive: Final = b":\n\n"
event_type: Final = b"text/event-stream"
headers: Final = [
    (b"content-type", event_type),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_chance: Final = Random()  # noqa: S311 (spreads load, guards nothing)


def frame(data: bytes, event_id: str | None = None, name: str | None = None) -> bytes:
    """One event. `data` is one line, such as JSON; without a name it is what `onmessage` gets."""
    head = "" if event_id is None else f"id: {event_id}\n"
    if name is not None:
        head += f"event: {name}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


class EventWriter:
    def __init__(
        self, scope: Scope, send: Send, settings: Settings, metrics: Metrics, chance: Random = _chance
    ) -> None:
        self.connection: ServerConnection = scope["extensions"][extension]
        self.keep_alive_s = settings.stream_keep_alive_s
        self._send = send
        self._metrics = metrics
        self._write_timeout_s = settings.stream_write_timeout_s
        self._lasts_s = settings.stream_s * chance.uniform(1 - jitter, 1 + jitter)
        self._end_at = 0.0

    async def begin(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": [*headers]})
        self._end_at = asyncio.get_running_loop().time() + self._lasts_s

    def on_lost(self, lost: Callable[[], None]) -> None:
        """Call it when the client has gone; at once, if it has."""
        self.connection.on_lost = lost
        if self.connection.is_lost:
            lost()

    @property
    def wait_s(self) -> float:
        """How long there may be silence now; 0 or less when the stream shall end."""
        return min(self._end_at - asyncio.get_running_loop().time(), self.keep_alive_s)

    @property
    def is_lost(self) -> bool:
        return self.connection.is_lost

    async def until_read(self) -> bool:
        """Wait until the client has read most of what was written. False when it is gone or too slow."""
        if not self.connection.is_behind:
            return not self.connection.is_lost
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self.connection.until_read()
        except TimeoutError:
            self._drop()
            return False
        return not self.connection.is_lost

    async def write(self, data: bytes) -> bool:
        """Write once the client has read enough of what came before. False when it is gone or too slow."""
        try:
            async with asyncio.timeout(self._write_timeout_s):
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            self._drop()
            return False
        return not self.connection.is_lost

    async def end(self) -> None:
        """The client may come back."""
        if not self.connection.is_lost:
            await self._send({"type": "http.response.body", "body": b""})

    def _drop(self) -> None:
        self._metrics.count_slow_reader()
        self.connection.abort()
