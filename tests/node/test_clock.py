"""The node's clock when the machine's is set: it never goes back, and it never stands still."""

from holdfast.node.clock import SteadyClock


class Machine:
    """A wall clock that somebody sets, beside ticks that nobody does."""

    def __init__(self) -> None:
        self.beat_s = 100.0
        self.offset_ms = 1_000_000

    def wall(self) -> int:
        return round(self.beat_s * 1000) + self.offset_ms

    def beat(self) -> float:
        return self.beat_s


def test_a_clock_that_is_set_back_goes_on_at_half_pace_until_the_other_has_caught_up() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, 0, machine.beat)
    before = clock.now()
    machine.offset_ms -= 3_600_000
    assert clock.now() == before
    machine.beat_s += 2
    assert clock.now() == before + 1_000
    for _ in range(7_300):
        machine.beat_s += 1
        clock.now()
    assert clock.now() == machine.wall()


def test_looking_often_does_not_slow_it_down() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, 0, machine.beat)
    before = clock.now()
    machine.offset_ms -= 3_600_000
    for _ in range(100_000):
        machine.beat_s += 0.0001
        clock.now()
    assert before + 4_990 <= clock.now() <= before + 5_000


def test_after_a_restart_it_goes_on_from_the_latest_instant_that_was_stored() -> None:
    machine = Machine()
    floor = machine.wall() + 3_600_000  # the clock was ahead when the node stopped
    clock = SteadyClock(machine.wall, floor, machine.beat)
    assert clock.now() == floor
    machine.beat_s += 4
    assert clock.now() == floor + 2_000


def test_it_follows_a_jump_ahead_at_once() -> None:
    machine = Machine()
    clock = SteadyClock(machine.wall, 0, machine.beat)
    clock.now()
    machine.offset_ms += 3_600_000
    assert clock.now() == machine.wall()
