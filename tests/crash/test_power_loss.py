"""Power fails at any instant: after a restart, everything acknowledged is there and nothing is broken."""

import pytest

from tests.counts import count_of
from tests.crash.power_loss import NAME, Ack, Event, Sync, Write
from tests.crash.recording import Recording, cut, cut_one_recording, record, repeat
from tests.seeds import seed_for_test

POINTS = count_of("HOLDFAST_POWER_POINTS", quick=200, full=2_000)
POINTS_PER_RECORDING = 200
LOG = f"{NAME}-wal"


def wrongs(recording: Recording, cuts: int) -> list[str]:
    return [found.wrong for number in range(cuts) if (found := cut(recording, f"{number}")).wrong]


@pytest.mark.sized
def test_no_acknowledged_commit_is_lost_when_power_fails() -> None:
    seed = seed_for_test()
    for number in range(max(1, POINTS // POINTS_PER_RECORDING)):
        for found in cut_one_recording(f"{seed}:{number}", min(POINTS, POINTS_PER_RECORDING)):
            assert not found.wrong, (
                f"{found.wrong}; again: python -m tests.crash.campaign --repeat {found.name}"
            )


def test_each_seed_records_other_commits_and_the_same_seed_the_same() -> None:
    one, again, other = record("1:0"), record("1:0"), record("1:1")
    assert one == again
    assert one.contents != other.contents
    assert len(set(one.contents)) > len(one.contents) // 2


def test_a_cut_can_be_repeated_by_its_name() -> None:
    [*_, last] = cut_one_recording("3:0", 3)
    assert repeat(last.name) == last


def test_the_zeros_of_the_log_are_recorded_and_can_be_lost() -> None:
    """Or else a cut would find them there although nobody had synced them."""
    log = record("1:0").log
    zeros = [place for place, event in enumerate(log) if is_zeros(event)]
    assert zeros
    place = zeros[-1]
    synced = next(index for index in range(place, len(log)) if log[index] == Sync(LOG))
    assert not any(isinstance(event, Ack) for event in log[place:synced])


def is_zeros(event: Event) -> bool:
    return isinstance(event, Write) and event.file == LOG and not any(event.data)


def test_this_disk_does_lose_what_was_not_synced() -> None:
    """The first test can fail: with weaker settings, acknowledged commits are lost."""
    assert wrongs(record("1:0", synchronous="NORMAL"), 60)


def test_zeros_that_are_put_over_a_commit_are_found() -> None:
    assert wrongs(record("1:0", astray_bytes=4_096), 60)
