"""Real processes under fire: `python -m tests.chaos.campaign` (or `make chaos`).

Rounds of a few faults each, in a fresh world, drawn by one seed. After each fault: the invariants, and every
write acknowledged so far. After each round: every root has its closed-form result, every effect is in the
ledger exactly once, no holder began a step twice, nothing is left to do. Red as well when the faults met too
little: a campaign that hurts nobody proves nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.deployments import Impossible, PostgresDeployment, SqliteDeployment
from tests.chaos.faults import ON_POSTGRES, ON_SQLITE, Met
from tests.chaos.workload import LEASE_S
from tests.chaos.world import Tally, World
from tests.seeds import DRAWN, chosen_seed, seed_of

FAULTS_PER_ROUND = 12
busy_share_min = 0.8  # of the faults must have met something in flight
takeover_s_max = LEASE_S + 1.0  # for 95 in 100, and five times that for all
crowded = 2.0  # processes that want each core: past this, seconds say nothing about us
PLAN = {
    "sqlite": {
        "kill-worker": 60,
        "stop-worker": 6,
        "kill-server": 30,
        "stop-server": 4,
        "disk-full": 3,
        "file-limit": 3,
        "io-error": 20,
        "clock": 8,
        "cut": 6,
        "lost-replies": 6,
        "half-open": 3,
        "slow": 4,
        "partition": 4,
    },
    "postgres": {
        "kill-worker": 40,
        "stop-worker": 4,
        "kill-server": 20,
        "stop-server": 4,
        "kill-postgres": 10,
        "stop-postgres": 3,
        "clock": 4,
        "cut": 4,
        "lost-replies": 4,
        "half-open": 3,
        "slow": 3,
        "partition": 4,
        "cut-database": 6,
        "lost-database-replies": 6,
        "slow-database": 4,
    },
}


class Report:
    def __init__(self) -> None:
        self.met: dict[str, list[Met]] = defaultdict(list)
        self.tallies: list[Tally] = []
        self.impossible: dict[str, str] = {}
        self.loads: list[float] = []

    @property
    def is_crowded(self) -> bool:
        """Whether this machine had too much else to do for its takeovers to be timed."""
        return bool(self.loads) and statistics.median(self.loads) > crowded * (os.cpu_count() or 1)

    def faults(self) -> list[Met]:
        return [met for several in self.met.values() for met in several]

    def print(self, seconds: float) -> None:
        titles = f"{'times':>6}{'in flight':>11}{'hits':>7}{'takeover s p50/max':>22}{'ready s max':>13}"
        print(f"\n{'fault':32}{titles}")
        for name, several in sorted(self.met.items()):
            takeovers = [met.takeover_s for met in several if met.takeover_s is not None]
            ready = [met.recovery_s for met in several if met.recovery_s is not None]
            taken = f"{statistics.median(takeovers):.2f} / {max(takeovers):.2f}" if takeovers else ""
            back = f"{max(ready):.2f}" if ready else ""
            in_flight = sum(met.in_flight for met in several)
            hits = sum(met.count for met in several)
            print(f"{name:32}{len(several):6}{in_flight:11}{hits:7}{taken:>22}{back:>13}")
        total = Counter[str]()
        for tally in self.tallies:
            for field in tally.__struct_fields__:
                total[field] += getattr(tally, field)
        print(", ".join(f"{count:,} {field.replace('_', ' ')}" for field, count in total.items()))
        for name, reason in self.impossible.items():
            print(f"IMPOSSIBLE HERE {name}: {reason}")
        if self.is_crowded:
            print(f"the machine was crowded (load {statistics.median(self.loads):.1f}): takeovers not judged")
        print(f"{len(self.faults())} faults in {seconds:.0f} s")

    def complaints(self) -> list[str]:
        """Why this campaign proves too little; empty when it does not."""
        faults = self.faults()
        if not faults:
            return ["no fault was played"]
        complaints = [f"{name} is impossible here: {reason}" for name, reason in self.impossible.items()]
        busy = sum(met.in_flight > 0 for met in faults)
        if busy < busy_share_min * len(faults):
            complaints.append(f"only {busy} of {len(faults)} faults met anything in flight")
        complaints += [
            f"{name} hit no connection and no call"
            for name, several in self.met.items()
            if not sum(m.count for m in several)
        ]
        takeovers = sorted(met.takeover_s for met in faults if met.takeover_s is not None)
        if takeovers and not self.is_crowded:
            usual, worst = takeovers[int(0.95 * (len(takeovers) - 1))], takeovers[-1]
            if usual > takeover_s_max or worst > 5 * takeover_s_max:
                complaints.append(f"takeover took {usual:.2f} s (95 in 100), {worst:.2f} s at worst")
        return complaints


def play(deployment_name: str, plan: Sequence[str], chance: random.Random, report: Report) -> None:
    """One round."""
    with tempfile.TemporaryDirectory(prefix="holdfast-chaos-", dir="/tmp") as name:
        folder = Path(name)
        if deployment_name == "sqlite":
            deployment: SqliteDeployment | PostgresDeployment = SqliteDeployment(
                folder, small_disk="disk-full" in plan
            )
        else:
            deployment = PostgresDeployment(folder)
        faults = ON_SQLITE if deployment_name == "sqlite" else ON_POSTGRES
        try:
            with World(deployment, folder, chance) as world:
                for fault in plan:
                    time.sleep(chance.uniform(0.0, 0.3))
                    report.met[f"{deployment_name} {fault}"].append(faults[fault](world))
                    world.check_now()
                report.tallies.append(world.finish())
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-6_000:]}", file=sys.stderr)
            raise


def rounds_of(plan: dict[str, int], scale: float, chance: random.Random) -> list[list[str]]:
    deck = [name for name, count in plan.items() for _ in range(max(1, round(count * scale)) if count else 0)]
    chance.shuffle(deck)
    rounds = [deck[start : start + FAULTS_PER_ROUND] for start in range(0, len(deck), FAULTS_PER_ROUND)]
    # After its clock was set back a node goes on at half pace, and so do the leases of later faults.
    return [sorted(cards, key=lambda name: name == "clock") for cards in rounds]


def run(
    plan: dict[str, dict[str, int]],
    scale: float,
    seed: int,
    *,
    tolerate: bool = False,
    report: Report | None = None,
) -> Report:
    report = report or Report()
    chance = random.Random(seed)
    for deployment, faults in plan.items():
        for number, deck in enumerate(rounds_of(faults, scale, chance)):
            began = time.monotonic()
            report.loads.append(os.getloadavg()[0])
            try:
                play(deployment, deck, random.Random(chance.random()), report)
            except Impossible as error:
                report.impossible[f"{deployment} {', '.join(sorted(set(deck)))}"] = str(error)
                if not tolerate:
                    raise
            print(
                f"{deployment} round {number}: {Counter(deck)} in {time.monotonic() - began:.0f} s",
                flush=True,
            )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how many times the plan")
    parser.add_argument("--seed", type=seed_of, default=chosen_seed(DRAWN))
    parser.add_argument("--deployment", choices=[*PLAN], action="append")
    parser.add_argument("--fault", action="append", help="NAME or NAME=COUNT: these instead of the plan")
    parser.add_argument("--tolerate-impossible", action="store_true")
    arguments = parser.parse_args()
    print(f"HOLDFAST_SEED={arguments.seed}", flush=True)
    plan = {deployment: PLAN[deployment] for deployment in arguments.deployment or PLAN}
    if arguments.fault:
        chosen = {
            name: int(count or 1) for name, _, count in (text.partition("=") for text in arguments.fault)
        }
        plan = dict.fromkeys(plan, chosen)
    began = time.monotonic()
    report = Report()
    try:
        run(plan, arguments.scale, arguments.seed, tolerate=arguments.tolerate_impossible, report=report)
    finally:
        report.print(time.monotonic() - began)
    complaints = report.complaints()
    if arguments.tolerate_impossible:
        excused = "no fault was played" if report.impossible else None
        complaints = [text for text in complaints if "impossible here" not in text and text != excused]
    for complaint in complaints:
        print(f"RED: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
