# mypy: disable-error-code="no-any-return, unreachable"
"""Teardown and root exit: finally blocks run once, in a fixed order, for local cleanup only."""

from __future__ import annotations

import gc
import threading
import weakref
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    ExecutionClosed,
    Scheduler,
    Trouble,
    current,
    gather,
    open_schedulers,
    run,
    scope,
    spawn,
    timeout,
)
from holdfast.runtime.slot import slot
from holdfast.runtime.testing import Hand, promise


async def guarded(name: str, trace: list[str]) -> None:
    try:
        await promise(name)
    except Exception:
        trace.append(f"{name} except")
    finally:
        trace.append(f"{name} finally")


def test_abandoned_fibers_run_their_finally_blocks_when_closed() -> None:
    trace: list[str] = []

    async def root() -> str:
        spawn(guarded, "a", trace)
        return await promise("go")

    hand = Hand(root)
    hand.resolve("go", "value")
    assert hand.result() == "value"
    assert trace == []
    hand.close()
    assert trace == ["a finally"]


def test_except_exception_does_not_run_in_a_teardown() -> None:
    trace: list[str] = []

    async def root() -> None:
        await guarded("a", trace)

    Hand(root).close()
    assert trace == ["a finally"]


def test_fibers_are_taken_down_newest_first() -> None:
    trace: list[str] = []

    async def parent(name: str, below: str) -> None:
        for child in below:
            spawn(guarded, child, trace)
        await guarded(name, trace)

    async def root() -> None:
        spawn(parent, "1", "ab")
        spawn(parent, "2", "c")
        await guarded("root", trace)

    Hand(root).close()
    assert trace == [f"{name} finally" for name in ("c", "b", "a", "2", "1", "root")]


def test_suspending_runs_finally_blocks_once() -> None:
    trace: list[str] = []

    async def root() -> None:
        await guarded("a", trace)

    hand = Hand(root)
    hand.close()
    hand.close()
    del hand
    gc.collect()
    assert trace == ["a finally"]


def test_a_body_that_never_started_is_closed_unrun() -> None:
    trace: list[str] = []

    async def child() -> None:
        trace.append("started")

    async def root() -> str:
        spawn(child)
        return "done at once"

    hand = Hand(root)
    hand.close()
    gc.collect()
    assert hand.result() == "done at once"
    assert trace == []


def test_a_durable_call_in_a_finally_raises_before_anything_is_recorded() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            await promise("a")
        finally:
            try:
                promise("cleanup")
            except ExecutionClosed:
                trace.append("refused")
                raise

    hand = Hand(root)
    hand.close()
    assert trace == ["refused"]
    assert list(hand.issued) == ["a"]


def test_a_step_in_a_finally_raises_before_anything_is_recorded() -> None:
    async def root() -> None:
        try:
            await promise("a")
        finally:
            await run(print)

    hand = Hand(root)
    hand.close()
    assert list(hand.issued) == ["a"]
    assert hand.reports == []


def test_spawning_in_a_finally_raises_and_runs_nothing() -> None:
    trace: list[str] = []

    async def child() -> None:
        trace.append("ran")

    async def root() -> None:
        try:
            await promise("a")
        finally:
            spawn(child)

    Hand(root).close()
    assert trace == []


def test_local_cleanup_after_a_refused_durable_call_still_runs() -> None:
    trace: list[str] = []

    async def root() -> None:
        try:
            try:
                await promise("a")
            finally:
                await promise("cleanup")
        finally:
            trace.append("file closed")

    hand = Hand(root)
    hand.close()
    assert trace == ["file closed"]


def test_a_wait_in_a_finally_raises_there_and_is_reported_once() -> None:
    trace: list[str] = []

    async def root() -> None:
        box = Channel[int]()
        try:
            await promise("a")
        finally:
            for _ in range(3):
                try:
                    await box.receive
                except ExecutionClosed:
                    trace.append("refused")

    hand = Hand(root)
    hand.close()
    assert trace == ["refused"] * 3
    assert [report.trouble for report in hand.reports] == [Trouble.CLEANUP_WAITED]
    assert "root#1" in hand.reports[0].fiber
    assert "test_teardown.py" in hand.reports[0].where


