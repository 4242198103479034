"""Timers are exact: something due is carried out at its instant, and nothing is polled in between."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast.engine import Rules
from holdfast.node import Node
from holdfast.node.group import CommitOutcome
from holdfast.protocol.messages import Execute, Unblock
from holdfast.store.interface import Result, Work
from holdfast.store.memory import MemoryStore
from holdfast.testing.loop import JumpingLoop, run_jumping
from tests.requests import acquire, create, get, listen, promise_of

HERE = "poll://uni@g/me"


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        self.transactions += 1
        return await super().transact(work)


def in_virtual_time(test: Callable[[JumpingLoop, Node, CountingStore], object]) -> Callable[[bool], None]:
    def run(like_uvloop: bool) -> None:
        loop = JumpingLoop(like_uvloop=like_uvloop)
        store = CountingStore()

        async def main() -> None:
            async with Node(store, rules=Rules(retry_ms=5_000), clock=loop.millis) as node:
                await asyncio.sleep(0.001)
                await test(loop, node, store)  # type: ignore[misc]

        run_jumping(main(), loop)

    run.__name__ = test.__name__
    return pytest.mark.parametrize("like_uvloop", [False, True])(run)


@in_virtual_time
async def test_a_promise_expires_at_its_very_instant(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("a", 86_400_000), listen("a", HERE)])
    [message] = await mailbox.receive()
    assert isinstance(message, Unblock)
    assert message.promise.state == "rejected_timedout"
    assert loop.millis() == 86_400_000


@in_virtual_time
async def test_waiting_for_a_day_costs_no_transactions(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("a", 86_400_000), listen("a", HERE)])
    before = store.transactions
    await mailbox.receive()
    assert store.transactions - before == 1


@in_virtual_time
async def test_an_earlier_deadline_written_later_wakes_the_node_earlier(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("slow", 60_000), listen("slow", HERE)])
    await node.request([create("soon", 2_000), listen("soon", HERE)])
    told = [*await mailbox.receive()]
    assert [message.promise.id for message in told if isinstance(message, Unblock)] == ["soon"]
    assert loop.millis() == 2_000


@in_virtual_time
async def test_a_lapsed_lease_is_offered_again_at_its_instant(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("t", target="poll://any@g")])
    await mailbox.receive()
    await node.request([acquire("t", 0, ttl=700)])
    began = loop.millis()
    [message] = await mailbox.receive()
    assert isinstance(message, Execute)
    assert (message.task.version, loop.millis() - began) == (1, 700)


@in_virtual_time
async def test_a_task_that_nobody_takes_is_offered_again_and_again(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("t", target="poll://any@g")])
    instants: list[int] = []
    for _ in range(4):
        await mailbox.receive()
        instants.append(loop.millis())
    assert [later - earlier for earlier, later in pairwise(instants)] == [5_000, 5_000, 10_000]


@in_virtual_time
async def test_a_delayed_task_is_first_offered_at_its_instant(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("t", target="poll://any@g", delay="3000")])
    await mailbox.receive()
    assert loop.millis() == 3_000


@in_virtual_time
async def test_more_due_at_once_than_one_sweep_takes_is_all_carried_out(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    await node.request([create(f"p{index}", 1_000, external="true") for index in range(2_500)])
    await asyncio.sleep(1.001)
    assert not store.watched
    assert {promise.state for promise in store.promises.values()} == {"rejected_timedout"}


@in_virtual_time
async def test_a_failing_sweep_is_tried_again_without_spinning(
    loop: JumpingLoop, node: Node, store: CountingStore
) -> None:
    mailbox = node.connect("g", "me")
    await node.request([create("a", 1_000), listen("a", HERE)])
    original = store.run
    failures: list[int] = []

    def failing(work: Callable[[], Work[CommitOutcome]]) -> CommitOutcome:
        if len(failures) < 3:
            failures.append(loop.millis())
            raise OSError("disk on holiday")
        return original(work)

    store.run = failing  # type: ignore[method-assign, assignment]
    await mailbox.receive()
    assert failures == [1_000, 2_000, 3_000]
    assert loop.millis() == 4_000


def test_what_fell_due_while_no_node_ran_is_carried_out_at_the_start() -> None:
    loop = JumpingLoop()
    store = CountingStore()

    async def main() -> None:
        async with Node(store, clock=loop.millis) as node:
            await node.request([create("a", 1_000, external="true")])
        await asyncio.sleep(5)
        async with Node(store, clock=loop.millis) as node:
            await asyncio.sleep(0.001)
            [reply] = await node.request([get("a")])
            assert promise_of(reply).settled_at == 1_000
            assert store.promises["a"].state == "rejected_timedout"

    run_jumping(main(), loop)


def test_a_clock_that_is_set_back_never_takes_time_back() -> None:
    loop = JumpingLoop()
    store = CountingStore()
    wall = {"now": 1_000_000}

    async def main() -> None:
        async with Node(store, clock=lambda: wall["now"]) as node:
            await node.request([create("a")])
            wall["now"] = 5_000
            [reply] = await node.request([create("b")])
            assert promise_of(reply).created_at == 1_000_000
        async with Node(store, clock=lambda: wall["now"]) as again:
            [reply] = await again.request([create("c")])
            assert promise_of(reply).created_at == 1_000_000

    run_jumping(main(), loop)
