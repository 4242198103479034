"""Transactional steps: what happens in the transaction, what is recorded, what is refused."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg_pool
import pytest

import holdfast as hf
from holdfast.app import bridge_of
from holdfast.store import step_table
from holdfast.testing import World
from tests.postgres import database_url, execute

RESULT_S = 30


class Shop:
    """A node in one file and a shop in another, or both in one."""

    def __init__(self, folder: Path, *, own: bool) -> None:
        self.path = folder / ("node.db" if own else "shop.db")
        self.app = hf.App(f"sqlite:///{folder}/node.db?beside=1")
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("CREATE TABLE ledger (who TEXT, cents INTEGER)")
            connection.commit()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def ledger(self) -> list[Any]:
        with closing(self.connect()) as connection:
            return connection.execute("SELECT who, cents FROM ledger ORDER BY rowid").fetchall()

    def steps(self) -> list[str]:
        with closing(self.connect()) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE name = 'holdfast_steps'")
            rows = connection.execute("SELECT step FROM holdfast_steps") if found.fetchall() else ()
            return [step for (step,) in rows]


@pytest.fixture(params=["own", "other"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return Shop(tmp_path, own=request.param == "own")


def credit(connection: sqlite3.Connection, who: str, cents: int) -> int:
    connection.execute("INSERT INTO ledger VALUES (?, ?)", (who, cents))
    found = connection.execute("SELECT sum(cents) FROM ledger").fetchone()
    return int(found[0])


def run(shop: Shop, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """One workflow with one such step."""
    database = options.pop("on", shop.connect)

    @shop.app.workflow
    async def work() -> Any:
        return await hf.transact(function, *args, on=database, **options)

    with shop.app:
        return shop.app.start(work, id="w").result(RESULT_S)


# --- what happens ----------------------------------------------------------------------------------------


def test_the_function_gets_the_connection_first_and_its_value_is_the_result(shop: Shop) -> None:
    assert run(shop, credit, "ada", cents=5) == 5
    assert shop.ledger() == [("ada", 5)]


def test_in_the_nodes_own_database_no_table_of_ours_is_added(tmp_path: Path) -> None:
    folders = [tmp_path / "own", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    own, other = Shop(folders[0], own=True), Shop(folders[1], own=False)
    run(own, credit, "ada", 5)
    run(other, credit, "ada", 5)
    assert (own.steps(), other.steps()) == ([], ["w:1"])


def test_what_raises_is_rolled_back_and_the_retry_is_a_new_transaction(shop: Shop) -> None:
    attempts: list[int] = []

    def careless(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO ledger VALUES ('ada', ?)", (len(attempts),))
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("not yet")
        return len(attempts)

    assert run(shop, careless, retry=hf.Retry(attempts=5, delay=0)) == 3
    assert shop.ledger() == [("ada", 2)]


def test_without_a_retry_its_error_is_raised_where_it_is_awaited_and_nothing_is_left(shop: Shop) -> None:
    def refuse(connection: sqlite3.Connection) -> None:
        credit(connection, "ada", 5)
        raise LookupError("no such card")

    with pytest.raises(LookupError, match="no such card"):
        run(shop, refuse)
    assert (shop.ledger(), shop.steps()) == ([], [])


def test_a_value_that_cannot_be_recorded_rolls_it_back(shop: Shop) -> None:
    def unencodable(connection: sqlite3.Connection) -> object:
        credit(connection, "ada", 5)
        return object()

    with pytest.raises(hf.errors.UnencodablePayload):
        run(shop, unencodable)
    assert (shop.ledger(), shop.steps()) == ([], [])


def test_many_at_once_and_beside_plain_steps_happen_once_each(shop: Shop) -> None:
    @shop.app.workflow
    async def many() -> list[int]:
        def plain(number: int) -> int:
            return number

        both = [hf.transact(credit, f"p{n}", 1, on=shop.connect) for n in range(10)]
        both += [hf.run(plain, n) for n in range(10)]
        return sorted(await hf.gather(*both))

    with shop.app:
        assert shop.app.start(many).result(RESULT_S) == sorted([*range(10), *range(1, 11)])
    assert sorted(shop.ledger()) == sorted((f"p{n}", 1) for n in range(10))


def test_a_replay_reads_the_record_and_performs_nothing(shop: Shop) -> None:
    @shop.app.workflow
    async def wait_between(who: str) -> int:
        first = await hf.transact(credit, who, 5, on=shop.connect)
        await hf.promise(str)
        return first + await hf.transact(credit, who, 2, on=shop.connect)

    with shop.app:
        shop.app.start(wait_between, "ada", id="r")
        _until(lambda: shop.ledger() == [("ada", 5)])
    with shop.app:  # another session: it is replayed
        shop.app.resolve("r:2", "go")
        assert shop.app.handle("r").result(RESULT_S) == 12
    assert shop.ledger() == [("ada", 5), ("ada", 2)]


def test_code_that_gives_other_arguments_than_were_recorded_is_halted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/node.db"
    shop = Shop(tmp_path, own=False)
    for cents in (5, 6):
        app = hf.App(url)

        @app.workflow(name="pay")
        async def pay(cents: int = cents) -> None:
            await hf.transact(credit, "ada", cents, on=shop.connect)
            await hf.promise(str)

        with app:
            handle = app.start("pay", id="m")
            _until(lambda: shop.ledger() == [("ada", 5)])
            if cents == 6:
                app.resolve("m:2", "go")
                with pytest.raises(TimeoutError):
                    handle.result(1)
    assert shop.ledger() == [("ada", 5)]


def test_a_declared_step_and_its_options_can_be_performed_so(shop: Shop) -> None:
    calls: list[int] = []

    @hf.step(retry=hf.Retry(attempts=2, delay=0))
    def declared(connection: sqlite3.Connection, who: str) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("once")
        return credit(connection, who, 1)

    assert run(shop, declared, "ada") == 1


def test_what_the_app_provides_is_filled_in_beside_the_connection(shop: Shop) -> None:
    class Prices(dict[str, int]):
        pass

    shop.app.provide(Prices, Prices(tea=3))

    def buy(connection: sqlite3.Connection, prices: Prices, what: str) -> int:
        return credit(connection, what, prices[what])

    assert run(shop, buy, what="tea") == 3


def test_inside_it_knows_its_execution_step_and_attempt(shop: Shop) -> None:
    def who(connection: sqlite3.Connection) -> tuple[str, str | None, int]:
        here = hf.current()
        return here.id, here.step, here.attempt

    assert run(shop, who) == ["w", "w:1", 1]


# --- tries that meet ---------------------------------------------------------------------------------------


def test_a_try_that_timed_out_and_one_that_follows_it_happen_once_together(shop: Shop) -> None:
    """The first is in a thread that cannot be stopped; it finds that nobody wants it before it commits."""
    tries: list[int] = []

    def slow_once(connection: sqlite3.Connection) -> int:
        tries.append(1)
        if len(tries) == 1:
            _until(lambda: hf.step_signal().is_set)
        return credit(connection, "ada", len(tries))

    assert run(shop, slow_once, timeout=0.5, retry=hf.Retry(attempts=50, delay=0)) >= 2
    assert len(shop.ledger()) == 1


def test_a_row_that_is_there_already_is_the_outcome_and_the_function_is_not_called(tmp_path: Path) -> None:
    """As after a crash between the commit of the step and its record."""
    shop = Shop(tmp_path, own=False)
    with shop.app:
        pass
    called: list[int] = []

    @shop.app.workflow
    async def pay() -> int:
        created = await hf.run(remember)
        return created + await hf.transact(count, on=shop.connect)

    def remember() -> int:
        with closing(shop.connect()) as connection, closing(sqlite3.connect(tmp_path / "node.db")) as node:
            [[created_at]] = node.execute("SELECT created_at FROM promises WHERE id = 'w'").fetchall()
            connection.execute(step_table.CREATE_TABLE)
            connection.execute("INSERT INTO holdfast_steps VALUES ('w:2', ?, 'NDI=', 0)", (created_at,))
            connection.execute("INSERT INTO holdfast_steps VALUES ('w:2', ?, 'MQ==', 0)", (created_at - 1,))
            connection.commit()
        return 0

    def count(connection: sqlite3.Connection) -> int:
        called.append(1)
        return 1

    with shop.app:
        assert shop.app.start(pay, id="w").result(RESULT_S) == 42
    assert not called


def test_rows_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    shop = Shop(tmp_path, own=False)
    with closing(shop.connect()) as connection:
        connection.execute(step_table.CREATE_TABLE)
        connection.execute("INSERT INTO holdfast_steps VALUES ('long-ago:1', 1, NULL, 1)")
        connection.commit()
    run(shop, credit, "ada", 5)
    assert shop.steps() == ["w:1"]


class Fails(sqlite3.Connection):
    """Its commit fails: after it was done, or before."""

    is_done = False
    commits = 0

    def commit(self) -> None:
        Fails.commits += 1
        if Fails.commits > 1:
            super().commit()
            return
        if self.is_done:
            super().commit()
        raise OSError("the line is dead")


@pytest.mark.parametrize("is_done", [True, False])
def test_a_commit_that_failed_is_looked_up(
    is_done: bool, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shop.path.name == "shop.db":
        with closing(shop.connect()) as connection:
            connection.execute(step_table.CREATE_TABLE)
            connection.commit()
    monkeypatch.setattr(Fails, "is_done", is_done)
    monkeypatch.setattr(Fails, "commits", 0)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(shop.path, factory=Fails)

    if is_done:
        assert run(shop, credit, "ada", 5, on=connect) == 5
    else:
        with pytest.raises(OSError, match="the line is dead"):
            run(shop, credit, "ada", 5, on=connect)
    assert shop.ledger() == ([("ada", 5)] if is_done else [])


# --- what is refused -------------------------------------------------------------------------------------


def test_what_makes_no_connections_is_refused(shop: Shop) -> None:
    with pytest.raises(hf.errors.BadDatabase, match=r"cannot be a int.*HF5130"):
        run(shop, credit, "ada", 5, on=17)


def test_a_factory_that_makes_something_else_is_refused(shop: Shop) -> None:
    with pytest.raises(hf.errors.BadDatabase, match=r"got int.*HF5130"):
        run(shop, credit, "ada", 5, on=lambda: 17)


def test_a_connection_of_the_workflow_is_refused_where_it_is_asked_for(shop: Shop) -> None:
    with (
        closing(shop.connect()) as connection,
        pytest.raises(hf.errors.BadDatabase, match="each attempt must open its own"),
    ):
        run(shop, credit, "ada", 5, on=connection)


def test_a_child_process_and_no_database_are_refused(tmp_path: Path) -> None:
    with pytest.raises(hf.errors.BadStepOption, match="child process"):
        run(Shop(tmp_path, own=False), credit, "ada", 5, mode="process")
    (tmp_path / "none").mkdir()
    with pytest.raises(hf.errors.BadStepOption, match="is None"):
        run(Shop(tmp_path / "none", own=False), credit, "ada", 5, on=None)


def test_a_name_that_nobody_provides_is_refused(shop: Shop) -> None:
    with pytest.raises(hf.errors.NotProvided, match="'shop'"):
        run(shop, credit, "ada", 5, on="shop")


@pytest.mark.parametrize("text", ["shop.db", "sqlite:///shop.db", "postgresql://db/shop"])
def test_a_path_or_a_url_is_no_name(text: str, shop: Shop) -> None:
    with pytest.raises(hf.errors.BadDatabase, match=r"pathlib\.Path"):
        run(shop, credit, "ada", 5, on=text)


def test_a_file_that_is_not_there_is_not_made(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        run(shop, credit, "ada", 5, on=tmp_path / "misspelled.db")
    assert not (tmp_path / "misspelled.db").exists()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_function_that_ends_the_transaction_by_itself_is_told_so(end: str, shop: Shop) -> None:
    def ends(connection: sqlite3.Connection) -> int:
        getattr(connection, end)()
        return credit(connection, "ada", 5)

    with pytest.raises(hf.errors.TransactionEnded, match="HF5131"):
        run(shop, ends)
    assert shop.ledger() == []


def test_an_async_function_needs_a_database_that_is_awaited(shop: Shop) -> None:
    async def eager(connection: sqlite3.Connection) -> None:
        credit(connection, "ada", 5)

    with pytest.raises(hf.errors.BadDatabase, match="is synchronous and the step is an async def"):
        run(shop, eager)
    assert shop.ledger() == []


# --- every way to say where ------------------------------------------------------------------------------


def test_a_path_and_a_name_that_is_provided_lead_to_the_file(shop: Shop) -> None:
    shop.app.provide("shop", lambda: shop.path)

    @shop.app.workflow
    async def both() -> None:
        await hf.transact(credit, "path", 1, on=shop.path)
        await hf.transact(credit, "name", 2, on="shop")

    with shop.app:
        shop.app.start(both).result(RESULT_S)
    assert shop.ledger() == [("path", 1), ("name", 2)]


def test_in_a_test_world_the_users_database_is_another_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path, own=True)

    @shop.app.workflow
    async def pay() -> int:
        return await hf.transact(credit, "ada", 5, on=shop.connect)

    with World(shop.app):
        assert shop.app.start(pay).result() == 5
    assert shop.ledger() == [("ada", 5)]


# --- PostgreSQL --------------------------------------------------------------------------------------------


@contextmanager
def postgres(way: str) -> Generator[tuple[hf.App, str, str]]:
    """An app, and the URL of the user's database for asyncpg and for psycopg."""
    node_url = database_url(beside="1")
    url = (node_url if way == "own" else database_url()).replace("&beside=1", "")
    execute(url, "CREATE TABLE ledger (who TEXT, cents BIGINT)")
    yield hf.App(node_url), url, url.replace("search_path=", "options=-csearch_path%3D")


