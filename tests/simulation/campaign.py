"""Many seeds of the workloads: `python -m tests.simulation.campaign --first 0 --count 20000`.

Each run is checked in every way there is; a batch in which some kind of fault never happened is a failure,
too. `make simulate SEED=17` repeats one seed and prints its event log.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Iterable
from random import Random
from typing import Any
from unittest.mock import patch

from msgspec import to_builtins

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.requests import DebugSnap, Request
from holdfast.store.memory import MemoryStore
from holdfast.testing.faults import KINDS, Plan, StoreKind
from holdfast.testing.seeds import SeedReport, digest, explained
from holdfast.testing.simulation import Simulation, SimulationFailure
from holdfast.workflow import progress_end
from tests.model.invariants import check_state
from tests.simulation.expectation import Expectation, app, ledger, repaired
from tests.simulation.workloads import scenario_of

STORES: tuple[StoreKind, ...] = ("memory", "sqlite", "shared")
EVENTS_MAX = 5_000  # in one run
EVERY_FAULT_SEEDS = 100  # a batch of this many has seen every kind of fault


def invariants(store: MemoryStore, now: int) -> list[str]:
    """Those of the protocol, on everything that is stored."""
    snap = Request("debug.snap", "snap", CURRENT_VERSION, "A", DebugSnap())
    moment = CommitContext(now, Rules(), debug=True)
    outcome = store.run(lambda: run_group([snap], moment))
    data: Any = to_builtins(outcome.replies[0].data)
    return check_state(data, now)


def play(seed: int, stores: Iterable[StoreKind] = STORES) -> Simulation:
    """One seed; raises SimulationFailure."""
    ledger.clear()
    repaired.clear()
    expectation = Expectation()
    simulation = Simulation(app, Plan.draw(seed, stores), restartable=True, patience_s=1_800)
    simulation.events_max = EVENTS_MAX
    simulation.peeks.append(invariants)
    simulation.looks += [invariants, expectation.look]
    # The executions are short: in some worlds each of them counts as one that has recorded much.
    with patch.object(progress_end, "many_records", Random(f"records {seed}").choice((0, 3, 100))):
        try:
            simulation.run(scenario_of(expectation))
        except SimulationFailure as failure:
            raise explained(failure, f"make simulate SEED={seed}") from failure
    return simulation


def log_digest(seed: int) -> str:
    try:
        return digest(play(seed).log.lines)
    except SimulationFailure as failure:
        return digest(failure.lines)


def batch(seeds: Iterable[int]) -> tuple[SeedReport, list[SimulationFailure]]:
    report, failures = SeedReport(), list[SimulationFailure]()
    for seed in seeds:
        try:
            report.add(play(seed))
        except SimulationFailure as failure:
            failures.append(failure)
        if seed % 20 == 0:
            gc.collect()
    return report, failures


def missing_faults(report: SeedReport) -> list[str]:
    """The kinds of faults that happened too seldom in so many seeds."""
    least = report.seeds // EVERY_FAULT_SEEDS
    return [kind for kind in KINDS if report.faults.get(kind, 0) < least]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=None, help="only this one, with its event log")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--digests", action="store_true", help="print what the logs of the seeds come to")
    options = parser.parse_args()
    if options.digests:
        for seed in range(options.first, options.first + options.count):
            print(seed, log_digest(seed))
        return 0
    if options.seed is not None:
        return _repeat(options.seed)
    return _campaign(options.first, options.count)


def _repeat(seed: int) -> int:
    try:
        simulation = play(seed)
    except SimulationFailure as failure:
        print("\n".join(failure.lines))
        traceback.print_exc()
        return 1
    print("\n".join(simulation.log.lines))
    return 0


def _campaign(first: int, count: int) -> int:
    began, cpu = time.perf_counter(), time.process_time()
    gc.freeze()
    total, failed = SeedReport(), 0
    for start in range(first, first + count, 200):
        report, failures = batch(range(start, min(start + 200, first + count)))
        failed += len(failures)
        for failure in failures:
            print(failure.what, file=sys.stderr)
        _sum(total, report)
        print(f"{total.seeds} seeds, {failed} failed, {time.perf_counter() - began:.0f} s", flush=True)
    cpu = time.process_time() - cpu
    print(f"{total.seeds} seeds in {cpu:.0f} CPU seconds: {60 * total.seeds / cpu:.0f} a minute and core")
    print(f"{total.turns:,} events, {total.requests:,} requests, {total.commits:,} commits, ", end="")
    print(f"{total.virtual_s / 86_400:.1f} days of virtual time, {sum(total.faults.values()):,} faults")
    for kind in KINDS:
        print(f"{total.faults.get(kind, 0):>10,} {kind}")
    missing = missing_faults(total)
    if missing:
        print(f"too few of: {', '.join(missing)}")
    return 1 if failed or missing else 0


def _sum(total: SeedReport, report: SeedReport) -> None:
    total.seeds += report.seeds
    total.turns += report.turns
    total.requests += report.requests
    total.commits += report.commits
    total.virtual_s += report.virtual_s
    for kind, count in report.faults.items():
        total.faults[kind] = total.faults.get(kind, 0) + count


if __name__ == "__main__":
    sys.exit(main())
