"""A simulated network between callers and nodes: HTTP, with all its failures.

The client above it (`client/http.py`) and the server below it (`server/`) are the real ones; only the
connection in between is ours. As with TCP, a request or its answer may never arrive, the connection may break
and nobody knows on which side of the answer, and two connections do not keep each other's order.

1. A partition swallows: nobody is told, and waits until his patience ends.
2. A process that dies breaks its connections. One that is frozen keeps them.
3. A request is answered on the server's behalf: what the caller's death or impatience leaves behind goes on.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from math import inf
from random import Random
from typing import Any, Final, Self

from holdfast.client.connection import Broken, Response
from holdfast.client.endpoints import Endpoint
from holdfast.node import Node
from holdfast.protocol.errors import Refusal
from holdfast.server.asgi import extension
from holdfast.server.auth import Authenticator
from holdfast.server.metrics import Metrics
from holdfast.server.offers import Offers
from holdfast.server.rpc import Rpc
from holdfast.server.settings import Settings
from holdfast.server.streams import EventStreams
from holdfast.testing.faults import Faults
from holdfast.testing.loop import JumpingLoop, Process

late_s: Final = (0.1, 15.0)
_settings: Final = Settings()
_keep_alive: Final = b":\n\n"


class SimulatedServer:
    """A node's server, without sockets."""

    def __init__(self, process: Process, node: Node, chance: Random) -> None:
        self.process = process
        metrics, authenticator = Metrics(), Authenticator(_settings)
        self.offers = Offers(node)
        self.streams = EventStreams(node, _settings, metrics, self.offers, authenticator, "", chance)
        self.rpc = Rpc(node, _settings, metrics, authenticator)

    def stop(self) -> None:
        self.streams.stop()
        self.offers.stop()


