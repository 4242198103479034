"""Channels: one value, first send wins, everyone sees it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime import Channel, NotInFiber, gather, spawn
from holdfast.runtime.testing import Hand, promise


def test_a_value_sent_before_is_received_after() -> None:
    async def root() -> int:
        box = Channel[int]()
        box.send(3)
        return await box.receive

    assert Hand(root).result() == 3


def test_a_reader_waits_for_the_value() -> None:
    async def sender(box: Channel[int]) -> None:
        box.send(await promise("x"))

    async def root() -> int:
        box = Channel[int]()
        spawn(sender, box)
        return await box.receive

    hand = Hand(root)
    hand.resolve("x", 5)
    assert hand.result() == 5


def test_the_first_send_wins_and_later_ones_are_ignored() -> None:
    async def root() -> int:
        box = Channel[int]()
        box.send(1)
        box.send(2)
        return await box.receive

    assert Hand(root).result() == 1


def test_receive_is_always_the_same_future() -> None:
    box = Channel[int]()
    assert box.receive is box.receive


def test_every_reader_gets_the_value_in_the_order_they_began_to_wait() -> None:
    trace: list[str] = []
    box = Channel[str]()

    async def reader(name: str) -> None:
        trace.append(f"{name} got {await box.receive}")

    async def root() -> None:
        readers = [spawn(reader, name) for name in "abc"]
        await promise("go")
        box.send("it")
        await gather(readers)

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a got it", "b got it", "c got it"]


def test_a_channel_stays_settled_for_late_readers() -> None:
    async def root() -> list[int]:
        box = Channel[int]()
        box.send(1)
        await promise("much later")
        return [await box.receive, await box.receive]

    hand = Hand(root)
    hand.resolve("much later")
    assert hand.result() == [1, 1]


def test_sending_outside_a_fiber_is_refused_and_sends_nothing() -> None:
    box = Channel[int]()
    with pytest.raises(NotInFiber):
        box.send(1)
    assert not box.receive.settled


def test_sending_inside_a_step_is_refused() -> None:
    from holdfast.runtime import run

    box = Channel[int]()

    def step() -> None:
        box.send(1)

    async def root() -> Any:
        return await run(step)

    hand = Hand(root)
    hand.perform("step")
    with pytest.raises(NotInFiber):
        hand.result()


def test_none_can_be_sent() -> None:
    async def root() -> None:
        box = Channel[None]()
        box.send(None)
        return await box.receive

    hand = Hand(root)
    assert hand.done
    assert hand.result() is None


def test_sending_needs_no_reader_and_wakes_none_twice() -> None:
    trace: list[int] = []

    async def reader(box: Channel[int]) -> None:
        trace.append(await box.receive)

    async def root() -> None:
        box = Channel[int]()
        spawn(reader, box)
        await promise("go")
        box.send(1)
        box.send(2)
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == [1]
