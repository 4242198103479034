"""A change of the schema is whole or has not been: whatever fails in it, and wherever it is cut off."""

import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import migrations as sqlite_changes, postgres_migrate, sqlite
from holdfast.store.interface import CannotOpen
from holdfast.store.migrations import migrate, migrations
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres_connection import Connector
from tests.postgres import database_url, execute
from tests.store.test_postgres import schema_of
from tests.store.test_sqlite import OLD_ROWS, opened, schema

# What a later version might bring, whose last statement fails.
BROKEN = (9999, "CREATE TABLE half (x INT); UPDATE promises SET param = 'x'; INSERT INTO nowhere VALUES (1)")


def contents(path: Path) -> list[str]:
    raw = sqlite3.connect(path)
    try:
        return [*raw.iterdump()]
    finally:
        raw.close()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database as the first version left it."""
    (tmp_path / "store").mkdir()
    path = tmp_path / "store" / "holdfast.db"
    raw = sqlite.connect(str(path))
    raw.execute("PRAGMA journal_mode=WAL")
    migrate(raw, "sqlite", up_to=1)
    raw.executescript(OLD_ROWS)
    raw.close()
    return path


def test_a_migration_that_fails_leaves_the_file_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(old)
    steps = [*migrations("sqlite"), BROKEN]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_changes, "migrations", {"sqlite": steps}.__getitem__)
        with pytest.raises(Exception, match="nowhere"):
            opened(old)
    assert contents(old) == before
    opened(old).close()


class CutOff:
    """A connection that keeps, before each statement, what a crash would leave at that moment."""

    def __init__(self, kept: list[Path], path: str) -> None:
        self._connection = sqlite.connect(path)
        self._path = Path(path)
        self._kept = kept

    def execute(self, statement: str, *parameters: Any) -> Any:
        copy = self._path.parent.parent / f"cut-{len(self._kept)}"
        shutil.copytree(self._path.parent, copy)
        self._kept.append(copy / self._path.name)
        return self._connection.execute(statement, *parameters)

    def close(self) -> None:
        self._connection.close()


def test_a_crash_in_the_middle_of_a_migration_leaves_the_file_as_it_was(old: Path, tmp_path: Path) -> None:
    before = contents(old)
    kept: list[Path] = []
    opened(old, connect=partial(CutOff, kept)).close()
    after = contents(old)
    assert len(kept) > 20
    left = [contents(path) for path in kept]
    changed = [found != before for found in left]
    assert left[-1] == after != before
    assert changed == sorted(changed), "it is the old one up to some statement, and then the new one"
    assert all(found in (before, after) for found in left)
    opened(tmp_path / "fresh.db").close()
    for path in kept:
        opened(path).close()
        assert schema(path) == schema(tmp_path / "fresh.db")


async def test_a_migration_that_fails_leaves_the_database_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    url = database_url()
    connection = await Connector(url).connect()
    await postgres_migrate.migrate(connection, up_to=1)
    await connection.close()
    execute(url, OLD_ROWS)
    tell = "SELECT * FROM promises; SELECT * FROM tasks; SELECT * FROM schema_version"
    before = schema_of(url), execute(url, tell)
    steps = [*migrations("postgres"), BROKEN]
    with monkeypatch.context() as patch:
        patch.setattr(postgres_migrate, "migrations", {"postgres": steps}.__getitem__)
        with pytest.raises(CannotOpen):
            await PostgresStore(url).open()
    assert (schema_of(url), execute(url, tell)) == before
    store = PostgresStore(url)
    await store.open()
    await store.close()
