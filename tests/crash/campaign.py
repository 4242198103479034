"""Power fails, again and again: `python -m tests.crash.campaign` (or `make campaign-power`).

Many recordings of a busy disk, each cut at many points, in as many processes as there are cores. Red when an
acknowledged commit is gone, when one is there by half, when SQLite calls the file broken; and when too few of
the points fell into a commit that was under way.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct

from tests.backends import scratch_folder
from tests.crash.power_loss import Ack, Sync
from tests.crash.test_power_loss import lost_after_restart, record

POINTS_PER_RECORDING = 1_000
amid_share_min = 0.3


class Part(Struct, frozen=True):
    points: int
    amid: int  # points with writes that were not synced yet
    lost: int


def cut_one_recording(seed: str, points: int) -> Part:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        log = record(Path(folder))
    lost = amid = 0
    for _ in range(points):
        point = chance.randrange(len(log) + 1)
        amid += point > 0 and not isinstance(log[point - 1], Ack | Sync)
        with scratch_folder() as folder:
            lost += bool(lost_after_restart(log, point, chance, Path(folder)))
    return Part(points, amid, lost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument(
        "--seed", type=int, default=int(os.environ.get("HOLDFAST_SEED") or random.randrange(2**32))
    )
    arguments = parser.parse_args()
    print(f"HOLDFAST_SEED={arguments.seed}", flush=True)
    began = time.monotonic()
    count = max(1, arguments.points // POINTS_PER_RECORDING)
    each = arguments.points // count
    points = amid = lost = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        seeds = [f"{arguments.seed}:{number}" for number in range(count)]
        for number, part in enumerate(pool.map(cut_one_recording, seeds, [each] * count), 1):
            points, amid, lost = points + part.points, amid + part.amid, lost + part.lost
            if number % 20 == 0 or number == count:
                print(f"{points:,} points, {amid:,} amid a commit, {lost} with a loss", flush=True)
    print(f"{points:,} points in {count} recordings, {time.monotonic() - began:.0f} s")
    if amid < amid_share_min * points:
        print("RED: too few points fell into a commit")
        return 1
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