class Network:
    def __init__(self, loop: JumpingLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.servers: dict[str, SimulatedServer] = {}
        self._links: dict[SimulatedLink, None] = {}
        self._cuts: dict[tuple[str, str], int] = {}  # how often one way is cut

    async def connect(self, caller: Process, endpoint: Endpoint, token: Any, tls: Any) -> "SimulatedLink":
        await asyncio.sleep(self.delay_s())
        await self.pass_cut(caller.name, endpoint.host)
        await self.pass_cut(endpoint.host, caller.name)
        server = self.servers.get(endpoint.host)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {endpoint.host}")
        link = SimulatedLink(self, caller, endpoint.host, server)
        self._links[link] = None
        return link

    def delay_s(self) -> float:
        return self.faults.plan.latency_s * self.faults.chance.random()

    # --- partitions ------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        left = self._cuts.pop((source, target), 1) - 1
        if left > 0:
            self._cuts[source, target] = left

    def mend_all(self) -> None:
        self._cuts.clear()

    def is_cut(self, source: str, target: str) -> bool:
        return (base_name(source), base_name(target)) in self._cuts

    async def pass_cut(self, source: str, target: str) -> None:
        if self.is_cut(source, target):
            await self.loop.create_future()  # until whoever waits has had enough

    # --- deaths ----------------------------------------------------------------------------------------

    def forget(self, link: "SimulatedLink") -> None:
        self._links.pop(link, None)

    def break_links(self, process: Process) -> None:
        """Its connections are closed by the system it ran on."""
        for link in [*self._links]:
            if process in (link.caller, link.server.process):
                link.snap()


def base_name(name: str) -> str:
    """Of a process, whichever of its lives it is in."""
    return name.partition("#")[0]


class SimulatedLink:
    """One connection, as `client.connection.Link`."""

    def __init__(self, network: Network, caller: Process, host: str, server: SimulatedServer) -> None:
        self.caller = caller
        self.host = host
        self.server = server
        self.is_open = True
        self._network = network
        self._loop = network.loop
        self._faults = network.faults
        self._answers: deque[asyncio.Future[Response]] = deque()  # in the order of their requests
        self._served: asyncio.Task[None] | None = None  # the last that has arrived
        self._sent_until_s = self._answered_until_s = 0.0
        self._stream: _Stream | None = None

    @property
    def is_usable(self) -> bool:
        return self.is_open

    # --- requests --------------------------------------------------------------------------------------

    def send(self, body: bytes) -> None:
        """As on a wire: what was sent later arrives later, and is taken up when what came before is done."""
        faults, name = self._faults, self.caller.name
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answers.append(answer)
        if faults.strikes("request lost", name):
            self._sent_until_s = inf  # nothing follows it
            self._loop.call_later(self._network.delay_s(), self.snap, context=self.caller.context)
        elif self._network.is_cut(name, self.host):
            self._sent_until_s = inf
        elif self._sent_until_s < inf:
            delay_s = self._network.delay_s()
            if faults.strikes("request delayed", name):
                delay_s = faults.chance.uniform(*late_s)
            at_s = self._sent_until_s = max(self._loop.time() + delay_s, self._sent_until_s)
            context = self.server.process.context
            self._loop.call_at(at_s, self._arrive, bytes(body), answer, context=context)
            if faults.strikes("request doubled", name):
                again_s = delay_s + faults.chance.uniform(0, late_s[1])
                self._loop.call_later(again_s, self._arrive, bytes(body), None, context=context)

    async def receive(self) -> Response:
        answer = self._answers[0]
        response = await answer
        self._answers.popleft()
        return response

    def _arrive(self, body: bytes, answer: "asyncio.Future[Response] | None") -> None:
        before = None if answer is None else self._served
        serving = self._loop.create_task(self._serve(body, answer, before))
        if answer is not None:
            self._served = serving

    async def _serve(
        self,
        body: bytes,
        answer: "asyncio.Future[Response] | None",
        before: "asyncio.Task[None] | None",
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        status, content, headers = await self.server.rpc.answer([], body)
        faults, name = self._faults, self.server.process.name
        if answer is None or self._network.is_cut(self.host, self.caller.name):
            return
        if faults.strikes("reply lost", name):
            self._loop.call_later(self._network.delay_s(), self.snap, context=self.caller.context)
            return
        delay_s = self._network.delay_s()
        if faults.strikes("reply delayed", name):
            delay_s = faults.chance.uniform(*late_s)
        numbers = {name: int(value) for name, value in headers}
        response = Response(status, content, numbers.get(b"retry-after"), numbers.get(b"holdfast-now"))
        at_s = self._answered_until_s = max(self._loop.time() + delay_s, self._answered_until_s)
        self._loop.call_at(at_s, self._deliver, answer, response, context=self.caller.context)

    def _deliver(self, answer: "asyncio.Future[Response]", response: Response) -> None:
        if self.is_open and not answer.done():
            answer.set_result(response)

    # --- a stream --------------------------------------------------------------------------------------

    async def listen(self, path: str, silence_s_max: float) -> tuple[int, AsyncIterator[bytes]]:
        await self._network.pass_cut(self.caller.name, self.host)
        stream = self._stream = _Stream(self, self._network, silence_s_max)
        self._loop.call_later(self._network.delay_s(), stream.open, path, context=self.server.process.context)
        return 200, stream

    # --- its end ---------------------------------------------------------------------------------------

    def snap(self) -> None:
        """It breaks; both sides hear of it."""
        if self.is_open:
            self.abort()
            error = Broken(f"{self.host} closed the connection")
            context = self.caller.context
            for answer in self._answers:
                self._loop.call_soon(_fail, answer, error, context=context)
            if self._stream is not None:
                self._loop.call_soon(self._stream.fail, error, context=context)

    async def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self.is_open = False
        self._network.forget(self)
        if self._stream is not None:
            delay_s = self._network.delay_s()
            self._loop.call_later(delay_s, self._stream.lose, context=self.server.process.context)


def _fail(answer: "asyncio.Future[Response]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever gave up before waits for this one no more


class _Stream:
    """A message stream: the server's connection on one side, the caller's iterator on the other."""

    def __init__(self, link: SimulatedLink, network: Network, silence_s_max: float) -> None:
        self.on_lost: Any = None  # what the server's connection is asked for
        self.is_lost = False
        self.is_behind = False
        self.in_hand_bytes = 0
        self._link = link
        self._network = network
        self._faults = network.faults
        self._silence_s_max = silence_s_max
        self._chunks: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._error: Exception | None = None
        self._is_over = False
        self._last_at = 0.0

    # --- the server's side -----------------------------------------------------------------------------

    def open(self, path: str) -> None:
        scope: dict[str, Any] = {"raw_path": path.encode(), "headers": [], "extensions": {extension: self}}
        self._network.loop.create_task(self._serve(scope))

    async def _serve(self, scope: dict[str, Any]) -> None:
        try:
            await self._link.server.streams.handle(scope, _nothing, self._send)
        except Refusal:  # it takes no more streams
            self._link.snap()

    async def _send(self, message: dict[str, Any]) -> None:
        body = message.get("body", b"")
        if message["type"] != "http.response.body":
            return
        faults, link, name = self._faults, self._link, self._link.caller.name
        if not message.get("more_body"):
            self._carry(self._end, None, 0.0)
        elif body != _keep_alive and faults.strikes("stream broken", name):
            link.snap()
        elif not self._network.is_cut(link.host, name):
            if body != _keep_alive and faults.strikes("message lost", name):
                return
            for _ in range(2 if body != _keep_alive and faults.strikes("message doubled", name) else 1):
                late = body != _keep_alive and faults.strikes("message delayed", name)
                self._carry(self._put, body, faults.chance.uniform(*late_s) if late else 0.0)

    def _carry(self, take: Any, body: bytes | None, more_s: float) -> None:
        """In order, unless it is overtaken."""
        loop = self._network.loop
        at = loop.time() + self._network.delay_s() + more_s
        if body is not None and self._faults.strikes("message overtaken", self._link.caller.name):
            at += self._faults.chance.uniform(*late_s)
        else:
            at = self._last_at = max(at, self._last_at)
        loop.call_at(at, take, body, context=self._link.caller.context)

    def lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            if self.on_lost is not None:
                self.on_lost()

    def abort(self) -> None:
        self._link.snap()

    # --- the caller's side -----------------------------------------------------------------------------

    def _put(self, body: bytes) -> None:
        if self._link.is_open:
            self._chunks.append(body)
            self._arrived.set()

    def _end(self, _: None) -> None:
        self._is_over = True
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            self._arrived.clear()
            async with asyncio.timeout(self._silence_s_max):
                await self._arrived.wait()
        return self._chunks.popleft()


async def _nothing() -> dict[str, Any]:
    raise NotImplementedError
