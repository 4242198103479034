"""Three mutants are run; of the others it is checked that they can be. `make mutants` runs them all."""

from __future__ import annotations

import re

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.run import ROOT, try_mutant

QUICK = (
    "a promise lives a millisecond too long",
    "the clock goes back",
    "a prefix covers whatever begins like it",
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_one_place_in_the_sources(mutant: Mutant) -> None:
    text = (ROOT / "src" / "holdfast" / mutant.path).read_text("utf-8")
    assert text.count(mutant.old) == 1
    compile(text.replace(mutant.old, mutant.new), mutant.path, "exec")


def test_there_are_mutants_of_every_layer() -> None:
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    layers = {mutant.path.partition("/")[0] for mutant in MUTANTS}
    assert layers >= {"engine", "store", "node", "worker", "runtime", "server", "client", "tasks"}


def test_the_page_on_reliability_tells_how_many_there_are() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    [told] = re.findall(r"There are (\d+) mutants", page)
    assert int(told) == len(MUTANTS)


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_caught(name: str) -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == name]
    verdict = try_mutant(mutant)
    assert verdict.caught_by, verdict.said


def test_a_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant(
        "a comment",
        "none",
        "node/clock.py",
        "import time\n",
        "import time  # harmless\n",
        "tests/node/test_clock.py",
    )
    assert not try_mutant(harmless).caught_by
