"""A short campaign on both deployments, and proof that it can be red. `make chaos` is the long one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.campaign import Report, run
from tests.chaos.deployments import SqliteDeployment
from tests.chaos.faults import Met
from tests.chaos.processes import Node
from tests.chaos.scribe import Scribe
from tests.chaos.workload import are_effects_of
from tests.chaos.world import World
from tests.seeds import chosen_seed

SEED = chosen_seed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deployment", "faults"),
    [
        ("sqlite", {"kill-worker": 3, "kill-server": 2, "lost-replies": 1, "clock": 1}),
        ("postgres", {"kill-worker": 1, "kill-server": 1, "kill-postgres": 1, "lost-database-replies": 1}),
    ],
)
def test_everything_ends_well_whatever_is_killed_cut_or_full(deployment: str, faults: dict[str, int]) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    report = run({deployment: faults}, 1.0, SEED)
    assert len(report.faults()) == sum(faults.values())
    assert sum(met.in_flight > 0 for met in report.faults()) >= len(report.faults()) - 1
    [tally] = report.tallies
    assert tally.roots > 5
    assert tally.acknowledged > 100
    assert tally.ticks > 0  # how many there are depends on how long the round took


def test_a_write_that_is_taken_out_behind_everybodys_back_is_missed(tmp_path: Path) -> None:
    with World(SqliteDeployment(tmp_path), tmp_path, random.Random(1)) as world:
        world.busy_worker()
        world.check_now()
        world.scribe.created.append("w0-never-stored")
        with pytest.raises(AssertionError, match="acknowledged and lost"):
            world.check_now()


def test_half_an_array_is_noticed(tmp_path: Path) -> None:
    scribe = Scribe([Node("node", tmp_path, "memory:")])
    assert scribe.halves({"w0-1.a": "pending", "w0-1.b": "pending"}) == []
    assert scribe.halves({"w0-1.a": "pending"}) == ["w0-1"]


def test_an_effect_too_many_or_too_few_is_noticed() -> None:
    assert are_effects_of("saga", 3, ["reserve", "charge", "undo charge", "undo reserve"])
    assert not are_effects_of("saga", 3, ["reserve", "charge", "undo charge"])
    assert not are_effects_of("saga", 1, ["reserve", "charge", "charge", "ship"])
    assert are_effects_of("nap", 1, ["lie down", "work", "saw late"])
    assert not are_effects_of("nap", 1, ["lie down", "work", "saw work", "saw late"])


def test_a_campaign_without_a_fault_is_red() -> None:
    assert Report().complaints() == ["no fault was played"]


def test_a_campaign_whose_faults_met_nothing_is_red() -> None:
    report = Report()
    report.met["sqlite kill-worker"] = [Met(0), Met(3, takeover_s=1.2)]
    assert "only 1 of 2 faults met anything" in report.complaints()[0]
    report.met["sqlite kill-worker"] = [Met(3, takeover_s=5.0)]
    assert "takeover took 5.00 s" in report.complaints()[0]
    report.met["sqlite kill-worker"] = [Met(3, takeover_s=1.9)]
    assert report.complaints() == []
    report.met["sqlite cut"] = [Met(3, count=0)]
    assert "hit no connection" in report.complaints()[0]
    report.impossible["io-error"] = "strace is not installed"
    assert "impossible here" in report.complaints()[0]
