"""Steps and timers: named, with a signal of their own, performed outside the fibers."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from holdfast.runtime import NotInFiber, Signal, Step, Timer, gather, named, run, sleep, spawn, step_signal
from holdfast.runtime.testing import Hand


def double(number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


def step_of(hand: Hand, name: str) -> Step:
    step = hand.issued[name]
    assert isinstance(step, Step)
    return step


def test_a_step_is_performed_and_its_result_awaited() -> None:
    async def root() -> int:
        return await run(double, 4, plus=1)

    hand = Hand(root)
    hand.perform("double")
    assert hand.result() == 9


def test_a_step_is_under_way_before_it_is_awaited() -> None:
    async def root() -> int:
        future = run(double, 1)
        assert list(hand_of[0].issued) == ["double"]
        return await future

    hand_of: list[Hand] = []

    class Eager(Hand):
        def issue(self, operation: object, /) -> str:
            if not hand_of:
                hand_of.append(self)
            return super().issue(operation)

    hand = Eager(root)
    hand.perform("double")
    assert hand.result() == 2


def test_a_step_that_raises_raises_at_the_wait() -> None:
    def fails() -> None:
        raise ValueError("inside")

    async def root() -> str:
        try:
            await run(fails)
        except ValueError as error:
            return str(error)
        return ""

    hand = Hand(root)
    hand.perform("fails")
    assert hand.result() == "inside"


def test_an_async_step_is_performed_too() -> None:
    async def fetch(number: int) -> int:
        return number + 1

    async def root() -> int:
        return await run(fetch, 1)

    hand = Hand(root)
    hand.perform("fetch")
    assert hand.result() == 2


def test_a_step_is_recorded_under_the_name_of_its_function() -> None:
    async def root() -> None:
        await gather(run(double, 1), run(named("triple", lambda: 3)))

    hand = Hand(root)
    assert [step_of(hand, name).name for name in ("double", "triple")] == ["double", "triple"]


@pytest.mark.parametrize("function", [lambda: 1, partial(double, 1)])
def test_an_anonymous_step_is_refused_at_the_call(function: Any) -> None:
    async def root() -> str:
        try:
            run(function)
        except TypeError as error:
            return str(error)
        return "accepted"

    hand = Hand(root)
    assert "has no name" in hand.result()
    assert hand.issued == {}


def test_a_step_reads_its_signal() -> None:
    seen: list[Signal] = []

    def watchful() -> None:
        seen.append(step_signal())

    async def root() -> None:
        await run(watchful)

    hand = Hand(root)
    hand.perform("watchful")
    assert seen == [step_of(hand, "watchful").signal]


def test_an_async_step_reads_its_signal() -> None:
    async def watchful() -> bool:
        return step_signal().is_set

    async def root() -> bool:
        return await run(watchful)

    hand = Hand(root)
    step_of(hand, "watchful").call_off(ValueError())
    hand.perform("watchful")
    assert hand.result() is True


def test_two_steps_of_one_fiber_have_signals_of_their_own() -> None:
    async def root() -> None:
        await gather(run(double, 1), run(double, 2))

    hand = Hand(root)
    first, second = step_of(hand, "double"), step_of(hand, "double/2")
    first.call_off(ValueError())
    assert (first.signal.is_set, second.signal.is_set) == (True, False)


def test_a_signal_asked_for_after_a_cancellation_is_already_set() -> None:
    async def root() -> None:
        await run(double, 1)

    hand = Hand(root)
    hand.cancel()
    assert step_of(hand, "double").signal.is_set


def test_step_signal_outside_a_step_says_so() -> None:
    with pytest.raises(NotInFiber, match="for step functions"):
        step_signal()


def test_step_signal_inside_a_fiber_says_so() -> None:
    async def root() -> None:
        step_signal()

    with pytest.raises(NotInFiber, match="for step functions"):
        Hand(root).result()


def test_a_step_sees_the_context_variables_of_its_fiber() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    def reads() -> str:
        return variable.get()

    async def child(name: str) -> str:
        variable.set(name)
        return await run(reads)

    async def root() -> list[str]:
        return await gather([child("a"), child("b")])

    hand = Hand(root)
    hand.perform("reads")
    hand.perform("reads/2")
    assert hand.result() == ["a", "b"]
    assert variable.get() == "none"


def test_what_a_step_sets_does_not_leak_into_its_fiber() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="clean")

    def sets() -> None:
        variable.set("dirty")

    async def root() -> str:
        await run(sets)
        return variable.get()

    hand = Hand(root)
    hand.perform("sets")
    assert hand.result() == "clean"


def test_a_timer_settles_after_its_time() -> None:
    async def root() -> str:
        await sleep(2.5)
        return "woke"

    hand = Hand(root)
    timer = hand.issued["timer"]
    assert isinstance(timer, Timer)
    assert timer.seconds == 2.5
    hand.elapse(2.4)
    assert not hand.done
    hand.elapse(0.1)
    assert hand.result() == "woke"


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf")])
def test_a_time_that_makes_no_sense_is_refused_at_the_call(seconds: float) -> None:
    async def root() -> None:
        sleep(seconds)

    hand = Hand(root)
    with pytest.raises(ValueError, match="Cannot sleep"):
        hand.result()
    assert hand.issued == {}


def test_steps_of_different_fibers_are_issued_in_the_order_of_their_calls() -> None:
    async def child(name: str) -> None:
        await run(named(f"{name}1", lambda: None))
        await run(named(f"{name}2", lambda: None))

    async def root() -> None:
        await gather(spawn(child, "a"), spawn(child, "b"))

    hand = Hand(root)
    hand.resolve("b1")
    hand.resolve("a1")
    assert list(hand.issued) == ["a1", "b1", "b2", "a2"]
