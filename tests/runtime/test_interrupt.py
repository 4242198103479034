"""Interrupt: thrown at the next wait, down the spawn tree, last one wins, one-shot."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    Fiber,
    FiberInterrupted,
    NotInFiber,
    Step,
    current_fiber,
    gather,
    race,
    run,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, watch, work


async def outcome(task: Fiber[Any]) -> str:
    try:
        return f"value {await task}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_the_error_is_raised_at_the_wait_of_the_task() -> None:
    async def root() -> str:
        task = spawn(follow, "a")
        await promise("go")
        task.interrupt(RuntimeError("stop"))
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "RuntimeError: stop"


def test_without_an_error_it_is_a_task_interrupted_that_names_the_task() -> None:
    async def root() -> str:
        task = spawn(follow("a"), name="fetcher")
        await promise("go")
        task.interrupt()
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "FiberInterrupted: fetcher#2 was interrupted"


def test_the_default_error_is_not_the_builtin_interrupted_error() -> None:
    assert not issubclass(FiberInterrupted, InterruptedError)


def test_the_target_sees_the_very_object_it_was_interrupted_with() -> None:
    error = RuntimeError("this one")

    async def child() -> bool:
        try:
            await promise("a")
        except RuntimeError as caught:
            return caught is error
        return False

    async def root() -> bool:
        task = spawn(child)
        await promise("go")
        task.interrupt(error)
        return await task

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() is True


def test_a_task_may_catch_it_clean_up_durably_and_return() -> None:
    async def child() -> str:
        try:
            await promise("a")
        except FiberInterrupted:
            return f"cleaned {await promise('cleanup')}"
        return "missed"

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        return await task

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("cleanup", "up")
    assert hand.result() == "cleaned up"


def test_a_task_may_raise_something_else() -> None:
    async def child() -> None:
        try:
            await promise("a")
        except FiberInterrupted:
            raise KeyError("other") from None

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "KeyError: 'other'"


def test_a_done_task_is_left_alone() -> None:
    async def child() -> int:
        return 1

    async def root() -> int:
        task = spawn(child)
        await task
        task.interrupt()
        return await task

    assert Hand(root).result() == 1


def test_the_last_of_two_interrupts_wins() -> None:
    async def root() -> str:
        task = spawn(follow, "a")
        await promise("go")
        task.interrupt(RuntimeError("first"))
        task.interrupt(RuntimeError("second"))
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "RuntimeError: second"


def test_two_interrupts_are_raised_once() -> None:
    raised: list[str] = []

    async def child() -> None:
        while len(raised) < 5:
            try:
                await promise("a")
            except FiberInterrupted as error:
                raised.append(str(error))

    async def root() -> None:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert len(raised) == 1


def test_it_beats_a_value_that_was_delivered_but_not_yet_seen() -> None:
    async def child(box: Channel[int]) -> int:
        return await box.receive

    async def root() -> str:
        box = Channel[int]()
        task = spawn(child, box)
        await promise("go")
        box.send(1)
        task.interrupt(RuntimeError("wins"))
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "RuntimeError: wins"


def test_the_beaten_value_is_still_there_for_a_task_that_asks_again() -> None:
    async def child(box: Channel[int]) -> int:
        try:
            return await box.receive
        except FiberInterrupted:
            return await box.receive + 100

    async def root() -> int:
        box = Channel[int]()
        task = spawn(child, box)
        await promise("go")
        box.send(1)
        task.interrupt()
        return await task

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 101


def test_an_unstarted_body_is_run_to_its_first_wait_so_that_its_handlers_count() -> None:
    trace: list[str] = []

    async def child() -> str:
        trace.append("started")
        try:
            await promise("a")
        except FiberInterrupted:
            return "handled"
        return "missed"

    async def root() -> str:
        task = spawn(child)
        task.interrupt()
        trace.append("interrupted")
        return await task

    assert Hand(root).result() == "handled"
    assert trace == ["interrupted", "started"]


def test_an_unstarted_body_that_never_waits_returns_its_value() -> None:
    async def child() -> str:
        return "value"

    async def root() -> str:
        task = spawn(child)
        task.interrupt()
        return await task

    assert Hand(root).result() == "value"


def test_an_unstarted_body_waits_for_nothing_before_it_is_interrupted() -> None:
    async def root() -> str:
        task = spawn(follow, "a")
        task.interrupt(RuntimeError("early"))
        return await outcome(task)

    hand = Hand(root)
    assert hand.result() == "RuntimeError: early"
    assert list(hand.issued) == ["a"]


def test_a_task_that_interrupts_itself_gets_it_at_its_next_wait() -> None:
    trace: list[str] = []

    async def root() -> str:
        current_fiber().interrupt(RuntimeError("self"))
        trace.append("still running")
        try:
            await promise("a")
        except RuntimeError as error:
            return str(error)
        return "missed"

    assert Hand(root).result() == "self"
    assert trace == ["still running"]


def test_a_self_interrupt_is_raised_even_where_the_wait_would_not_park() -> None:
    async def root() -> str:
        box = Channel[int]()
        box.send(1)
        current_fiber().interrupt(RuntimeError("self"))
        try:
            await box.receive
        except RuntimeError as error:
            return str(error)
        return "missed"

    assert Hand(root).result() == "self"


def test_a_self_interrupt_is_moot_when_the_task_returns_first() -> None:
    async def root() -> str:
        current_fiber().interrupt()
        return "returned"

    assert Hand(root).result() == "returned"


def test_it_goes_down_the_spawn_tree_parents_first_in_spawn_order() -> None:
    trace: list[str] = []

    async def node(name: str, below: list[str]) -> None:
        for child in below:
            spawn(watch, child, trace)
        await watch(name, trace)

    async def top() -> None:
        spawn(node, "b", ["d", "e"])
        spawn(node, "c", ["f"])
        await watch("a", trace)

    async def root() -> None:
        task = spawn(top)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == [f"{name} interrupted" for name in "abdecf"]


def test_it_never_goes_up() -> None:
    trace: list[str] = []

    async def parent() -> None:
        child = spawn(watch, "child", trace)
        spawn(interrupter, child)
        await watch("parent", trace)

    async def interrupter(task: Fiber[None]) -> None:
        await promise("go")
        task.interrupt()

    async def root() -> None:
        spawn(parent)
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["child interrupted"]
    hand.resolve("parent")
    assert trace == ["child interrupted", "parent done"]


def test_it_never_goes_sideways() -> None:
    trace: list[str] = []

    async def root() -> None:
        first = spawn(watch, "a", trace)
        spawn(watch, "b", trace)
        await promise("go")
        first.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("b")
    assert trace == ["a interrupted", "b done"]


def test_who_awaits_a_task_has_no_part_in_it() -> None:
    trace: list[str] = []

    async def awaiter(task: Fiber[None]) -> None:
        await task

    async def root() -> None:
        watched = spawn(watch, "a", trace)
        awaiting = spawn(awaiter, watched)
        await promise("go")
        awaiting.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("a")
    assert trace == ["a done"]


def test_children_spawned_after_the_interrupt_are_not_touched() -> None:
    trace: list[str] = []

    async def parent() -> None:
        try:
            await promise("a")
        except FiberInterrupted:
            await spawn(watch, "late", trace)

    async def root() -> None:
        task = spawn(parent)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("late")
    assert trace == ["late done"]


def test_children_of_a_finished_task_belong_to_its_parent() -> None:
    trace: list[str] = []

    async def middle() -> None:
        spawn(watch, "grandchild", trace)

    async def top() -> None:
        await spawn(middle)
        await watch("top", trace)

    async def root() -> None:
        task = spawn(top)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["top interrupted", "grandchild interrupted"]


def test_rehoming_passes_through_several_generations() -> None:
    trace: list[str] = []

    async def level(depth: int) -> None:
        if depth:
            spawn(level, depth - 1)
        else:
            await watch("deepest", trace)

    async def top() -> None:
        spawn(level, 5)
        await watch("top", trace)

    async def root() -> None:
        task = spawn(top)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["top interrupted", "deepest interrupted"]


def test_a_rehomed_child_is_not_reached_through_a_sibling_of_its_dead_parent() -> None:
    trace: list[str] = []

    async def middle() -> None:
        spawn(watch, "grandchild", trace)

    async def root() -> None:
        await spawn(middle)
        sibling = spawn(watch, "sibling", trace)
        await promise("go")
        sibling.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["sibling interrupted"]


def test_interrupting_an_ancestor_comes_back_to_the_caller_at_its_next_wait() -> None:
    trace: list[str] = []

    async def child(parent: Fiber[Any]) -> None:
        parent.interrupt()
        trace.append("child goes on")
        await watch("child", trace)

    async def parent() -> None:
        spawn(child, current_fiber())
        await watch("parent", trace)

    async def root() -> None:
        spawn(parent)
        await promise("x")

    Hand(root)
    assert trace == ["child goes on", "child interrupted", "parent interrupted"]


def test_a_task_inside_a_combinator_gets_the_throw_there() -> None:
    async def child() -> None:
        await gather(promise("a"), race(promise("b"), promise("c")))

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt(RuntimeError("stop"))
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "RuntimeError: stop"


def test_interrupt_then_return_delivers_nothing() -> None:
    trace: list[str] = []

    async def root() -> str:
        task = spawn(watch, "a", trace)
        await promise("go")
        task.interrupt()
        return "returned"

    hand = Hand(root)
    hand.resolve("go")
    hand.close()
    assert trace == []


def test_interrupt_then_await_runs_the_cleanup() -> None:
    trace: list[str] = []

    async def root() -> None:
        task = spawn(watch, "a", trace)
        await promise("go")
        task.interrupt()
        await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a interrupted"]


def test_an_interrupted_task_nobody_awaits_is_no_failure_to_report() -> None:
    async def root() -> None:
        task = spawn(follow, "a")
        await promise("go")
        task.interrupt(RuntimeError("on purpose"))
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("x")
    hand.close()
    assert hand.reports == []


@pytest.mark.parametrize(
    "error", [StopIteration(1), StopAsyncIteration(), KeyboardInterrupt(), GeneratorExit(), "no"]
)
def test_what_a_body_could_not_be_thrown_is_refused(error: Any) -> None:
    async def root() -> str:
        task = spawn(follow, "a")
        try:
            task.interrupt(error)
        except TypeError as refusal:
            return str(refusal)
        return "accepted"

    assert "ordinary exception" in Hand(root).result()


def test_interrupting_from_outside_a_fiber_is_refused() -> None:
    tasks: list[Fiber[Any]] = []

    async def root() -> None:
        tasks.append(spawn(follow, "a"))
        await promise("x")

    hand = Hand(root)
    with pytest.raises(NotInFiber):
        tasks[0].interrupt()
    assert hand.waiting == ("x", "a")


def test_interrupting_a_task_of_another_execution_is_refused() -> None:
    tasks: list[Fiber[Any]] = []

    async def first() -> None:
        tasks.append(spawn(follow, "a"))
        await promise("x")

    async def second() -> None:
        tasks[0].interrupt()

    Hand(first)
    with pytest.raises(NotInFiber, match="its own execution"):
        Hand(second).result()


def test_the_steps_of_an_interrupted_task_find_their_signal_set() -> None:
    async def child() -> None:
        await run(work)

    async def root() -> None:
        task = spawn(child)
        await promise("go")
        task.interrupt(RuntimeError("stop"))
        await promise("x")

    hand = Hand(root)
    step = hand.issued["work"]
    assert isinstance(step, Step)
    hand.resolve("go")
    assert step.signal.is_set
    assert str(step.signal.reason) == "stop"


def test_the_steps_of_other_tasks_do_not() -> None:
    async def child() -> None:
        await run(work)

    async def root() -> None:
        task = spawn(follow, "a")
        spawn(child)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    step = hand.issued["work"]
    assert isinstance(step, Step)
    assert not step.signal.is_set


def test_a_step_awaited_by_another_fiber_belongs_to_the_one_that_started_it() -> None:
    async def starter(box: Channel[Any]) -> None:
        box.send(run(work))
        await promise("a")

    async def root() -> None:
        box = Channel[Any]()
        task = spawn(starter, box)
        future = await box.receive
        await promise("go")
        task.interrupt()
        await future

    hand = Hand(root)
    hand.resolve("go")
    step = hand.issued["work"]
    assert isinstance(step, Step)
    assert step.signal.is_set


def test_steps_started_after_an_interrupt_get_a_fresh_signal() -> None:
    async def child() -> None:
        try:
            await run(work)
        except FiberInterrupted:
            await run(work)

    async def root() -> None:
        task = spawn(child)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    old = hand.issued["work"]
    assert isinstance(old, Step)
    assert not old.signal.is_set
    hand.resolve("go")
    fresh = hand.issued["work/2"]
    assert isinstance(fresh, Step)
    assert (old.signal.is_set, fresh.signal.is_set) == (True, False)


def test_an_interrupt_wins_over_the_outcome_of_the_step_it_stopped() -> None:
    async def child() -> Any:
        return await run(work)

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt(RuntimeError("stop"))
        return await outcome(task)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "RuntimeError: stop"


def test_the_error_raised_in_several_fibers_starts_with_no_history_in_each() -> None:
    depths: list[int] = []

    async def child(name: str) -> None:
        try:
            await promise(name)
        except RuntimeError as error:
            trace, depth = error.__traceback__, 0
            while trace is not None:
                trace, depth = trace.tb_next, depth + 1
            depths.append(depth)

    async def top() -> None:
        for name in "abc":
            spawn(child, name)
        await promise("top")

    async def root() -> None:
        task = spawn(top)
        await promise("go")
        task.interrupt(RuntimeError("all"))
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert len(depths) == 3
    assert len(set(depths)) == 1