def test_a_wait_in_a_nested_finally_is_caught_at_every_level() -> None:
    trace: list[str] = []
    box = Channel[int]()

    async def inner() -> None:
        try:
            await promise("a")
        finally:
            try:
                await box.receive
            finally:
                trace.append("inner")

    async def root() -> None:
        try:
            await inner()
        finally:
            trace.append("outer")

    hand = Hand(root)
    hand.close()
    gc.collect()
    assert trace == ["inner", "outer"]


def test_an_error_in_a_finally_is_reported_and_changes_nothing() -> None:
    async def child() -> None:
        try:
            await promise("a")
        finally:
            raise ValueError("broken cleanup")

    async def root() -> str:
        spawn(child)
        return await promise("go")

    hand = Hand(root)
    hand.resolve("go", "value")
    hand.close()
    assert hand.result() == "value"
    assert [(report.trouble, str(report.error)) for report in hand.reports] == [
        (Trouble.CLEANUP_FAILED, "broken cleanup")
    ]


def test_a_body_that_will_not_end_is_given_up_and_never_run_again() -> None:
    rounds: list[int] = []

    async def stubborn() -> None:
        box = Channel[int]()
        while True:
            try:
                await box.receive
            except BaseException:
                rounds.append(1)

    async def root() -> None:
        spawn(stubborn)
        await promise("x")

    hand = Hand(root)
    hand.close()
    assert [report.trouble for report in hand.reports] == [Trouble.CLEANUP_WAITED, Trouble.WOULD_NOT_CLOSE]
    seen = len(rounds)
    del hand
    gc.collect()
    assert len(rounds) == seen


def test_a_fiber_unwinds_under_its_own_execution_and_not_another() -> None:
    seen: list[Scheduler] = []

    async def first() -> None:
        try:
            await promise("a")
        finally:
            seen.append(current())

    async def second() -> None:
        victim.close()
        seen.append(current())

    victim = Hand(first)
    other = Hand(second)
    assert seen == [victim.scheduler, other.scheduler]
    assert slot.scheduler is None


def test_a_durable_call_in_a_finally_cannot_cross_into_another_execution() -> None:
    async def first() -> None:
        try:
            await promise("a")
        finally:
            promise("stray")

    async def second() -> str:
        victim.close()
        return "undisturbed"

    victim = Hand(first)
    other = Hand(second)
    assert other.result() == "undisturbed"
    assert other.issued == {}
    assert list(victim.issued) == ["a"]


def test_a_fiber_unwinds_in_its_own_context() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="outside")
    seen: list[str] = []

    async def child(name: str) -> None:
        variable.set(name)
        try:
            await promise(name)
        finally:
            seen.append(variable.get())

    async def root() -> None:
        await gather(child("a"), child("b"))

    Hand(root).close()
    assert seen == ["b", "a"]
    assert variable.get() == "outside"


def test_dropping_a_suspended_scheduler_does_not_let_the_collector_run_its_fibers() -> None:
    trace: list[str] = []

    async def root() -> None:
        await guarded("a", trace)

    hand = Hand(root)
    scheduler = hand.scheduler
    del hand
    gc.collect()
    assert trace == []
    assert scheduler in open_schedulers
    scheduler.close()
    assert trace == ["a finally"]
    assert scheduler not in open_schedulers


def test_a_closed_execution_is_freed_without_the_collector() -> None:
    class Canary:
        pass

    async def child(canary: Canary) -> None:
        await promise("a")

    async def root(canary: Canary) -> None:
        spawn(child, canary)
        await promise("x")

    canary = Canary()
    gone = weakref.ref(canary)
    hand = Hand(root, canary)
    del canary
    hand.close()
    assert gone() is None


