"""Strategies for Hypothesis: what they draw, and that a fault which needs a crash is found and shrunk."""

import pytest
from hypothesis import HealthCheck, given, settings

import holdfast as hf
from holdfast.testing import CrashPoint, Ledger, World
from holdfast.testing.strategies import crash_points, interleavings, seeds

app = hf.App()
ledger = Ledger()
few = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@app.workflow
async def collect(count: int) -> list[str]:
    said: list[str] = []
    async for message in hf.mailbox(str):
        said.append(message.value)
        await hf.run(ledger.enter, f"took {message.value}")
        if len(said) == count:
            break
    return said


@few
@given(crashes=crash_points(writes_max=12), order=interleavings(["a1", "a2"], ["b1", "b2"], ["c1"]))
def test_every_message_counts_once_in_its_order_wherever_workers_die(
    crashes: list[CrashPoint], order: list[str]
) -> None:
    ledger.clear()
    with World(app, crashes=crashes) as world:
        handle = app.start(collect, 5, id="c")
        for message in order:
            world.tell("c", message)
        assert handle.result() == order
        assert len(ledger.entries) == 5


@few
@given(order=interleavings([1, 2, 3], [], [4, 5]))
def test_the_messages_of_one_sender_stay_in_their_order(order: list[int]) -> None:
    assert sorted(order) == [1, 2, 3, 4, 5]
    assert [each for each in order if each < 4] == [1, 2, 3]
    assert [each for each in order if each > 3] == [4, 5]


@few
@given(crashes=crash_points(writes_max=5, crashes_max=2))
def test_points_come_in_the_order_in_which_they_are_reached(crashes: list[CrashPoint]) -> None:
    assert len(crashes) <= 2
    assert [each.write for each in crashes] == sorted(each.write for each in crashes)
    assert all(1 <= each.write <= 5 for each in crashes)


@few
@given(seed=seeds())
def test_a_seed_is_one_that_a_simulation_takes(seed: int) -> None:
    assert 0 <= seed < 2**32


def test_a_fault_that_needs_a_crash_is_found_and_shrunk_to_one() -> None:
    """The planted fault: an effect at a place that every replay passes again."""
    found: list[list[CrashPoint]] = []
    effects: list[int] = []

    @app.workflow(name="leaky")
    async def leaky() -> int:
        with hf.unguarded():
            effects.append(1)
        await hf.sleep(1)
        return 1

    @settings(few, max_examples=100, database=None)
    @given(crashes=crash_points(writes_max=4))
    def check(crashes: list[CrashPoint]) -> None:
        effects.clear()
        with World(app, crashes=crashes):
            app.start(leaky).result()
        if len(effects) > 1:
            found.append(crashes)
        assert len(effects) == 1

    with pytest.raises(AssertionError):
        check()
    assert len(found[-1]) == 1
