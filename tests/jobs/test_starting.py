"""A worker stores what its app declares before it claims, also when its node is away or cannot tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.client.caller import ask
from holdfast.client.embedded import EmbeddedClient
from holdfast.client.errors import Refused, RequestTimedOut, Unreachable
from holdfast.client.interface import MessageStream
from holdfast.host.session import Seams, Session
from holdfast.node import Node
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, TaskClaim
from holdfast.store.memory import MemoryStore
from holdfast.testing import JumpingLoop
from holdfast.testing.loop import run_jumping
from holdfast.testing.world import VirtualRunner

app = hf.App()
narrow = app.queue("narrow", concurrency=1)


@app.task(queue="narrow")
def greet(name: str) -> str:
    return f"hello {name}"


class WeakClient:
    """The way to a node on which the first few declarations meet with an error."""

    def __init__(self, node: Node, errors: list[Exception]) -> None:
        self._client = EmbeddedClient(node)
        self._errors = errors
        self.kinds: list[str] = []  # of what arrived

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self._errors and requests[0].kind == "queue.set":
            raise self._errors.pop(0)
        self.kinds += [request.kind for request in requests if _concerns_queues(request)]
        return await self._client.request(requests)

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        return self._client.messages(group, member)

    async def close(self) -> None:
        await self._client.close()


def _concerns_queues(request: Request) -> bool:
    return not isinstance(request.data, TaskClaim) or "queue.narrow" in request.data.groups


@asynccontextmanager
async def node_here(loop: JumpingLoop) -> AsyncGenerator[Node]:
    node = Node(MemoryStore(), clock=loop.millis)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def session_on(client: WeakClient, loop: JumpingLoop) -> Session:
    seams = Seams(
        client=client, now=loop.millis, runner=lambda: VirtualRunner([]), pid="w", loses_messages=True
    )
    settings = replace(app.settings, worker=True)
    return Session(settings, app.registry, app.providers, seams, app.tasks)


@pytest.mark.parametrize(
    "error",
    [Unreachable("nobody is there"), RequestTimedOut("nobody answered"), Refused(503, "The store failed")],
    ids=lambda error: type(error).__name__,
)
def test_a_worker_that_starts_while_its_node_is_away_waits_for_it(error: Exception) -> None:
    async def main() -> None:
        async with node_here(loop) as node:
            client = WeakClient(node, [error, error, error])
            order = greet.with_options(id="g").prepare("Ada").order
            assert not isinstance(order, hf.types.SendError)
            [sent] = await node.request([ask(order.creation)])
            assert sent.status == 200
            session = session_on(client, loop)
            await session.open()
            assert (await session.task_client.result("g", timeout_s=60)).ok_value == "hello Ada"
            assert client.kinds.index("queue.set") < client.kinds.index("task.claim")
            await session.close()

    loop = JumpingLoop()
    run_jumping(main(), loop)


def test_what_a_node_refuses_at_the_start_raises_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with node_here(loop) as node:
            before = len(asyncio.all_tasks())
            session = session_on(WeakClient(node, [Refused(403, "You may not")]), loop)
            with pytest.raises(Refused, match="You may not"):
                await session.open()
            assert len(asyncio.all_tasks()) == before

    loop = JumpingLoop()
    run_jumping(main(), loop)


def test_a_worker_that_stops_before_its_node_came_back_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with node_here(loop) as node:
            await asyncio.sleep(1)  # what the node does when it starts is over
            before = len(asyncio.all_tasks())
            session = session_on(WeakClient(node, [Unreachable("nobody is there")] * 100), loop)
            await session.open()
            await asyncio.sleep(5)
            await session.close()
            assert len(asyncio.all_tasks()) == before

    loop = JumpingLoop()
    run_jumping(main(), loop)


async def test_an_app_that_could_not_be_opened_can_be_opened_again() -> None:
    opened: list[str] = []

    async def connect() -> AsyncGenerator[str]:
        opened.append("open")
        if len(opened) == 1:
            raise ConnectionError("not yet")
        yield "connection"
        opened.append("closed")

    shop = hf.App("memory:")
    shop.provide("database", connect)
    with pytest.raises(ConnectionError):
        await shop.__aenter__()
    async with shop:
        pass
    assert opened == ["open", "open", "closed"]
