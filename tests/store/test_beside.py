"""Our tables beside those of an application: asked for by name, and only where no name clashes."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store.interface import NameClash, NotAStore, Store
from holdfast.store.urls import UnknownStore, file_of, open_store
from tests.postgres import database_url, execute
from tests.processes import Server


async def open_and_close(store: Store) -> None:
    await store.open()
    await store.close()


def test_the_path_is_what_comes_before_the_option() -> None:
    assert file_of("sqlite:///shop.db?beside=1") == file_of("sqlite:///shop.db") == Path("shop.db")
    assert file_of("sqlite:///what?.db") == Path("what?.db")


def make(path: Path, *tables: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
        connection.commit()
    return path.read_bytes()


def opened(url: str) -> None:
    asyncio.run(open_and_close(open_store(url)))


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_sqlite_an_applications_file_is_refused_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    before = make(path, "orders")
    for url in (f"sqlite:///{path}", f"sqlite:///{path}?beside=0"):
        with pytest.raises(NotAStore, match=r"beside=1.*not touched.*HF2003"):
            opened(url)
    assert path.read_bytes() == before
    opened(f"sqlite:///{path}?beside=1")
    assert tables(path) > {"orders", "promises", "tasks", "schema_version"}


def test_sqlite_once_our_tables_are_there_they_are_found_by_everybody(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    make(path, "orders")
    opened(f"sqlite:///{path}?beside=1")
    opened(f"sqlite:///{path}")
    opened(f"sqlite:///{path}?beside=1")


@pytest.mark.parametrize("name", ["tasks", "Queues", "schema_version", "tasks_due"])
def test_sqlite_a_name_that_clashes_is_found_before_anything_is_changed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    before = make(path, "orders", name)
    with pytest.raises(NameClash, match=rf"has {name.lower()}, .*not touched.*HF2011"):
        opened(f"sqlite:///{path}?beside=1")
    assert path.read_bytes() == before
    assert not path.with_name("shop.db-wal").exists()


def test_sqlite_a_new_file_may_be_made_so_too(tmp_path: Path) -> None:
    opened(f"sqlite:///{tmp_path}/shop.db?beside=1")
    assert "promises" in tables(tmp_path / "shop.db")


def test_sqlite_anything_else_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownStore, match=r"'besides=1'.*beside=1"):
        opened(f"sqlite:///{tmp_path}/shop.db?besides=1")
    assert not list(tmp_path.iterdir())


def test_sqlite_a_server_lives_beside_an_application(tmp_path: Path) -> None:
    make(tmp_path / "shop.db", "orders")
    server = Server(tmp_path, command="dev-by-hand")
    server._command = ["serve", "--store", "sqlite:///shop.db?beside=1"]  # pyright: ignore[reportPrivateUsage]
    with server:
        pass
    assert tables(tmp_path / "shop.db") > {"orders", "promises"}


def test_postgres_an_applications_schema_is_refused_unless_it_is_asked_for() -> None:
    url = database_url()
    execute(url, "CREATE TABLE orders (id BIGINT)")
    with pytest.raises(NotAStore, match=r"beside=1.*not touched.*HF2003"):
        opened(url)
    assert execute(url, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()") == "1"
    opened(f"{url}&beside=1")
    opened(url)
    assert int(execute(url, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")) > 5


@pytest.mark.parametrize("name", ["tasks", "schema_version", "tasks_due"])
def test_postgres_a_name_that_clashes_is_found_before_anything_is_changed(name: str) -> None:
    url = database_url()
    execute(url, f"CREATE TABLE {name} (id BIGINT)")
    with pytest.raises(NameClash, match=rf"has {name}, .*not touched.*HF2011"):
        opened(f"{url}&beside=1")
    assert execute(url, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()") == name


def test_postgres_what_an_extension_has_made_is_not_an_application() -> None:
    url = database_url()
    execute(url, "CREATE TABLE helper (id BIGINT)")
    execute(
        url,
        "INSERT INTO pg_depend VALUES ('pg_class'::regclass, 'helper'::regclass, 0, "
        "'pg_extension'::regclass, (SELECT oid FROM pg_extension WHERE extname = 'plpgsql'), 0, 'e')",
    )
    opened(url)
    execute(url, "DELETE FROM pg_depend WHERE objid = 'helper'::regclass AND deptype = 'e'")
