# mypy: disable-error-code="no-any-return"
"""Shields: cancellations and interrupts wait until the shielded work is done."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.runtime import Cancelled, TaskInterrupted, TimedOut, shield, spawn, timeout
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow


def test_a_cancellation_waits_until_the_shielded_work_is_done() -> None:
    trace: list[str] = []

    async def root() -> None:
        trace.append(await shield(follow("a")))
        await promise("b")

    hand = Hand(root)
    hand.cancel()
    assert not hand.done
    hand.resolve("a", "kept its value")
    assert trace == ["kept its value"]
    with pytest.raises(Cancelled):
        hand.result()


def test_a_second_cancellation_cannot_hit_shielded_cleanup() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            await promise("work")
        except Cancelled:
            await shield(follow("refund"))
            trace.append("refunded")
            raise

    hand = Hand(root)
    hand.cancel()
    hand.cancel()
    hand.resolve("refund")
    assert trace == ["refunded"]
    with pytest.raises(Cancelled):
        hand.result()


def test_an_interrupt_waits_too_and_the_last_one_wins() -> None:
    async def child() -> str:
        await shield(follow("a"))
        try:
            await promise("b")
        except RuntimeError as error:
            return str(error)
        return "missed"

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt(RuntimeError("first"))
        task.interrupt(RuntimeError("second"))
        return await task

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("a")
    assert hand.result() == "second"


def test_what_was_held_is_moot_when_the_fiber_returns_first() -> None:
    async def root() -> str:
        return await shield(follow("a"))

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a", "value")
    assert hand.result() == "value"


def test_shields_nest_and_the_outermost_counts() -> None:
    trace: list[str] = []

    async def inner() -> None:
        await shield(follow("a"))
        await promise("b")
        trace.append("still shielded")

    async def root() -> None:
        await shield(inner())
        await promise("c")

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a")
    hand.resolve("b")
    assert trace == ["still shielded"]
    with pytest.raises(Cancelled):
        hand.result()


def test_fibers_spawned_inside_a_shield_are_inside_it() -> None:
    async def work() -> Any:
        return await spawn(follow, "a")

    async def root() -> Any:
        return await shield(work())

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a", 1)
    assert hand.result() == 1


def test_an_interrupt_of_an_ancestor_does_not_reach_into_a_shield() -> None:
    async def work() -> Any:
        return await spawn(follow, "a")

    async def owner() -> Any:
        return await shield(work())

    async def root() -> Any:
        task = spawn(owner)
        await promise("go")
        task.interrupt()
        return await task

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("a", 1)
    assert hand.result() == 1


def test_a_task_inside_a_shield_can_still_be_interrupted_directly() -> None:
    async def work() -> str:
        task = spawn(follow, "a")
        await promise("go")
        task.interrupt()
        try:
            await task
        except TaskInterrupted:
            return "interrupted"
        return "missed"

    async def root() -> Any:
        return await shield(work())

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "interrupted"


def test_a_timeout_inside_a_shield_works() -> None:
    async def work() -> str:
        try:
            async with timeout(5):
                await promise("a")
        except TimedOut:
            return "timed out"
        return "ended"

    async def root() -> Any:
        return await shield(work())

    hand = Hand(root)
    hand.elapse(5)
    assert hand.result() == "timed out"


def test_a_timeout_around_a_shield_waits_for_it() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with timeout(5):
            await shield(follow("a"))
            trace.append("shielded work done")
            await promise("b")

    hand = Hand(root)
    hand.elapse(5)
    assert not hand.done
    hand.resolve("a")
    assert trace == ["shielded work done"]
    with pytest.raises(TimedOut):
        hand.result()


def test_an_expiry_held_past_the_end_of_its_block_is_dropped() -> None:
    async def root() -> str:
        async with timeout(5):
            await shield(follow("a"))
        return await promise("b")

    hand = Hand(root)
    hand.elapse(5)
    hand.resolve("a")
    hand.resolve("b", "undisturbed")
    assert hand.result() == "undisturbed"


def test_an_error_of_the_shielded_work_comes_out() -> None:
    async def root() -> None:
        await shield(follow("a"))

    hand = Hand(root)
    hand.reject("a", ValueError("a"))
    with pytest.raises(ValueError, match="a"):
        hand.result()


def test_a_future_can_be_shielded() -> None:
    def root() -> Generator[Any, Any, Any]:
        return (yield from shield(promise("a")))

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a", 2)
    assert hand.result() == 2


def test_taking_the_execution_down_is_not_stopped_by_a_shield() -> None:
    trace: list[str] = []

    async def work() -> None:
        try:
            await promise("a")
        finally:
            trace.append("unwound")

    async def root() -> None:
        await shield(work())

    Hand(root).close()
    assert trace == ["unwound"]