def test_a_finished_fiber_is_freed_without_the_collector() -> None:
    class Canary:
        pass

    alive: list[Any] = []

    async def child() -> None:
        canary = Canary()
        alive.append(weakref.ref(canary))
        await promise("a")

    async def root() -> None:
        await spawn(child)
        await promise("x")

    hand = Hand(root)
    assert alive[0]() is not None
    gc.disable()
    try:
        hand.resolve("a")
        assert alive[0]() is None
    finally:
        gc.enable()


def test_an_execution_can_be_closed_from_another_thread() -> None:
    seen: list[Any] = []

    async def root() -> None:
        try:
            await promise("a")
        finally:
            seen.append(current())

    hand = Hand(root)
    thread = threading.Thread(target=hand.close)
    thread.start()
    thread.join()
    assert seen == [hand.scheduler]
    assert slot.scheduler is None


def test_tasks_of_a_closed_execution_say_what_became_of_them() -> None:
    tasks: list[Any] = []

    async def child() -> None:
        await promise("a")

    async def root() -> None:
        tasks.append(spawn(child))
        await promise("x")

    Hand(root).close()
    with pytest.raises(ExecutionClosed, match="child#2 was taken down"):
        tasks[0].result()


def test_the_outcome_of_a_suspended_execution_is_not_invented() -> None:
    async def root() -> None:
        await promise("a")

    hand = Hand(root)
    hand.close()
    assert not hand.done
    with pytest.raises(RuntimeError, match="not done"):
        hand.result()


def test_execution_closed_is_no_ordinary_exception() -> None:
    assert not issubclass(ExecutionClosed, Exception)


def test_channels_and_semaphores_may_be_used_in_a_finally() -> None:
    trace: list[str] = []
    box = Channel[int]()

    async def reader() -> None:
        try:
            await box.receive
            trace.append("read")
        finally:
            trace.append("reader unwound")

    async def sender() -> None:
        try:
            await promise("a")
        finally:
            box.send(1)
            trace.append("sent")

    async def root() -> None:
        spawn(reader)
        spawn(sender)
        await promise("x")

    Hand(root).close()
    assert trace == ["sent", "reader unwound"]


# Root exit.


def test_when_the_root_returns_nothing_else_runs() -> None:
    trace: list[str] = []

    async def child() -> None:
        await promise("a")
        trace.append("child")

    async def root() -> str:
        spawn(child)
        return await promise("go")

    hand = Hand(root)
    hand.resolve("go", "value")
    hand.resolve("a")
    assert hand.result() == "value"
    assert trace == []


def test_the_drain_stops_in_mid_queue_when_the_root_is_done() -> None:
    trace: list[str] = []

    async def waiter(name: str, future: Any) -> None:
        await future
        trace.append(name)

    async def root() -> None:
        future = promise("go")
        spawn(waiter, "before", future)
        await promise("ready")
        spawn(waiter, "after", future)
        await future
        trace.append("root")

    hand = Hand(root)
    hand.resolve("ready")
    hand.resolve("go")
    assert trace == ["before", "root"]


def test_a_fiber_queued_but_unstarted_never_starts_after_the_root_is_done() -> None:
    trace: list[str] = []

    async def child() -> None:
        trace.append("started")

    async def root() -> None:
        await promise("go")
        spawn(child)

    hand = Hand(root)
    hand.resolve("go")
    assert hand.done
    assert trace == []


def test_a_failing_root_abandons_too() -> None:
    trace: list[str] = []

    async def root() -> None:
        spawn(guarded, "a", trace)
        await promise("go")
        raise ValueError("root")

    hand = Hand(root)
    hand.resolve("go")
    with pytest.raises(ValueError, match="root"):
        hand.result()
    assert trace == []


