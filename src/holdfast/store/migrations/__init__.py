"""Numbered schema changes. An upgraded schema equals a fresh one, because both are made here.

`schema_version` holds the number of the last change applied. Everything happens in one transaction: a
crash in the middle leaves the file as it was. What is not ours, or newer than we are, is not touched.
"""

import re
from importlib.resources import files
from typing import Any, Final

from holdfast.store.interface import NewerSchema, NotAStore

_ours: Final = frozenset({"schema_version", "promises", "tasks", "clock"})  # some that every version has


def migrations(engine: str) -> list[tuple[int, str]]:
    folder = files("holdfast.store.migrations") / engine
    found = [
        (int(entry.name[:4]), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name[:4].isdigit()
    ]
    return sorted(found)


def migrate(connection: Any, engine: str, *, up_to: int | None = None) -> None:
    """Bring the schema up to date. `up_to` stops early, for tests of the way there."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = look(connection, engine)
        if version == 0:
            connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (0)")
        for number, script in migrations(engine):
            if version < number and (up_to is None or number <= up_to):
                for statement in split_statements(script):
                    connection.execute(statement)
                connection.execute("UPDATE schema_version SET version = ?", (number,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def look(connection: Any, engine: str) -> int:
    """The version of the schema; 0 when the file is empty. Refuses what is not ours. Changes nothing."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {name for (name,) in found}
    if not tables:
        return 0
    versions: list[Any] = []
    if tables >= _ours:
        versions = connection.execute("SELECT version FROM schema_version").fetchall()
    if len(versions) != 1 or not isinstance(versions[0][0], int) or versions[0][0] < 1:
        raise NotAStore(
            "The file is a database of something else: it has tables, and they are not ours. "
            f"Check the path; the file was not touched. [{NotAStore.code}]"
        )
    version: int = versions[0][0]
    latest = migrations(engine)[-1][0]
    if version > latest:
        raise NewerSchema(
            f"The database has schema version {version}; this Holdfast knows only {latest}. "
            "Upgrade Holdfast; the file was not touched."
        )
    return version


def split_statements(script: str) -> list[str]:
    """Our scripts hold no semicolon inside a statement, so this needs no parser."""
    bare = re.sub(r"--[^\n]*", "", script)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]
