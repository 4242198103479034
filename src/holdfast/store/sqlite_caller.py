"""Our work inside the caller's transaction, on the caller's connection to the same SQLite file.

1. It happens exactly if he commits. What fails is undone to where we began; his own changes stay.
2. The write lock is taken first, so that what is read stays true until he commits. Nobody else can write
   until then, the node included: it waits, as for any other writer, up to its busy timeout.
3. His settings of the connection (row and text factories) are left as they were.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from holdfast.protocol.records import Millis
from holdfast.store.interface import CannotJoin, Result, Work, drive
from holdfast.store.migrations import migrations
from holdfast.store.sqlite import SqliteTransaction

_latest: Final = migrations("sqlite")[-1][0]
_LOCK: Final = "UPDATE clock SET now = now"


def run_in_callers_transaction(
    connection: sqlite3.Connection,
    work: Callable[[Millis], Work[Result]],
    check_place: Callable[[str], None] | None = None,
    *,
    is_begun: bool = False,
) -> Result:
    """Do the work, which is told the latest instant that was ever committed.

    `check_place` is told which file would be written to, and may raise. `is_begun`: whoever asks began this
    transaction with the write lock, knows where it leads, and rolls all of it back if this fails.
    """
    plain = _Plain(connection)
    if is_begun:
        _check(connection)
        text_factory, connection.text_factory = connection.text_factory, str
        try:
            return _drive(plain, work)
        finally:
            connection.text_factory = text_factory
    if connection.in_transaction:
        _lock(plain)
    _check(connection)
    if check_place is not None:
        check_place(place_of(file_of_connection(connection)))
    text_factory, connection.text_factory = connection.text_factory, str
    try:
        # A write, so that Python's sqlite3 begins a transaction if it is to do that by itself.
        plain.execute(_LOCK)
        plain.execute("SAVEPOINT holdfast")
        try:
            result = _drive(plain, work)
        except BaseException:
            with suppress(sqlite3.Error):
                plain.execute("ROLLBACK TO holdfast")
            raise
        finally:
            with suppress(sqlite3.Error):
                plain.execute("RELEASE holdfast")
        return result
    finally:
        connection.text_factory = text_factory


def _drive(plain: "_Plain", work: Callable[[Millis], Work[Result]]) -> Result:
    [[floor]] = plain.execute("SELECT now FROM clock").fetchall()
    return drive(work(int(floor)), SqliteTransaction(plain).perform)


def _lock(plain: "_Plain") -> None:
    """Before anything is read: a transaction that has read cannot write once others have written."""
    try:
        plain.execute(_LOCK)
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) == sqlite3.SQLITE_BUSY:
            raise
        # It holds no tables of ours, of which `_check` tells.


def place_of(file: Path | None) -> str:
    """A file as one text, for comparison."""
    return f"sqlite {'' if file is None else file.resolve()}"


def file_of_connection(connection: sqlite3.Connection) -> Path | None:
    """Where our statements lead, which name no schema: of several files the first that has our tables."""
    cursor = connection.cursor()
    cursor.row_factory = None
    schemas = cursor.execute("PRAGMA database_list").fetchall()
    named = [(os.fsdecode(name), file, number) for number, name, file in schemas]
    for name, file, _ in sorted(named, key=lambda row: (row[0] != "temp", row[2])):
        quoted = name.replace('"', '""')
        tables = cursor.execute(f'SELECT 1 FROM "{quoted}".sqlite_master WHERE name = ?', ["schema_version"])
        if tables.fetchall():
            return Path(os.fsdecode(file)) if file else None
    return None


def is_uncommitted(connection: sqlite3.Connection, promise_id: str) -> bool:
    """Can a promise be seen on this connection, and on no other? Then its transaction is open."""
    try:
        if not connection.in_transaction or not _sees(connection, promise_id):
            return False
        file = file_of_connection(connection)
        if file is None:
            return False
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as other:
            return not _sees(other, promise_id)
    except sqlite3.Error:  # it is closed, or of another thread
        return False


def _sees(connection: sqlite3.Connection, promise_id: str) -> bool:
    cursor = connection.cursor()
    cursor.row_factory = None
    return bool(cursor.execute("SELECT 1 FROM promises WHERE id = ?", (promise_id,)).fetchall())


def _check(connection: sqlite3.Connection) -> None:
    begins_by_itself = (
        connection.isolation_level is not None or getattr(connection, "autocommit", -1) is False
    )
    if not connection.in_transaction and not begins_by_itself:
        raise CannotJoin(
            "The connection is in autocommit mode and no transaction is open on it: execute BEGIN first"
        )
    try:
        cursor = connection.cursor()
        cursor.row_factory = None
        [[version]] = cursor.execute("SELECT version FROM schema_version").fetchall()
    except (sqlite3.OperationalError, ValueError):
        raise CannotJoin("The connection's database holds no tables of Holdfast") from None
    if version != _latest:
        raise CannotJoin(f"The database has schema version {version}, and this Holdfast works with {_latest}")


class _Plain:
    """The connection as our statements expect it: rows are tuples."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Any = ()) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, parameters)
