"""Callbacks of a step's signal run outside of the fibers. What they raise disturbs nobody and is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    NotInFiber,
    Signal,
    Step,
    Trouble,
    all_settled,
    current_fiber,
    race,
    run,
    spawn,
)
from holdfast.runtime.slot import slot
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import work


def signal_of(hand: Hand, name: str = "work") -> Signal:
    step = hand.issued[name]
    assert isinstance(step, Step)
    return step.signal


async def child() -> None:
    await run(work)


async def interrupting(trace: list[str]) -> None:
    task = spawn(child)
    await promise("go")
    trace.append("before")
    task.interrupt()
    trace.append("after")
    await all_settled(task)
    trace.append("joined")
    await promise("rest")


def test_a_callback_runs_after_the_fibers_and_not_inside_interrupt() -> None:
    trace: list[str] = []
    with Hand(interrupting, trace) as hand:
        signal_of(hand).on_set(lambda: trace.append("called back"))
        hand.resolve("go")
        assert trace == ["before", "after", "joined", "called back"]
        assert signal_of(hand).is_set


def test_no_fiber_runs_where_a_callback_does() -> None:
    seen: list[object] = []
    with Hand(interrupting, []) as hand:
        signal_of(hand).on_set(lambda: seen.append(slot.scheduler))
        hand.resolve("go")
    assert seen == [None]


def test_the_loser_of_a_race_is_called_back_after_the_fibers_too() -> None:
    trace: list[str] = []

    async def root() -> None:
        await race(promise("first"), run(work), cancel_losers=True)
        trace.append("won")
        await promise("rest")

    with Hand(root) as hand:
        signal_of(hand).on_set(lambda: trace.append("called back"))
        hand.resolve("first")
    assert trace.count("called back") == 1


durable: dict[str, Callable[[], Any]] = {
    "a step": lambda: run(work),
    "a promise": lambda: promise("of the callback"),
    "spawn": lambda: spawn(child),
    "the current fiber": current_fiber,
}


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
@pytest.mark.parametrize("call", durable.values(), ids=durable)
def test_a_callback_can_call_nothing_durable(call: Callable[[], Any], how: str) -> None:
    with Hand(interrupting, []) as hand:
        signal_of(hand).on_set(call)
        before = [*hand.issued]
        if how == "interrupt":
            hand.resolve("go")
            before.append("rest")
        else:
            hand.cancel()
        assert [*hand.issued] == before
        [report] = hand.reports
        assert report.trouble is Trouble.CALLBACK_FAILED
        assert isinstance(report.error, NotInFiber)


def fail() -> None:
    raise ValueError("of the callback")


def test_a_callback_that_raises_does_not_raise_into_interrupt() -> None:
    trace: list[str] = []
    with Hand(interrupting, trace) as hand:
        signal_of(hand).on_set(fail)
        signal_of(hand).on_set(lambda: trace.append("the next one"))
        hand.resolve("go")
        assert trace == ["before", "after", "joined", "the next one"]
        [report] = hand.reports
        assert report.trouble is Trouble.CALLBACK_FAILED
        assert "of the callback" in str(report)
        assert "test_signal_callbacks.py" in report.where


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1)])
def test_a_callback_that_raises_does_not_stop_cancel_half_way(error: BaseException) -> None:
    cancelled: list[str] = []

    def raising() -> None:
        raise error

    async def first() -> None:
        try:
            await run(work)
        except Cancelled:
            cancelled.append("first")

    async def root() -> None:
        tasks = [spawn(first), spawn(first)]
        try:
            await promise("a")
        except Cancelled:
            cancelled.append("root")
        await all_settled(tasks)

    hand = Hand(root)
    signal_of(hand).on_set(raising)
    hand.cancel()
    assert cancelled == ["root", "first", "first"]
    assert signal_of(hand, "work/2").is_set
    assert [report.error for report in hand.reports] == [error]
    assert hand.done


def test_a_callback_that_raises_does_not_stop_close() -> None:
    hand = Hand(child)
    signal_of(hand).on_set(fail)
    hand.close()
    assert [report.trouble for report in hand.reports] == [Trouble.CALLBACK_FAILED]


def test_a_callback_on_a_signal_that_is_set_is_reported_too_when_it_raises() -> None:
    with Hand(child) as hand:
        hand.cancel()
        signal_of(hand).on_set(fail)
        assert [report.trouble for report in hand.reports] == [Trouble.CALLBACK_FAILED]


def test_all_flags_are_up_before_the_first_callback_runs() -> None:
    parent = Signal()
    child, seen = parent.child(), list[bool]()
    parent.on_set(lambda: seen.append(child.is_set))
    parent.set(ValueError())
    assert seen == [True]


def test_without_anybody_to_report_to_it_goes_to_the_interpreters_hook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", seen.append)
    signal = Signal()
    signal.on_set(fail)
    signal.set(ValueError())
    [args] = seen
    assert str(args.exc_value) == "of the callback"


def test_a_signal_that_moved_is_set_with_its_new_parent_only() -> None:
    old, new = Signal(), Signal()
    moved = old.child()
    moved.move_under(new)
    old.set(ValueError())
    assert not moved.is_set
    new.set(ValueError("new"))
    assert str(moved.reason) == "new"


def test_a_signal_that_moves_under_a_set_one_is_set() -> None:
    old, new = Signal(), Signal()
    moved = old.child()
    new.set(ValueError("new"))
    moved.move_under(new)
    assert str(moved.reason) == "new"
