"""Starting a workflow in the caller's own transaction: it exists exactly if he commits."""

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest

import holdfast as hf
from holdfast.host import own_transactions
from tests.postgres import database_url

RESULT_S = 25  # below every fallback: the next offer is 30 s away


def make_app(url: str) -> tuple[hf.App, hf.types.Workflow[[int], Any]]:
    app = hf.App(url)

    @app.workflow
    async def double(number: int) -> int:
        return number * 2

    return app, double


@contextmanager
def sqlite_shop(folder: Path) -> Generator[tuple[hf.App, Any, sqlite3.Connection]]:
    app, double = make_app(f"sqlite:///{folder}/shop.db")
    with app, closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
        yield app, double, connection


def test_sqlite_a_commit_starts_it_and_a_rollback_leaves_no_trace(tmp_path: Path) -> None:
    with sqlite_shop(tmp_path) as (app, double, connection):
        connection.execute("INSERT INTO orders VALUES (1)")
        kept = double.with_options(id="kept", connection=connection).start(4)
        connection.commit()
        assert kept.result(RESULT_S) == 8
        connection.execute("INSERT INTO orders VALUES (2)")
        double.with_options(id="gone", connection=connection).start(5)
        connection.rollback()
        with pytest.raises(hf.errors.NoSuchExecution, match="gone"):
            app.handle("gone").result(RESULT_S)
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]


def test_sqlite_options_and_ids_mean_the_same_inside(tmp_path: Path) -> None:
    with sqlite_shop(tmp_path) as (_, double, connection):
        inside = double.with_options(id="x", connection=connection, timeout="1h", tags={"shop": "7"})
        first = inside.start(1)
        assert inside.start(1).id == first.id
        with pytest.raises(hf.errors.IdTaken):
            inside.start(2)
        connection.commit()
        assert first.result(RESULT_S) == 2


def test_sqlite_another_file_and_autocommit_are_refused(tmp_path: Path) -> None:
    with sqlite_shop(tmp_path) as (_, double, _connection):
        others = {
            "no tables of Holdfast": sqlite3.connect(tmp_path / "other.db"),
            "BEGIN": sqlite3.connect(tmp_path / "shop.db", isolation_level=None),
        }
        for why, other in others.items():
            with closing(other), pytest.raises(hf.errors.BadOption, match=why):
                double.with_options(connection=other).start(1)


def test_sqlite_whoever_waits_for_the_node_before_his_own_commit_is_told(tmp_path: Path) -> None:
    """He keeps the file locked: the node could never answer."""
    with sqlite_shop(tmp_path) as (app, double, connection):
        handle = double.with_options(id="x", connection=connection).start(4)
        asked: list[Any] = [handle.info, handle.result, handle.cancel, app.find().count, double.start]
        for ask in asked:
            with pytest.raises(hf.errors.OwnTransactionOpen, match="'x' was written in a transaction"):
                ask(1) if ask is asked[-1] else ask()
        with ThreadPoolExecutor(1) as threads:  # another thread may wait: it does not have to commit
            waiting = threads.submit(handle.result, RESULT_S)
            connection.commit()
            assert waiting.result() == 8
        assert handle.info().state == "completed"
        double.with_options(id="y", connection=connection).start(4)
        connection.rollback()
        assert app.find().count() == {"completed": 1}
        connection.execute("BEGIN")  # a transaction that has nothing of ours in it
        assert app.handle("x").info().state == "completed"
        connection.rollback()


def test_on_an_event_loop_whoever_awaits_the_node_before_his_own_commit_is_told(tmp_path: Path) -> None:
    app, double = make_app(f"sqlite:///{tmp_path}/shop.db")

    async def main() -> None:
        async with app:
            with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
                handle = double.with_options(connection=connection).start(4)
                with pytest.raises(hf.errors.OwnTransactionOpen):
                    await handle.info_async()
                with pytest.raises(hf.errors.OwnTransactionOpen):
                    await handle
                waiting = asyncio.ensure_future(wait_for(handle))
                await asyncio.sleep(0)
                connection.commit()
                assert await waiting == 8
                assert (await handle.info_async()).state == "completed"

    async def wait_for(handle: hf.types.Handle[int]) -> int:
        return await handle

    asyncio.run(main())


