# mypy: disable-error-code="no-any-return"
"""Timeouts: a durable timer throws the fiber out of a block."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    FiberInterrupted,
    Signal,
    Step,
    TimedOut,
    gather,
    race,
    run,
    sleep,
    spawn,
    timeout,
    within,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, work
from tests.runtime.inside import waiters


def test_a_block_that_ends_in_time_is_untouched() -> None:
    async def root() -> str:
        async with timeout(5) as limit:
            await promise("a")
        return f"ended, expired={limit.expired}"

    hand = Hand(root)
    hand.elapse(4)
    hand.resolve("a")
    assert hand.result() == "ended, expired=False"


def test_a_block_that_takes_too_long_raises_timed_out() -> None:
    async def root() -> None:
        async with timeout(5):
            await promise("a")

    hand = Hand(root)
    hand.elapse(4.9)
    assert not hand.done
    hand.elapse(0.1)
    with pytest.raises(TimedOut, match="5 seconds"):
        hand.result()


def test_timed_out_is_a_builtin_timeout_error() -> None:
    assert issubclass(TimedOut, TimeoutError)


def test_cleanup_inside_the_block_may_do_durable_work() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with timeout(5):
            try:
                await promise("a")
            except FiberInterrupted:
                await promise("cleanup")
                trace.append("cleaned")
                raise

    hand = Hand(root)
    hand.elapse(5)
    hand.resolve("cleanup")
    assert trace == ["cleaned"]
    with pytest.raises(TimedOut):
        hand.result()


def test_a_body_that_handles_the_expiry_has_handled_it() -> None:
    async def root() -> str:
        async with timeout(5) as limit:
            try:
                await promise("a")
            except FiberInterrupted:
                return f"handled, expired={limit.expired}"
        return "ended"

    hand = Hand(root)
    hand.elapse(5)
    assert hand.result() == "handled, expired=True"


def test_once_the_block_is_left_the_timer_is_not_waited_for() -> None:
    async def root() -> None:
        async with timeout(5):
            await promise("a")
        await promise("b")

    hand = Hand(root)
    hand.resolve("a")
    assert hand.waiting == ("b",)
    hand.elapse(10)
    assert not hand.done
    hand.resolve("b")
    assert hand.result() is None


def test_the_inner_of_two_timeouts_expires_first() -> None:
    async def root() -> str:
        async with timeout(10):
            try:
                async with timeout(5):
                    await promise("a")
            except TimedOut:
                await promise("b")
                return "inner"
        return "ended"

    hand = Hand(root)
    hand.elapse(5)
    hand.resolve("b")
    assert hand.result() == "inner"


def test_the_outer_of_two_timeouts_passes_through_the_inner() -> None:
    async def root() -> str:
        try:
            async with timeout(5):
                try:
                    async with timeout(10):
                        await promise("a")
                except TimedOut:
                    return "inner"
        except TimedOut:
            return "outer"
        return "ended"

    hand = Hand(root)
    hand.elapse(20)
    assert hand.result() == "outer"


def test_tasks_spawned_in_the_block_are_not_interrupted() -> None:
    async def child() -> str:
        await promise("a")
        return "child ended"

    async def root() -> str:
        task = spawn(child)
        try:
            async with timeout(5):
                await task
        except TimedOut:
            return await task
        return "too early"

    hand = Hand(root)
    hand.elapse(5)
    hand.resolve("a")
    assert hand.result() == "child ended"


def test_a_timeout_reaches_a_wait_on_a_combinator() -> None:
    async def root() -> None:
        async with timeout(5):
            await gather(promise("a"), race(promise("b"), promise("c")))

    hand = Hand(root)
    hand.elapse(5)
    with pytest.raises(TimedOut):
        hand.result()


def test_an_interrupt_of_the_fiber_is_not_mistaken_for_the_expiry() -> None:
    async def child() -> None:
        async with timeout(5):
            await promise("a")

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        try:
            await task
        except FiberInterrupted:
            return "interrupted"
        return "ended"

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "interrupted"


def test_within_gives_the_value_in_time() -> None:
    async def work() -> int:
        return await promise("a")

    def root() -> Generator[Any, Any, int]:
        return (yield from within(5, work()))

    hand = Hand(root)
    hand.resolve("a", 3)
    assert hand.result() == 3


def test_within_raises_timed_out_in_a_generator() -> None:
    def root() -> Generator[Any, Any, str]:
        try:
            yield from within(5, sleep(60))
        except TimedOut:
            return "timed out"
        return "slept"

    hand = Hand(root)
    hand.elapse(5)
    assert hand.result() == "timed out"


def test_a_timeout_is_used_once() -> None:
    async def root() -> None:
        once = timeout(5)
        async with once:
            pass
        async with once:
            pass

    with pytest.raises(RuntimeError, match="used once"):
        Hand(root).result()


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_time_that_makes_no_sense_is_refused(seconds: float) -> None:
    async def root() -> None:
        async with timeout(seconds):
            pass

    with pytest.raises(ValueError, match="Cannot sleep"):
        Hand(root).result()


def test_a_loop_of_timeouts_leaves_no_waiters() -> None:
    async def root() -> None:
        shared = promise("never")
        for _ in range(100):
            try:
                async with timeout(1):
                    await race(shared, promise("also never"))
            except TimedOut:
                continue
        assert waiters(shared) == 0
        await promise("x")

    hand = Hand(root)
    hand.elapse(100)
    assert hand.waiting == ("x",)


def test_the_timer_of_an_open_timeout_is_waited_for() -> None:
    async def work() -> None:
        async with timeout(5):
            await promise("never")

    with Hand(work) as hand:
        assert hand.waiting == ("never", "timer")


def test_a_timeout_can_end_a_wait_that_nothing_else_could() -> None:
    async def work() -> str:
        try:
            async with timeout(5):
                await Channel[int]("empty").receive
        except TimedOut:
            return "timed out"
        return ""

    with Hand(work) as hand:
        assert hand.waiting == ("timer",)
        hand.elapse(5)
        assert hand.result() == "timed out"


def test_timed_out_says_which_wait_expired() -> None:
    async def root() -> None:
        async with timeout(5):
            await promise("quick")
            await promise("slow")

    hand = Hand(root)
    hand.resolve("quick")
    hand.elapse(5)
    with pytest.raises(TimedOut, match=r"5 seconds: it waited for .* slow \(promise slow\)\. \[HF5103\]$"):
        hand.result()


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (lambda: spawn(follow, "a"), "fiber follow#2"),
        (lambda: gather(promise("a"), promise("b")), "all of 2, still open: durable promise a"),
        (lambda: Channel[int]("mail").receive, "channel mail"),
    ],
)
def test_timed_out_of_within_names_a_wait_of_any_kind(wait: Any, words: str) -> None:
    def root() -> Generator[Any, Any, None]:
        yield from within(5, wait())

    hand = Hand(root)
    hand.elapse(5)
    with pytest.raises(TimedOut, match=words):
        hand.result()


def test_an_outer_timeout_names_the_wait_inside_the_inner_one() -> None:
    async def root() -> None:
        async with timeout(5), timeout(10):
            await promise("a")

    hand = Hand(root)
    hand.elapse(5)
    with pytest.raises(TimedOut, match="5 seconds: it waited for durable promise a"):
        hand.result()


def signal(hand: Hand, name: str) -> Signal:
    step = hand.issued[name]
    assert isinstance(step, Step)
    return step.signal


def test_steps_started_inside_the_block_are_told_when_it_expires() -> None:
    async def root() -> str:
        before = run(work)
        try:
            async with timeout(5):
                await run(work)
        except TimedOut:
            await run(work)
        await before
        return "done"

    hand = Hand(root)
    hand.elapse(5)
    assert [signal(hand, name).is_set for name in ("work", "work/2", "work/3")] == [False, True, False]


def test_cleanup_inside_the_block_gets_a_fresh_signal() -> None:
    async def root() -> None:
        async with timeout(5):
            try:
                await run(work)
            except FiberInterrupted:
                await run(work)

    hand = Hand(root)
    hand.elapse(5)
    assert signal(hand, "work").is_set
    assert not signal(hand, "work/2").is_set


def test_a_step_that_outlives_its_block_is_told_with_its_fiber() -> None:
    async def root() -> None:
        async with timeout(5):
            run(work)
        await promise("a")

    hand = Hand(root)
    hand.elapse(5)
    assert not signal(hand, "work").is_set, "the block was left in time"
    hand.cancel()
    assert signal(hand, "work").is_set
