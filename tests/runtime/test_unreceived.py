# mypy: disable-error-code="no-any-return"
"""What a fiber was given and never saw goes back: through every combinator, in order, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.runtime import (
    Queue,
    Semaphore,
    TaskInterrupted,
    all_settled,
    any_of,
    as_completed,
    gather,
    race,
    select,
    spawn,
)
from holdfast.runtime.testing import Hand, promise

Reading = Callable[[Queue[int]], Awaitable[Any]]


async def in_a_loop(queue: Queue[int]) -> Any:
    return [await each for each in as_completed([queue.get(), promise("never")])]


async def selected(queue: Queue[int]) -> Any:
    return await (await select(item=queue.get(), never=promise("never"))).future


readings: dict[str, Reading] = {
    "race": lambda queue: race(queue.get(), promise("never")),
    "any_of": lambda queue: any_of(queue.get(), promise("never")),
    "gather": lambda queue: gather(queue.get()),
    "all_settled": lambda queue: all_settled([queue.get()]),
    "as_completed": in_a_loop,
    "select": selected,
    "a race in a race": lambda queue: race(race(queue.get(), promise("never")), promise("never too")),
    "a race in a select": lambda queue: select(item=race(queue.get(), promise("never"))),
}


@pytest.mark.parametrize("reading", readings.values(), ids=readings)
def test_an_item_for_a_reader_that_is_interrupted_before_it_runs_stays_in_the_queue(reading: Reading) -> None:
    async def read(queue: Queue[int]) -> None:
        await reading(queue)

    async def root() -> list[int]:
        queue = Queue[int]()
        task = spawn(read, queue)
        await promise("go")
        queue.put(1)
        queue.put(2)
        task.interrupt()
        await all_settled([task])
        return [await queue.get() for _ in range(len(queue))]

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == [1, 2]


def test_of_several_items_each_goes_back_to_its_place() -> None:
    async def read(queue: Queue[int]) -> None:
        await gather(queue.get(), queue.get(), promise("never"))

    async def root() -> list[int]:
        queue = Queue[int]()
        task = spawn(read, queue)
        await promise("go")
        for item in (1, 2, 3):
            queue.put(item)
        await promise("later")
        task.interrupt()
        await all_settled([task])
        return [await queue.get() for _ in range(len(queue))]

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("later")
    assert hand.result() == [1, 2, 3]


def test_what_a_loop_was_left_before_goes_back() -> None:
    async def root() -> tuple[int, int]:
        first, second = Queue[int](), Queue[int]()
        first.put(1)
        second.put(2)
        for each in as_completed([first.get(), second.get()]):
            await each
            break
        return len(first), len(second)

    assert Hand(root).result() == (0, 1)


def test_a_permit_won_in_a_race_that_nobody_saw_is_free_again() -> None:
    async def hold(semaphore: Semaphore) -> None:
        await race(semaphore.acquire(), promise("never"))

    async def root() -> int:
        semaphore = Semaphore(1)
        await semaphore.acquire()
        task = spawn(hold, semaphore)
        await promise("go")
        semaphore.release()
        task.interrupt()
        await all_settled([task])
        return semaphore.free

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 1


@pytest.mark.parametrize("in_loop", [False, True])
def test_who_recovers_and_awaits_the_same_again_gets_the_item_once(in_loop: bool) -> None:
    async def read(queue: Queue[int]) -> int:
        loop = as_completed([queue.get()]) if in_loop else iter([race(queue.get())])
        reading = next(loop)
        while True:
            try:
                return await reading
            except TaskInterrupted:
                continue

    async def root() -> tuple[int, int]:
        queue = Queue[int]()
        task = spawn(read, queue)
        await promise("go")
        queue.put(1)
        task.interrupt()
        return await task, len(queue)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == (1, 0)


@pytest.mark.parametrize("in_race", [False, True])
def test_an_item_two_fibers_were_given_is_not_given_back_when_one_is_interrupted(in_race: bool) -> None:
    async def read(winner: Any, seen: list[int]) -> None:
        seen.append(await winner)

    async def root() -> Any:
        queue, seen = Queue[int](), list[int]()
        winner = race(queue.get(), promise("never")) if in_race else queue.get()
        first = spawn(read, winner, seen)
        spawn(read, winner, seen)
        await promise("go")
        queue.put(1)
        first.interrupt()
        await promise("x")
        return seen, len(queue)

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("x")
    assert hand.result() == ([1], 0)
