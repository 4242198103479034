# mypy: disable-error-code="no-any-return, unreachable"
"""Deadlocks: certain ones are found at once, end the execution, and show who waits for whom."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.runtime import (
    Channel,
    Deadlock,
    Fiber,
    Queue,
    Semaphore,
    TimedOut,
    Trouble,
    all_settled,
    any_of,
    as_completed,
    current_fiber,
    gather,
    race,
    scope,
    sleep,
    spawn,
    timeout,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.random_program import Run


async def join(box: Channel[Fiber[Any]]) -> Any:
    task = await box.receive
    return await task


async def pair() -> tuple[Fiber[Any], Fiber[Any]]:
    """Two tasks that wait for each other."""
    left, right = Channel[Fiber[Any]](), Channel[Fiber[Any]]()
    first, second = spawn(join(left), name="first"), spawn(join(right), name="second")
    left.send(second)
    right.send(first)
    return first, second


def test_a_wait_for_nothing_pending_is_a_deadlock() -> None:
    async def root() -> None:
        await Channel[int]("mail").receive

    with pytest.raises(Deadlock, match="waits for channel mail"):
        Hand(root).result()


def test_a_task_that_awaits_itself_is_a_deadlock() -> None:
    async def root() -> None:
        await current_fiber()

    with pytest.raises(Deadlock, match="root#1: parked, waits for fiber root#1"):
        Hand(root).result()


def test_a_cycle_is_found_at_once() -> None:
    async def root() -> None:
        first, _ = await pair()
        await first

    with pytest.raises(Deadlock) as caught:
        Hand(root).result()
    assert "fiber first#2, child of root#1: parked, waits for fiber second#3" in str(caught.value)
    assert "fiber second#3, child of root#1: parked, waits for fiber first#2" in str(caught.value)


def test_a_cycle_is_found_while_an_unrelated_timer_is_awaited() -> None:
    async def root() -> None:
        await pair()
        await sleep(3600)

    hand = Hand(root)
    assert hand.done
    with pytest.raises(Deadlock, match="first#2"):
        hand.result()


def test_a_cycle_is_found_when_a_completion_closes_it() -> None:
    async def late(box: Channel[Fiber[Any]]) -> Any:
        task = await box.receive
        await promise("gate")
        return await task

    async def root() -> None:
        box = Channel[Fiber[Any]]()
        task = spawn(late, box)
        box.send(current_fiber())
        spawn(sleeper)
        await task

    async def sleeper() -> None:
        await sleep(60)

    hand = Hand(root)
    assert not hand.done
    hand.resolve("gate")
    with pytest.raises(Deadlock):
        hand.result()


def test_a_cycle_is_found_though_a_fiber_that_leads_to_it_has_another_way_out() -> None:
    async def root() -> None:
        first, _ = await pair()
        await gather(first, sleep(3600))

    with pytest.raises(Deadlock, match="second#3"):
        Hand(root).result()


def test_the_graph_shows_file_and_line_of_every_wait() -> None:
    async def helper(task: Fiber[Any]) -> None:
        await task

    async def root() -> None:
        await helper(current_fiber())

    with pytest.raises(Deadlock) as caught:
        Hand(root).result()
    lines = str(caught.value).splitlines()
    assert sum("test_deadlock.py" in line for line in lines) == 2
    assert lines[-1].endswith("helper")


def test_user_code_cannot_catch_a_deadlock() -> None:
    async def root() -> str:
        try:
            await Channel[int]().receive
        except BaseException:
            return "caught"
        return "received"

    with pytest.raises(Deadlock):
        Hand(root).result()


def test_finally_blocks_run_after_a_deadlock() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            await Channel[int]().receive
        finally:
            trace.append("unwound")

    Hand(root).close()
    assert trace == ["unwound"]


def test_a_cycle_through_a_combinator_is_found() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await gather(parent)

    async def root() -> None:
        spawn(sleeper)
        await race(spawn(child, current_fiber()), gather(current_fiber()))

    async def sleeper() -> None:
        await sleep(60)

    with pytest.raises(Deadlock):
        Hand(root).result()


def test_a_combinator_with_a_way_out_is_no_deadlock() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def root() -> Any:
        task = spawn(child, current_fiber())
        return await any_of([promise("a"), task])

    hand = Hand(root)
    assert not hand.done
    hand.resolve("a", "way out")
    assert hand.result() == "way out"


def test_a_cycle_through_a_scope_is_found() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def root() -> None:
        spawn(sleeper)
        async with scope() as tasks:
            tasks.spawn(child, current_fiber())

    async def sleeper() -> None:
        await sleep(60)

    with pytest.raises(Deadlock, match="the scope's fibers child#3"):
        Hand(root).result()


def test_a_wait_that_a_running_fiber_may_still_serve_is_no_deadlock() -> None:
    async def sender(box: Channel[int]) -> None:
        await sleep(5)
        box.send(1)

    async def root() -> int:
        box = Channel[int]()
        spawn(sender, box)
        return await box.receive

    hand = Hand(root)
    assert not hand.done
    hand.elapse(5)
    assert hand.result() == 1


def test_a_promise_nobody_waits_for_does_not_hide_a_deadlock() -> None:
    async def root() -> None:
        sleep(3600)
        await Channel[int]().receive

    hand = Hand(root)
    assert hand.waiting == ()
    assert hand.done
    with pytest.raises(Deadlock):
        hand.result()


def test_a_forgotten_combinator_does_not_hide_a_deadlock() -> None:
    async def root() -> None:
        race(sleep(1), sleep(2))
        await Channel[int]().receive

    hand = Hand(root)
    assert hand.waiting == ()
    with pytest.raises(Deadlock):
        hand.result()


def test_a_semaphore_nobody_will_release_is_a_deadlock() -> None:
    async def root() -> None:
        gate = Semaphore(1, "gate")
        await gate.acquire()
        await gate.acquire()

    with pytest.raises(Deadlock, match="a permit of semaphore gate"):
        Hand(root).result()


def test_a_queue_nobody_will_fill_is_a_deadlock() -> None:
    async def root() -> None:
        await Queue[int](name="jobs").get()

    with pytest.raises(Deadlock, match="an item of queue jobs"):
        Hand(root).result()


def test_the_last_completion_can_reveal_a_deadlock() -> None:
    async def child() -> None:
        await promise("a")

    async def root() -> None:
        spawn(child)
        await Channel[int]().receive

    hand = Hand(root)
    assert not hand.done
    hand.resolve("a")
    with pytest.raises(Deadlock):
        hand.result()


def test_a_cycle_that_began_before_it_was_joined_by_others_lists_only_its_own() -> None:
    async def bystander() -> None:
        await sleep(60)

    async def root() -> None:
        spawn(bystander)
        first, _ = await pair()
        await first

    with pytest.raises(Deadlock) as caught:
        Hand(root).result()
    assert "bystander" not in str(caught.value)


def test_under_join_a_leftover_waiter_does_not_fail_a_finished_execution() -> None:
    async def leftover() -> None:
        await Channel[int]().receive

    async def root() -> str:
        spawn(leftover)
        return "value"

    hand = Hand(root, on_root_exit="join")
    assert hand.done
    assert hand.result() == "value"
    assert [report.trouble for report in hand.reports] == [Trouble.LEFT_BEHIND]
    assert hand.reports[0].fiber == "leftover#2"
    assert "test_deadlock.py" in hand.reports[0].where


def test_under_join_leftovers_are_found_when_the_last_promise_is_gone() -> None:
    async def leftover() -> None:
        await promise("a")
        await Channel[int]().receive

    async def root() -> str:
        spawn(leftover)
        return "value"

    hand = Hand(root, on_root_exit="join")
    assert not hand.done
    hand.resolve("a")
    assert hand.done
    assert hand.result() == "value"


def test_a_diamond_of_waits_is_no_cycle() -> None:
    async def bottom() -> int:
        return await promise("a")

    async def side(task: Fiber[int]) -> int:
        return await task

    async def root() -> int:
        task = spawn(bottom)
        left, right = spawn(side, task), spawn(side, task)
        return sum(await gather([left, right, task]))

    hand = Hand(root)
    assert not hand.done
    hand.resolve("a", 1)
    assert hand.result() == 3


def in_ring(box: dict[str, Fiber[Any]], name: str) -> Any:
    async def wait() -> Any:
        return await box[name]

    return wait


def test_a_cycle_that_is_closed_by_a_loop_over_results_is_found() -> None:
    box: dict[str, Fiber[Any]] = {}

    async def loop() -> None:
        for each in as_completed([box["b"]]):
            await each

    async def root() -> None:
        box["b"] = spawn(in_ring(box, "a"))
        box["a"] = spawn(loop)
        await promise("something else")

    with pytest.raises(Deadlock):
        Hand(root).result()


def test_a_cycle_that_a_timeout_will_end_hides_no_other() -> None:
    box: dict[str, Fiber[Any]] = {}

    async def patient() -> Any:
        async with timeout(1000):
            return await box["b"]

    async def root() -> None:
        box["a"], box["b"] = spawn(patient), spawn(in_ring(box, "a"))
        box["c"], box["d"] = spawn(in_ring(box, "d")), spawn(in_ring(box, "c"))
        await promise("something else")

    with pytest.raises(Deadlock):
        Hand(root).result()


def test_a_cycle_inside_a_timeout_of_whoever_started_it_is_left_to_that() -> None:
    box: dict[str, Fiber[Any]] = {}

    async def root() -> str:
        try:
            async with timeout(5), scope() as inside:
                box["a"], box["b"] = inside.spawn(in_ring(box, "b")), inside.spawn(in_ring(box, "a"))
        except TimedOut:
            return "timed out"
        return "never"

    hand = Hand(root)
    assert not hand.done
    hand.resolve(hand.waiting[0])
    assert hand.result() == "timed out"


@pytest.mark.parametrize("combine", [gather, race, any_of, all_settled])
def test_the_report_on_thousands_of_nested_combinators_does_not_recurse(combine: Any) -> None:
    async def root() -> None:
        nested: Any = Channel[int]("mail").receive
        for _ in range(3_000):
            nested = combine([nested])
        await nested

    with pytest.raises(Deadlock, match="still open") as caught:
        Hand(root).result()
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("combine", [gather, all_settled])
@pytest.mark.parametrize("form", ["async", "generator"])
def test_a_ring_through_a_combinator_is_found_beside_a_timer_it_needs_too(combine: Any, form: str) -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def root() -> None:
        await combine([spawn(child, current_fiber()), sleep(3600)])

    def generator_root() -> Any:
        yield from combine([spawn(child, current_fiber()), sleep(3600)])

    hand = Hand(root if form == "async" else generator_root)
    assert hand.done, "the timer cannot help"
    with pytest.raises(Deadlock, match="child#2"):
        hand.result()


def test_a_ring_through_nested_combinators_is_found_beside_timers() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await gather(gather(parent, sleep(10)), sleep(20))

    async def root() -> None:
        await all_settled([gather(spawn(child, current_fiber()), sleep(30)), sleep(40)])

    with pytest.raises(Deadlock, match="child#2"):
        Hand(root).result()


@pytest.mark.parametrize("combine", [race, any_of])
def test_a_timer_that_ends_the_wait_is_a_way_out_of_the_ring(combine: Any) -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def root() -> str:
        await combine([spawn(child, current_fiber()), sleep(5)])
        return "left"

    hand = Hand(root)
    assert not hand.done
    hand.elapse(5)
    assert hand.result() == "left"


def test_a_promise_that_may_fail_is_a_way_out_of_a_gather() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def root() -> str:
        try:
            await gather(spawn(child, current_fiber()), promise("a"))
        except ValueError:
            return "left"
        return ""

    hand = Hand(root)
    assert not hand.done
    hand.reject("a", ValueError())
    assert hand.result() == "left"


def test_a_task_beside_that_may_fail_is_a_way_out_of_a_gather() -> None:
    async def child(parent: Fiber[Any]) -> None:
        await parent

    async def sleeper() -> None:
        await sleep(5)
        raise ValueError

    async def root() -> str:
        try:
            await gather(spawn(child, current_fiber()), spawn(sleeper))
        except ValueError:
            return "left"
        return ""

    hand = Hand(root)
    assert not hand.done
    hand.elapse(5)
    assert hand.result() == "left"


def test_after_a_keyboard_interrupt_ready_fibers_are_not_called_deadlocked() -> None:
    trace: list[str] = []

    async def first(go: Any) -> None:
        await go
        raise KeyboardInterrupt

    async def second(go: Any) -> None:
        await go
        trace.append("second")
        await promise("b")

    async def root() -> None:
        go = promise("go")
        spawn(first, go)
        await spawn(second, go)

    hand = Hand(root)
    with pytest.raises(KeyboardInterrupt):
        hand.resolve("go")
    assert hand.waiting == ()
    assert not hand.done
    assert hand.scheduler.deadlock is None


class Walked(dict[Any, None]):
    """The live fibers, and how often somebody went over all of them."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


