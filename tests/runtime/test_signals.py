"""Signals: set once, first reason kept, children follow, callbacks run exactly once."""

from __future__ import annotations

import gc
import threading

import pytest

from holdfast.runtime import FiberInterrupted, Signal

REASON = FiberInterrupted("stop")


def test_a_signal_begins_unset() -> None:
    signal = Signal()
    assert not signal.is_set
    assert signal.reason is None
    signal.raise_if_set()


def test_setting_keeps_the_first_reason() -> None:
    signal = Signal()
    signal.set(REASON)
    signal.set(FiberInterrupted("later"))
    assert signal.reason is REASON


def test_raise_if_set_raises_the_reason() -> None:
    signal = Signal()
    signal.set(REASON)
    with pytest.raises(FiberInterrupted, match="stop"):
        signal.raise_if_set()


def test_a_callback_runs_once_when_set() -> None:
    seen: list[str] = []
    signal = Signal()
    signal.on_set(lambda: seen.append("called"))
    assert seen == []
    signal.set(REASON)
    signal.set(REASON)
    assert seen == ["called"]


def test_a_callback_on_a_set_signal_runs_now() -> None:
    seen: list[str] = []
    signal = Signal()
    signal.set(REASON)
    signal.on_set(lambda: seen.append("called"))
    assert seen == ["called"]


def test_callbacks_run_in_the_order_they_were_given() -> None:
    seen: list[int] = []
    signal = Signal()
    for number in range(5):
        signal.on_set(lambda number=number: seen.append(number))  # type: ignore[misc]
    signal.set(REASON)
    assert seen == [0, 1, 2, 3, 4]


def test_a_withdrawn_callback_does_not_run() -> None:
    seen: list[str] = []
    signal = Signal()
    withdraw = signal.on_set(lambda: seen.append("called"))
    withdraw()
    withdraw()
    signal.set(REASON)
    assert seen == []


def test_the_flag_is_up_before_the_first_callback_runs() -> None:
    seen: list[bool] = []
    signal = Signal()
    signal.on_set(lambda: seen.append(signal.is_set))
    signal.set(REASON)
    assert seen == [True]


def test_children_are_set_with_their_parent_in_order() -> None:
    seen: list[str] = []
    parent = Signal()
    children = [parent.child() for _ in range(3)]
    for number, child in enumerate(children):
        child.on_set(lambda number=number: seen.append(f"child {number}"))  # type: ignore[misc]
    parent.on_set(lambda: seen.append("parent"))
    parent.set(REASON)
    assert seen == ["parent", "child 0", "child 1", "child 2"]
    assert all(child.reason is REASON for child in children)


def test_a_child_can_be_set_alone() -> None:
    parent = Signal()
    child, sibling = parent.child(), parent.child()
    child.set(REASON)
    assert (parent.is_set, child.is_set, sibling.is_set) == (False, True, False)


def test_a_child_of_a_set_signal_is_born_set() -> None:
    parent = Signal()
    parent.set(REASON)
    assert parent.child().reason is REASON


def test_a_parent_does_not_keep_its_children_alive() -> None:
    parent = Signal()
    for _ in range(1000):
        parent.child()
    gc.collect()
    seen = parent._children  # pyright: ignore[reportPrivateUsage]
    assert not list(seen or ())


def test_a_child_keeps_its_own_reason_when_the_parent_is_set_later() -> None:
    parent = Signal()
    child = parent.child()
    own = FiberInterrupted("own")
    child.set(own)
    parent.set(REASON)
    assert child.reason is own


def test_a_deep_chain_is_set_without_recursion() -> None:
    chain = [Signal()]
    for _ in range(20_000):
        chain.append(chain[-1].child())
    chain[0].set(REASON)
    assert chain[-1].reason is REASON


def test_a_signal_says_how_it_stands() -> None:
    signal = Signal()
    assert repr(signal) == "<Signal not set>"
    signal.set(REASON)
    assert repr(signal) == "<Signal set: FiberInterrupted('stop')>"


def test_callbacks_run_exactly_once_when_set_and_registered_on_two_threads() -> None:
    for _ in range(50):
        signal = Signal()
        seen: list[int] = []
        together = threading.Barrier(2)

        def register(
            signal: Signal = signal, seen: list[int] = seen, gate: threading.Barrier = together
        ) -> None:
            gate.wait()
            for number in range(200):
                signal.on_set(lambda number=number: seen.append(number))  # type: ignore[misc]

        thread = threading.Thread(target=register)
        thread.start()
        together.wait()
        signal.set(REASON)
        thread.join()
        assert sorted(seen) == list(range(200))
