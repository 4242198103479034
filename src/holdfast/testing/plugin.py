"""Fixtures for pytest, found by it as soon as Holdfast is installed.

def test_a_reminder_comes_after_a_month(holdfast_world):
    world = holdfast_world(app)
    assert app.start(remind, "Ada").result() == "reminded"

A test that opens an app on the store that it has by default has forgotten this, and is told so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.ledger import Ledger
    from holdfast.testing.world import World


class OpenWorld:
    """Opens apps in virtual time, on a store in memory, until the test ends: see `holdfast.testing.World`.

    The same app again is the same world. It may be used in a `with` statement, and need not be.
    """

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._worlds: dict[App, World] = {}

    def __call__(self, app: App | None = None, **given: Any) -> World:
        from holdfast.testing.world import World

        if app is None:
            self._refuse("It was called without an app")
        if app not in self._worlds or given:
            self._worlds[app] = self._opened.enter_context(World(app, **given))
        return self._worlds[app]

    def __enter__(self) -> NoReturn:
        self._refuse("holdfast_world opens worlds, and is none itself")

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> NoReturn:
        self._refuse("holdfast_world opens worlds, and is none itself")

    async def __aexit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> NoReturn:
        from holdfast.testing.world import World

        if name.startswith("_") or not (hasattr(World, name) or name in ("app", "store", "node", "loop")):
            raise AttributeError(f"holdfast_world has no attribute {name!r}", name=name, obj=self)
        self._refuse(f"holdfast_world opens worlds, and is none itself: it has no {name!r}")

    def _refuse(self, what: str) -> NoReturn:
        from holdfast.payloads.errors import NotAWorld

        raise NotAWorld(what)


@pytest.fixture
def holdfast_world() -> Iterator[OpenWorld]:
    """Opens apps in virtual time: `world = holdfast_world(app)`."""
    with ExitStack() as opened:
        yield OpenWorld(opened)


@pytest.fixture
def holdfast_ledger() -> Ledger:
    """A ledger that takes each effect of a step once: see `holdfast.testing.Ledger`."""
    from holdfast.testing.ledger import Ledger

    return Ledger()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    from holdfast.host.settings import TestUnderWay

    TestUnderWay.name = item.nodeid
    try:
        yield
    finally:
        TestUnderWay.name = None
