"""Event streams of the management API: a bounded number of readers, each at its own pace.

A feed is an asynchronous generator of bytes: each piece is one or more events (`server/events.py` has
`frame`).

1. The next piece is asked for when the one before was written, and the client has read most of it. So a
   reader that is slow holds one piece and nothing more.
2. A feed that ends, ends the stream. One that raises a refusal ends it with the event `refused`, which says
   why.
3. A client that goes away, and a server that stops, end the feed at once, whatever it waits for.
4. Questions that wait for their answer count as readers (`until_gone`).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import Disconnected, Scope, Send, extension, header
from holdfast.server.errors import TooMany
from holdfast.server.events import EventWriter, event_type, frame, keep_alive
from holdfast.server.metrics import Metrics
from holdfast.server.settings import Settings

if TYPE_CHECKING:
    from holdfast.server.connection import ServerConnection

Feed = AsyncGenerator[bytes]
T = TypeVar("T")

retry: Final = b"retry: 1000\n\n"  # how long a browser waits before it connects again, in milliseconds
REFUSED: Final = "refused"
END: Final = "end"


def wants_events(scope: Scope) -> bool:
    accepted = header(scope["headers"], b"accept") or b""
    return event_type in accepted.lower()


class Readers:
    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        refusal_shape: Callable[[Refusal], Any],
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._refusal_shape = refusal_shape
        self._open: dict[asyncio.Future[None], None] = {}
        self._counts: Counter[str] = Counter()  # of those, by the prefix of their token
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """End every stream: browsers connect again, elsewhere or later."""
        self._stopping = True
        for gone in [*self._open]:
            _set(gone)

    async def serve(self, feed: Feed, scope: Scope, send: Send, prefix: str = "") -> None:
        writer = EventWriter(scope, send, self._settings, self._metrics)
        try:
            with self._admitted(writer.connection, prefix) as gone:
                await writer.begin()
                self._metrics.streams_opened += 1
                self._metrics.streams += 1
                try:
                    await self._pump(feed, writer, gone)
                finally:
                    self._metrics.streams -= 1
        finally:
            await feed.aclose()
        await writer.end()

    async def until_gone(self, scope: Scope, prefix: str, work: Coroutine[Any, Any, T]) -> T:
        """Do something that may take long, unless nobody waits for it any more."""
        task = asyncio.ensure_future(work)
        try:
            with self._admitted(scope["extensions"][extension], prefix) as gone:
                await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                if self._stopping:
                    raise TooMany("The server is stopping; ask again, under the same key")
                raise Disconnected
        finally:
            await _end(task)

    @contextmanager
    def _admitted(self, connection: "ServerConnection", prefix: str) -> Generator[asyncio.Future[None]]:
        """One more reader; the future is done when it is to end. One prefix may have half of the room."""
        most = self._settings.readers_max
        if self._stopping or len(self._open) >= most:
            raise TooMany(f"{most} readers are waiting, which is the limit")
        if prefix and self._counts[prefix] >= max(1, most // 2):
            raise TooMany(f"{max(1, most // 2)} readers of this prefix are waiting, which is the limit")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[gone] = None
        self._counts[prefix] += 1
        connection.on_lost = lambda: _set(gone)
        if connection.is_lost:
            _set(gone)
        try:
            yield gone
        finally:
            connection.on_lost = None
            del self._open[gone]
            self._counts[prefix] -= 1
            if not self._counts[prefix]:
                del self._counts[prefix]

    async def _pump(self, feed: Feed, writer: EventWriter, gone: asyncio.Future[None]) -> None:
        coming: asyncio.Future[bytes | None] | None = None
        is_going_on = await writer.write(retry)
        try:
            while is_going_on and not gone.done() and writer.wait_s > 0:
                if coming is None:
                    coming = asyncio.ensure_future(anext(feed, None))
                await asyncio.wait(
                    (coming, gone), timeout=max(writer.wait_s, 0), return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    return
                if not coming.done():
                    is_going_on = await writer.write(keep_alive)
                    continue
                piece, coming = self._piece(coming), None
                if piece is None:
                    return
                is_going_on = not piece or await writer.write(piece)
                del piece
                is_going_on = is_going_on and await writer.until_read()
        finally:
            if coming is not None:
                await _end(coming)

    def _piece(self, done: "asyncio.Future[bytes | None]") -> bytes | None:
        try:
            return done.result()
        except Refusal as refusal:
            self._metrics.count_refused(refusal.code)
            return frame(msgspec.json.encode(self._refusal_shape(refusal)), name=REFUSED)


async def _end(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


def _set(gone: asyncio.Future[None]) -> None:
    if not gone.done():
        gone.set_result(None)
