"""The SQLite connection below what a user's step was given: one of sqlite3, or of aiosqlite.

A connection of aiosqlite lives in a thread of its own. Whatever is done on it is done there, after what was
asked before; so a rollback comes after a statement that nobody waits for any more.

1. The write lock is taken with the beginning: what is read stays true until the commit.
2. A savepoint is set with the beginning. If it is gone at the end, somebody ended the transaction.
3. The commit is durable: `synchronous` is raised for the transaction where it is lower.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, Final, TypeVar

from holdfast.store.callers_session import in_its_thread, is_aiosqlite
from holdfast.store.sqlite_caller import file_of_connection, place_of

T = TypeVar("T")

_full: Final = 2  # PRAGMA synchronous
_SAVEPOINT: Final = "holdfast_step"


class CallersSqlite:
    """One transaction on it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._synchronous = _full

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Work on the connection itself, where it lives."""
        if is_aiosqlite(self.driver):
            return await in_its_thread(self.driver, work)
        return work(self.driver)

    async def begin(self) -> None:
        self._synchronous = await self.do(_begin)

    async def place(self) -> str:
        return place_of(await self.do(file_of_connection))

    async def is_same(self) -> bool:
        """Is it still the transaction that was begun? To be asked once."""
        return await self.do(_release)

    async def commit(self) -> None:
        """Where the user works with the driver itself, and not with SQLAlchemy above it."""
        await self.do(_commit)

    async def rollback(self) -> None:
        await self.do(_rollback)

    async def restore(self) -> None:
        """Leave the connection as it was found."""
        if self._synchronous < _full:
            level = self._synchronous
            await self.do(lambda connection: _restore(connection, level))


def _begin(connection: sqlite3.Connection) -> int:
    """`synchronous` as it was."""
    if connection.in_transaction:  # one that Python keeps open always: nothing has happened in it
        connection.execute("ROLLBACK")
    cursor = connection.cursor()
    cursor.row_factory = None
    [synchronous] = cursor.execute("PRAGMA synchronous").fetchone()
    if synchronous < _full:
        connection.execute(f"PRAGMA synchronous={_full}")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"SAVEPOINT {_SAVEPOINT}")
    except sqlite3.Error:
        _rollback(connection)
        _restore(connection, synchronous)
        raise
    return int(synchronous)


def _release(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute(f"RELEASE {_SAVEPOINT}")
    except sqlite3.OperationalError:
        return False
    return True


def _commit(connection: sqlite3.Connection) -> None:
    if getattr(connection, "autocommit", -1) is True:
        connection.execute("COMMIT")  # then its own commit() does nothing
    else:
        connection.commit()


def _rollback(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _restore(connection: sqlite3.Connection, synchronous: int) -> None:
    if not connection.in_transaction:
        connection.execute(f"PRAGMA synchronous={synchronous}")
