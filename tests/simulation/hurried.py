"""The campaign while the machine's own clocks run a thousand times as fast: nothing simulated may read them.

    python -m tests.simulation.hurried --digests --count 20

prints the same as `python -m tests.simulation.campaign --digests --count 20`. A machine that is slow or busy
differs from another one in the same way, only less.

1. The clocks are replaced before anything of Holdfast is imported, so that a module which imports a clock by
   its name, or has one as the default of a parameter, gets the fast one.
2. `datetime.now` stays as it is: two runs see different dates anyway.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

PACE: Final = 1_000
CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def hurry() -> None:
    for name in CLOCKS:
        for each in (name, f"{name}_ns"):
            setattr(time, each, _faster(getattr(time, each)))


def _faster(real: Callable[[], float]) -> Callable[[], float]:
    began = real()
    return lambda: began + PACE * (real() - began)


def main() -> int:
    assert not any(name.startswith("holdfast") for name in sys.modules), "a clock may have been imported"
    hurry()
    from tests.simulation import campaign

    return campaign.main()


if __name__ == "__main__":
    sys.exit(main())
