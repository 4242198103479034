"""One HTTP/1.1 connection to a node, kept alive.

A request may be sent while an earlier one is under way: the node takes them, and answers them, one after the
other. It leaves to others which node to talk to and what to do when it fails: any `OSError` (a
`ConnectionError`, a `TimeoutError`) means that the connection is of no more use.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

import httptools
from msgspec import Struct

from holdfast.client.endpoints import Endpoint
from holdfast.protocol.records import Millis

close_s_max: Final = 1.0  # TLS sends a closing message, and the other side may not answer
read_bytes: Final = 262_144
reply_bytes_max: Final = 256 * 1024 * 1024
idle_s_max: Final = 20.0  # a server may close an idle connection just when it is used again


class Broken(ConnectionError):
    """The connection ended before the answer did."""


class Response(Struct, frozen=True):
    status: int
    body: bytes
    retry_after_s: float | None = None
    node_now: Millis | None = None


class Link(Protocol):
    """What a sender and a stream ask of a connection. A simulated network has its own."""

    @property
    def is_usable(self) -> bool: ...

    def send(self, body: bytes) -> None: ...

    async def receive(self) -> Response: ...

    async def listen(self, path: str, silence_s_max: float) -> tuple[int, AsyncIterator[bytes]]: ...

    async def close(self) -> None: ...

    def abort(self) -> None: ...


Opener = Callable[[Endpoint, str | None, ssl.SSLContext | None], Awaitable[Link]]


class _Parsed:
    """What httptools calls while it reads responses, one after the other."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.answers: deque[Response] = deque()  # whole ones
        self.chunks: list[bytes] = []  # of the one that is coming
        self.size = 0
        self.has_headers = False
        self.keeps_alive = True
        self._retry_after_s: float | None = None
        self._node_now: Millis | None = None

    def on_message_begin(self) -> None:
        self._retry_after_s = self._node_now = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not value.isdigit():
            return
        match name.lower():
            case b"retry-after":
                self._retry_after_s = float(value)
            case b"holdfast-now":
                self._node_now = int(value[:20])
            case _:
                pass

    def on_headers_complete(self) -> None:
        self.has_headers = True

    def on_body(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.size += len(chunk)

    def on_message_complete(self) -> None:
        self.keeps_alive = self.parser.should_keep_alive()
        status, body = self.parser.get_status_code(), self.take()
        self.answers.append(Response(status, body, self._retry_after_s, self._node_now))

    def take(self) -> bytes:
        body = self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)
        self.chunks.clear()
        self.size = 0
        return body


class Connection:
    def __init__(
        self,
        endpoint: Endpoint,
        token: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._parsed = _Parsed()
        self._used_at = asyncio.get_running_loop().time()
        bearer = f"Authorization: Bearer {token}\r\n" if token else ""
        self._headers = f"Host: {endpoint.authority}\r\n{bearer}"

    @classmethod
    async def open(cls, endpoint: Endpoint, token: str | None, tls: ssl.SSLContext | None) -> "Connection":
        context = (tls or ssl.create_default_context()) if endpoint.tls else None
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, ssl=context, limit=read_bytes
        )
        return cls(endpoint, token, reader, writer)

    @property
    def is_usable(self) -> bool:
        """Whether a request sent now has a fair chance to be answered."""
        fresh = asyncio.get_running_loop().time() - self._used_at < idle_s_max
        return (
            self._parsed.keeps_alive and fresh and not self._writer.is_closing() and not self._reader.at_eof()
        )

    async def post(self, body: bytes, path: str = "") -> Response:
        self.send(body, path)
        return await self.receive()

    async def get(self, path: str) -> Response:
        self._writer.write(self._get_head(path, "application/json"))
        return await self.receive()

    def send(self, body: bytes, path: str = "") -> None:
        """Begin a request. Each has an answer, in the order in which they were sent."""
        head = (
            f"POST {self.endpoint.path + path or '/'} HTTP/1.1\r\n{self._headers}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode("latin-1") + body)

    async def receive(self) -> Response:
        """The answer to the first request that has not been answered."""
        await self._writer.drain()
        parsed = self._parsed
        while not parsed.answers:
            await self._feed(parsed)
            if parsed.size > reply_bytes_max:
                raise Broken(f"The answer is larger than {reply_bytes_max} bytes")
        self._used_at = asyncio.get_running_loop().time()
        return parsed.answers.popleft()

    async def listen(self, path: str, silence_s_max: float) -> tuple[int, AsyncIterator[bytes]]:
        """Ask for a response that does not end: its status, and its body as it comes."""
        self._writer.write(self._get_head(path, "text/event-stream"))
        parsed = self._parsed
        while not parsed.has_headers:
            async with asyncio.timeout(silence_s_max):
                await self._feed(parsed)

        async def body() -> AsyncIterator[bytes]:
            while True:
                if parsed.chunks:
                    yield parsed.take()
                if parsed.answers:
                    last = parsed.answers.popleft().body
                    if last:
                        yield last
                    return
                async with asyncio.timeout(silence_s_max):
                    await self._feed(parsed)

        return parsed.parser.get_status_code(), body()

    def _get_head(self, path: str, accept: str) -> bytes:
        head = f"GET {self.endpoint.path}{path} HTTP/1.1\r\n{self._headers}Accept: {accept}\r\n\r\n"
        return head.encode("latin-1")

    async def _feed(self, parsed: _Parsed) -> None:
        data = await self._reader.read(read_bytes)
        if not data:
            silent = self.endpoint.tls and not parsed.has_headers
            why = ": it may ask for a client's certificate that it knows" if silent else ""
            raise Broken(f"{self.endpoint} closed the connection{why}")
        try:
            parsed.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Broken(f"{self.endpoint} does not speak HTTP: {error}") from error

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):  # it may be broken already, which is why it is closed
            async with asyncio.timeout(close_s_max):
                await self._writer.wait_closed()

    def abort(self) -> None:
        """Close at once; for a connection whose state is unknown."""
        self._writer.transport.abort()
