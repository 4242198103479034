"""Sending inside the caller's own transaction: it happens exactly if he commits, and then workers wake."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest

import holdfast as hf
from holdfast.app import bridge_of
from holdfast.client.caller import ask
from holdfast.jobs.send_request import SendRequest
from holdfast.node import Node
from holdfast.node.callers_transaction import request_inside
from holdfast.protocol.replies import ClaimReply
from holdfast.protocol.requests import TaskClaim
from holdfast.store import postgres_transaction
from holdfast.store.postgres import PostgresStore
from tests.postgres import database_url

WAKE_S = 25.0  # below every fallback: the next offer is 30 s away


def make_app(url: str) -> tuple[hf.App, hf.types.BackgroundTask[[int], int, int, hf.TaskError]]:
    app = hf.App(url)

    @app.task
    def double(number: int) -> int:
        return number * 2

    return app, double


# --- SQLite ----------------------------------------------------------------------------------------------


@contextmanager
def sqlite_app(folder: Path) -> Generator[tuple[hf.App, Any, Path]]:
    path = folder / "shop.db"
    app, double = make_app(f"sqlite:///{path}")
    with app:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER)")
            connection.commit()
        yield app, double, path


def test_sqlite_a_commit_makes_it_run_and_a_rollback_leaves_no_trace(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, double, path), closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        kept = double.with_options(connection=connection).send(4)
        connection.commit()
        assert kept.get(timeout=WAKE_S).ok_value == 8
        connection.execute("INSERT INTO orders VALUES (2)")
        gone = double.with_options(connection=connection).send(5)
        connection.rollback()
        assert gone.get(timeout=WAKE_S).err_value.error_code is hf.codes.RetrievalCode.TASK_NOT_FOUND
        assert connection.execute("SELECT id FROM orders").fetchall() == [(1,)]


def test_sqlite_others_may_write_until_the_transaction_does(tmp_path: Path) -> None:
    """One that has read before it takes the write lock could not take it any more after that."""
    with sqlite_app(tmp_path) as (_, double, path), closing(sqlite3.connect(path, timeout=0)) as other:

        class Cursor(sqlite3.Cursor):
            def execute(self, *given: Any) -> Any:
                done = super().execute(*given)
                with suppress(sqlite3.OperationalError):
                    other.execute("INSERT INTO orders VALUES (1)")
                    other.commit()
                return done

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = None) -> Any:
                return super().cursor(Cursor)

        with closing(sqlite3.connect(path, factory=Connection, isolation_level=None)) as connection:
            sqlite3.Connection.execute(connection, "BEGIN")
            sent = double.with_options(connection=connection).send(4)
            connection.commit()
        assert sent.get(timeout=WAKE_S).ok_value == 8


def test_sqlite_the_node_goes_on_while_a_transaction_is_open(tmp_path: Path) -> None:
    """It waits for the one write lock there is, and loses nothing."""
    with sqlite_app(tmp_path) as (_, double, path), closing(sqlite3.connect(path)) as connection:
        inside = double.with_options(connection=connection).send(1)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(double.send, 2)
            done, _ = wait([waiting], timeout=0.3)
            assert not done, "nobody is told that it is durable before it is"
            connection.commit()
            assert waiting.result(WAKE_S).get(timeout=WAKE_S).ok_value == 4
        assert inside.get(timeout=WAKE_S).ok_value == 2


def test_sqlite_another_process_that_commits_is_noticed(tmp_path: Path) -> None:
    """The sender has no node: the one that has notices that its file was changed."""
    with sqlite_app(tmp_path) as (app, _, path), closing(sqlite3.connect(path)) as connection:
        stranger = hf.App(f"sqlite:///{tmp_path / 'unused.db'}", worker=False)
        order = stranger.task(make_app("memory:")[1].function).prepare(21).order
        assert isinstance(order, SendRequest)
        request_inside(connection, [ask(order.creation)], bridge_of(stranger).read_clock().now)
        connection.commit()
        assert app.task_handle(order.creation.id).get(timeout=60).ok_value == 42


def test_sqlite_settings_of_the_connection_are_left_alone(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, double, path), closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        sent = double.with_options(connection=connection).send(3)
        assert (connection.row_factory, connection.text_factory) == (sqlite3.Row, bytes)
        connection.commit()
        assert sent.get(timeout=WAKE_S).ok_value == 6


def test_sqlite_an_explicit_begin_is_joined_and_autocommit_is_refused(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, double, path):
        connection = sqlite3.connect(path, isolation_level=None)
        with pytest.raises(hf.errors.BadOption, match="BEGIN"):
            double.with_options(connection=connection).send(1)
        connection.execute("BEGIN IMMEDIATE")
        sent = double.with_options(connection=connection).send(1)
        connection.execute("COMMIT")
        assert sent.get(timeout=WAKE_S).ok_value == 2
        connection.close()


def test_sqlite_another_file_is_refused(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, double, _path):
        connection = sqlite3.connect(tmp_path / "other.db")
        with pytest.raises(hf.errors.BadOption, match="no tables of Holdfast"):
            double.with_options(connection=connection).send(1)
        connection.close()
        with pytest.raises(
            hf.errors.BadOption,
            match="Expected a sqlite3, aiosqlite, psycopg or asyncpg connection, got object",
        ):
            double.with_options(connection=object()).send(1)


def test_sqlite_another_file_of_holdfast_is_refused(tmp_path: Path) -> None:
    with hf.App(f"sqlite:///{tmp_path}/other.db", worker=False):
        pass
    with sqlite_app(tmp_path) as (_, double, path):
        with closing(sqlite3.connect(tmp_path / "other.db")) as other:
            with pytest.raises(hf.errors.BadOption, match=r"leads to sqlite .*other\.db"):
                double.with_options(connection=other).send(1)
            other.execute("ATTACH ? AS shop", [str(path)])
            with pytest.raises(hf.errors.BadOption, match=r"other\.db"):  # where names without a schema lead
                double.with_options(connection=other).send(1)
        with closing(sqlite3.connect(tmp_path / "mine.db")) as mine:
            mine.execute("ATTACH ? AS shop", [str(path)])
            sent = double.with_options(connection=mine).send(21)
            mine.commit()
            assert sent.get(timeout=WAKE_S).ok_value == 42


def test_an_app_that_keeps_its_tasks_elsewhere_refuses_any_connection(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, _double, path), closing(sqlite3.connect(path)) as connection:
        for url in ("memory:", database_url()):
            app, double = make_app(url)
            with app, pytest.raises(hf.errors.BadOption, match="this app keeps its tasks"):
                double.with_options(connection=connection).send(1)


def test_sqlite_keys_and_ids_mean_the_same_inside(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (_, double, path), closing(sqlite3.connect(path)) as connection:
        inside = double.with_options(connection=connection, delay=60)
        first = inside.with_options(key="k").send(1)
        assert inside.with_options(key="k").send(2).id == first.id
        refused = inside.with_options(key="k", on_conflict="reject").try_send(2)
        assert refused.err_value.code is hf.codes.SendCode.KEY_TAKEN
        assert inside.with_options(id="x").try_send(1).is_ok
        assert inside.with_options(id="x").try_send(2).err_value.code is hf.codes.SendCode.PAYLOAD_MISMATCH
        connection.commit()
        assert first.info().status is hf.TaskStatus.PENDING


def test_sqlite_many_inside_one_transaction(tmp_path: Path) -> None:
    with sqlite_app(tmp_path) as (app, double, path), closing(sqlite3.connect(path)) as connection:
        inside = double.with_options(connection=connection)
        sent = app.send_many([inside.prepare(number) for number in range(50)])
        connection.commit()
        assert [each.get(timeout=WAKE_S).ok_value for each in sent] == [2 * n for n in range(50)]
        with pytest.raises(hf.errors.BadOption, match="the same connection"):
            app.send_many([inside.prepare(1), double.prepare(2)])


# --- PostgreSQL ------------------------------------------------------------------------------------------


class Driver:
    """One way to talk to PostgreSQL: begin, commit or roll back, and run a statement."""

    def __init__(self, name: str, connection: Any) -> None:
        self.connection = connection
        self._name = name

    async def execute(self, statement: str) -> None:
        done = self.connection.execute(statement)
        if self._name != "psycopg":
            await done

    async def send(self, task: Any, *args: Any, **options: Any) -> Any:
        task = task.with_options(connection=self.connection, **options)
        return task.send(*args) if self._name == "psycopg" else await task.send_async(*args)


@asynccontextmanager
async def connected(name: str, url: str) -> AsyncGenerator[Driver]:
    schema = dict(parse_qsl(urlsplit(url).query))["search_path"]
    base = url.replace(f"search_path={schema}", f"options=-csearch_path%3D{schema}")
    if name == "asyncpg":
        connection: Any = await cast(Any, asyncpg).connect(url)
        yield Driver(name, connection)
        await connection.close()
    elif name == "psycopg":
        with psycopg.connect(base, autocommit=True) as sync:
            yield Driver(name, sync)
    else:
        async with await psycopg.AsyncConnection.connect(base, autocommit=True) as asynchronous:
            yield Driver(name, asynchronous)


Story = Callable[[hf.App, Any, Driver], Awaitable[None]]


def tell(name: str, story: Story) -> None:
    url = database_url()
    app, double = make_app(url)

    async def main() -> None:
        async with app, connected(name, url) as driver:
            await driver.execute("CREATE TABLE orders (id BIGINT)")
            await story(app, double, driver)

    asyncio.run(main())


DRIVERS = pytest.mark.parametrize("name", ["asyncpg", "psycopg", "psycopg-async"])


@DRIVERS
def test_postgres_a_commit_makes_it_run_and_a_rollback_leaves_no_trace(name: str) -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        await driver.execute("BEGIN")
        await driver.execute("INSERT INTO orders VALUES (1)")
        kept = await driver.send(double, 4)
        assert (await kept.get_async(timeout=0)).err_value.error_code is hf.codes.RetrievalCode.TASK_NOT_FOUND
        await driver.execute("COMMIT")
        assert (await kept.get_async(timeout=WAKE_S)).ok_value == 8
        await driver.execute("BEGIN")
        gone = await driver.send(double, 5)
        await driver.execute("ROLLBACK")
        assert (
            await gone.get_async(timeout=WAKE_S)
        ).err_value.error_code is hf.codes.RetrievalCode.TASK_NOT_FOUND

    tell(name, story)


@DRIVERS
def test_postgres_another_schema_is_refused_and_the_transaction_stays_usable(name: str) -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        stranger, twice = make_app(database_url())
        async with stranger:
            await driver.execute("BEGIN")
            with pytest.raises(hf.errors.BadOption, match="another database or schema"):
                await driver.send(twice, 4)
            sent = await driver.send(double, 4)
            await driver.execute("COMMIT")
            assert (await sent.get_async(timeout=WAKE_S)).ok_value == 8

    tell(name, story)


@DRIVERS
def test_postgres_the_node_goes_on_while_a_transaction_is_open(name: str) -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        await driver.execute("BEGIN")
        inside = await driver.send(double, 1, key="k")
        beside = await double.send_async(2)
        assert (await beside.get_async(timeout=WAKE_S)).ok_value == 4
        await driver.execute("COMMIT")
        assert (await inside.get_async(timeout=WAKE_S)).ok_value == 2

    tell(name, story)


@DRIVERS
def test_postgres_what_is_refused_leaves_the_transaction_usable(name: str) -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        assert (await double.with_options(id="x", delay=60).try_send_async(1)).is_ok
        await driver.execute("BEGIN")
        await driver.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(hf.errors.SendFailed) as refused:
            await driver.send(double, 2, id="x")
        assert refused.value.error.code is hf.codes.SendCode.PAYLOAD_MISMATCH
        kept = await driver.send(double, 3)
        await driver.execute("COMMIT")
        assert (await kept.get_async(timeout=WAKE_S)).ok_value == 6

    tell(name, story)


@DRIVERS
def test_postgres_without_a_transaction_it_is_refused(name: str) -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        with pytest.raises(hf.errors.BadOption, match="No transaction"):
            await driver.send(double, 1)

    tell(name, story)


def test_postgres_a_key_that_another_transaction_takes_is_found_after_it_commits() -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        await driver.execute("BEGIN")
        first = await driver.send(double, 1, key="k", delay=60)
        waiting = asyncio.ensure_future(double.with_options(key="k", delay=60).send_async(2))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done, "who has the key is not known before the commit"
        await driver.execute("COMMIT")
        assert (await asyncio.wait_for(waiting, WAKE_S)).id == first.id

    tell("asyncpg", story)


def test_postgres_the_connection_keeps_its_lock_timeout() -> None:
    async def story(app: hf.App, double: Any, driver: Driver) -> None:
        await driver.execute("BEGIN")
        await driver.execute("SET LOCAL lock_timeout = 1234")
        await driver.send(double, 1)
        assert await driver.connection.fetchval("SELECT current_setting('lock_timeout')") == "1234ms"
        await driver.execute("COMMIT")

    tell("asyncpg", story)


def test_postgres_a_claim_waits_a_moment_for_what_somebody_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins to wait for a result holds its row for a moment: a claim that passed over it then, and said
    that there is nothing, would leave the task to the worker's next look, many seconds later."""
    monkeypatch.setattr(postgres_transaction, "passed_over_rests_s", (0.05,) * 100)

    async def main() -> None:
        url = database_url()
        async with Node(PostgresStore(url)) as node, connected("asyncpg", url) as driver:
            order = make_app(url)[1].prepare(1).order
            assert isinstance(order, SendRequest)
            await node.request([ask(order.creation)])
            await driver.execute("BEGIN")
            await driver.execute("SELECT * FROM promises FOR UPDATE")
            claim = asyncio.ensure_future(node.request([ask(TaskClaim(["queue.default"], 5, "w", 1_000))]))
            done, _ = await asyncio.wait([claim], timeout=0.3)
            assert not done
            await driver.execute("COMMIT")
            [reply] = await claim
            assert isinstance(reply.data, ClaimReply)
            assert [granted.task.id for granted in reply.data.tasks] == [order.creation.id]

    asyncio.run(main())
