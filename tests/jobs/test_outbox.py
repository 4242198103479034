"""The outbox on a real node: what leaves together, and what happens to letters when the node is away."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.errors import Unreachable
from holdfast.host import outbox as outbox_module
from holdfast.host.outbox import Outbox
from holdfast.node import Node
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import PromiseCreate, Request
from holdfast.store.memory import MemoryStore


class Line:
    """A real client whose line can be cut; it remembers the size of each array."""

    def __init__(self, node: Node) -> None:
        self._client = EmbeddedClient(node)
        self.arrays: list[int] = []
        self.is_cut = False
        self.loses_replies = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self.is_cut:
            raise Unreachable("The line is cut")
        self.arrays.append(len(requests))
        replies = await self._client.request(requests)
        if self.loses_replies:
            raise Unreachable("The reply was lost")
        return replies

    def messages(self, group: str, member: str) -> object:
        return self._client.messages(group, member)

    async def close(self) -> None:
        await self._client.close()


@asynccontextmanager
async def opened(compose: Callable[[], None] = lambda: None) -> AsyncGenerator[tuple[Line, Outbox]]:
    async with Node(MemoryStore()) as node:
        line = Line(node)
        outbox = Outbox(line, compose)  # type: ignore[arg-type]
        yield line, outbox
        await outbox.close()


def creation(number: int) -> PromiseCreate:
    return PromiseCreate(f"p{number}", 2**50)


async def test_what_is_put_in_one_turn_leaves_in_one_array() -> None:
    async with opened() as (line, outbox):
        answers: list[Reply | None] = []
        for number in range(100):
            outbox.put(creation(number), answers.append)
        await outbox.drain()
        assert [answer.status for answer in answers if answer] == [200] * 100
        assert line.arrays == [100]


async def test_what_is_put_while_arrays_are_under_way_waits_for_one_of_them() -> None:
    async with opened() as (line, outbox):
        for number in range(6):
            outbox.put(creation(number), lambda _: None)
            if number < 2:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        await outbox.drain()
        assert line.arrays == [1, 1, 4]


async def test_an_array_is_bounded() -> None:
    async with opened() as (line, outbox):
        for number in range(outbox_module.array_requests_max + 1):
            outbox.put(creation(number), lambda _: None)
        await outbox.drain()
        assert line.arrays == [outbox_module.array_requests_max, 1]


async def test_what_compose_adds_leaves_last_in_the_same_array() -> None:
    order: list[str] = []
    boxes: list[Outbox] = []

    def compose() -> None:
        if "claim" not in order and not any(name == "composed" for name in order):
            order.append("composed")
            boxes[0].put(creation(9), lambda _: order.append("claim"))

    async with opened(compose) as (line, outbox):
        boxes.append(outbox)
        outbox.put(creation(1), lambda _: order.append("result"))
        await outbox.drain()
        assert order == ["composed", "result", "claim"]
        assert line.arrays == [2]


async def test_letters_wait_until_the_node_can_be_reached_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.caller.busy_rest_s", 0.01)
    async with opened() as (line, outbox):
        line.is_cut = True
        answered: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        pending = outbox.put(creation(1), answered.set_result)
        async with asyncio.timeout(60):
            while pending.sent < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert not answered.done()
        line.is_cut = False
        async with asyncio.timeout(60):
            reply = await answered
        assert reply is not None
        assert reply.status == 200


async def test_what_was_put_once_learns_that_its_fate_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.caller.busy_rest_s", 0.01)
    async with opened() as (line, outbox):
        line.loses_replies = True
        answers: list[Reply | None] = []
        pending = outbox.put(creation(1), answers.append, once=True)
        await outbox.drain()
        assert answers == [None]
        assert pending.sent == 1


async def test_a_node_that_has_no_room_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.caller.busy_rest_s", 0.01)
    monkeypatch.setattr("holdfast.node.node.queue_requests_max", 0)
    async with opened() as (_, outbox):
        answers: list[Reply | None] = []
        pending = outbox.put(creation(1), answers.append)
        async with asyncio.timeout(60):
            while pending.sent < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        monkeypatch.setattr("holdfast.node.node.queue_requests_max", 20_000)
        async with asyncio.timeout(60):
            await outbox.drain()
        assert [answer.status for answer in answers if answer] == [200]