def pay_sync(connection: Any, who: str) -> int:
    connection.execute("INSERT INTO ledger VALUES (%s, 5)", (who,))
    return int(connection.execute("SELECT sum(cents) FROM ledger").fetchone()[0])


async def pay_psycopg(connection: Any, who: str) -> int:
    await connection.execute("INSERT INTO ledger VALUES (%s, 5)", (who,))
    return int((await (await connection.execute("SELECT sum(cents) FROM ledger")).fetchone())[0])


async def pay_asyncpg(connection: Any, who: str) -> int:
    async with connection.transaction():  # a savepoint in ours
        await connection.execute("INSERT INTO ledger VALUES ($1, 5)", who)
    return int(await connection.fetchval("SELECT sum(cents) FROM ledger"))


WAYS = pytest.mark.parametrize("way", ["own", "other"])


@WAYS
@pytest.mark.parametrize("autocommit", [False, True])
def test_psycopg_by_factories_and_pools(way: str, autocommit: bool) -> None:
    with postgres(way) as (app, url, psycopg_url):

        @app.provide("pool")
        def pool() -> Generator[Any]:
            with psycopg_pool.ConnectionPool(
                psycopg_url, min_size=1, kwargs={"autocommit": autocommit}
            ) as made:
                yield made

        @app.provide("async pool")
        async def async_pool() -> Any:
            async with psycopg_pool.AsyncConnectionPool(psycopg_url, min_size=1) as made:
                yield made

        @app.workflow
        async def work() -> list[int]:
            paid = [await hf.transact(pay_sync, "pool", on="pool")]
            paid += [await hf.transact(pay_psycopg, "async pool", on="async pool")]
            paid += [await hf.transact(pay_sync, "one", on=lambda: psycopg.connect(psycopg_url))]
            connect = psycopg.AsyncConnection.connect
            return [*paid, await hf.transact(pay_psycopg, "other", on=lambda: connect(psycopg_url))]

        async def main() -> None:
            async with app:
                assert await app.start(work, id="w") == [5, 10, 15, 20]

        asyncio.run(main())
        assert execute(url, "SELECT string_agg(who, ',') FROM ledger") == "pool,async pool,one,other"
        tables = "SELECT to_regclass('holdfast_steps') IS NOT NULL"
        assert execute(url, tables) == ("f" if way == "own" else "t")


