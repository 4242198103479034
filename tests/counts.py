"""How much a randomized or repeated test does: a little in `make test`, all of it in `make test-all`.

1. `slow` marks what only `make test-all` runs, such as processes that are killed again and again.
2. `sized` marks what both run, with a count from here. Each count has an environment variable of its own.
"""

import os

FULL = os.environ.get("HOLDFAST_FULL") == "1"


def count_of(variable: str, *, quick: int, full: int) -> int:
    return int(os.environ.get(variable) or (full if FULL else quick))
