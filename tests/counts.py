"""How much a randomized or repeated test does: a little in `make test`, all of it in `make test-all`.

1. `slow` marks what only `make test-all` runs, such as processes that are killed again and again.
2. `sized` marks what both run, with a count from here. Each count has an environment variable of its own.
3. `rest_slow` is for a test with many parameters: `make test` tries the first few, `make test-all` the rest.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

FULL = os.environ.get("HOLDFAST_FULL") == "1"


def count_of(variable: str, *, quick: int, full: int) -> int:
    return int(os.environ.get(variable) or (full if FULL else quick))


def rest_slow(parameters: Iterable[Any], *, quick: int) -> list[Any]:
    """The same parameters, of which all but the first `quick` are slow."""
    listed = [*parameters]
    return [*listed[:quick], *map(_slow, listed[quick:])]


def _slow(parameter: Any) -> Any:
    values = parameter if _is_several(parameter) else (parameter,)
    return pytest.param(*values, marks=pytest.mark.slow)


def _is_several(parameter: object) -> bool:
    """A tuple is the values of several parameters."""
    return isinstance(parameter, tuple)