@WAYS
def test_asyncpg_by_factories_and_pools_also_at_once(way: str) -> None:
    with postgres(way) as (app, url, _):

        @app.provide("pool")
        async def pool() -> Any:
            async with cast(Any, asyncpg).create_pool(url, min_size=1, max_size=4) as made:
                yield made

        @app.workflow
        async def work() -> int:
            await hf.gather(*(hf.transact(pay_asyncpg, f"p{n}", on="pool") for n in range(8)))
            return await hf.transact(pay_asyncpg, "one", on=lambda: cast(Any, asyncpg).connect(url))

        async def main() -> None:
            async with app:
                assert await app.start(work) == 45

        asyncio.run(main())
        assert execute(url, "SELECT count(DISTINCT who), count(*) FROM ledger") == "9|9"


@WAYS
def test_postgres_a_function_that_commits_by_itself_is_told_so(way: str) -> None:
    def ends(connection: Any) -> int:
        connection.commit()
        return pay_sync(connection, "ada")

    with postgres(way) as (app, url, psycopg_url):

        @app.workflow
        async def work() -> int:
            return await hf.transact(ends, on=lambda: psycopg.connect(psycopg_url))

        with app, pytest.raises(hf.errors.TransactionEnded):
            app.start(work).result(RESULT_S)
        assert execute(url, "SELECT count(*) FROM ledger") == "0"


