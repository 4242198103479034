"""Seeds of randomized tests: HOLDFAST_SEED chooses one, and what was chosen is printed."""

import os
import random


def seed_for_test() -> int:
    seed = int(os.environ.get("HOLDFAST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    print(f"HOLDFAST_SEED={seed}")
    return seed
