"""Many simulations, one per seed: how much was tried, and how to repeat what failed.

A failing seed is told with the last lines of its event log. HOLDFAST_SEED=17 runs that seed alone and prints
all of them; HOLDFAST_SEED=random draws other seeds than those of every run.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from random import SystemRandom
from typing import Final

from msgspec import Struct, field

from holdfast.app import App
from holdfast.payloads.durations import Duration, duration_s
from holdfast.store.memory import MemoryStore
from holdfast.testing.faults import Plan
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Scenario, Simulation, SimulationFailure, patience_s

VARIABLE: Final = "HOLDFAST_SEED"
DRAWN: Final = "random"
lines_shown: Final = 60

Look = Callable[[MemoryStore, int], list[str]]


class SeedReport(Struct):
    """How much was tried."""

    seeds: int = 0
    turns: int = 0
    requests: int = 0
    commits: int = 0
    virtual_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, simulation: Simulation) -> None:
        self.seeds += 1
        self.turns += simulation.loop.turns
        self.requests += simulation.witness.answered
        self.commits += simulation.disk.commits
        self.virtual_s += simulation.loop.time()
        for kind, count in simulation.faults.counts.items():
            self.faults[kind] = self.faults.get(kind, 0) + count


def simulate(
    app: App,
    scenario: Scenario,
    *,
    seeds: int | Iterable[int] = 100,
    ledger: Ledger | None = None,
    looks: Sequence[Look] = (),
    restartable: bool = False,
    leftovers: bool = False,
    patience: Duration = patience_s,
) -> SeedReport:
    """Run a scenario once for each seed, each time in another world with other faults.

    The scenario is what a caller does; the app's own methods work in it. Its assertions must hold in every
    world.

    `seeds`: how many, or which. `ledger`: has the effects of steps; each must be there once. `looks`:
    functions that read the final store and return sentences about what is wrong. `restartable`: the scenario
    may be killed and begin again. `leftovers`: executions may still wait at the end. `patience`: what is not
    over after this virtual time without faults is stuck.

    >>> simulate(app, orders, seeds=300, ledger=ledger)
    """
    asked = os.environ.get(VARIABLE)
    alone = bool(asked) and asked != DRAWN
    report = SeedReport()
    for seed in _chosen(asked, seeds):
        if ledger is not None:
            ledger.clear()
        simulation = Simulation(
            app,
            Plan.draw(seed),
            restartable=restartable,
            leftovers=leftovers,
            patience_s=duration_s(patience),
        )
        simulation.looks += looks
        try:
            simulation.run(scenario)
        except SimulationFailure as failure:
            raise explained(failure, f"{VARIABLE}={seed}") from failure
        finally:
            if alone:
                sys.stdout.write("\n".join(simulation.log.lines) + "\n")
        report.add(simulation)
    return report


def _chosen(asked: str | None, seeds: int | Iterable[int]) -> Iterable[int]:
    if asked and asked != DRAWN:
        return [int(asked)]
    if not isinstance(seeds, int):
        return seeds
    first = SystemRandom().randrange(2**32) if asked else 0
    return range(first, first + seeds)


def explained(failure: SimulationFailure, command: str) -> SimulationFailure:
    """The same failure, in words for whoever has to find its cause."""
    head, tail = failure.lines[:2], failure.lines[2:][-lines_shown:]
    left_out = len(failure.lines) - len(head) - len(tail)
    log = "\n".join([*head, f"... {left_out} lines ...", *tail])
    text = f"Seed {failure.plan.seed}: {failure.what}\nTo repeat it: {command}\n{log}"
    return SimulationFailure(text, failure.plan, failure.lines)


def digest(lines: Iterable[str]) -> str:
    """Of an event log: two runs with the same one have done the same."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
