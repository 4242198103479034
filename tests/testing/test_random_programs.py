"""Replay cannot lie: random racing workflows, crashed at random points, go where their records lead."""

import random

import pytest

from holdfast.testing.crashes import run_once
from holdfast.testing.mortal import CrashPoint
from tests.counts import count_of
from tests.seeds import chosen_seed
from tests.testing.random_workflow import app, parent

COUNT = count_of("HOLDFAST_PROGRAMS", quick=6, full=60)
FIRST = chosen_seed("0")


@pytest.mark.sized
@pytest.mark.parametrize("number", range(COUNT))
def test_a_crashed_execution_goes_where_its_record_leads(number: int) -> None:
    seed = FIRST + number
    print(f"HOLDFAST_SEED={seed} HOLDFAST_PROGRAMS=1")
    calm = run_once(app, parent, (seed,), execution=f"p{seed}")
    chance = random.Random(seed)
    for _ in range(6):
        count = chance.randint(1, 4)
        points = [
            CrashPoint(chance.randint(1, len(calm.writes) + 3), chance.choice(("before", "after")))
            for _ in range(count)
        ]
        try:
            run_once(app, parent, (seed,), execution=f"p{seed}", points=points)
        except Exception as error:
            raise AssertionError(f"seed {seed}, crashes {'+'.join(map(str, points))}: {error}") from error
