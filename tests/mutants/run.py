"""Proves that the suites can fail: `python -m tests.mutants.run` (or `make mutants`).

1. Each mutant is planted in a copy of the sources. Its suite is run on that copy and must turn red: by a test
   that fails, not by a module that cannot be imported.
2. Before that, every suite must be green on the unchanged copy. `--skip-baseline` leaves this out, for those
   who have just run the tests.
3. `--tenth` tries every tenth mutant that is not slow. The number of commits decides where it begins, so ten
   commits try them all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.processes import environment

ROOT = Path(__file__).parent.parent.parent
suite_s_max = 300.0
TESTS_FAILED = 1  # pytest's own exit code
STILL_RUNNING = -1
ENVIRONMENT = {
    "HOLDFAST_SEED": "7",
    "HOLDFAST_MODEL_OPS": "300000",
    "HOLDFAST_MODEL_BOUNDED_OPS": "10000",
    "HOLDFAST_KILLS": "6",
    "HOLDFAST_POWER_POINTS": "200",
}


class Trial(Struct, frozen=True):
    mutant: Mutant
    caught_by: str  # empty: it survived
    seconds: float
    said: str


def copy_of(root: Path, folder: Path) -> Path:
    for name in ("src", "tests", "pyproject.toml", "examples", "docs"):
        source = root / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "node_modules", ".cache")
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    return folder


def run_suite(folder: Path, suite: str) -> tuple[int, str]:
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    env = environment({**ENVIRONMENT, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        *suite.split(),
    ]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=suite_s_max, check=False
        )
    except subprocess.TimeoutExpired:
        return STILL_RUNNING, f"{suite} was still running after {suite_s_max:g} s"
    return done.returncode, done.stdout + done.stderr


def try_mutant(mutant: Mutant, root: Path = ROOT) -> Trial:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as name:
        folder = copy_of(root, Path(name))
        path, text = mutant.planted(folder / "src")
        path.write_text(text, "utf-8")
        code, said = run_suite(folder, mutant.suite)
    failed = [line for line in said.splitlines() if line.startswith("FAILED ")]
    caught = failed[0].removeprefix("FAILED ").split(" - ")[0] if code == TESTS_FAILED and failed else ""
    return Trial(mutant, caught, time.monotonic() - began, said[-3_000:])


def check_suites(mutants: Sequence[Mutant]) -> list[str]:
    """The suites that are red without any mutant."""
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as name:
        folder = copy_of(ROOT, Path(name))
        suites = sorted({mutant.suite for mutant in mutants})
        with ThreadPoolExecutor(2) as pool:
            codes = pool.map(partial(run_suite, folder), suites)
            return [
                f"{suite}\n{said[-2_000:]}" for suite, (code, said) in zip(suites, codes, strict=True) if code
            ]


def tenth(mutants: Sequence[Mutant], number: int) -> list[Mutant]:
    return [mutant for mutant in mutants if not mutant.slow][number::10]


def commit_count() -> int:
    command = ["git", "rev-list", "--count", "HEAD"]
    return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--skip-baseline", action="store_true", help="do not run the suites unchanged first")
    parser.add_argument("--tenth", action="store_true", help="every tenth that is not slow")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if arguments.only in mutant.name]
    if arguments.tenth:
        number = commit_count() % 10
        mutants = tenth(mutants, number)
        print(f"tenth {number} of the mutants: {len(mutants)}")
    began = time.monotonic()
    if not arguments.skip_baseline and (red := check_suites(mutants)):
        print("RED without any mutant:", *red, sep="\n")
        return 1
    survivors: list[Trial] = []
    print("mutant | caught by | seconds")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for trial in pool.map(try_mutant, mutants):
            caught = trial.caught_by or "SURVIVED"
            print(f"{trial.mutant.name} | {caught} | {trial.seconds:.1f}", flush=True)
            if not trial.caught_by:
                survivors.append(trial)
    for trial in survivors:
        print(f"\nSURVIVED: {trial.mutant.name} ({trial.mutant.rule})\n{trial.said}")
    caught_count = len(mutants) - len(survivors)
    print(f"{caught_count} of {len(mutants)} caught in {time.monotonic() - began:.0f} s")
    return 1 if survivors or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
