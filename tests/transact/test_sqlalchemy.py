"""SQLAlchemy itself: its sessions and connections, wherever a connection is taken."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Engine, String, create_engine, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

import holdfast as hf
from tests.postgres import database_url, execute

RESULT_S = 30


class Base(DeclarativeBase):
    pass


class Entry(Base):
    __tablename__ = "ledger"
    id: Mapped[int] = mapped_column(BigInteger().with_variant(String, "sqlite"), primary_key=True)
    who: Mapped[str]


class Patience(Base):
    """How long a statement would have waited for a lock that another one holds."""

    __tablename__ = "patience"
    id: Mapped[int] = mapped_column(BigInteger().with_variant(String, "sqlite"), primary_key=True)
    lock_timeout: Mapped[str] = mapped_column(server_default=text("current_setting('lock_timeout')"))


def add(session: Session, number: int, who: str) -> int:
    session.add(Entry(id=number, who=who))
    session.flush()
    return session.scalar(select(func.count()).select_from(Entry)) or 0


def insert(connection: Any, number: int, who: str) -> None:
    connection.execute(text("INSERT INTO ledger (id, who) VALUES (:id, :who)"), {"id": number, "who": who})


async def add_async(session: AsyncSession, number: int, who: str) -> int:
    session.add(Entry(id=number, who=who))
    await session.flush()
    return await session.scalar(select(func.count()).select_from(Entry)) or 0


async def insert_async(connection: Any, number: int, who: str) -> None:
    await connection.execute(
        text("INSERT INTO ledger (id, who) VALUES (:id, :who)"), {"id": number, "who": who}
    )


def sqlite_places(folder: Path, way: str) -> tuple[str, str]:
    path = folder / ("node.db" if way == "own" else "shop.db")
    return f"sqlite:///{folder}/node.db?beside=1", f"sqlite:///{path}"


def postgres_places(folder: Path, way: str) -> tuple[str, str]:
    node_url = database_url(beside="1")
    url = (node_url if way == "own" else database_url()).replace("&beside=1", "")
    options = url.replace("search_path=", "options=-csearch_path%3D")
    return node_url, options.replace("postgresql:", "postgresql+psycopg:")


PLACES = pytest.mark.parametrize("places", [sqlite_places, postgres_places])
WAYS = pytest.mark.parametrize("way", ["own", "other"])
Places = Callable[[Path, str], tuple[str, str]]


def everyone(engine: Engine) -> list[str]:
    with Session(engine) as session:
        return list(session.scalars(select(Entry.who).order_by(Entry.id)))


@WAYS
@PLACES
def test_engines_and_sessions_that_answer_at_once(places: Places, way: str, tmp_path: Path) -> None:
    node_url, url = places(tmp_path, way)
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    app = hf.App(node_url)
    sessions = sessionmaker(engine)

    @app.workflow
    async def work() -> list[int]:
        counts = [await hf.transact(add, 1, "sessionmaker", on=sessions)]
        await hf.transact(insert, 2, "engine", on=engine)
        counts.append(await hf.transact(add, 3, "scoped", on=scoped_session(sessions)))
        counts.append(await hf.transact(add, 4, "factory", on=lambda: Session(engine)))
        try:
            await hf.transact(add, 4, "twice", on=sessions)
        except Exception as error:
            counts.append(-int("ledger" in str(error)))
        return counts

    with app:
        assert app.start(work, id="w").result(RESULT_S) == [1, 3, 4, -1]
    assert everyone(engine) == ["sessionmaker", "engine", "scoped", "factory"]
    with engine.connect() as connection:
        has_table = engine.dialect.has_table(connection, "holdfast_steps")
    assert has_table is (way == "other")
    engine.dispose()


def test_a_session_on_sqlite_commits_durably_and_its_connection_stays_so(tmp_path: Path) -> None:
    """Whoever is given the connection next may have begun already, so nothing is lowered behind his back."""
    node_url, url = sqlite_places(tmp_path, "other")
    engine = create_engine(url, pool_size=1, max_overflow=0)
    Base.metadata.create_all(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA synchronous=NORMAL")
    app = hf.App(node_url)

    def level(session: Session) -> int:
        return session.execute(text("PRAGMA synchronous")).scalar() or 0

    @app.workflow
    async def work() -> int:
        return await hf.transact(level, on=sessionmaker(engine))

    with app:
        assert app.start(work).result(RESULT_S) == 2
    with Session(engine) as session:
        assert level(session) == 2
    engine.dispose()


def test_a_session_that_commits_by_itself_is_told_so(tmp_path: Path) -> None:
    node_url, url = sqlite_places(tmp_path, "other")
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    app = hf.App(node_url)

    def commits(session: Session) -> int:
        session.commit()
        return add(session, 1, "ada")

    @app.workflow
    async def work() -> int:
        return await hf.transact(commits, on=sessionmaker(engine))

    with app, pytest.raises(hf.errors.TransactionEnded):
        app.start(work).result(RESULT_S)
    assert everyone(engine) == []
    engine.dispose()


@WAYS
@pytest.mark.parametrize("driver", ["psycopg", "async psycopg", "asyncpg"])
def test_what_a_session_has_not_flushed_waits_for_locks_as_long_as_its_owner_says(
    driver: str, way: str, tmp_path: Path
) -> None:
    node_url, url = postgres_places(tmp_path, way)
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    app = hf.App(node_url)

    def keep(session: Session) -> None:
        session.execute(text("SET LOCAL lock_timeout = '21s'"))
        session.add(Patience(id=1))

    async def keep_async(session: AsyncSession) -> None:
        await session.execute(text("SET LOCAL lock_timeout = '21s'"))
        session.add(Patience(id=1))

    async def main() -> None:
        awaited = async_engine(driver.removeprefix("async "), url)

        @app.workflow
        async def work() -> None:
            if driver == "psycopg":
                await hf.transact(keep, on=sessionmaker(engine))
            else:
                await hf.transact(keep_async, on=async_sessionmaker(awaited))

        async with app:
            await app.start(work)
        await awaited.dispose()

    asyncio.run(main())
    with Session(engine) as session:
        assert session.scalars(select(Patience.lock_timeout)).all() == ["21s"]
    engine.dispose()


@WAYS
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_engines_and_sessions_that_are_awaited(driver: str, way: str, tmp_path: Path) -> None:
    node_url, url = postgres_places(tmp_path, way)
    sync = create_engine(url)
    Base.metadata.create_all(sync)
    app = hf.App(node_url)

    async def main() -> None:
        engine = async_engine(driver, url)
        sessions = async_sessionmaker(engine)

        @app.workflow
        async def work() -> list[int]:
            counts = [await hf.transact(add_async, 1, "sessionmaker", on=sessions)]
            await hf.transact(insert_async, 2, "engine", on=engine)
            return [*counts, await hf.transact(add_async, 3, "factory", on=lambda: AsyncSession(engine))]

        async with app:
            assert await app.start(work) == [1, 3]
        await engine.dispose()

    asyncio.run(main())
    assert everyone(sync) == ["sessionmaker", "engine", "factory"]
    sync.dispose()


def async_engine(driver: str, url: str) -> Any:
    if driver == "psycopg":
        return create_async_engine(url)
    base, _, schema = url.partition("options=-csearch_path%3D")
    server = {"server_settings": {"search_path": schema}}
    return create_async_engine(base.rstrip("?&").replace("+psycopg", "+asyncpg"), connect_args=server)


@PLACES
def test_tasks_and_workflows_are_sent_and_started_in_a_session(places: Places, tmp_path: Path) -> None:
    node_url, url = places(tmp_path, "own")
    engine = create_engine(url)
    Base.metadata.create_all(engine)
    app = hf.App(node_url)

    @app.task
    def double(number: int) -> int:
        return number * 2

    @app.workflow
    async def treble(number: int) -> int:
        return number * 3

    with app:
        with Session(engine) as session:
            session.add(Entry(id=1, who="ada"))
            sent = double.with_options(connection=session).send(4)
            started = treble.with_options(connection=session, id="t").start(4)
            session.commit()
        assert sent.get(timeout=RESULT_S).ok_value == 8
        assert started.result(RESULT_S) == 12
        with engine.connect() as connection:
            treble.with_options(connection=connection, id="gone").start(4)
            connection.rollback()
        with pytest.raises(hf.errors.NoSuchExecution, match="gone"):
            app.handle("gone").result(RESULT_S)
        with engine.connect() as connection:
            kept = treble.with_options(connection=connection, id="kept").start(5)
            connection.commit()
        assert kept.result(RESULT_S) == 15
    assert everyone(engine) == ["ada"]
    engine.dispose()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_tasks_and_workflows_are_sent_and_started_in_an_async_session(driver: str, tmp_path: Path) -> None:
    node_url, url = postgres_places(tmp_path, "own")
    execute(node_url.replace("&beside=1", ""), "CREATE TABLE ledger (id BIGINT PRIMARY KEY, who TEXT)")
    app = hf.App(node_url)

    @app.task
    def double(number: int) -> int:
        return number * 2

    @app.workflow
    async def treble(number: int) -> int:
        return number * 3

    async def main() -> None:
        engine = async_engine(driver, url)
        async with app:
            async with AsyncSession(engine) as session:
                sent = await double.with_options(connection=session).send_async(4)
                started = await treble.with_options(connection=session, id="t").start(4).started()
                session.add(Entry(id=1, who="ada"))
                await session.commit()
            assert (await sent.get_async(timeout=RESULT_S)).ok_value == 8
            assert await started == 12
            async with engine.connect() as connection:
                await treble.with_options(connection=connection, id="gone").start(4).started()
                await connection.rollback()
            with pytest.raises(hf.errors.NoSuchExecution):
                await app.handle("gone")
        await engine.dispose()

    asyncio.run(main())


def test_a_driver_below_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    """SQLAlchemy's own default for PostgreSQL, say: here it is one that nobody knows."""
    node_url, _ = sqlite_places(tmp_path, "other")

    class Strange:
        def __init__(self) -> None:
            self._connection = sqlite3.connect(":memory:")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    engine = create_engine("sqlite://", creator=Strange)
    app = hf.App(node_url)

    @app.workflow
    async def work() -> int:
        return await hf.transact(add, 1, "ada", on=sessionmaker(engine))

    with app, pytest.raises(hf.errors.BadDatabase, match="Strange"):
        app.start(work).result(RESULT_S)
