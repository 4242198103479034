"""`holdfast serve` in a process whose wall clock can be set from outside while it runs.

The first eight bytes of a shared file are the nanoseconds by which that clock is wrong.
"""

import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

true_time_ns = time.time_ns


def skew_clock(path: Path) -> None:
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)

    def skewed_ns() -> int:
        (offset,) = struct.unpack("<q", shared[:8])
        return true_time_ns() + int(offset)

    time.time_ns = skewed_ns
    time.time = lambda: skewed_ns() / 1e9


def main(settings: str, clock: str) -> None:
    skew_clock(Path(clock))
    from holdfast.server import load_settings, serve  # after the clock: nobody has a true one

    serve(load_settings(json.loads(settings), {}, os.devnull))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