@pytest.mark.parametrize("wrong", ["commit", "search_path"])
def test_postgres_the_second_step_of_a_database_is_checked_as_the_first_is(wrong: str) -> None:
    with postgres("own") as (app, url, psycopg_url):

        def connect() -> Any:
            return psycopg.connect(psycopg_url)

        def ends(connection: Any) -> int:
            if wrong == "commit":
                connection.commit()
            else:
                connection.execute("SET LOCAL search_path = pg_catalog")
            return 5

        @app.workflow
        async def work(is_wrong: bool) -> int:
            return (
                await hf.transact(ends, on=connect)
                if is_wrong
                else await hf.transact(pay_sync, "ada", on=connect)
            )

        with app:
            assert app.start(work, False).result(RESULT_S) == 5
            with pytest.raises(hf.errors.TransactionEnded):
                app.start(work, True).result(RESULT_S)
            assert app.start(work, False).result(RESULT_S) == 10
        assert execute(url, "SELECT count(*) FROM ledger") == "2"


def test_postgres_deferred_constraints_wait_for_locks_as_long_as_their_owner_says() -> None:
    with postgres("own") as (app, url, psycopg_url):
        execute(url, "CREATE TABLE waits (lock_timeout TEXT)")
        execute(
            url,
            "CREATE FUNCTION note_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "INSERT INTO waits VALUES (current_setting('lock_timeout')); "
            "IF NEW.who = 'eve' THEN RAISE EXCEPTION 'not eve'; END IF; RETURN NULL; END $$",
        )
        execute(
            url,
            "CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION note_wait()",
        )

        def connect() -> Any:
            return psycopg.connect(psycopg_url + "%20-clock_timeout%3D41s")

        @app.workflow
        async def work(who: str) -> int:
            return await hf.transact(pay_sync, who, on=connect)

        with app:
            app.start(work, "ada").result(RESULT_S)
            app.start(work, "bob").result(RESULT_S)
            with pytest.raises(Exception, match="not eve"):
                app.start(work, "eve").result(RESULT_S)
        assert execute(url, "SELECT string_agg(lock_timeout, ' ') FROM waits") == "41s 41s"
        assert execute(url, "SELECT count(*) FROM ledger") == "2"


