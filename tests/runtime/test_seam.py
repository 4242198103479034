# mypy: disable-error-code="no-any-return"
"""The seam: what a driver may rely on. A worker is written against exactly this."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime import Channel, Report, Scheduler, current, gather, race, sleep, spawn
from holdfast.runtime.testing import Hand, drive, promise


class Recorder:
    """The smallest world there is."""

    def __init__(self) -> None:
        self.operations: list[object] = []
        self.reports: list[Report] = []

    def issue(self, operation: object, /) -> str:
        self.operations.append(operation)
        return f"root:{len(self.operations)}"

    def report(self, report: Report, /) -> None:
        self.reports.append(report)


def ask(what: str) -> Any:
    return current().issue(what)


def test_a_world_of_two_functions_is_enough() -> None:
    async def root() -> list[Any]:
        return [await ask("one"), await ask("two")]

    world = Recorder()
    scheduler = Scheduler(world)
    scheduler.start(root)
    assert scheduler.waiting() == ("root:1",)
    scheduler.resolve("root:1", 1)
    scheduler.resolve("root:2", 2)
    assert scheduler.done
    assert scheduler.result() == [1, 2]
    assert world.operations == ["one", "two"]
    scheduler.close()


def test_start_passes_arguments_to_the_root() -> None:
    async def root(left: int, *, right: int) -> int:
        return left + right

    scheduler = Scheduler(Recorder())
    scheduler.start(root, 1, right=2)
    assert scheduler.result() == 3


def test_what_issue_raises_is_raised_at_the_line_of_the_call() -> None:
    class Strict(Recorder):
        def issue(self, operation: object, /) -> str:
            raise LookupError(f"{operation} does not match what was recorded")

    async def root() -> str:
        try:
            ask("new")
        except LookupError as error:
            return str(error)
        return ""

    scheduler = Scheduler(Strict())
    scheduler.start(root)
    assert scheduler.result() == "new does not match what was recorded"


def test_waiting_names_exactly_the_promises_fibers_wait_for() -> None:
    async def child(name: str) -> None:
        await promise(name)

    async def root() -> None:
        promise("ignored")
        first, second = spawn(child, "a"), spawn(child, "b")
        await gather(race(first, promise("c")), second, promise("d"))

    hand = Hand(root)
    assert set(hand.waiting) == {"a", "b", "c", "d"}
    assert hand.scheduler.pending == ("ignored", "c", "d", "a", "b")


def test_waiting_lists_a_shared_promise_once() -> None:
    async def root() -> None:
        future = promise("a")
        await gather(future, race(future, gather(future)))

    assert Hand(root).waiting == ("a",)


def test_waiting_does_not_list_what_a_decided_race_left() -> None:
    async def root() -> None:
        await race(promise("a"), promise("b"))
        await promise("c")

    hand = Hand(root)
    hand.resolve("a")
    assert hand.waiting == ("c",)
    assert hand.scheduler.pending == ("b", "c")


def test_waiting_order_is_fiber_order_then_input_order() -> None:
    async def child(name: str) -> None:
        await promise(name)

    async def root() -> None:
        spawn(child, "child")
        await gather(promise("b"), promise("a"))

    assert Hand(root).waiting == ("b", "a", "child")


def test_a_suspended_scheduler_stays_warm_and_is_resumed_later() -> None:
    async def root() -> int:
        return await promise("a") + await promise("b")

    hand = Hand(root)
    assert hand.waiting == ("a",)
    hand.resolve("a", 1)
    assert hand.waiting == ("b",)
    hand.resolve("b", 2)
    assert hand.result() == 3


def test_a_completion_nobody_waits_for_yet_is_kept_for_whoever_asks() -> None:
    async def root() -> Any:
        early = promise("early")
        await promise("late")
        return await early

    hand = Hand(root)
    hand.resolve("early", "kept")
    assert not hand.done
    hand.resolve("late")
    assert hand.result() == "kept"


def test_completing_the_same_promise_twice_is_refused() -> None:
    async def root() -> None:
        await promise("a")
        await promise("b")

    hand = Hand(root)
    hand.resolve("a")
    with pytest.raises(LookupError, match="'a'"):
        hand.scheduler.resolve("a", 2)
    with pytest.raises(LookupError, match="'a'"):
        hand.scheduler.reject("a", ValueError())


def test_completing_an_unknown_promise_is_refused() -> None:
    async def root() -> None:
        await promise("a")

    with pytest.raises(LookupError, match="never issued"):
        Hand(root).scheduler.resolve("nonsense", 1)


def test_a_completion_after_the_end_changes_nothing() -> None:
    async def root() -> str:
        promise("late")
        return "done"

    hand = Hand(root)
    hand.resolve("late", 1)
    assert hand.result() == "done"


def test_driving_a_closed_scheduler_is_refused() -> None:
    async def root() -> None:
        await promise("a")

    hand = Hand(root)
    hand.close()
    with pytest.raises(RuntimeError, match="closed"):
        hand.resolve("a")


def test_driving_a_scheduler_that_was_not_started_is_refused() -> None:
    scheduler = Scheduler(Recorder())
    with pytest.raises(RuntimeError, match="not started"):
        scheduler.resolve("a", 1)
    with pytest.raises(RuntimeError, match="not done"):
        scheduler.result()


def test_a_scheduler_is_started_once() -> None:
    async def root() -> None:
        await promise("a")

    hand = Hand(root)
    with pytest.raises(RuntimeError, match="already started"):
        hand.scheduler.start(root)


def test_the_result_is_refused_before_the_end() -> None:
    async def root() -> None:
        await promise("a")

    with pytest.raises(RuntimeError, match="not done"):
        Hand(root).result()


def test_a_fiber_cannot_dispatch_into_its_own_scheduler() -> None:
    async def root() -> str:
        await promise("go")
        promise("a")
        try:
            hand.scheduler.resolve("a", 1)
        except RuntimeError as error:
            return str(error)
        return "allowed"

    hand = Hand(root)
    hand.resolve("go")
    assert "for the driver" in hand.result()


def test_feeding_the_same_completions_in_the_same_order_repeats_the_run() -> None:
    def run_once() -> list[str]:
        trace: list[str] = []

        async def child(name: str, box: Channel[str]) -> None:
            trace.append(f"{name} {await promise(name)}")
            box.send(name)

        async def root() -> None:
            box = Channel[str]()
            tasks = [spawn(child, name, box) for name in "abc"]
            trace.append(f"first {await box.receive}")
            await gather(tasks)

        hand = Hand(root)
        for name in "bca":
            hand.resolve(name, name.upper())
        trace.extend(hand.issued)
        return trace

    assert run_once() == run_once() == ["b B", "first b", "c C", "a A", "a", "b", "c"]


# The double itself.


def test_drive_performs_steps_and_lets_time_pass() -> None:
    from holdfast.runtime import run

    def double(number: int) -> int:
        return 2 * number

    async def root() -> int:
        await sleep(3600)
        return await run(double, 21)

    assert drive(root) == 42


def test_drive_says_what_it_cannot_settle() -> None:
    async def root() -> None:
        await promise("outside")

    with pytest.raises(RuntimeError, match="outside"):
        drive(root)


def test_timers_fire_in_the_order_they_are_due() -> None:
    trace: list[int] = []

    async def child(seconds: int) -> None:
        await sleep(seconds)
        trace.append(seconds)

    async def root() -> None:
        await gather([child(3), child(1), child(2)])

    hand = Hand(root)
    hand.elapse(10)
    assert trace == [1, 2, 3]


def test_a_timer_set_by_another_fires_within_the_same_stretch_of_time() -> None:
    async def root() -> str:
        await sleep(1)
        await sleep(1)
        return "twice"

    hand = Hand(root)
    hand.elapse(2)
    assert hand.result() == "twice"
    assert hand.now == 2


def test_performing_what_is_not_a_step_is_refused() -> None:
    async def root() -> None:
        await promise("a")

    with pytest.raises(TypeError, match="not a step"):
        Hand(root).perform("a")


def test_performing_a_step_that_needs_real_io_is_refused_helpfully() -> None:
    from holdfast.runtime import run

    class Never:
        def __await__(self) -> Any:
            yield

    async def waits() -> None:
        await Never()

    async def root() -> None:
        await run(waits)

    hand = Hand(root)
    hand.perform("waits")
    with pytest.raises(RuntimeError, match="real I/O"):
        hand.result()