def test_what_abandoned_fibers_had_issued_stays_issued() -> None:
    async def child() -> None:
        await promise("a")

    async def root() -> None:
        spawn(child)
        await promise("go")

    hand = Hand(root)
    hand.resolve("go")
    assert list(hand.issued) == ["go", "a"]
    assert hand.scheduler.pending == ("a",)


def test_join_drives_the_others_to_their_end() -> None:
    trace: list[str] = []

    async def root() -> str:
        spawn(guarded, "a", trace)
        spawn(guarded, "b", trace)
        return "value"

    hand = Hand(root, on_root_exit="join")
    assert not hand.done
    hand.resolve("b")
    assert not hand.done
    hand.resolve("a")
    assert hand.done
    assert hand.result() == "value"
    assert trace == ["b finally", "a finally"]


def test_join_keeps_the_error_of_a_failed_root() -> None:
    trace: list[str] = []

    async def root() -> None:
        spawn(guarded, "a", trace)
        raise ValueError("root")

    hand = Hand(root, on_root_exit="join")
    hand.resolve("a")
    with pytest.raises(ValueError, match="root"):
        hand.result()
    assert trace == ["a finally"]


def test_join_waits_for_fibers_spawned_by_others_after_the_root_returned() -> None:
    trace: list[str] = []

    async def child() -> None:
        await promise("a")
        spawn(guarded, "b", trace)

    async def root() -> None:
        spawn(child)

    hand = Hand(root, on_root_exit="join")
    hand.resolve("a")
    assert not hand.done
    hand.resolve("b")
    assert hand.done


def test_a_scope_joins_under_abandon() -> None:
    trace: list[str] = []

    async def root() -> str:
        async with scope() as tasks:
            tasks.spawn(guarded, "a", trace)
        return "left"

    hand = Hand(root)
    assert not hand.done
    hand.resolve("a")
    assert hand.result() == "left"


def test_a_keyboard_interrupt_reaches_the_driver() -> None:
    async def child() -> None:
        raise KeyboardInterrupt

    async def root() -> None:
        spawn(child)
        await promise("a")

    with pytest.raises(KeyboardInterrupt):
        Hand(root)
    assert slot.scheduler is None


def test_the_execution_can_be_closed_after_a_keyboard_interrupt() -> None:
    trace: list[str] = []

    async def child() -> None:
        await promise("go")
        raise KeyboardInterrupt

    async def root() -> None:
        spawn(child)
        await guarded("a", trace)

    hand = Hand(root)
    with pytest.raises(KeyboardInterrupt):
        hand.resolve("go")
    hand.close()
    assert trace == ["a finally"]


@pytest.mark.parametrize("ask", ["promise", "spawn", "scope", "scope after a timeout"])
def test_a_fiber_that_catches_everything_and_asks_again_is_given_up_naming_its_line(ask: str) -> None:
    rounds: list[int] = []

    async def child() -> None:
        await promise("child")

    async def again() -> None:
        if ask == "promise":
            await promise("p")
        elif ask == "spawn":
            await spawn(child)
        elif ask == "scope":
            async with scope() as tasks:
                tasks.spawn(child)
        else:
            async with timeout(10), scope() as tasks:
                tasks.spawn(child)

    async def root() -> None:
        while True:
            rounds.append(1)
            try:
                await again()
            except BaseException:
                continue

    hand = Hand(root)
    hand.close()
    given_up = [report for report in hand.reports if report.trouble is Trouble.WOULD_NOT_CLOSE]
    assert len(given_up) == 1
    assert f'"{__file__}", line ' in given_up[0].where
    assert "again" in given_up[0].where
    assert len(rounds) < 1_000, "the number of throws is bounded"


def test_the_first_calls_of_a_fiber_that_is_taken_down_raise_at_once() -> None:
    caught: list[type[BaseException]] = []

    async def root() -> None:
        for _ in range(3):
            try:
                await promise("p")
            except BaseException as error:
                caught.append(type(error))

    hand = Hand(root)
    hand.close()
    assert caught == [ExecutionClosed] * 3
    assert hand.reports == []
