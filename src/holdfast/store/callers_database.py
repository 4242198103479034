"""A database of the user's own, for one step at a time: opened, begun, committed or rolled back.

`opened` takes what makes connections (a file, a pool, an engine, a factory), never a connection: whoever
waits for days must not hold one, and two attempts must not share one.

1. All of this is `async` and really waits only where the database must be awaited. What answers at once is
   driven by `run_now`.
2. The commit is durable: `synchronous_commit` of PostgreSQL is raised for the transaction where it is lower.
   SQLite is in store/callers_sqlite.py.
3. Whether the function ended the transaction by itself is found out: `check_same` raises `Ended`.
4. A trip to the server costs as much as the user's own statement: what is asked at the beginning is asked
   in one statement.
"""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from inspect import isawaitable, iscoroutine
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

from holdfast.store import callers_session
from holdfast.store.callers_session import ASYNC, SESSIONS, SYNC, classes_of, is_aiosqlite, unwrap_async
from holdfast.store.callers_sqlite import CallersSqlite
from holdfast.store.interface import CannotJoin
from holdfast.store.postgres_drivers import CallersConnection, adapt, adapt_sync
from holdfast.store.postgres_statements import INSISTED_ON_SYNC, PLACE, place_text

Kind = Literal["sqlite3", "aiosqlite", "psycopg", "asyncpg", "sqlalchemy"]

TRANSACTION_NUMBER: Final = "txid_current()::text"
BEGUN: Final = f"SELECT {TRANSACTION_NUMBER}, NULL, {INSISTED_ON_SYNC}"
BEGUN_AT: Final = f"SELECT {TRANSACTION_NUMBER}, ({PLACE}), {INSISTED_ON_SYNC}"
# Of a database that had our tables when it was last used: what is to be known of them comes along.
_OURS: Final = ", version, (SELECT now FROM clock) FROM schema_version"
BEGUN_AMONG_OURS: Final = f"{BEGUN_AT}{_OURS}"


OF_ITSELF: Final = "The function ended the transaction by itself"


class Begun(NamedTuple):
    """A transaction that we began ourselves and commit next. `number`: where the database counts them. And
    perhaps what was learnt of our tables when it began: which ones they are, of which version, and the latest
    instant that was stored."""

    number: str | None
    tables: str = ""
    version: int = 0
    floor: int | None = None


class Ended(Exception):
    """The function committed or rolled back by itself, so its writes and the record of them are apart."""


def kind_of(given: Any) -> Kind | None:
    """Is it a connection or a session, and of which library?"""
    if isinstance(given, sqlite3.Connection):
        return "sqlite3"
    if is_aiosqlite(given):
        return "aiosqlite"
    if classes_of(given, "sqlalchemy") & (SYNC | ASYNC):
        return "sqlalchemy"
    if classes_of(given, "psycopg") & {"Connection", "AsyncConnection"}:
        return "psycopg"
    if callable(getattr(given, "fetchval", None)) and hasattr(given, "is_in_transaction"):
        return "asyncpg"
    return None


def must_be_awaited(given: Any) -> bool:
    return bool(
        kind_of(given) == "asyncpg"
        or classes_of(given, "psycopg") & {"AsyncConnection"}
        or callers_session.must_be_awaited(given)
    )


def can_open(source: Any) -> bool:
    """Does it make connections? A factory is called to find out what it makes."""
    is_registry = classes_of(source, "sqlalchemy") & {"scoped_session", "async_scoped_session"}
    if kind_of(source) is not None and not is_registry:
        return False
    return isinstance(source, Path) or _is_pool(source) or callable(source)


def _is_pool(source: Any) -> bool:
    return bool(
        classes_of(source, "psycopg_pool") & {"ConnectionPool", "AsyncConnectionPool"}
        or classes_of(source, "asyncpg") & {"Pool"}
        or classes_of(source, "sqlalchemy") & {"Engine", "AsyncEngine"}
    )


@asynccontextmanager
async def opened(source: Any, *, waits: bool) -> AsyncGenerator[Any]:
    """What the function is given: a connection, or a session. It is closed, or given back, afterwards.

    `waits` says whether it is to be one that must be awaited. Raises CannotJoin if it is not what it should.
    """
    if isinstance(source, Path):
        # A file that is not there would be made, and found empty.
        made: Any = sqlite3.connect(f"file:{quote(str(source.absolute()))}?mode=rw", uri=True)
    elif classes_of(source, "asyncpg") & {"Pool"}:
        made = source.acquire()
    elif classes_of(source, "psycopg_pool"):
        made = source.connection()
    elif _is_pool(source):
        made = source.connect()
    elif classes_of(source, "sqlalchemy") & {"scoped_session", "async_scoped_session"}:
        made = source.session_factory()
    else:
        made = source()
    if classes_of(made, "asyncpg") & {"PoolAcquireContext"} or _is_manager(made):
        _check_waits(hasattr(made, "__aenter__"), waits)
        async with _entered(made) as given:
            yield _insist(given)
        return
    if isawaitable(made):
        if not waits and iscoroutine(made):
            made.close()
        _check_waits(True, waits)
        made = await made
    given = _insist(made)
    try:
        _check_waits(must_be_awaited(given), waits)
        yield given
    finally:
        await _finish(given.close())


def _check_waits(must_wait: bool, waits: bool) -> None:
    if must_wait and not waits:
        raise CannotJoin(
            "The database is asynchronous and the step is a plain def: write the step as async def"
        )
    if waits and not must_wait:
        raise CannotJoin(
            "The database is synchronous and the step is an async def: write the step as a plain def"
        )


