# mypy: disable-error-code="no-any-return"
"""The verified defects of the runtime ours is modelled on (reference/runtime.md 1.17), one test each.

Number 12 (interrupted steps recorded as cancelled) is the part of it that lies in this package: the signal's
reason tells the two apart. Number 13 (documents that drift) is test_docs.py.
"""

from __future__ import annotations

import asyncio
from time import process_time
from typing import Any, cast

import pytest

from holdfast.runtime import (
    Cancelled,
    Channel,
    Deadlock,
    FiberInterrupted,
    ForeignAwait,
    Future,
    Step,
    Trouble,
    all_settled,
    any_of,
    gather,
    race,
    run,
    select,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow
from tests.runtime.inside import waiters

NOTHING: list[Future[int]] = []


def test_defect_1_select_does_not_lose_a_cancellation_or_its_timeout_branch() -> None:
    async def root() -> list[str]:
        branches = {"work": promise("work"), "timeout": promise("timeout")}
        told: list[str] = []
        for _ in range(2):
            try:
                told.append((await select(branches)).tag)
            except Cancelled:
                told.append("cancelled")
        return told

    hand = Hand(root)
    hand.cancel()
    hand.resolve("timeout")
    assert hand.result() == ["cancelled", "timeout"]


@pytest.mark.parametrize("combine", [all_settled, any_of])
def test_defect_2_mixed_inputs_do_not_swallow_a_cancellation(combine: Any) -> None:
    async def root() -> None:
        await combine([promise("a"), spawn(follow, "b")])

    hand = Hand(root)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_defect_3_gather_fails_fast_with_spawned_inputs() -> None:
    async def root() -> None:
        await gather(spawn(follow, "never"), spawn(follow, "fails"))

    hand = Hand(root)
    hand.reject("fails", ValueError())
    with pytest.raises(ValueError):  # noqa: PT011
        hand.result()


def test_defect_4_the_cost_of_a_parked_fiber_does_not_grow_with_their_number() -> None:
    def seconds_per_fiber(count: int) -> float:
        async def root() -> None:
            await gather([follow(str(number)) for number in range(count)])

        began = process_time()
        with Hand(root) as hand:
            for number in range(count):
                hand.resolve(str(number))
            assert hand.done
        return (process_time() - began) / count

    # Quadratic would be 8 times as much; the bench holds the exact figure.
    assert min(seconds_per_fiber(4000) for _ in range(3)) < 4 * min(seconds_per_fiber(500) for _ in range(3))


def test_defect_5_select_loops_leak_no_callback() -> None:
    stop = Channel[None]()

    async def root() -> None:
        for number in range(1000):
            await select(work=promise(str(number)), stop=stop.receive)
        await promise("x")

    hand = Hand(root)
    for number in range(1000):
        hand.resolve(str(number))
    assert waiters(stop.receive) == 0


def test_defect_6_join_does_not_fail_a_finished_execution_over_a_leftover_waiter() -> None:
    async def leftover() -> None:
        await Channel[int]().receive

    async def root() -> str:
        spawn(leftover)
        return "finished"

    assert Hand(root, on_root_exit="join").result() == "finished"


@pytest.mark.parametrize(
    "combine",
    [lambda: race(NOTHING), lambda: any_of(NOTHING), lambda: select(cast(dict[str, Future[int]], {}))],
)
def test_defect_7_empty_contests_are_a_value_error_and_not_a_deadlock(combine: Any) -> None:
    async def root() -> None:
        await combine()

    with pytest.raises(ValueError, match="at least one"):
        Hand(root).result()


def test_defect_8_a_foreign_wait_fails_the_fiber_and_not_the_scheduler() -> None:
    async def root() -> str:
        try:
            await asyncio.sleep(0)
        except ForeignAwait:
            return await promise("a")
        return "missed"

    hand = Hand(root)
    hand.resolve("a", "alive")
    assert hand.result() == "alive"


def test_defect_9_failures_nobody_awaits_do_not_vanish() -> None:
    async def fails() -> None:
        raise ValueError("lost?")

    async def root() -> None:
        spawn(fails)
        await promise("a")

    hand = Hand(root)
    hand.resolve("a")
    hand.close()
    assert [report.trouble for report in hand.reports] == [Trouble.FAILED_NOT_AWAITED]


def test_defect_10_a_deep_interrupt_does_not_overflow() -> None:
    reached: list[int] = []

    async def link(below: int) -> None:
        if below:
            spawn(link, below - 1)
        try:
            await promise("a")
        except FiberInterrupted:
            reached.append(below)

    async def root() -> None:
        top = spawn(link, 20_000)
        await promise("go")
        top.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert len(reached) == 20_001


def test_defect_11_a_root_that_waits_locally_learns_of_a_cancellation() -> None:
    async def swallows() -> None:
        try:
            await promise("a")
        except Cancelled:
            await promise("b")

    async def root() -> None:
        task = spawn(swallows)
        await task

    hand = Hand(root)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_defect_12_the_reason_of_a_stopped_step_tells_an_interrupt_from_a_cancellation() -> None:
    def step() -> None:
        return None

    async def child() -> None:
        await run(step)

    async def root() -> None:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        await run(step)

    hand = Hand(root)
    interrupted = hand.issued["step"]
    assert isinstance(interrupted, Step)
    hand.resolve("go")
    cancelled = hand.issued["step/2"]
    assert isinstance(cancelled, Step)
    hand.cancel()
    assert isinstance(interrupted.signal.reason, FiberInterrupted)
    assert isinstance(cancelled.signal.reason, Cancelled)


def test_a_rejection_without_a_meaningful_error_is_still_a_rejection() -> None:
    async def root() -> str:
        try:
            await promise("a")
        except Exception as error:
            return repr(error)
        return "success"

    hand = Hand(root)
    hand.reject("a", Exception())
    assert hand.result() == "Exception()"


def test_a_deadlock_names_its_fibers_and_is_an_error_of_its_own() -> None:
    async def root() -> None:
        await Channel[int]().receive

    with pytest.raises(Deadlock, match="root#1"):
        Hand(root).result()
