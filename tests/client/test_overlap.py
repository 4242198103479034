"""A second array is sent while this process is busy, and not while it mostly waits."""

import time

import pytest

from holdfast.client.overlap import Overlap, always


class Clocks:
    def __init__(self, watched: Overlap) -> None:
        self.watched = watched
        self.at_s = self.worked_s = 1_000.0

    def cycles(self, count: int, *, working_s: float, waiting_s: float) -> None:
        for _ in range(count):
            self.worked_s += working_s
            self.at_s += working_s + waiting_s
            self.watched.answered(self.at_s)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks(Overlap())
    monkeypatch.setattr(time, "thread_time", lambda: clocks.worked_s)
    return clocks


def test_nothing_is_known_at_first(clocks: Clocks) -> None:
    assert not clocks.watched.pays


def test_it_pays_when_both_sides_take_as_long(clocks: Clocks) -> None:
    clocks.cycles(20, working_s=0.003, waiting_s=0.003)
    assert clocks.watched.pays


def test_it_pays_still_when_hardly_any_waiting_is_left(clocks: Clocks) -> None:
    clocks.cycles(40, working_s=0.002, waiting_s=0.0001)
    assert clocks.watched.pays


def test_it_does_not_pay_when_the_node_is_slow(clocks: Clocks) -> None:
    clocks.cycles(40, working_s=0.003, waiting_s=0.009)
    assert not clocks.watched.pays


def test_it_follows_the_node_that_becomes_slow_and_fast_again(clocks: Clocks) -> None:
    clocks.cycles(20, working_s=0.003, waiting_s=0.003)
    clocks.cycles(10, working_s=0.002, waiting_s=0.020)
    assert not clocks.watched.pays
    clocks.cycles(20, working_s=0.003, waiting_s=0.003)
    assert clocks.watched.pays


def test_a_simulation_does_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "thread_time")
    watched = always()
    watched.answered(1.0)
    assert watched.pays
