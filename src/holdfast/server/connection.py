"""One client's connection: uvicorn's HTTP/1.1 parser, made safe against clients that mean ill or are slow.

1. The head of a request is bounded, and so is the time in which a whole request must arrive, however it
   trickles in.
2. Whatever is refused here is refused in JSON, like everywhere else.
3. A stream learns at once that its client is gone, without a task of its own to wait for that.
"""

import socket
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import json_type, refusal_body, refusal_headers
from holdfast.server.errors import BadHttp, HeadTooLarge, TooMany, TooSlow
from holdfast.server.joined import JoinedTransport

extension: Final = "holdfast.connection"
dead_peer_ms: Final = 30_000

_reasons: Final = {
    400: b"Bad Request",
    408: b"Request Timeout",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
}


class Bounds:
    """What every connection of one server shares."""

    def __init__(self, connections_max: int, header_bytes_max: int, read_timeout_s: float) -> None:
        self.connections_max = connections_max
        self.header_bytes_max = header_bytes_max
        self.read_timeout_s = read_timeout_s
        self.on_refusal: Callable[[Refusal], None] = lambda _: None


class Connection(HttpToolsProtocol):
    bounds: Bounds  # set on a subclass made for one server

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_lost: Callable[[], None] | None = None
        self.is_lost = False
        self._reading_since: float | None = None
        self._head_bytes = 0
        self._in_head = True
        self._in_request = True  # a connection that never says anything is slow, too
        self._extensions = {extension: self}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast("Any", JoinedTransport(transport, self.loop)))
        self._reading_since = self.loop.time()
        _notice_dead_peers(transport)
        if len(self.connections) > self.bounds.connections_max:
            self.refuse(TooMany(f"{self.bounds.connections_max} connections are open, which is the most"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_request:
            self._reading_since = None
        elif self._reading_since is None:
            self._reading_since = self.loop.time()
        if self._in_head and self._head_bytes > self.bounds.header_bytes_max:
            self.refuse(self._head_too_large())

    def check_pace(self, now: float) -> None:
        """Called every now and then: drop a client that takes too long over one request."""
        since = self._reading_since
        if since is not None and now - since > self.bounds.read_timeout_s:
            self._reading_since = None
            self.refuse(TooSlow(f"The request was not complete after {self.bounds.read_timeout_s:g} s"))

    def refuse(self, refusal: Refusal) -> None:
        """Answer without asking the app, and hang up."""
        if self.transport.is_closing():
            return
        self.bounds.on_refusal(refusal)
        cycle = cast("Any", self.cycle)  # None before the first request
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_raw_answer(refusal))
        self.transport.close()

    def abort(self) -> None:
        """Hang up without waiting for the client to read what was written."""
        self.transport.abort()

    # --- what uvicorn's parser calls -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_request = True
        scope = cast("dict[str, Any]", self.scope)
        scope["extensions"] = self._extensions

    def on_headers_complete(self) -> None:
        self._in_head = False
        bytes_max = self.bounds.header_bytes_max
        if self._head_bytes > bytes_max and _size_of(self.url, self.headers) > bytes_max:
            self.refuse(self._head_too_large())
            raise ValueError("too large")  # makes the parser stop
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_request = False
        self._in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(BadHttp("The request is not HTTP"))

    def _unsupported_upgrade_warning(self) -> None:
        pass  # an upgrade that is not offered is ignored, as HTTP asks for

    def _head_too_large(self) -> Refusal:
        return HeadTooLarge(f"The head of the request has more than {self.bounds.header_bytes_max} bytes")


def check_pace(connections: Iterable[Any], now: float) -> None:
    for connection in [*connections]:
        if isinstance(connection, Connection):
            connection.check_pace(now)


def _size_of(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def _notice_dead_peers(transport: Any) -> None:
    """A peer that vanished without a word is noticed by what we send (keep-alive comments at the least)."""
    raw = transport.get_extra_info("socket")
    if (
        raw is not None
        and raw.family in (socket.AF_INET, socket.AF_INET6)
        and hasattr(socket, "TCP_USER_TIMEOUT")
    ):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_peer_ms)


def _raw_answer(refusal: Refusal) -> bytes:
    body = refusal_body(refusal)
    headers = [json_type, *refusal_headers(refusal), (b"content-length", b"%d" % len(body))]
    if (b"connection", b"close") not in headers:
        headers.append((b"connection", b"close"))
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (refusal.status, _reasons[refusal.status], lines, body)
