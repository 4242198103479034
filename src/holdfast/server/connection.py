"""One client's connection: uvicorn's HTTP/1.1 protocol, made safe against clients that are slow or mean ill.

1. The head of a request is bounded, and so is the time in which a whole request must arrive, however it
   trickles in.
2. Whatever is refused here is refused in JSON, like everywhere else.
3. A stream learns at once that its client is gone, without a task of its own to wait for that.
4. `POST /`, nearly all of the traffic, takes a short way: its body is collected here and its answer leaves in
   one write, without the ASGI messages in between. What is asked of uvicorn for that is its notion of a
   cycle, which `Exchange` stands in for; a pipelined request takes the long way and finds the same app.
5. While a client has not read its answer, its next request waits; who does not read at all is dropped.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import Headers, json_type, refusal_body, refusal_headers
from holdfast.server.errors import BadHttp, HeadTooLarge, TooMany, TooSlow

extension: Final = "holdfast.connection"
dead_peer_ms: Final = 30_000
read_bytes_min: Final = 65_536  # in write_timeout_s, while more than that waits for a client

Answer = tuple[int, bytes, Headers]


class Ground:
    """What every connection of one server shares: its bounds, and who answers."""

    def __init__(self, connections_max: int, header_bytes_max: int, body_bytes_max: int) -> None:
        self.connections_max = connections_max
        self.header_bytes_max = header_bytes_max
        self.body_bytes_max = body_bytes_max
        self.read_timeout_s = 10.0
        self.idle_timeout_s = 75.0
        self.write_timeout_s = 10.0
        self.on_refusal: Callable[[Refusal], None]
        self.on_slow_reader: Callable[[], None]
        self.answer: Callable[[Headers, bytes, str], Awaitable[Answer]]


class Exchange:
    """One request and its answer on the short way, seen by uvicorn as a cycle."""

    __slots__ = (
        "asked",
        "body",
        "disconnected",
        "headers",
        "keep_alive",
        "message_event",
        "response_complete",
    )
    response_started = False

    def __init__(self, headers: Headers, keep_alive: bool) -> None:
        self.headers = headers
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        self.asked = False  # the app was asked; what still comes of the body is of no interest
        self.response_complete = False
        self.disconnected = False
        self.message_event = _nobody_waits


class _NoEvent:
    def set(self) -> None:
        pass


_nobody_waits: Final = _NoEvent()


class Connection(HttpToolsProtocol):
    ground: Ground  # set on a subclass made for one server

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_lost: Callable[[], None] | None = None
        self.is_lost = False
        self._reading_since: float | None = None
        self._idle_since: float | None = None
        self._unread_since: float | None = None  # or since it has last read a fair amount
        self._unread_bytes = 0
        self._head_bytes = 0
        self._in_head = True
        self._in_request = True  # a connection that never says anything is slow, too

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._reading_since = self.loop.time()
        self._peer: str = (self.client or ("",))[0]
        _notice_dead_peers(transport)
        if len(self.connections) > self.ground.connections_max:
            self.refuse(TooMany(f"{self.ground.connections_max} connections are open, which is the most"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_request:
            self._reading_since = None
        elif self._reading_since is None:
            self._reading_since = self.loop.time()
        if self._in_head and self._head_bytes > self.ground.header_bytes_max:
            self.refuse(self._head_too_large())

    def check_pace(self, now: float) -> None:
        """Called every now and then: drop who takes too long over one request, is idle, or does not read."""
        since = self._reading_since
        if since is not None and now - since > self.ground.read_timeout_s:
            self._reading_since = None
            self.refuse(TooSlow(f"The request was not complete after {self.ground.read_timeout_s:g} s"))
        idle = self._idle_since
        if idle is not None and now - idle > self.ground.idle_timeout_s:
            self.transport.close()
        unread = self._unread_since
        if unread is not None:
            self._check_reader(unread, now)

    def _check_reader(self, since: float, now: float) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        if self._unread_bytes - unread_bytes >= read_bytes_min:
            self._unread_since, self._unread_bytes = now, unread_bytes
        elif now - since > self.ground.write_timeout_s:
            self.ground.on_slow_reader()
            self.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since, self._unread_bytes = self.loop.time(), self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    def refuse(self, refusal: Refusal) -> None:
        """Answer without asking the app, and hang up."""
        if self.transport.is_closing():
            return
        self.ground.on_refusal(refusal)
        cycle = cast("Any", self.cycle)  # None before the first request
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_written(refusal.status, refusal_body(refusal), refusal_headers(refusal)))
        self.transport.close()

    def abort(self) -> None:
        """Hang up without waiting for the client to read what was written."""
        self.transport.abort()

    # --- what the parser calls -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._in_request = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        bytes_max = self.ground.header_bytes_max
        if self._head_bytes > bytes_max and _size_of(self.url, self.headers) > bytes_max:
            self.refuse(self._head_too_large())
            raise ValueError("too large")  # makes the parser stop
        parser = cast("Any", self.parser)
        before = cast("Any", self.cycle)
        if (
            self.url == b"/"
            and parser.get_method() == b"POST"
            and (before is None or before.response_complete)
            and not self.expect_100_continue
            and not parser.should_upgrade()
        ):
            self.cycle = cast("Any", Exchange(self.headers, parser.should_keep_alive()))
        else:
            self._take_the_long_way()

    def _take_the_long_way(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        scope = cast("dict[str, Any]", self.scope)
        scope["headers"] = headers
        scope["extensions"] = {extension: self}
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        exchange = cast("Any", self.cycle)
        if exchange.__class__ is not Exchange:
            super().on_body(body)
        elif not exchange.asked:
            if not exchange.body:
                exchange.body = body
            else:
                if exchange.body.__class__ is bytes:
                    exchange.body = bytearray(exchange.body)
                exchange.body += body
            if len(exchange.body) > self.ground.body_bytes_max:
                self._answer(exchange)  # says that it is too large, and hangs up

    def on_message_complete(self) -> None:
        self._in_request = False
        self._in_head = True
        self._head_bytes = 0
        exchange = cast("Any", self.cycle)
        if exchange.__class__ is not Exchange:
            super().on_message_complete()
        elif not exchange.asked:
            self._answer(exchange)

    def _answer(self, exchange: Exchange) -> None:
        exchange.asked = True
        task = self.loop.create_task(self._write_answer(exchange))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _write_answer(self, exchange: Exchange) -> None:
        status, body, headers = await self.ground.answer(exchange.headers, bytes(exchange.body), self._peer)
        if self.is_lost:
            return
        self.transport.write(_written(status, body, headers))
        if self.flow.write_paused:
            await self.flow.drain()  # until it has read most of it, or `check_pace` has lost patience
        exchange.response_complete = True
        if not exchange.keep_alive or status == 413:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """uvicorn would set a timer per request; idle connections are found by `check_pace` instead."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1
            self.flow.resume_reading()
            self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        self.refuse(BadHttp("The request is not HTTP"))

    def _unsupported_upgrade_warning(self) -> None:
        pass  # an upgrade that is not offered is ignored, as HTTP asks for

    def _head_too_large(self) -> Refusal:
        return HeadTooLarge(f"The head of the request has more than {self.ground.header_bytes_max} bytes")


def check_pace(connections: Iterable[Any], now: float) -> None:
    for connection in [*connections]:
        if isinstance(connection, Connection):
            connection.check_pace(now)


def _size_of(url: bytes, headers: Headers) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _notice_dead_peers(transport: asyncio.BaseTransport) -> None:
    """A peer that vanished without a word is noticed by what we send (keep-alive comments at the least)."""
    raw = transport.get_extra_info("socket")
    if raw is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_peer_ms)


_status_lines: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_json_line: Final = b"%s: %s\r\ncontent-length: " % json_type


def _written(status: int, body: bytes, headers: Headers) -> bytes:
    """A whole JSON answer."""
    lines = b"".join(b"\r\n%s: %s" % pair for pair in headers) if headers else b""
    return b"%s%s%d%s\r\n\r\n%s" % (_status_lines[status], _json_line, len(body), lines, body)
