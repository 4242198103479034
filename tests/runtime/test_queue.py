# mypy: disable-error-code="no-any-return"
"""Queues: many values, each to one reader, in order; interrupted readers take nothing."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime import FiberInterrupted, NotInFiber, Queue, gather, race, spawn
from holdfast.runtime.testing import Hand, promise


def test_items_leave_in_the_order_they_came_in() -> None:
    async def root() -> list[int]:
        queue = Queue[int]()
        for number in range(4):
            queue.put(number)
        return [await queue.get() for _ in range(4)]

    assert Hand(root).result() == [0, 1, 2, 3]


def test_readers_are_served_in_the_order_they_began_to_wait() -> None:
    trace: list[str] = []

    async def reader(name: str, queue: Queue[int]) -> None:
        trace.append(f"{name}{await queue.get()}")

    async def root() -> None:
        queue = Queue[int]()
        readers = [spawn(reader, name, queue) for name in "abc"]
        await promise("go")
        for number in range(3):
            queue.put(number)
        await gather(readers)

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a0", "b1", "c2"]


def test_each_item_goes_to_one_reader() -> None:
    async def reader(queue: Queue[int], seen: list[int]) -> None:
        while True:
            seen.append(await queue.get())

    async def root() -> list[int]:
        queue, seen = Queue[int](), list[int]()
        for _ in range(3):
            spawn(reader, queue, seen)
        for number in range(10):
            queue.put(number)
        await promise("x")
        return seen

    hand = Hand(root)
    hand.resolve("x")
    assert hand.result() == list(range(10))


def test_a_get_that_is_not_awaited_takes_nothing() -> None:
    async def root() -> int:
        queue = Queue[int]()
        queue.put(1)
        queue.get()
        return len(queue)

    assert Hand(root).result() == 1


def test_an_awaited_get_keeps_its_item() -> None:
    async def root() -> list[int]:
        queue = Queue[int]()
        queue.put(1)
        queue.put(2)
        first = queue.get()
        return [await first, await first, await queue.get()]

    assert Hand(root).result() == [1, 1, 2]


def test_a_put_into_an_unbounded_queue_takes_effect_without_being_awaited() -> None:
    async def root() -> int:
        queue = Queue[int]()
        assert queue.put(1).settled
        return await queue.get()

    assert Hand(root).result() == 1


def test_a_full_queue_makes_writers_wait_in_line() -> None:
    trace: list[str] = []

    async def writer(name: str, queue: Queue[str]) -> None:
        await queue.put(name)
        trace.append(f"{name} in")

    async def root() -> list[str]:
        queue = Queue[str](size_max=1)
        for name in "abc":
            spawn(writer, name, queue)
        await promise("go")
        got = [await queue.get() for _ in range(3)]
        await promise("x")
        return got

    hand = Hand(root)
    assert trace == ["a in"]
    hand.resolve("go")
    hand.resolve("x")
    assert hand.result() == ["a", "b", "c"]
    assert trace == ["a in", "b in", "c in"]


def test_an_interrupted_reader_takes_nothing() -> None:
    async def reader(queue: Queue[int]) -> None:
        await queue.get()

    async def root() -> int:
        queue = Queue[int]()
        task = spawn(reader, queue)
        await promise("go")
        task.interrupt()
        queue.put(1)
        return await queue.get()

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 1


def test_an_item_given_to_a_reader_that_never_saw_it_goes_to_the_next() -> None:
    async def reader(queue: Queue[int], seen: list[int]) -> None:
        seen.append(await queue.get())

    async def root() -> list[int]:
        queue, seen = Queue[int](), list[int]()
        first = spawn(reader, queue, seen)
        second = spawn(reader, queue, seen)
        await promise("go")
        queue.put(1)
        queue.put(2)
        first.interrupt()
        await second
        return [*seen, await queue.get()]

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == [2, 1]


def test_an_interrupted_writer_leaves_the_line() -> None:
    async def writer(queue: Queue[str]) -> None:
        await queue.put("late")

    async def root() -> Any:
        queue = Queue[str](size_max=1)
        queue.put("first")
        task = spawn(writer, queue)
        await promise("go")
        task.interrupt()
        await promise("settle down")
        return await queue.get(), len(queue)

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("settle down")
    assert hand.result() == ("first", 0)


def test_the_loser_of_a_race_takes_no_item() -> None:
    async def root() -> int:
        queue = Queue[int]()
        await race(queue.get(), promise("stop"))
        queue.put(9)
        return await queue.get()

    hand = Hand(root)
    hand.resolve("stop")
    assert hand.result() == 9


def test_a_race_between_two_queues_takes_one_item() -> None:
    async def root() -> Any:
        left, right = Queue[str](), Queue[str]()
        left.put("l")
        right.put("r")
        winner = await race(left.get(), right.get())
        return winner, len(left), len(right)

    assert Hand(root).result() == ("l", 0, 1)


def test_a_get_that_lost_a_race_can_be_awaited_again() -> None:
    async def root() -> int:
        queue = Queue[int]()
        getting = queue.get()
        await race(getting, promise("stop"))
        queue.put(4)
        return await getting

    hand = Hand(root)
    hand.resolve("stop")
    assert hand.result() == 4


def test_a_get_shared_by_two_fibers_gives_both_the_same_item() -> None:
    async def reader(getting: Any) -> int:
        return await getting

    async def root() -> list[int]:
        queue = Queue[int]()
        getting = queue.get()
        both = gather([spawn(reader, getting), spawn(reader, getting)])
        await promise("go")
        queue.put(1)
        return await both

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == [1, 1]


def test_a_reader_that_recovers_can_read_again() -> None:
    async def reader(queue: Queue[int]) -> int:
        while True:
            try:
                return await queue.get()
            except FiberInterrupted:
                continue

    async def root() -> int:
        queue = Queue[int]()
        task = spawn(reader, queue)
        await promise("go")
        task.interrupt()
        queue.put(6)
        return await task

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 6


def test_a_queue_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Queue[int](size_max=0)


def test_putting_outside_a_fiber_is_refused() -> None:
    with pytest.raises(NotInFiber):
        Queue[int]().put(1)
