"""Posts messages to HTTP addresses, and refuses addresses that this server must not call.

1. Nothing is posted to a host that is not in `push_hosts`, nor to a port that is not in `push_ports`.
2. A name is resolved once; every address it has must be public (unless `push_private`); the connection goes
   to the address that was checked. No redirects, no proxies; TLS is verified against the name.
3. The token goes to the hosts it was meant for and to nobody else, and never over plain HTTP, where everybody
   on the way could read it.
4. Posts are bounded in number, in time and in what is read of the answer. An execute that fails is offered
   again by its task's own retry; an unblock, which nobody would repeat, is tried a few times.
"""

import asyncio
import ipaddress
import logging
import random
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import httptools
from msgspec import Struct

from holdfast.node.end_tasks import end_tasks
from holdfast.protocol import limits
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.sizes import message_bytes
from holdfast.protocol.wire import encode_message
from holdfast.server.errors import PushRefused
from holdfast.server.metrics import Metrics
from holdfast.server.settings import Settings

log = logging.getLogger("holdfast.server")

connect_timeout_s: Final = 5.0
answer_bytes_max: Final = 65_536
queue_max: Final = 10_000
unblock_attempts: Final = 5
come_back: Final = frozenset({429, 503})  # statuses of a receiver that is busy, and says so

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Target(Struct, frozen=True):
    """An HTTP address, taken apart and found to be allowed."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == {"http": 80, "https": 443}[self.scheme] else f"{name}:{self.port}"


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def is_public(text: str) -> bool:
    """May an address on the open Internet look like this?"""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif address.sixtofour is not None or address.teredo is not None:
            return False  # they hide another address, which may be anything
        elif any(address in network for network in _NOT_PUBLIC):
            return False
    return address.is_global and not address.is_multicast


# What `is_global` lets pass, in some versions of Python or in all.
_NOT_PUBLIC: Final = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "64:ff9b::/96",  # these three hide an IPv4 address
        "64:ff9b:1::/48",
        "::ffff:0:0:0/96",
        "::/96",  # as did this one, which is out of use
        "fec0::/10",  # so is this: addresses of one site
    )
)


class Pusher:
    def __init__(
        self, settings: Settings, metrics: Metrics, server_url: str, *, resolve: Resolve = resolve
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._server_url = server_url
        self._resolve = resolve
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._posting: set[asyncio.Task[None]] = set()
        self._context: ssl.SSLContext | None = None
        if settings.push_token and not settings.push_token_hosts:
            log.warning("push_token is set but push_token_hosts is empty: the token is sent to no host")

    def push(self, message: Message) -> None:
        """Take a message. Returns at once and never raises."""
        self._waiting.append(message)
        self._waiting_bytes += message_bytes(message)
        while len(self._waiting) > queue_max or self._waiting_bytes > limits.messages_bytes_max:
            self._count(self._take(), "dropped")
        self._start()

    def _take(self) -> Message:
        message = self._waiting.popleft()
        self._waiting_bytes -= message_bytes(message)
        return message

    async def stop(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        await end_tasks(self._posting)

    def _start(self) -> None:
        while self._waiting and len(self._posting) < self._settings.push_concurrency:
            task = asyncio.create_task(self._deliver(self._take()))
            self._posting.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._posting.discard(task)
        if not task.cancelled():
            self._start()

    async def _deliver(self, message: Message) -> None:
        attempts = 1 if isinstance(message, Execute) else unblock_attempts
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311
            try:
                async with asyncio.timeout(self._settings.push_timeout_s):
                    status = await self.post(message.address, encode_message(message, self._server_url))
            except PushRefused as refusal:
                log.warning("a message was not posted: %s", refusal, extra={"code": refusal.code})
                self._count(message, "refused")
                return
            except (OSError, ValueError, TimeoutError, httptools.HttpParserError) as error:
                log.info("a post to %s failed (%s)", _host_of(message), type(error).__name__)
                continue
            if 200 <= status < 300:
                self._count(message, "sent")
                return
            level = logging.INFO if status in come_back else logging.WARNING
            log.log(level, "a post to %s was answered with status %d", _host_of(message), status)
        self._count(message, "failed")

    def _count(self, message: Message, outcome: str) -> None:
        kind = "execute" if isinstance(message, Execute) else "unblock"
        self._metrics.count_delivery(kind, "push", outcome)

    async def post(self, url: str, body: bytes) -> int:
        """Post once; answer with the status."""
        target = self.check_url(url)
        address = await self._pin(target)
        context = self._tls() if target.scheme == "https" else None
        async with asyncio.timeout(connect_timeout_s):
            reader, writer = await asyncio.open_connection(
                address, target.port, ssl=context, server_hostname=target.host if context else None
            )
        try:
            writer.write(self._request(target, body))
            await writer.drain()
            return await _read_status(reader)
        finally:
            writer.transport.abort()

    def check_url(self, url: str) -> Target:
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise PushRefused("the address has no usable host or port") from None
        if parts.username is not None or parts.password is not None:
            raise PushRefused("the address holds a user name or a password")
        if parts.scheme not in ("http", "https") or not host:
            raise PushRefused("the address is not an HTTP URL")
        if port is None:
            port = 443 if parts.scheme == "https" else 80
        if not _is_listed(host, port, self._settings.push_hosts):
            raise PushRefused(f"the host {host!r} is not in push_hosts")
        if port not in self._settings.push_ports and not _is_listed_with_port(
            host, port, self._settings.push_hosts
        ):
            raise PushRefused(f"the port {port} is not in push_ports")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii() or not path.isprintable() or " " in path or not host.isascii():
            raise PushRefused("the address holds characters that must be percent-encoded")
        if parts.scheme == "http" and self._is_given_token(host, port):
            raise PushRefused(f"push_token would go to {host!r} over plain HTTP, where others can read it")
        return Target(parts.scheme, host, port, path)

    def _is_given_token(self, host: str, port: int) -> bool:
        return bool(self._settings.push_token) and _is_listed(host, port, self._settings.push_token_hosts)

    async def _pin(self, target: Target) -> str:
        addresses = await self._resolve(target.host, target.port)
        if not addresses:
            raise PushRefused(f"the host {target.host!r} has no address")
        if not self._settings.push_private and not all(is_public(address) for address in addresses):
            raise PushRefused(f"the host {target.host!r} resolves to an address that is not public")
        return addresses[0]

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context()  # reads every certificate of the system: once
        return self._context

    def _request(self, target: Target, body: bytes) -> bytes:
        lines = [
            f"POST {target.path} HTTP/1.1",
            f"host: {target.authority}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        if self._is_given_token(target.host, target.port):
            lines.append(f"authorization: Bearer {self._settings.push_token}")
        return "\r\n".join([*lines, "", ""]).encode() + body


class _Answer:
    """What httptools reports of an answer. Only the status matters."""

    def __init__(self) -> None:
        self.has_head = False

    def on_headers_complete(self) -> None:
        self.has_head = True


async def _read_status(reader: asyncio.StreamReader) -> int:
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    size = 0
    while not answer.has_head:
        data = await reader.read(8_192)
        size += len(data)
        if not data or size > answer_bytes_max:
            raise ValueError("no answer, or one with an endless head")
        parser.feed_data(data)
    return int(parser.get_status_code())


def _host_of(message: Message) -> str:
    """For the log: a path or a query may hold a secret."""
    return urlsplit(message.address).netloc.rpartition("@")[2]


def _is_listed(host: str, port: int, listed: tuple[str, ...]) -> bool:
    for entry in (entry.lower() for entry in listed):
        if entry in (host, f"{host}:{port}", f"[{host}]", f"[{host}]:{port}"):
            return True
        if entry.startswith("*.") and host.endswith(entry[1:]):
            return True
    return False


def _is_listed_with_port(host: str, port: int, listed: tuple[str, ...]) -> bool:
    return any(entry.lower() in (f"{host}:{port}", f"[{host}]:{port}") for entry in listed)
