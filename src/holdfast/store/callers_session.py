"""SQLAlchemy's sessions and connections, and aiosqlite's, recognised by their classes: none is imported here.

Our statements are executed on the connection of the driver below them. SQLAlchemy must know of the
transaction all the same, because it is the one that commits: so it is made to begin it first.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

SYNC = frozenset({"Session", "scoped_session", "Connection"})
ASYNC = frozenset({"AsyncSession", "async_scoped_session", "AsyncConnection"})
SESSIONS = frozenset({"Session", "scoped_session", "AsyncSession", "async_scoped_session"})


def classes_of(given: Any, package: str) -> frozenset[str]:
    """The names of its class and those above it, as far as they are of that package."""
    return frozenset(
        cls.__name__ for cls in type(given).__mro__ if cls.__module__.partition(".")[0] == package
    )


def must_be_awaited(given: Any) -> bool:
    """Is it one of SQLAlchemy's or aiosqlite's that must be?"""
    return bool(classes_of(given, "sqlalchemy") & ASYNC) or is_aiosqlite(given)


def is_aiosqlite(given: Any) -> bool:
    return "Connection" in classes_of(given, "aiosqlite")


async def in_its_thread(aiosqlite: Any, work: Callable[[sqlite3.Connection], T]) -> T:
    """Work on the connection below one of aiosqlite's: in the thread that it lives in, after what was asked
    before. It offers no public way to call a function there."""
    result: T = await aiosqlite._execute(work, aiosqlite._conn)
    return result


def unwrap(given: Any) -> Any:
    """The driver's connection below one that answers at once. Anything else is returned as it is."""
    kinds = classes_of(given, "sqlalchemy") & SYNC
    if not kinds:
        return given
    connection = given
    if "Connection" not in kinds:
        connection = given.connection()
    elif not given.in_transaction():
        given.begin()
    return connection.connection.driver_connection


async def unwrap_async(given: Any) -> Any:
    """The driver's connection below one that must be awaited, or below one that answers at once."""
    kinds = classes_of(given, "sqlalchemy") & ASYNC
    if not kinds:
        return unwrap(given)
    connection = given
    if "AsyncConnection" not in kinds:
        connection = await given.connection()
    elif not given.in_transaction():
        await given.begin()
    driver = (await connection.get_raw_connection()).driver_connection
    if hasattr(driver, "is_in_transaction") and not driver.is_in_transaction():
        await connection.exec_driver_sql("SELECT 1")  # its adapter of asyncpg begins with the first statement
    return driver
