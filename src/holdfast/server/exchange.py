"""Parts of a connection: the state that all connections of a server share, one request, header parsing."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import Answer, Headers, json_type
from holdfast.server.budgets import AnswerBudget, RequestBudget
from holdfast.server.rpc import PendingAnswer

pipelined_max: Final = 8  # requests that wait for the answer before theirs
chunks_max: Final = 1_000  # of one body, and one more for each `chunk_bytes_min` of it
chunk_bytes_min: Final = 256
dead_peer_ms: Final = 30_000


class ServerLimits:
    """What every connection of one server shares: its bounds, and who answers."""

    def __init__(
        self,
        connections_max: int,
        header_bytes_max: int,
        body_bytes_max: int,
        requests: RequestBudget,
        answers: AnswerBudget,
    ) -> None:
        self.connections_max = connections_max
        self.header_bytes_max = header_bytes_max
        self.body_bytes_max = body_bytes_max
        self.requests = requests
        self.answers = answers
        self.read_timeout_s = 10.0
        self.idle_timeout_s = 75.0
        self.write_timeout_s = 10.0
        self.on_refusal: Callable[[Refusal], None]
        self.on_slow_reader: Callable[[], None]
        self.answer: Callable[[Headers, bytes, str], Awaitable[Answer]]
        # The short way: what was asked of the node, and its answer when the reply is there.
        self.ask: Callable[[Headers, bytes], PendingAnswer | None]
        self.finish: Callable[[PendingAnswer], Answer]


class Exchange:
    """One request and its answer on the short way, seen by uvicorn as a cycle."""

    __slots__ = (
        "asked",
        "body",
        "disconnected",
        "headers",
        "is_complete",
        "is_next",
        "keep_alive",
        "message_event",
        "response_complete",
    )
    response_started = False

    def __init__(self, headers: Headers, keep_alive: bool, is_next: bool) -> None:
        self.headers = headers
        self.keep_alive = keep_alive
        self.is_next = is_next  # False: requests before it are not answered yet
        self.is_complete = False
        self.body: bytes | bytearray = b""
        self.asked = False  # the app was asked; what still comes of the body is of no interest
        self.response_complete = False
        self.disconnected = False
        self.message_event = _nobody_waits


class _NoEvent:
    def set(self) -> None:
        pass


_nobody_waits: Final = _NoEvent()


class Flow(FlowControl):
    """As uvicorn's, which would go on reading for each answer although others wait."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


head_end: Final = b"\r\n\r\n"


def end_of_heads(data: bytes, start: int) -> int:
    """Where a piece ends in which at most `pipelined_max` requests can begin."""
    for _ in range(pipelined_max):
        found = data.find(head_end, start)
        if found < 0:
            return len(data)
        start = found + len(head_end)
    return start


_status_lines: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_json_line: Final = b"%s: %s\r\ncontent-length: " % json_type


def head_of(status: int, length: int, headers: Headers) -> bytes:
    lines = b"".join(b"\r\n%s: %s" % pair for pair in headers) if headers else b""
    return b"%s%s%d%s\r\n\r\n" % (_status_lines[status], _json_line, length, lines)


def head_bytes(url: bytes, headers: Headers) -> int:
    """What a head comes to, without what is the same in all of them."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def notice_dead_peers(transport: asyncio.BaseTransport) -> None:
    """A peer that vanished without a word is noticed by what we send (keep-alive comments at the least)."""
    raw = transport.get_extra_info("socket")
    if raw is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, dead_peer_ms)
