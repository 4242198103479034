"""A node that is busy is asked again, by one rule for every caller."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from holdfast.client import caller as rule
from holdfast.client.caller import Caller, rest_s
from holdfast.client.embedded import EmbeddedClient
from holdfast.client.errors import Refused
from holdfast.node import Node
from holdfast.protocol.errors import Overloaded, StoreUnavailable
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import PromiseCreate, PromiseGet, Request
from holdfast.protocol.wire import refuse
from holdfast.store.memory import MemoryStore

late = 2**53 - 1


class Busy(EmbeddedClient):
    """Its node takes so many of each of the next arrays, and has no room for the rest of them."""

    def __init__(self, node: Node, takes: Sequence[int]) -> None:
        super().__init__(node)
        self.takes = [*takes]
        self.asked: list[list[str]] = []

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        self.asked.append([getattr(request.data, "id", "") for request in requests])
        if not self.takes:
            return await super().request(requests)
        taken = requests[: self.takes.pop(0)]
        refused = refuse(StoreUnavailable("The store failed") if taken else Overloaded("No room"))
        return await super().request(taken) + [refused] * (len(requests) - len(taken))


@asynccontextmanager
async def busy(monkeypatch: pytest.MonkeyPatch, *takes: int) -> AsyncGenerator[Busy]:
    monkeypatch.setattr(rule, "busy_rest_s", 0.0)
    async with Node(MemoryStore()) as node:
        yield Busy(node, takes)


def creations(count: int) -> list[PromiseCreate]:
    return [PromiseCreate(f"p{number}", late) for number in range(count)]


async def test_from_the_first_busy_reply_on_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy(monkeypatch, 0, 1, 2) as client:
        found = await Caller(client).ask_all(creations(4), PromiseReply)
        assert [reply.promise.id for reply in found] == ["p0", "p1", "p2", "p3"]
        assert client.asked == [
            ["p0", "p1", "p2", "p3"],
            ["p0", "p1", "p2", "p3"],
            ["p1", "p2", "p3"],
            ["p3"],
        ]


async def test_more_than_goes_together_goes_in_parts_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy(monkeypatch, 2, 1) as client:
        replies = await Caller(client, together_max=2).replies(creations(5))
        assert [reply.status for reply in replies] == [200] * 5
        assert client.asked == [["p0", "p1"], ["p2", "p3"], ["p3", "p4"]]


async def test_who_may_give_up_gives_up_after_so_many_busy_replies_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with busy(monkeypatch, 1, 0, 0) as client:
        replies = await Caller(client, tries_max=3, together_max=2).replies(creations(5))
        assert [(reply.status, reply.code) for reply in replies] == [(200, None)] + [(429, "HF1901")] * 4
        assert len(client.asked) == 3
    async with busy(monkeypatch, 0) as client:
        with pytest.raises(Refused) as caught:
            await Caller(client, tries_max=1).ask(PromiseGet("p"), PromiseReply)
        assert (caught.value.status, caught.value.reply_code) == (429, "HF1901")


async def test_a_check_ends_it_before_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy(monkeypatch, 0) as client:

        def check() -> None:
            if client.asked:
                raise KeyError

        with pytest.raises(KeyError):
            await Caller(client, check=check).replies(creations(1))
        assert len(client.asked) == 1


async def test_nothing_asked_is_nothing_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with busy(monkeypatch) as client:
        assert await Caller(client).replies([]) == []
        assert client.asked == []


def test_rests_grow_to_a_bound() -> None:
    assert [rest_s(tries) for tries in (1, 2, 3, 4, 5, 1000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