def test_a_plain_function_needs_a_database_that_answers_at_once() -> None:
    with postgres("other") as (app, url, _):

        @app.workflow
        async def work() -> int:
            return await hf.transact(pay_sync, "ada", on=lambda: cast(Any, asyncpg).connect(url))

        with app, pytest.raises(hf.errors.BadDatabase, match="is asynchronous and the step is a plain def"):
            app.start(work).result(RESULT_S)


@WAYS
def test_a_worker_that_has_lost_its_claim_commits_nothing_a_second_time(way: str) -> None:
    """It stands still in the middle of the function; another worker takes over, and pays."""
    with postgres(way) as (app, url, psycopg_url):
        tries: list[int] = []
        go = threading.Event()
        left = threading.Event()

        def stands_still(connection: Any, who: str) -> int:
            tries.append(1)
            if len(tries) == 1:
                go.wait(RESULT_S)
                try:
                    return pay_sync(connection, who)
                finally:
                    left.set()
            return pay_sync(connection, who)

        apps = [app, hf.App(app.settings.url, worker=True, lease="1s")]
        for each in apps:

            @each.workflow
            async def work() -> int:
                return await hf.transact(stands_still, "ada", on=lambda: psycopg.connect(psycopg_url))

        async def main() -> None:
            async with apps[1] as first:
                first.start("work", id="w")
                await asyncio.to_thread(_until, lambda: len(tries) == 1)
                await bridge_of(first).session.abandon()
                async with apps[0] as second:
                    assert await second.handle("w") == 5
                    go.set()
                    await asyncio.to_thread(left.wait, RESULT_S)
                    await asyncio.sleep(0.5)

        asyncio.run(main())
        assert len(tries) == 2
        assert execute(url, "SELECT count(*) FROM ledger") == "1"


def _until(is_so: Callable[[], bool]) -> None:
    deadline = threading.Event()
    for _ in range(3_000):
        if is_so():
            return
        deadline.wait(0.02)
    raise AssertionError("it never came to that")
