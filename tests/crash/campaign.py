"""Power fails, again and again: `python -m tests.crash.campaign` (or `make campaign-power`).

Many recordings of a busy disk, each of other commits and cut at many points, in as many processes as there
are cores. Red when an acknowledged commit is gone, when one is there by half, when SQLite calls the file
broken; and when too few of the points fell into a commit that was under way. What is red says how to repeat
it:

    python -m tests.crash.campaign --repeat SEED:RECORDING:NUMBER
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.crash.recording import Cut, cut_one_recording, repeat
from tests.seeds import DRAWN, chosen_seed, seed_of

POINTS_PER_RECORDING = 500
amid_share_min = 0.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--seed", type=seed_of, default=chosen_seed(DRAWN))
    parser.add_argument("--repeat", metavar="CUT", help="one cut alone, by the name that was printed")
    arguments = parser.parse_args()
    if arguments.repeat:
        return tell([repeat(arguments.repeat)])
    print(f"HOLDFAST_SEED={arguments.seed}", flush=True)
    began = time.monotonic()
    count = max(1, arguments.points // POINTS_PER_RECORDING)
    each = arguments.points // count
    points = amid = red = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        seeds = [f"{arguments.seed}:{number}" for number in range(count)]
        for number, cuts in enumerate(pool.map(cut_one_recording, seeds, [each] * count), 1):
            points, amid = points + len(cuts), amid + sum(cut.amid for cut in cuts)
            red += tell([cut for cut in cuts if cut.wrong])
            if number % 20 == 0 or number == count:
                print(f"{points:,} points, {amid:,} amid a commit, {red} recordings with a loss", flush=True)
    print(f"{points:,} points in {count} recordings, {time.monotonic() - began:.0f} s")
    if amid < amid_share_min * points:
        print("RED: too few points fell into a commit")
        return 1
    return 1 if red else 0


def tell(cuts: list[Cut]) -> int:
    for cut in cuts:
        result = f"RED: {cut.wrong}" if cut.wrong else "green"
        print(f"{result}; --repeat {cut.name} (after event {cut.point})", flush=True)
    return 1 if any(cut.wrong for cut in cuts) else 0


if __name__ == "__main__":
    sys.exit(main())