def _is_manager(made: Any) -> bool:
    return kind_of(made) is None and (hasattr(made, "__enter__") or hasattr(made, "__aenter__"))


@asynccontextmanager
async def _entered(made: Any) -> AsyncGenerator[Any]:
    if hasattr(made, "__aenter__"):
        async with made as given:
            yield given
    else:
        with made as given:
            yield given


def _insist(given: Any) -> Any:
    if kind_of(given) is None:
        found = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise CannotJoin(
            "Expected a connection or a session of sqlite3, aiosqlite, psycopg, asyncpg or SQLAlchemy, "
            f"got {found}"
        )
    return given


async def _finish(answer: Any) -> None:
    if isawaitable(answer):
        await answer


class UserTransaction:
    """One transaction on what was opened."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.sqlite: CallersSqlite | None = None
        self._postgres: CallersConnection | None = None
        self._asyncpg: Any = None  # its own object for a transaction
        self.number: str | None = None  # of the transaction, where the database counts them
        self._learnt = Begun(None)

    @property
    def begun(self) -> Begun:
        return self._learnt._replace(number=self.number)

    @property
    def postgres(self) -> CallersConnection:
        assert self._postgres is not None
        return self._postgres

    async def begin_and_locate(self) -> str | None:
        """Begin, and tell which file it is, or which database and schema: see store/place.py.

        None: the server does not tell which one it is.
        """
        try:
            found = await self._begin(BEGUN_AT)
        except Exception:
            if self._postgres is None:
                raise
            await self.rollback()
            await self.begin()
            return None
        if self.sqlite is not None:
            return await self.sqlite.place()
        assert found is not None
        return place_text(found[0])

    async def begin_among_ours(self) -> str | None:
        """The same where our tables are known to be: what is to be known of them is asked in the same trip.

        None of a database that answers at once. Raises what the driver does where there are none of ours.
        """
        found = await self.begin_and_ask(BEGUN_AMONG_OURS)
        if found is None:
            return None
        place, (version, floor) = found
        self._learnt = Begun(None, (place or "").rpartition("/")[2], version, int(floor))
        return place

    async def begin(self) -> None:
        await self._begin(BEGUN)

    async def begin_and_ask(self, asked: str, *parameters: Any) -> tuple[str | None, tuple[Any, ...]] | None:
        """Begin, and ask in the same trip for what `asked` adds to BEGUN or BEGUN_AT: the place, if wanted,
        and one row. None where there is nothing to be gained, because the database answers at once.
        """
        found = await self._begin(asked, *parameters)
        if found is None:
            return None
        place, *row = found
        return None if place is None else place_text(place), tuple(row)

    async def _begin(self, begun: str, *parameters: Any) -> tuple[Any, ...] | None:
        """`begun` is asked of PostgreSQL when it has begun. What follows its number; None of SQLite."""
        if kind_of(self.given) == "asyncpg":
            self._asyncpg = self.given.transaction()
            await self._asyncpg.start()
        driver = await self._look_below()
        if self.sqlite is not None:
            await self.sqlite.begin()
            return None
        if getattr(driver, "autocommit", False):
            await self.postgres.execute("BEGIN")
        self.number, place, _, *rest = await self.postgres.fetchrow(begun, *parameters)
        return place, *rest

    async def _look_below(self) -> Any:
        driver = await unwrap_async(self.given)
        if isinstance(driver, sqlite3.Connection) or is_aiosqlite(driver):
            if self.sqlite is None:
                self.sqlite = CallersSqlite(driver)
            self.sqlite.driver = driver
            return driver
        self._postgres = adapt(driver) or adapt_sync(driver)
        if self._postgres is None:
            name = f"{type(driver).__module__}.{type(driver).__qualname__}"
            raise CannotJoin(
                f"SQLAlchemy works with {name} here: for a step in a transaction use sqlite3, aiosqlite, "
                "psycopg or asyncpg below it"
            )
        return driver

    async def look_again(self) -> None:
        """A session that has committed may have another connection."""
        await self._look_below()

    async def flush(self) -> None:
        """Let a session write now what it would write with its commit: while its owner's settings hold, such
        as how long it waits for a lock."""
        if classes_of(self.given, "sqlalchemy") & SESSIONS:
            await _finish(self.given.flush())

    async def check_same(self) -> None:
        """Raises `Ended` if this is not the transaction that was begun."""
        await self.look_again()
        if self.sqlite is not None:
            if not await self.sqlite.is_same():
                raise Ended(OF_ITSELF)
        elif self.number != await self.postgres.fetchval(f"SELECT {TRANSACTION_NUMBER}"):
            raise Ended(OF_ITSELF)

    async def commit(self) -> None:
        if self._asyncpg is not None:
            await self._asyncpg.commit()
        elif self.sqlite is not None and self.sqlite.driver is self.given:
            await self.sqlite.commit()
        else:
            await _finish(self.given.commit())
        await self._restore()

    async def rollback(self) -> None:
        if self._asyncpg is not None:
            await self._asyncpg.rollback()
        elif self.sqlite is not None and self.sqlite.driver is self.given:
            await self.sqlite.rollback()
        else:
            await _finish(self.given.rollback())
        await self._restore()

    async def _restore(self) -> None:
        """Not below a session: it has given its connection back, and somebody else may be about to begin."""
        if self.sqlite is not None and not classes_of(self.given, "sqlalchemy") & SESSIONS:
            await self.sqlite.restore()
