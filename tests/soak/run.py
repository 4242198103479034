"""Load for a long time: `python -m tests.soak.run --minutes 30` (or `make soak`).

One `holdfast serve` on a SQLite file, workers that drive executions, callers that create and settle.
Every few seconds each process is measured: memory, sockets, other open files, threads. After a warm-up (half
of the time, for everything that has a bound to fill up to it) none of them may grow: the slope of memory is
tested against a bound, the rest must end where it began. What grows with the data, the file itself, is shown
and not judged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from holdfast.store.sqlite import cache_bytes
from tests.chaos.deployments import SqliteDeployment
from tests.chaos.processes import descriptors
from tests.chaos.world import World
from tests.seeds import seed_of

sample_s = 5.0
lease_s = 20.0  # the default: this is ordinary life, not a campaign of faults
warm_up_share = 0.5
growth_share_max = 0.01  # of resident memory, in five minutes
growth_bytes_floor = 3 * 1024 * 1024  # in a short run, what allocators do by themselves
page_bytes = 4096


class Sample(Struct, frozen=True):
    at_s: float
    resident_bytes: int
    descriptors: int  # sockets are counted apart
    sockets: int
    threads: int
    cached_bytes: int = 0  # what the store's page cache may hold by now: data, within its own bound


def look(pid: int, at_s: float, cached_bytes: int = 0) -> Sample:
    process = Path(f"/proc/{pid}")
    resident = int((process / "statm").read_text().split()[1]) * page_bytes
    threads = len([*(process / "task").iterdir()])
    opened, sockets = descriptors(pid)
    return Sample(at_s, resident, opened - sockets, sockets, threads, cached_bytes)


def slope(samples: list[Sample]) -> float:
    """Bytes a second, by least squares, beside what the cache may hold."""
    count = len(samples)
    mean_t = sum(sample.at_s for sample in samples) / count
    mean_m = sum(sample.resident_bytes - sample.cached_bytes for sample in samples) / count
    above = sum(
        (sample.at_s - mean_t) * (sample.resident_bytes - sample.cached_bytes - mean_m) for sample in samples
    )
    below = sum((sample.at_s - mean_t) ** 2 for sample in samples)
    return above / below if below else 0.0


def judge(name: str, samples: list[Sample], seconds: float) -> list[str]:
    """Complaints about one process, after its warm-up."""
    warm = [sample for sample in samples if sample.at_s >= seconds * warm_up_share]
    if len(warm) < 8:
        return [f"{name}: only {len(warm)} samples after the warm-up"]
    complaints: list[str] = []
    span_s = warm[-1].at_s - warm[0].at_s
    growth = slope(warm) * span_s
    allowed = max(growth_bytes_floor, growth_share_max * warm[0].resident_bytes * span_s / 300)
    if growth > allowed:
        complaints.append(
            f"{name}: memory grows, {growth / 1e6:+.1f} MB where {allowed / 1e6:.1f} are allowed"
        )
    third = max(1, len(warm) // 3)
    for what in ("descriptors", "sockets", "threads"):
        early = max(getattr(sample, what) for sample in warm[:third])
        late = min(getattr(sample, what) for sample in warm[-third:])
        if late > early + 2:
            complaints.append(f"{name}: {what} grow, from {early} to {late}")
    return complaints


def show(name: str, samples: list[Sample], seconds: float) -> None:
    for share in (0.0, 0.2, 0.4, warm_up_share, 0.6, 0.8, 1.0):
        sample = min(samples, key=lambda each: abs(each.at_s - share * seconds))
        memory = f"{sample.resident_bytes / 1e6:.1f}"
        counts = f"{sample.descriptors:8}{sample.sockets:9}{sample.threads:9}"
        print(f"{name:10}{sample.at_s:9.0f}{memory:>12}{counts}")


def run(seconds: float, seed: int) -> list[str]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-", dir="/tmp") as name:
        folder = Path(name)
        deployment = SqliteDeployment(folder)
        with World(deployment, folder, random.Random(seed), lease_s) as world:
            watched = {"server": world.nodes[0].alive.pid}
            watched |= {f"worker {place}": worker.pid for place, worker in enumerate(world.workers)}
            samples: dict[str, list[Sample]] = {name: [] for name in watched}
            while (elapsed := time.monotonic() - began) < seconds:
                for process, pid in watched.items():
                    cached = min(cache_bytes, deployment.path.stat().st_size) if process == "server" else 0
                    samples[process].append(look(pid, elapsed, cached))
                time.sleep(min(sample_s, seconds / 60))
            tally = world.finish()
            file_bytes = deployment.path.stat().st_size
    print(f"{'process':10}{'second':>9}{'memory MB':>12}{'files':>8}{'sockets':>9}{'threads':>9}")
    complaints: list[str] = []
    for process, taken in samples.items():
        show(process, taken, seconds)
        complaints += judge(process, taken, seconds)
    rate = tally.acknowledged / seconds
    print(f"{tally.roots:,} executions, {tally.steps:,} steps, {tally.acknowledged:,} writes ({rate:.0f}/s)")
    print(f"{seconds:.0f} s; the database has {file_bytes / 1e6:.1f} MB")
    if not tally.roots or not tally.acknowledged:
        complaints.append("there was no load")
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=seed_of, default=1)
    arguments = parser.parse_args()
    complaints = run(arguments.minutes * 60, arguments.seed)
    for complaint in complaints:
        print(f"RED: {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
