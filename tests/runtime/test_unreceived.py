# mypy: disable-error-code="no-any-return"
"""What a fiber was given and never saw goes back: through every combinator, in order, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest

from holdfast.runtime import (
    Cancelled,
    FiberInterrupted,
    Future,
    Ok,
    Queue,
    Selected,
    Semaphore,
    TimedOut,
    all_settled,
    any_of,
    as_completed,
    gather,
    race,
    select,
    sleep,
    spawn,
    timeout,
    within,
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
            except FiberInterrupted:
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


def drained(queue: Queue[int]) -> list[int]:
    return [item for _, item in queue._items]  # pyright: ignore[reportPrivateUsage]


throwing = pytest.mark.parametrize("how", ["timeout", "interrupt", "cancel", "race", "select"])


async def throw_out(how: str, reading: Callable[[], Future[Any]]) -> None:
    """Wait for something that will not be complete, and be thrown out."""
    if how == "race":
        await race(reading(), sleep(5))
    elif how == "select":
        await select(reading=reading(), late=sleep(5))
    elif how == "timeout":
        with suppress(TimedOut):
            await within(5, reading())
    else:
        with suppress(FiberInterrupted, Cancelled):
            await reading()


def ended(how: str, reading: Callable[[], Future[Any]]) -> Hand:
    async def root() -> None:
        task = spawn(throw_out, how, reading)
        with suppress(Cancelled):
            await promise("go")
        if how == "interrupt":
            task.interrupt()
        await task
        await promise("rest")

    hand = Hand(root)
    if how == "cancel":
        hand.cancel()
    else:
        hand.resolve("go")
        hand.elapse(5)
    assert "rest" in hand.waiting
    return hand


@throwing
def test_a_gather_of_two_gets_that_found_one_item_gives_it_back(how: str) -> None:
    queue = Queue[int]()

    def reading() -> Future[Any]:
        queue.put(1)
        return gather(queue.get(), queue.get())

    with ended(how, reading):
        assert drained(queue) == [1]


@throwing
def test_a_gather_of_two_permits_that_found_one_gives_it_back(how: str) -> None:
    gate = Semaphore(1)
    with ended(how, lambda: gather(gate.acquire(), gate.acquire())):
        assert gate.free == 1


@throwing
def test_nested_gathers_give_back_what_was_there_when_they_were_made(how: str) -> None:
    queue = Queue[int]()

    def reading() -> Future[Any]:
        for item in (1, 2, 3):
            queue.put(item)
        return gather(gather(queue.get()), gather(queue.get(), queue.get()), queue.get())

    with ended(how, reading):
        assert drained(queue) == [1, 2, 3]


@throwing
def test_items_that_came_one_by_one_go_back_in_their_order(how: str) -> None:
    queue = Queue[int]()

    def reading() -> Future[Any]:
        waiting = gather(queue.get(), gather(queue.get(), queue.get()), queue.get())
        for item in (1, 2, 3):
            queue.put(item)
        return waiting

    with ended(how, reading):
        assert drained(queue) == [1, 2, 3]


@throwing
def test_what_goes_back_is_served_to_whoever_else_waits(how: str) -> None:
    queue, seen = Queue[int](), list[int]()

    async def bystander() -> None:
        while not seen:
            with suppress(FiberInterrupted, Cancelled):
                seen.append(await queue.get())

    def reading() -> Future[Any]:
        queue.put(1)
        waiting = gather(queue.get(), queue.get())
        spawn(bystander)
        return waiting

    with ended(how, reading):
        assert seen == [1]
        assert drained(queue) == []


def test_a_gather_that_fails_keeps_no_item() -> None:
    queue = Queue[int]()

    async def root() -> None:
        queue.put(1)
        await gather(queue.get(), promise("bad"))

    hand = Hand(root)
    hand.reject("bad", ValueError())
    assert drained(queue) == [1]


def test_the_losers_of_a_race_that_was_decided_at_once_keep_no_item() -> None:
    queue = Queue[int]()

    async def root() -> tuple[Any, ...]:
        for item in (1, 2, 3):
            queue.put(item)
        first = gather(queue.get(), queue.get())
        second = gather(queue.get(), queue.get())
        return await race(first, second)

    assert Hand(root).result() == (1, 2)
    assert drained(queue) == [3]


def test_a_loser_that_had_everything_gives_it_back_and_can_be_awaited_later() -> None:
    async def root() -> Any:
        queue = Queue[int]()
        for item in (1, 2):
            queue.put(item)
        first, second = gather(queue.get()), gather(queue.get())
        won = await race(first, second)
        left = len(queue)
        return won, left, await second

    assert Hand(root).result() == ((1,), 1, (2,))


def test_an_item_that_two_were_given_goes_back_when_both_are_interrupted() -> None:
    queue = Queue[int]()

    async def read(winner: Any) -> None:
        await winner

    async def root() -> None:
        winner = gather(queue.get())
        readers = [spawn(read, winner) for _ in range(2)]
        await promise("go")
        queue.put(1)
        for each in readers:
            each.interrupt()
        await promise("rest")

    hand = Hand(root)
    hand.resolve("go")
    assert drained(queue) == [1]


def test_an_item_for_the_only_reader_that_is_left_goes_back_when_it_is_interrupted() -> None:
    queue = Queue[int]()

    async def read(winner: Any) -> None:
        await winner

    async def root() -> None:
        winner = gather(queue.get())
        first, second = spawn(read, winner), spawn(read, winner)
        await promise("go")
        first.interrupt()
        queue.put(1)
        second.interrupt()
        await promise("rest")

    hand = Hand(root)
    hand.resolve("go")
    assert drained(queue) == [1]


def test_an_item_somebody_saw_meanwhile_does_not_go_back() -> None:
    queue = Queue[int]()

    async def read(winner: Any) -> None:
        await winner

    async def root() -> Any:
        winner = gather(queue.get())
        reader = spawn(read, winner)
        await promise("go")
        queue.put(1)
        seen = await winner
        reader.interrupt()
        await promise("rest")
        return seen

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("rest")
    assert hand.result() == (1,)
    assert drained(queue) == []


def test_deeply_nested_gathers_give_back_without_recursion() -> None:
    queue = Queue[int]()

    async def root() -> Any:
        queue.put(1)
        nested: Any = gather(queue.get(), promise("never"))
        for _ in range(3_000):
            nested = cast(Any, gather(nested))
        with suppress(TimedOut):
            await within(5, nested)
        left = len(queue)
        with suppress(TimedOut):
            await within(5, nested)
        return left, len(queue)

    hand = Hand(root)
    hand.elapse(10)
    assert hand.result() == (1, 1)


@pytest.mark.parametrize("seed", range(40))
def test_no_item_is_lost_by_random_readers(seed: int) -> None:
    """Readers combine gets and permits at random and are thrown out at random. What they saw, and what is
    left, is what was put in."""
    random = Random(seed)
    queue, gate, seen = Queue[int](), Semaphore(2), list[int]()

    def draw(depth: int) -> Any:
        kind = random.choice(
            ["get", "get", "permit", "timer"] + ["gather", "race", "settled", "select"] * depth
        )
        if kind == "get":
            return queue.get()
        if kind == "permit":
            return gate.acquire()
        if kind == "timer":
            return sleep(random.randint(1, 4))
        inputs = [draw(depth - 1) for _ in range(random.randint(1, 3))]
        if kind == "gather":
            return gather(inputs)
        if kind == "race":
            return race(inputs)
        if kind == "settled":
            return all_settled(inputs)
        return select({str(number): each for number, each in enumerate(inputs)})

    async def take(value: Any) -> None:
        """Account for the items in a value."""
        kind = cast(Any, type)(value)
        if kind is int:
            seen.append(value)
        elif kind is Selected:
            await take(await value.future)
        elif kind is Ok:
            await take(value.value)
        elif kind in (tuple, list):
            for each in value:
                await take(each)

    held: list[Any] = []

    async def read() -> None:
        for _ in range(3):
            with suppress(TimedOut, FiberInterrupted):
                async with timeout(random.randint(1, 3)):
                    value = await draw(2)
                held.append(value)
                await take(value)

    async def write() -> None:
        for item in range(1, 21):
            queue.put(item)
            await sleep(1)

    async def root() -> None:
        readers = [spawn(read) for _ in range(4)]
        spawn(write)
        for _ in range(30):
            await sleep(1)
            random.choice(readers).interrupt()
        for each in readers:
            await all_settled(each)
        await promise("rest")

    with Hand(root) as hand:
        hand.elapse(200)
        assert not hand.done or hand.scheduler.deadlock is None
        assert sorted(seen + drained(queue)) == list(range(1, 21))
