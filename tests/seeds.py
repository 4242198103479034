"""Seeds of randomized tests. What was chosen is printed.

Unasked, every run plays the same worlds, so that red means that the change is wrong. `HOLDFAST_SEED=random`
draws new ones; `HOLDFAST_SEED=N` repeats what was printed. The campaigns draw unless they are told.
"""

import os
import random

DRAWN = "random"
UNASKED = "20261116"


def seed_of(text: str) -> int:
    return random.SystemRandom().randrange(1, 2**32) if text == DRAWN else int(text)


def chosen_seed(unasked: str = UNASKED) -> int:
    return seed_of(os.environ.get("HOLDFAST_SEED") or unasked)


def seed_for_test() -> int:
    seed = chosen_seed()
    print(f"HOLDFAST_SEED={seed}")
    return seed
