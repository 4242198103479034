"""Whole installations in virtual time, each in a world of its own: nothing is lost, doubled or stuck."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.host.execution_client import Start
from holdfast.payloads.payloads import Payloads
from holdfast.testing import Ledger, Simulation, SimulationFailure, simulate
from holdfast.testing.faults import KINDS, Plan
from holdfast.testing.seeds import SeedReport, digest
from tests.counts import FULL, count_of
from tests.seeds import chosen_seed
from tests.simulation.campaign import batch, missing_faults, play
from tests.simulation.mutants import MUTANTS, Mutation, Where

ROOT = Path(__file__).parent.parent.parent
FIRST = chosen_seed("0")
BATCH = count_of("HOLDFAST_WORLDS", quick=15, full=100)
# These are found soon; `make test-all` looks for the others too.
QUICK = ("grants_without_a_new_version", "creates_again_what_exists")


@pytest.mark.sized
@pytest.mark.parametrize("number", range(3 if FULL else 2))
def test_nothing_is_lost_doubled_or_stuck_in_a_row_of_worlds(number: int) -> None:
    first = FIRST + number * BATCH
    print(f"HOLDFAST_SEED={first}")
    report, failures = batch(range(first, first + BATCH))
    assert not failures, "\n\n".join(failure.what for failure in failures)
    assert not missing_faults(report), f"too few of {missing_faults(report)}"
    assert report.requests > 50 * BATCH


def play_all(seeds: range, where: Where) -> None:
    for seed in seeds:
        play(seed, where.stores)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.__name__, marks=() if mutant.__name__ in QUICK else pytest.mark.slow)
        for mutant in MUTANTS
    ],
)
def test_a_planted_fault_is_found(mutant: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    where = MUTANTS[mutant]
    with pytest.raises(SimulationFailure, match="make simulate SEED="):
        play_all(range(where.seeds), where)


@pytest.mark.slow
def test_the_same_seed_does_the_same_whatever_the_hashes_and_the_clock_are() -> None:
    def digests(hash_seed: str, module: str) -> list[str]:
        # In two of these worlds, 25 and 30, a search on SQLite is long enough to be ended by the clock.
        command = [sys.executable, "-m", module, "--digests", "--count", "31"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    first = digests("1", "tests.simulation.campaign")
    assert len(first) == 31
    assert len({line.split()[1] for line in first}) == 31
    assert first == digests("2", "tests.simulation.hurried")


def test_a_batch_without_some_fault_is_refused() -> None:
    every = dict.fromkeys(KINDS, 5)
    assert missing_faults(SeedReport(seeds=100, faults=every)) == []
    assert missing_faults(SeedReport(seeds=100, faults=every | {"reply lost": 0})) == ["reply lost"]


def test_different_seeds_are_different_worlds() -> None:
    plans = [Plan.draw(seed) for seed in range(200)]
    assert {plan.store for plan in plans} == {"memory", "sqlite", "shared"}
    assert len({digest(plan.lines()) for plan in plans}) == 200
    for kind in plans[0].rates.keys() | plans[0].weights.keys():
        assert any(kind not in plan.rates | plan.weights for plan in plans), f"{kind} is in every plan"


# --- what users have ---------------------------------------------------------------------------------------

app = hf.App()
ledger = Ledger()


def pay(order: str) -> str:
    ledger.enter(f"paid {order}")
    return f"receipt of {order}"


@app.workflow
async def checkout(order: str) -> str:
    receipt = await hf.run(pay, order)
    await hf.sleep("1h")
    return receipt


async def two_orders(simulation: Simulation) -> None:
    handles = [app.start(checkout, order, id=order) for order in ("a", "b")]
    for handle in handles:
        assert await handle == f"receipt of {handle.id}"
    assert sorted(ledger.entries) == ["paid a", "paid b"]


@pytest.mark.sized
def test_a_user_simulates_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SEED", raising=False)
    seeds = count_of("HOLDFAST_USER_SEEDS", quick=5, full=20)
    report = simulate(app, two_orders, seeds=seeds, ledger=ledger)
    assert report.seeds == seeds
    assert sum(report.faults.values()) > 5 * seeds


def test_other_seeds_are_drawn_when_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    async def note(simulation: Simulation) -> None:
        played.append(simulation.plan.seed)

    monkeypatch.setenv("HOLDFAST_SEED", "random")
    assert simulate(app, note, seeds=2).seeds == 2
    assert simulate(app, note, seeds=[4]).seeds == 1
    assert played[1] == played[0] + 1 > 1
    assert played[2] == 4


def test_a_failing_seed_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wrong(simulation: Simulation) -> None:
        assert await app.start(checkout, "c", id="c") == "nothing"

    monkeypatch.setenv("HOLDFAST_SEED", "7")
    with pytest.raises(SimulationFailure, match=r"(?s)Seed 7: .*To repeat it: HOLDFAST_SEED=7") as caught:
        simulate(app, wrong, ledger=ledger)
    log = capsys.readouterr().out
    assert log.splitlines() == caught.value.lines
    assert "performs c:1" in log


@pytest.mark.slow
def test_an_execution_that_nobody_ends_is_a_failure_unless_it_is_meant() -> None:
    @app.workflow(name="waits")
    async def waits() -> None:
        await hf.promise(str)

    async def start_only(simulation: Simulation) -> None:
        param = Payloads().encode_call("waits", (), {}, 1)
        await simulation.caller_session.executions.start(Start("w", param))

    with pytest.raises(SimulationFailure, match=r"stuck: .*w is suspended"):
        simulate(app, start_only, seeds=[5])
    assert simulate(app, start_only, seeds=[5], leftovers=True).seeds == 1
