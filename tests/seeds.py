"""Seeds of randomized tests. What was chosen is printed.

Unasked, every run plays the same worlds, so that red means that the change is wrong. `HOLDFAST_SEED=random`
draws new ones; `HOLDFAST_SEED=N` repeats what was printed. The campaigns draw unless they are told.
"""

import os
import random

UNASKED = "20261116"


def chosen_seed() -> int:
    asked = os.environ.get("HOLDFAST_SEED") or UNASKED
    return random.SystemRandom().randrange(1, 2**32) if asked == "random" else int(asked)


def seed_for_test() -> int:
    seed = chosen_seed()
    print(f"HOLDFAST_SEED={seed}")
    return seed
