# mypy: disable-error-code="no-any-return"
"""Cancellation: abort the signal, replace it, throw a fresh Cancelled into every fiber, drain. Not sticky."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    Channel,
    Fiber,
    Queue,
    Semaphore,
    Step,
    gather,
    run,
    select,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import work


def step(hand: Hand, name: str) -> Step:
    found = hand.issued[name]
    assert isinstance(found, Step)
    return found


def test_an_uncaught_cancellation_is_the_outcome_of_the_root() -> None:
    async def root() -> None:
        await promise("a")

    hand = Hand(root)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_cancelled_is_an_ordinary_exception_so_that_compensation_runs() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            await promise("a")
        except Exception:
            await promise("compensation")
            trace.append("compensated")
            raise

    hand = Hand(root)
    hand.cancel()
    hand.resolve("compensation")
    assert trace == ["compensated"]
    assert issubclass(Cancelled, Exception)


def test_the_cause_is_what_the_canceller_said() -> None:
    reason = RuntimeError("the user asked for it")

    async def root() -> BaseException | None:
        try:
            await promise("a")
        except Cancelled as error:
            return error.__cause__
        return None

    hand = Hand(root)
    hand.cancel(reason)
    assert hand.result() is reason


def test_every_fiber_gets_its_own_instance() -> None:
    seen: list[BaseException] = []

    async def child(name: str) -> None:
        try:
            await promise(name)
        except Cancelled as error:
            seen.append(error)

    async def root() -> None:
        try:
            await gather([child(name) for name in "abc"])
        except Cancelled as error:
            seen.append(error)
            await promise("x")

    Hand(root).cancel()
    assert len({id(error) for error in seen}) == 4


def test_fibers_learn_of_it_in_spawn_order() -> None:
    trace: list[str] = []

    async def child(name: str) -> None:
        try:
            await promise(name)
        except Cancelled:
            trace.append(name)

    async def root() -> None:
        for name in "abc":
            spawn(child, name)
        try:
            await promise("x")
        except Cancelled:
            trace.append("root")
            await promise("y")

    Hand(root).cancel()
    assert trace == ["root", "a", "b", "c"]


@pytest.mark.parametrize("kind", ["task", "channel", "queue", "semaphore", "select", "gather"])
def test_a_fiber_that_waits_for_something_local_is_reached_too(kind: str) -> None:
    async def forever() -> None:
        while True:
            try:
                await promise("a")
            except Cancelled:
                continue

    async def root() -> str:
        task = spawn(forever)
        try:
            if kind == "task":
                await task
            elif kind == "channel":
                await Channel[int]().receive
            elif kind == "queue":
                await Queue[int]().get()
            elif kind == "semaphore":
                gate = Semaphore(1)
                await gate.acquire()
                await gate.acquire()
            elif kind == "select":
                await select(task=task)
            else:
                await gather(task)
        except Cancelled:
            return "told"
        return "missed"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "told"


def test_it_is_not_sticky() -> None:
    async def root() -> str:
        with suppress(Cancelled):
            await promise("a")
        return await promise("b")

    hand = Hand(root)
    hand.cancel()
    assert hand.waiting == ("b",)
    hand.resolve("b", "normal")
    assert hand.result() == "normal"


def test_the_promise_that_was_waited_for_is_not_poisoned() -> None:
    async def root() -> str:
        future = promise("a")
        with suppress(Cancelled):
            await future
        return await future

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a", "still good")
    assert hand.result() == "still good"


def test_each_cancellation_is_an_event_of_its_own() -> None:
    async def root() -> int:
        count = 0
        while count < 3:
            try:
                await promise("a")
            except Cancelled:
                count += 1
        return count

    hand = Hand(root)
    for _ in range(3):
        hand.cancel()
    assert hand.result() == 3


def test_a_second_cancellation_can_hit_cleanup() -> None:
    async def root() -> None:
        try:
            await promise("a")
        except Cancelled:
            await promise("cleanup")

    hand = Hand(root)
    hand.cancel()
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_a_child_that_does_not_catch_it_fails_for_whoever_awaits_it() -> None:
    async def child() -> None:
        await promise("a")

    async def root() -> str:
        task = spawn(child)
        with suppress(Cancelled):
            await promise("b")
        try:
            await task
        except Cancelled:
            return "child was cancelled"
        return "missed"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "child was cancelled"


def test_a_child_that_swallows_it_does_not_hide_it_from_its_parent() -> None:
    async def child() -> str:
        try:
            await promise("a")
        except Cancelled:
            return "swallowed"
        return "value"

    async def root() -> str:
        try:
            return await spawn(child)
        except Cancelled:
            return "parent knows"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "parent knows"


def test_an_uncaught_cancellation_of_a_child_is_no_failure_to_report() -> None:
    async def child() -> None:
        await promise("a")

    async def root() -> None:
        spawn(child)
        try:
            await promise("b")
        except Cancelled:
            await promise("c")

    hand = Hand(root)
    hand.cancel()
    hand.resolve("c")
    hand.close()
    assert hand.reports == []


def test_a_root_that_returns_first_leaves_the_others_unrun() -> None:
    trace: list[str] = []

    async def child() -> None:
        try:
            await promise("a")
        except Cancelled:
            trace.append("child handler")

    async def root() -> str:
        spawn(child)
        try:
            await promise("b")
        except Cancelled:
            return "returned"
        return "missed"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "returned"
    hand.close()
    assert trace == []


def test_the_signal_is_set_before_any_fiber_learns_of_it() -> None:
    seen: list[bool] = []

    async def root() -> None:
        try:
            await run(work)
        except Cancelled:
            seen.append(hand.scheduler.attempt.is_set)
            seen.append(step(hand, "work").signal.is_set)

    hand = Hand(root)
    assert not step(hand, "work").signal.is_set
    hand.cancel()
    assert seen == [False, True]


def test_the_reason_of_the_signal_is_the_cancellation_with_its_cause() -> None:
    async def root() -> None:
        await run(work)

    hand = Hand(root)
    signal = step(hand, "work").signal
    cause = RuntimeError("why")
    hand.cancel(cause)
    assert isinstance(signal.reason, Cancelled)
    assert signal.reason.__cause__ is cause


def test_cleanup_steps_get_a_fresh_signal() -> None:
    async def root() -> None:
        try:
            await run(work)
        except Cancelled:
            await run(work)

    hand = Hand(root)
    old = step(hand, "work").signal
    hand.cancel()
    assert old.is_set
    assert not step(hand, "work/2").signal.is_set


def test_a_later_cancellation_sets_the_fresh_signal() -> None:
    async def root() -> None:
        for _ in range(3):
            try:
                await run(work)
            except Cancelled:
                continue

    hand = Hand(root)
    signals = [step(hand, "work").signal]
    hand.cancel()
    signals.append(step(hand, "work/2").signal)
    hand.cancel()
    assert [signal.is_set for signal in signals] == [True, True]


def test_closing_sets_every_signal_for_good() -> None:
    async def root() -> None:
        await run(work)

    hand = Hand(root)
    before = step(hand, "work").signal
    hand.close()
    assert before.is_set
    assert hand.scheduler.signal.child().is_set


def test_cancelling_a_done_execution_changes_nothing() -> None:
    async def root() -> str:
        return "done"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "done"


def test_cancelling_a_closed_execution_is_refused() -> None:
    async def root() -> None:
        await promise("a")

    hand = Hand(root)
    hand.close()
    with pytest.raises(RuntimeError, match="closed"):
        hand.cancel()


def test_a_cancelled_wait_wakes_its_fiber_once() -> None:
    trace: list[str] = []

    async def root() -> None:
        future = promise("a")
        try:
            await future
        except Cancelled:
            trace.append("cancelled")
        trace.append(await promise("b"))

    hand = Hand(root)
    hand.cancel()
    hand.resolve("a", "stale")
    assert trace == ["cancelled"]
    hand.resolve("b", "b")
    assert trace == ["cancelled", "b"]


def test_a_fiber_cannot_make_the_drivers_calls() -> None:
    async def root() -> str:
        for call in (hand_of[0].cancel, hand_of[0].close):
            try:
                call()
            except RuntimeError as error:
                told.append("for the driver" in str(error))
        return "survived"

    async def outer() -> str:
        await promise("start")
        return await root()

    told: list[bool] = []
    hand_of: list[Hand] = []
    hand = Hand(outer)
    hand_of.append(hand)
    hand.resolve("start")
    assert hand.result() == "survived"
    assert told == [True, True]


def test_all_fibers_see_the_cancellation_before_any_consequence_of_it() -> None:
    trace: list[str] = []

    async def child(name: str, other: list[Fiber[None]]) -> None:
        try:
            await promise(name)
        except Cancelled:
            trace.append(f"{name} cancelled")
        await promise(f"{name} after")

    async def root() -> None:
        tasks: list[Fiber[None]] = []
        tasks.extend(spawn(child, name, tasks) for name in "ab")
        try:
            await gather(tasks)
        except Cancelled:
            trace.append("root cancelled")
            spawn(child, "late", tasks)
            await promise("x")

    hand = Hand(root)
    hand.cancel()
    assert trace == ["root cancelled", "a cancelled", "b cancelled"]
    assert "late" in hand.issued


def test_a_step_that_ignores_its_signal_may_still_complete() -> None:
    async def root() -> Any:
        future = run(work)
        try:
            await future
        except Cancelled:
            return await future

    hand = Hand(root)
    hand.cancel()
    hand.resolve("work", "finished anyway")
    assert hand.result() == "finished anyway"
