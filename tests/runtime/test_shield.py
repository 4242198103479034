# mypy: disable-error-code="no-any-return"
"""Shields: cancellations and interrupts wait until the shielded work is done."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    FiberInterrupted,
    Step,
    TimedOut,
    all_settled,
    gather,
    run,
    scope,
    shield,
    spawn,
    timeout,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, work


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
        except FiberInterrupted:
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


def step(hand: Hand, name: str) -> Step:
    found = hand.issued[name]
    assert isinstance(found, Step)
    return found


def commit() -> str:
    return "committed"


async def committing() -> Any:
    return await run(commit)


def committing_generator() -> Generator[Any, Any, Any]:
    return (yield from run(commit))


async def committing_in_a_task() -> Any:
    return await spawn(committing)


async def committing_in_a_scope() -> Any:
    async with scope() as tasks:
        task = tasks.spawn(committing)
    return await task


async def committing_in_a_timeout() -> Any:
    async with timeout(60):
        return await run(commit)


bodies = {
    "inline": committing,
    "in a generator": committing_generator,
    "in a task": committing_in_a_task,
    "in a scope": committing_in_a_scope,
    "in a timeout": committing_in_a_timeout,
    "in a shield": lambda: shield(committing()),
    "a step given": lambda: run(commit),
    "a gather given": lambda: gather(run(commit)),
    "a task given": lambda: spawn(committing),
    "a gather of bodies given": lambda: gather(committing()),
}


@pytest.mark.parametrize("body", bodies.values(), ids=bodies)
@pytest.mark.parametrize("how", ["cancel", "interrupt", "timeout"])
def test_steps_inside_a_shield_are_not_told_until_it_is_done(body: Any, how: str) -> None:
    trace: list[Any] = []

    async def shielded() -> None:
        trace.append(await shield(body()))
        await promise("after")

    async def child() -> None:
        if how == "timeout":
            async with timeout(5):
                await shielded()
        else:
            await shielded()

    async def root() -> Any:
        task = spawn(child)
        if how == "interrupt":
            await promise("go")
            task.interrupt()
        with suppress(Cancelled):
            return await all_settled(task)
        return await all_settled(task)

    hand = Hand(root)
    if how == "cancel":
        hand.cancel()
    elif how == "interrupt":
        hand.resolve("go")
    else:
        hand.elapse(5)
    assert not step(hand, "commit").signal.is_set
    assert trace == []
    hand.perform("commit")
    assert trace in (["committed"], [("committed",)])
    assert "after" not in hand.waiting


def test_a_step_that_was_started_outside_of_the_shield_is_told_at_once() -> None:
    async def root() -> None:
        outside = run(work)
        await shield(follow("a"))
        await outside

    hand = Hand(root)
    hand.cancel()
    assert step(hand, "work").signal.is_set


def test_a_step_that_outlives_its_shield_is_told_when_the_shield_is_left() -> None:
    async def start_and_leave() -> None:
        run(work)
        await promise("a")

    async def root() -> None:
        await shield(start_and_leave())
        await promise("b")

    hand = Hand(root)
    hand.cancel()
    assert not step(hand, "work").signal.is_set
    hand.resolve("a")
    assert isinstance(step(hand, "work").signal.reason, Cancelled)


def test_a_step_that_outlives_its_shield_is_told_of_a_later_cancellation() -> None:
    async def start_and_leave() -> None:
        run(work)

    async def root() -> None:
        await shield(start_and_leave())
        await promise("b")

    hand = Hand(root)
    assert not step(hand, "work").signal.is_set
    hand.cancel()
    assert step(hand, "work").signal.is_set


def test_an_interrupt_before_the_first_run_does_not_reach_into_a_shield() -> None:
    async def child() -> str:
        done = await shield(follow("a"))
        try:
            await promise("b")
        except FiberInterrupted:
            return f"{done}, then interrupted"
        return "missed"

    async def root() -> str:
        task = spawn(child)
        task.interrupt()
        return await task

    hand = Hand(root)
    hand.resolve("a", "done")
    assert hand.result() == "done, then interrupted"


def test_a_cancellation_held_by_a_shield_survives_a_timeout_that_expires_meanwhile() -> None:
    async def root() -> None:
        async with timeout(5):
            await shield(follow("a"))
            await promise("b")

    hand = Hand(root)
    hand.cancel()
    hand.elapse(5)
    hand.resolve("a")
    with pytest.raises(Cancelled):
        hand.result()


def test_a_cancellation_that_comes_after_the_expiry_is_not_lost_either() -> None:
    async def root() -> None:
        async with timeout(5):
            await shield(follow("a"))
            await promise("b")

    hand = Hand(root)
    hand.elapse(5)
    hand.cancel()
    hand.resolve("a")
    with pytest.raises(Cancelled):
        hand.result()


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_cancellation_held_by_a_shield_survives_a_failing_task_of_the_scope(cancel_first: bool) -> None:
    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(shield(follow("bad")))
            await shield(follow("a"))
            await promise("b")

    hand = Hand(root)
    if cancel_first:
        hand.cancel()
    hand.reject("bad", ValueError("bad"))
    if not cancel_first:
        hand.cancel()
    hand.resolve("a")
    with pytest.raises(Cancelled):
        hand.result()


def test_a_cancellation_held_by_a_shield_survives_an_interrupt() -> None:
    async def child() -> None:
        await shield(follow("a"))
        await promise("b")

    async def root() -> Any:
        task = spawn(child)
        with suppress(Cancelled):
            await promise("c")
        task.interrupt(ValueError("mine"))
        return await all_settled(task)

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a")
    [outcome] = hand.result()
    assert isinstance(outcome.error, Cancelled)


def test_an_expiry_of_a_block_inside_the_shield_does_not_lose_what_is_held() -> None:
    async def inner() -> None:
        with suppress(TimedOut):
            async with timeout(5):
                await promise("a")

    def root() -> Generator[Any, Any, None]:
        yield from shield(inner())
        yield from promise("b")

    hand = Hand(root)
    hand.cancel()
    hand.elapse(5)
    with pytest.raises(Cancelled):
        hand.result()


def test_an_expiry_beside_a_held_cancellation_is_raised_if_its_block_goes_on() -> None:
    trace: list[str] = []

    async def root() -> str:
        async with timeout(5):
            await shield(follow("a"))
            try:
                await promise("b")
            except Cancelled:
                trace.append("cancelled")
            await promise("c")
        return ""

    hand = Hand(root)
    hand.cancel()
    hand.elapse(5)
    hand.resolve("a")
    assert trace == ["cancelled"]
    with pytest.raises(TimedOut):
        hand.result()


def test_a_cleanup_in_a_second_shield_runs_before_what_the_first_one_held_is_raised() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            await shield(follow("a"))
        except ValueError:
            await shield(follow("rollback"))
            trace.append("rolled back")
        await promise("b")

    hand = Hand(root)
    hand.cancel()
    hand.reject("a", ValueError())
    hand.resolve("rollback")
    assert trace == ["rolled back"]
    with pytest.raises(Cancelled):
        hand.result()