def test_on_an_event_loop_a_call_inside_his_own_transaction_is_refused_and_not_done_later(
    tmp_path: Path,
) -> None:
    app, double = make_app(f"sqlite:///{tmp_path}/shop.db")

    @app.workflow
    async def hear() -> list[str]:
        return [await hf.receive(str), await hf.receive(str)]

    async def main() -> None:
        async with app, asyncio.timeout(60):
            hearing = await app.start(hear).started()
            with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
                await app.tell(hearing.id, "before")
                handle = double.with_options(connection=connection).start(4)
                asked: list[Callable[[], Awaitable[Any]]] = [
                    lambda: app.tell(hearing.id, "inside"),
                    lambda: app.resolve("nobody", 1),
                    lambda: app.start(double, 1).started(),
                    lambda: app.start(double, 1),
                    handle.cancel,
                ]
                for ask in asked:
                    with pytest.raises(hf.errors.OwnTransactionOpen):
                        await ask()
                later = app.tell(hearing.id, "after the commit")
                connection.commit()
                await later
                assert await handle == 8
            assert await hearing == ["before", "after the commit"]
            assert await app.find().count_async() == {"completed": 2}

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="autocommit= is of Python 3.12")
def test_sqlite_a_connection_that_always_has_a_transaction_is_asked_what_it_holds(tmp_path: Path) -> None:
    app, double = make_app(f"sqlite:///{tmp_path}/shop.db")
    with app:
        app.start(double, 1).result(RESULT_S)
        options: Any = {"autocommit": False}
        with closing(sqlite3.connect(tmp_path / "shop.db", **options)) as connection:
            handle = double.with_options(connection=connection).start(4)
            with pytest.raises(hf.errors.OwnTransactionOpen):
                handle.info()
            connection.commit()
            assert handle.result(RESULT_S) == 8


def test_inside_a_workflow_it_makes_no_sense(tmp_path: Path) -> None:
    with sqlite_shop(tmp_path) as (app, double, connection):

        @app.workflow
        async def parent() -> int:
            return cast(int, await hf.call(double.with_options(connection=connection), 1))

        with pytest.raises(hf.errors.BadDatabase, match="called by a workflow"):
            app.start(parent).result(RESULT_S)


def test_on_an_event_loop_a_connection_that_answers_at_once_is_used_at_once(tmp_path: Path) -> None:
    app, double = make_app(f"sqlite:///{tmp_path}/shop.db")

    async def main() -> None:
        async with app:
            with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
                handle = double.with_options(connection=connection).start(4)
                connection.commit()
                assert await handle == 8

    asyncio.run(main())


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg-async"])
@pytest.mark.parametrize("opened", ["here", "elsewhere"])
def test_postgres_on_a_connection_that_is_awaited(driver: str, opened: str) -> None:
    url = database_url()
    app, double = make_app(url)

    async def story() -> None:
        if driver == "asyncpg":
            connection: Any = await cast(Any, asyncpg).connect(url)
        else:
            options = url.replace("search_path=", "options=-csearch_path%3D")
            connection = await psycopg.AsyncConnection.connect(options, autocommit=True)
        for end in ("COMMIT", "ROLLBACK"):
            await connection.execute("BEGIN")
            handle = await double.with_options(id=end, connection=connection).start(4).started()
            with pytest.raises(hf.errors.IdTaken):
                await double.with_options(id=end, connection=connection).start(5).started()
            await connection.execute(end)
            if end == "COMMIT":
                assert await handle == 8
            else:
                with pytest.raises(hf.errors.NoSuchExecution):
                    await handle
        await connection.close()

    async def main() -> None:
        async with app:
            await story()

    if opened == "here":
        asyncio.run(main())
    else:
        with app:
            asyncio.run(story())


def test_postgres_on_a_connection_that_answers_at_once() -> None:
    url = database_url()
    app, double = make_app(url)
    with app, psycopg.connect(url.replace("search_path=", "options=-csearch_path%3D")) as connection:
        kept = double.with_options(id="kept", connection=connection).start(4)
        connection.commit()
        assert kept.result(RESULT_S) == 8
        double.with_options(id="gone", connection=connection).start(4)
        connection.rollback()
        with pytest.raises(hf.errors.NoSuchExecution):
            app.handle("gone").result(RESULT_S)


def test_postgres_a_connection_that_is_awaited_needs_an_event_loop() -> None:
    url = database_url()
    app, double = make_app(url)

    async def connect() -> Any:
        return await cast(Any, asyncpg).connect(url)

    with app:
        loop = asyncio.new_event_loop()
        connection = loop.run_until_complete(connect())
        with pytest.raises(hf.errors.BadOption, match="must be awaited"):
            double.with_options(connection=connection).start(1)
        loop.run_until_complete(connection.close())
        loop.close()


async def test_a_connection_that_its_owner_has_forgotten_is_not_kept_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or nobody would roll its transaction back, and the node could not write."""
    monkeypatch.setattr(own_transactions, "kept_s", 0.0)
    with closing(sqlite3.connect(":memory:")) as connection:
        before = sys.getrefcount(connection)
        own_transactions.OwnTransactions().note(connection, "x", asyncio.get_running_loop())
        async with asyncio.timeout(60):
            while sys.getrefcount(connection) > before:  # noqa: ASYNC110 (a timer of the loop)
                await asyncio.sleep(0.01)
