"""Semaphores: so many at a time, in line, and no permit is ever lost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.runtime import NotInFiber, Semaphore, gather, race, spawn
from holdfast.runtime.testing import Hand, promise


def test_no_more_than_the_permits_are_inside_at_once() -> None:
    inside: list[int] = []
    most: list[int] = []

    async def worker(number: int, gate: Semaphore) -> None:
        async with gate:
            inside.append(number)
            most.append(len(inside))
            await promise(f"work {number}")
            inside.remove(number)

    async def root() -> None:
        gate = Semaphore(2)
        await gather([worker(number, gate) for number in range(5)])

    hand = Hand(root)
    for number in range(5):
        hand.resolve(f"work {number}")
    assert hand.done
    assert max(most) == 2


def test_permits_go_to_those_who_waited_longest() -> None:
    trace: list[str] = []

    async def worker(name: str, gate: Semaphore) -> None:
        async with gate:
            trace.append(name)
            await promise(name)

    async def root() -> None:
        gate = Semaphore(1)
        await gather([worker(name, gate) for name in "abcd"])

    hand = Hand(root)
    for name in "abcd":
        hand.resolve(name)
    assert trace == ["a", "b", "c", "d"]


def test_a_free_permit_is_taken_without_parking() -> None:
    trace: list[str] = []

    async def bystander() -> None:
        trace.append("bystander")

    async def root() -> None:
        spawn(bystander)
        async with Semaphore(1):
            trace.append("inside")
        await promise("x")

    Hand(root)
    assert trace == ["inside", "bystander"]


def test_an_acquire_that_is_not_awaited_takes_no_permit() -> None:
    async def root() -> int:
        gate = Semaphore(1)
        gate.acquire()
        return gate.free

    assert Hand(root).result() == 1


def test_a_generator_acquires_and_releases() -> None:
    def root() -> Generator[Any, Any, list[int]]:
        gate = Semaphore(1)
        yield from gate.acquire()
        seen = [gate.free]
        gate.release()
        return [*seen, gate.free]

    assert Hand(root).result() == [0, 1]


def test_an_interrupted_waiter_does_not_hold_up_the_line() -> None:
    async def worker(gate: Semaphore) -> str:
        async with gate:
            return "inside"

    async def root() -> str:
        gate = Semaphore(1)
        await gate.acquire()
        first, second = spawn(worker, gate), spawn(worker, gate)
        await promise("go")
        first.interrupt()
        gate.release()
        return await second

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "inside"


def test_a_permit_granted_to_a_fiber_that_never_saw_it_is_not_lost() -> None:
    async def worker(gate: Semaphore) -> None:
        async with gate:
            pass

    async def root() -> int:
        gate = Semaphore(1)
        await gate.acquire()
        task = spawn(worker, gate)
        await promise("go")
        gate.release()
        task.interrupt()
        await gate.acquire()
        return gate.free

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 0


def test_the_loser_of_a_race_takes_no_permit() -> None:
    async def root() -> int:
        gate = Semaphore(1)
        await gate.acquire()
        await race(gate.acquire(), promise("stop"))
        gate.release()
        return gate.free

    hand = Hand(root)
    hand.resolve("stop")
    assert hand.result() == 1


def test_a_permit_is_released_when_the_block_fails() -> None:
    async def root() -> int:
        gate = Semaphore(1)
        try:
            async with gate:
                raise ValueError
        except ValueError:
            return gate.free

    assert Hand(root).result() == 1


def test_releasing_too_often_is_refused() -> None:
    async def root() -> None:
        Semaphore(1).release()

    with pytest.raises(RuntimeError, match="more often"):
        Hand(root).result()


def test_a_semaphore_without_permits_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Semaphore(0)


def test_releasing_outside_a_fiber_is_refused() -> None:
    with pytest.raises(NotInFiber):
        Semaphore(1).release()
