"""Scale at the default recursion limit: long runs of waits, long pipelines, deep trees, many fibers."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import pytest

from holdfast.runtime import Channel, Fiber, FiberInterrupted, Future, Queue, gather, race, spawn
from holdfast.runtime.testing import Hand, promise
from tests.runtime.inside import waiters


@pytest.fixture(autouse=True)
def default_recursion_limit() -> None:
    assert sys.getrecursionlimit() <= 1000


def test_ten_thousand_settled_waits_in_a_row_use_no_stack() -> None:
    async def root() -> int:
        box = Channel[int]()
        box.send(1)
        total = 0
        for _ in range(10_000):
            total += await box.receive
        return total

    assert Hand(root).result() == 10_000


def test_ten_thousand_settled_failures_in_a_row_use_no_stack() -> None:
    async def fails() -> None:
        raise ValueError

    async def root() -> int:
        task, count = spawn(fails), 0
        for _ in range(10_000):
            try:
                await task
            except ValueError:
                count += 1
        return count

    assert Hand(root).result() == 10_000


def test_a_pipeline_of_ten_thousand_fibers_unwinds_through_the_queue() -> None:
    async def link(before: Future[int]) -> int:
        return await before + 1

    async def root() -> int:
        last: Future[int] = promise("start")
        for _ in range(10_000):
            last = spawn(link, last)
        return await last

    hand = Hand(root)
    hand.resolve("start", 0)
    assert hand.result() == 10_000


def test_a_pipeline_of_channels_unwinds_through_the_queue() -> None:
    async def relay(inbox: Channel[int], outbox: Channel[int]) -> None:
        outbox.send(await inbox.receive + 1)

    async def root() -> int:
        boxes = [Channel[int]() for _ in range(10_001)]
        for inbox, outbox in pairwise(boxes):
            spawn(relay, inbox, outbox)
        boxes[0].send(0)
        return await boxes[-1].receive

    assert Hand(root).result() == 10_000


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_spawns_is_interrupted_to_its_end() -> None:
    depth = 100_000
    interrupted: list[int] = []

    async def link(below: int) -> None:
        if below:
            spawn(link, below - 1)
        try:
            await promise(f"level {below}")
        except FiberInterrupted:
            interrupted.append(below)

    async def root() -> None:
        top = spawn(link, depth)
        await promise("go")
        top.interrupt()
        await top
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert interrupted == list(range(depth, -1, -1))


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_spawns_is_taken_down() -> None:
    left: list[int] = []

    async def link(below: int) -> None:
        if below:
            spawn(link, below - 1)
        try:
            await promise("same")
        finally:
            left.append(below)

    hand = Hand(link, 100_000)
    hand.close()
    assert left == list(range(100_001))


def test_ten_thousand_nested_combinators_settle_without_recursion() -> None:
    async def root() -> Any:
        future: Future[Any] = promise("a")
        for level in range(10_000):
            future = race([future]) if level % 2 else gather([future])
        await future
        return "settled"

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == "settled"


def test_leaving_ten_thousand_nested_combinators_needs_no_recursion() -> None:
    box = Channel[int]()

    async def child() -> None:
        future: Future[Any] = box.receive
        for _ in range(10_000):
            future = race([future])
        await future

    async def root() -> None:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert waiters(box.receive) == 0


def test_a_cycle_of_ten_thousand_fibers_is_found() -> None:
    from holdfast.runtime import Deadlock

    async def link(box: Channel[Fiber[Any]], before: Fiber[Any] | None) -> None:
        await (await box.receive if before is None else before)

    async def root() -> None:
        box = Channel[Fiber[Any]]()
        last: Fiber[Any] = spawn(link, box, None)
        for _ in range(10_000):
            last = spawn(link, box, last)
        box.send(last)
        await promise("unrelated")

    hand = Hand(root)
    with pytest.raises(Deadlock):
        hand.result()


def test_ten_thousand_fibers_wait_for_one_promise_and_wake_in_order() -> None:
    woke: list[int] = []

    async def waiter(number: int, future: Future[Any]) -> None:
        await future
        woke.append(number)

    async def root() -> None:
        future = promise("a")
        await gather([waiter(number, future) for number in range(10_000)])

    hand = Hand(root)
    hand.resolve("a")
    assert woke == list(range(10_000))
    assert hand.done


def test_ten_thousand_fibers_each_with_a_promise_of_its_own() -> None:
    async def child(number: int) -> int:
        value: int = await promise(str(number))
        return value

    async def root() -> int:
        return sum(await gather([child(number) for number in range(10_000)]))

    hand = Hand(root)
    assert len(hand.waiting) == 10_000
    for number in reversed(range(10_000)):
        hand.resolve(str(number), 1)
    assert hand.result() == 10_000


def test_ten_thousand_readers_wait_in_line_at_a_queue() -> None:
    seen: list[int] = []

    async def reader(queue: Queue[int]) -> None:
        seen.append(await queue.get())

    async def root() -> None:
        queue = Queue[int]()
        readers = [spawn(reader, queue) for _ in range(10_000)]
        await promise("go")
        for number in range(10_000):
            queue.put(number)
        await gather(readers)

    hand = Hand(root)
    hand.resolve("go")
    assert seen == list(range(10_000))