def test_asking_what_is_waited_for_does_not_walk_all_fibers_at_each_step() -> None:
    async def parked(gate: Semaphore) -> None:
        async with gate:
            pass

    async def root() -> None:
        gate = Semaphore(1)
        await gate.acquire()
        for _ in range(100):
            spawn(parked, gate)
        for number in range(50):
            await promise(str(number))

    hand = Hand(root)
    live = hand.scheduler.live = Walked(hand.scheduler.live)
    for number in range(49):
        assert hand.waiting == (str(number),)
        assert hand.scheduler.is_awaited(str(number))
        hand.resolve(str(number))
    assert live.times == 0


@pytest.mark.parametrize("seed", range(60))
def test_what_is_waited_for_is_found_as_by_walking_all_fibers(seed: int) -> None:
    """The quick way gives what the plain way gives, in the same order."""

    def plainly(hand: Hand) -> tuple[str, ...]:
        ids: dict[str, None] = {}
        seen: set[Any] = set()
        for fiber in hand.scheduler.live:
            stack: list[Any] = [fiber.waiting]
            while stack:
                future = stack.pop()
                if future is None or future in seen or future._state:
                    continue
                seen.add(future)
                if future._durable:
                    ids[future.id] = None
                else:
                    stack.extend(reversed(list(future._inputs())))
        for alarm in hand.scheduler.alarms:
            if not alarm._state:  # pyright: ignore[reportPrivateUsage]
                ids[cast(Any, alarm).id] = None
        return tuple(ids)

    run = Run(20270101 + seed, "async")
    with Hand(run.body(run.program)) as hand:
        for _ in range(40):
            expected = () if hand.done else plainly(hand)
            assert hand.waiting == expected
            if hand.done:
                break
            run.act(hand, hand.waiting)
