"""Damaged input for every decoder and for the HTTP surface: `python -m tests.fuzz.run` (or `make fuzz`).

Pass: no error that is not promised, no reply of 500 or more, no traceback in the log, nothing that takes
longer than a second of work or ten by the clock, memory that stays flat, and a server that still answers
/health. A find prints the seed and the input that shows it.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from tests.backends import NodeBackend
from tests.fuzz.http_surface import fuzz_http
from tests.fuzz.target import Target
from tests.fuzz.targets import all_targets, scratch
from tests.seeds import DRAWN, chosen_seed, seed_of

input_s_max = 1.0  # of its own work
hang_s_max = 10.0  # by the clock on the wall, which others use too
kill_s_max = 120.0  # what does not even let Python interrupt it
growth_bytes_max = 50 * 1024 * 1024


class Finding(Struct, frozen=True):
    target: str
    seed: str
    given: str
    what: str

    def __str__(self) -> str:
        return f"{self.target} (seed {self.seed})\n  given {self.given[:2_000]}\n  {self.what}"


class Hung(BaseException):
    """Nobody who swallows errors swallows this one."""


@contextmanager
def watchdog() -> Generator[None]:
    """An input that is not swallowed in time is interrupted; if that does not help, the process ends."""

    def bark(*_: object) -> NoReturn:
        raise Hung(f"not swallowed after {hang_s_max:g} s")

    before = signal.signal(signal.SIGALRM, bark)
    logging.disable(logging.CRITICAL)  # bad input is worth a line each, and there are many
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        logging.disable(logging.NOTSET)
        faulthandler.cancel_dump_traceback_later()


def fuzz(target: Target, seconds: float, seed: int, *, finds_max: int = 5) -> tuple[int, list[Finding]]:
    """Inputs tried, and what was found. Input n depends on the seed and n alone."""
    findings: list[Finding] = []
    until = time.monotonic() + seconds
    count = 0
    with watchdog():
        while time.monotonic() < until and len(findings) < finds_max:
            name = f"{target.name}:{seed}:{count}"
            if count % 1_000 == 0:
                faulthandler.dump_traceback_later(seconds + kill_s_max, exit=True)
            given = target.make(random.Random(name))
            count += 1
            what = swallow(target, given)
            if what:
                findings.append(Finding(target.name, name, repr(given), what))
    return count, findings


def swallow(target: Target, given: Any) -> str:
    """What is wrong with how it was swallowed, if anything is."""
    began = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, hang_s_max)
    try:
        target.swallow(given)
    except target.promised:
        pass
    except KeyboardInterrupt:
        raise
    except BaseException:
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - began
    return f"took {took:.2f} s" if took > input_s_max else ""


def resident_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(seconds: float, seed: int) -> list[Finding]:
    """So many seconds for each target."""
    findings: list[Finding] = []
    backend = NodeBackend("memory", debug=False)
    try:
        with scratch() as folder:
            for target in all_targets(backend, Path(folder)):
                fuzz(target, min(1.0, seconds / 4), seed + 1)  # caches fill
                before = resident_bytes()
                count, found = fuzz(target, seconds, seed)
                grown = resident_bytes() - before
                print(
                    f"{target.name:12} {count:9,} inputs, {grown / 1e6:+6.1f} MB, {len(found)} found",
                    flush=True,
                )
                findings += found
                if grown > growth_bytes_max:
                    findings.append(Finding(target.name, str(seed), "", f"memory grew by {grown:,} bytes"))
    finally:
        backend.close()
    count, found_texts = fuzz_http(seconds, seed)
    print(f"{'http':12} {count:9,} requests, {len(found_texts)} found")
    return findings + [Finding("http", str(seed), given, what) for given, what in found_texts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each target")
    parser.add_argument("--seed", type=seed_of, default=chosen_seed(DRAWN))
    arguments = parser.parse_args()
    print(f"HOLDFAST_SEED={arguments.seed}")
    findings = run(arguments.seconds, arguments.seed)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
