"""Fixtures and options for pytest, found by it as soon as Holdfast is installed.

| fixture | what it gives |
|---|---|
| `holdfast_world` | `holdfast_world(app)`: virtual time, a store in memory, a worker that can be killed |
| `holdfast_ledger` | takes each effect of a step once |
| `holdfast_sqlite` | `holdfast_sqlite(app)`: the app in real time, on a SQLite file of this test |
| `holdfast_postgres` | the same on an empty schema of a real PostgreSQL, which `--holdfast-postgres` names |

`--holdfast-seed N` plays one seed of every `simulate`, `--holdfast-seed random` others than every run does.

def test_a_reminder_comes_after_a_month(holdfast_world):
    world = holdfast_world(app)
    assert app.start(remind, "Ada").result() == "reminded"

A test that opens an app on the store that it has by default has forgotten this, and is told so.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.host.settings import SessionSettings
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
        self._refuse("holdfast_world opens a World, and is not one")

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> NoReturn:
        self._refuse("holdfast_world opens a World, and is not one")

    async def __aexit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> NoReturn:
        from holdfast.testing.world import World

        if name.startswith("_") or not (hasattr(World, name) or name in ("app", "store", "node", "loop")):
            raise AttributeError(f"holdfast_world has no attribute {name!r}", name=name, obj=self)
        self._refuse(f"holdfast_world opens a World, and is not one: it has no {name!r}")

    def _refuse(self, what: str) -> NoReturn:
        from holdfast.payloads.errors import NotAWorld

        raise NotAWorld(what)


@pytest.fixture
def holdfast_world() -> Iterator[OpenWorld]:
    """Opens apps in virtual time: `world = holdfast_world(app)`."""
    with ExitStack() as opened:
        yield OpenWorld(opened)


class OpenStore:
    """Points apps to a real store until the test ends: there they open by themselves, or in `with`.

    >>> app = holdfast_sqlite(shop.app)
    >>> assert app.start(checkout, order).result(10) == receipt
    """

    def __init__(self, url: str, opened: ExitStack) -> None:
        self.url = url
        self._opened = opened

    def __call__(self, app: App) -> App:
        from msgspec.structs import replace

        app.close()
        self._opened.callback(_restore, app, app.settings)
        app.settings = replace(app.settings, url=self.url, declared_url=self.url, is_url_default=False)
        return app


def _restore(app: App, settings: SessionSettings) -> None:
    try:
        app.close()
    finally:
        app.settings = settings


@pytest.fixture
def holdfast_sqlite(tmp_path: Path) -> Iterator[OpenStore]:
    """The app in real time, on a SQLite file of this test: `app = holdfast_sqlite(app)`."""
    with ExitStack() as opened:
        yield OpenStore(f"sqlite:///{quote(str(tmp_path / 'holdfast-test.db'))}", opened)


@pytest.fixture
def holdfast_postgres(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """The app in real time, on an empty schema of a real PostgreSQL, which is dropped after the test."""
    from holdfast.testing.schemas import fresh_schema

    given = request.config.getoption("--holdfast-postgres") or os.environ.get("HOLDFAST_TEST_POSTGRES")
    if not given:
        pytest.skip("name a PostgreSQL for tests: --holdfast-postgres URL, or HOLDFAST_TEST_POSTGRES")
    with fresh_schema(given) as url, ExitStack() as opened:
        yield OpenStore(url, opened)


@pytest.fixture
def holdfast_ledger() -> Ledger:
    """A ledger that takes each effect of a step once: see `holdfast.testing.Ledger`."""
    from holdfast.testing.ledger import Ledger

    return Ledger()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast")
    group.addoption(
        "--holdfast-seed", metavar="N", help="the seed that simulations play alone; `random`: draw others"
    )
    group.addoption(
        "--holdfast-postgres", metavar="URL", help="a PostgreSQL for tests: each gets a schema of its own"
    )


def pytest_configure(config: pytest.Config) -> None:
    """What was asked for here counts for whatever reads HOLDFAST_SEED, also in the processes of xdist."""
    seed = config.getoption("--holdfast-seed")
    if seed is None:
        return
    if seed != "random" and not (seed.isascii() and seed.isdigit()):
        raise pytest.UsageError(f"--holdfast-seed must be a number or `random`, not {seed!r}")
    os.environ["HOLDFAST_SEED"] = seed


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = os.environ.get("HOLDFAST_SEED")
    return f"holdfast: HOLDFAST_SEED={seed}" if seed else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    from holdfast.host.settings import TestUnderWay

    TestUnderWay.name = item.nodeid
    try:
        yield
    finally:
        TestUnderWay.name = None
