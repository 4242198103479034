"""Fixtures for pytest, found by it as soon as Holdfast is installed.

def test_a_reminder_comes_after_a_month(holdfast_world):
    world = holdfast_world(app)
    assert app.start(remind, "Ada").result() == "reminded"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.ledger import Ledger
    from holdfast.testing.world import World


@pytest.fixture
def holdfast_world() -> Iterator[Callable[..., World]]:
    """Opens apps in virtual time, on a store in memory, until the test ends: see `holdfast.testing.World`."""
    from holdfast.testing.world import World

    with ExitStack() as worlds:

        def open_world(app: App, **given: Any) -> World:
            return worlds.enter_context(World(app, **given))

        yield open_world


@pytest.fixture
def holdfast_ledger() -> Ledger:
    """A ledger that takes each effect of a step once: see `holdfast.testing.Ledger`."""
    from holdfast.testing.ledger import Ledger

    return Ledger()
