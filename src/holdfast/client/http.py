"""A node behind HTTP.

Two senders, each an ordered queue with a connection of its own. Everything that changes or reads an execution
takes the first, so the order in which requests are issued is the order in which they are applied. The second
is for what has no place in that order and must neither wait behind it nor hold it up: heartbeats, because a
lease is at stake, and searches, because they may be long.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import msgspec

from holdfast.client.connection import Connection, Opener
from holdfast.client.endpoints import check_token, parse_endpoint
from holdfast.client.errors import ClientClosed, InvalidUrl, Unreachable
from holdfast.client.interface import MessageStream
from holdfast.client.overlap import Overlap
from holdfast.client.sender import ClientConfig, Sender
from holdfast.client.stream import HttpMessageStream
from holdfast.node.clock import SteadyClock, far_clock
from holdfast.protocol.records import Millis
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.protocol.workers import WorkerOrders, WorkerReport

side_kinds: Final = frozenset({"task.heartbeat", "promise.search", "task.search", "schedule.search"})


class HttpClient:
    """
    async with HttpClient(["http://127.0.0.1:8001"], token="...") as client:
        [reply] = await client.request([ask(PromiseGet("invoice-7"))])

    With several URLs, all of nodes on one store, it stays with one until that fails and then takes the next.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        limit_s: float = 30.0,
        attempt_s: float = 10.0,
        persistent: bool = True,
        connect: Opener = Connection.open,
        chance: Random | None = None,
        clock: SteadyClock | None = None,
        overlap: Callable[[], Overlap] = Overlap,
    ) -> None:
        if isinstance(urls, str) or not urls:
            raise InvalidUrl(f"{urls!r} is not a list of URLs")
        check_token(token)
        self._endpoints = [parse_endpoint(url) for url in urls]
        self._clock = clock or far_clock()
        self._config = ClientConfig(
            token,
            tls,
            limit_s,
            attempt_s,
            persistent,
            connect,
            chance or Random(),  # noqa: S311
            self._clock,
            overlap,
        )
        self._sender = Sender(self._endpoints, self._config)
        self._side_sender = Sender(self._endpoints, self._config)
        self._streams: dict[HttpMessageStream, None] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if not requests:
            return []
        aside = all(request.kind in side_kinds for request in requests)
        return await (self._side_sender if aside else self._sender).request(requests)

    def now(self) -> Millis:
        """The node's clock, as its answers tell it. This machine's own may be wrong, and may be set."""
        return self._clock.peek()

    @property
    def knows_clock(self) -> bool:
        """Has the node answered yet? Until then `now` is this machine's clock, which may be wrong."""
        return self._clock.is_following

    async def tell_of_worker(self, report: WorkerReport) -> WorkerOrders:
        """On a connection of its own, to the first node that answers."""
        told = msgspec.to_builtins(report)
        path = f"/v1/workers/{quote(told.pop('id'), safe='')}"
        body = msgspec.json.encode(told)
        problem = "no node answered"
        for endpoint in self._endpoints:
            try:
                async with asyncio.timeout(self._config.attempt_s):
                    link = await Connection.open(endpoint, self._config.token, self._config.tls)
                    try:
                        response = await link.post(body, path)
                    finally:
                        link.abort()
            except (OSError, TimeoutError) as error:
                problem = f"{endpoint}: {error}"
                continue
            if response.status != 200:
                why = response.body[:200].decode("utf-8", "replace")
                raise Unreachable(f"{endpoint} refused the report of this worker: {response.status} {why}")
            return msgspec.json.decode(response.body, type=WorkerOrders)
        raise Unreachable(problem)

    @asynccontextmanager
    async def messages(self, group: str, member: str) -> AsyncGenerator[MessageStream]:
        if self._closed:
            raise ClientClosed("This client was closed")
        stream = HttpMessageStream(self._endpoints, self._config, group, member)
        self._streams[stream] = None
        try:
            yield stream
        finally:
            self._streams.pop(stream, None)
            await stream.close()

    async def close(self) -> None:
        self._closed = True
        await self._sender.close()
        await self._side_sender.close()
        for stream in [*self._streams]:
            await stream.close()
