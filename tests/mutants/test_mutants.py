"""Three mutants are run; of the others it is checked that they can be. `make mutants` runs them all."""

from __future__ import annotations

import re

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.run import ROOT, tenth, try_mutant

QUICK = (
    "a promise lives a millisecond too long",
    "the clock goes back",
    "a prefix covers whatever begins like it",
)


@pytest.mark.parametrize("layer", sorted({mutant.layer for mutant in MUTANTS}))
def test_a_mutant_has_one_place_in_the_sources(layer: str) -> None:
    """By layer, because whoever looks for a place parses the whole layer."""
    for mutant in MUTANTS:
        if mutant.layer == layer:
            path, text = mutant.planted(ROOT / "src")
            compile(text, path, "exec")


def test_there_are_mutants_of_every_layer() -> None:
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    layers = {mutant.layer for mutant in MUTANTS}
    assert layers >= {
        "engine",
        "store",
        "node",
        "server",
        "runtime",
        "client",
        "payloads",
        "steps",
        "workflow",
        "host",
    }


def test_ten_tenths_are_all_mutants_that_are_not_slow() -> None:
    tried = [mutant.name for number in range(10) for mutant in tenth(MUTANTS, number)]
    assert sorted(tried) == sorted(mutant.name for mutant in MUTANTS if not mutant.slow)


def test_the_page_on_reliability_tells_how_many_there_are() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    [told] = re.findall(r"There are (\d+) mutants", page)
    assert int(told) == len(MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_caught(name: str) -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == name]
    trial = try_mutant(mutant)
    assert trial.caught_by, trial.said


@pytest.mark.slow
def test_a_change_that_breaks_no_rule_survives() -> None:
    harmless = Mutant(
        "a statement that does nothing",
        "none",
        "node",
        "reading >= self._latest",
        "self._latest <= reading",
        "tests/node/test_clock.py",
    )
    assert not try_mutant(harmless).caught_by
