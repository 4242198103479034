"""Random programs: the same completions give the same trace, whatever the spelling and the hash seed.

`HOLDFAST_SEED=123 pytest tests/runtime/test_properties.py` runs other programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.runtime.random_program import trace_of, without_lines
from tests.seeds import chosen_seed

FIRST = chosen_seed("20260401")
PROGRAMS_PER_TEST = 50
BLOCKS = range(8)


def seeds_of(block: int) -> range:
    first = FIRST + 1000 * block
    print(f"HOLDFAST_SEED={FIRST}")
    return range(first, first + PROGRAMS_PER_TEST)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_same_completions_give_the_same_trace(block: int) -> None:
    for each in seeds_of(block):
        assert trace_of(each, "async") == trace_of(each, "async"), f"seed {each}"


@pytest.mark.parametrize("block", BLOCKS)
def test_both_spellings_of_a_program_give_the_same_trace(block: int) -> None:
    for each in seeds_of(block):
        as_async = without_lines(trace_of(each, "async"))
        assert as_async == without_lines(trace_of(each, "generator")), f"seed {each}"


def test_the_hash_seed_has_no_influence() -> None:
    def digest(hash_seed: int) -> str:
        root = Path(__file__).parents[2]
        command = [sys.executable, "-m", "tests.runtime.random_program", str(FIRST), str(FIRST + 60)]
        environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": f"{root / 'src'}:{root}"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=True)
        return done.stdout

    assert len({digest(hash_seed) for hash_seed in (0, 1, 4242)}) == 1


def test_the_programs_reach_every_corner() -> None:
    """The property tests prove nothing about what they never do."""
    seen: Counter[str] = Counter()
    words = (
        "gave",
        "raised",
        "Cancelled",
        "FiberInterrupted",
        "Deadlock",
        "group(",
        "TimedOut",
        "parked",
        "branch",
        "is told",
        "HF5120",
    )
    for seed in range(FIRST, FIRST + 300):
        text = "\n".join(trace_of(seed, "async"))
        seen.update(word for word in words if word in text)
    assert all(seen[word] >= 3 for word in words), seen
