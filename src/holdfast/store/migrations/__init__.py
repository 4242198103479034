"""Numbered schema changes. An upgraded schema equals a fresh one, because both are made here.

`schema_version` holds the number of the last change applied. Everything happens in one transaction: a
crash in the middle leaves the file as it was.
"""

import re
from importlib.resources import files
from typing import Any

from holdfast.store.interface import NewerSchema, NotAStore


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
        version = _current_version(connection)
        steps = migrations(engine)
        if version > steps[-1][0]:
            raise NewerSchema(
                f"The database has schema version {version}; this Holdfast knows only {steps[-1][0]}. "
                "Upgrade Holdfast; the file was not touched."
            )
        for number, script in steps:
            if version < number and (up_to is None or number <= up_to):
                for statement in split_statements(script):
                    connection.execute(statement)
                connection.execute("UPDATE schema_version SET version = ?", (number,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _current_version(connection: Any) -> int:
    tables = {
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    }
    if "schema_version" in tables:
        ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
        return int(version)
    if tables:
        raise NotAStore("The file is a database of something else: it has tables, and none of them is ours.")
    connection.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO schema_version VALUES (0)")
    return 0


def split_statements(script: str) -> list[str]:
    """Our scripts hold no semicolon inside a statement, so this needs no parser."""
    bare = re.sub(r"--[^\n]*", "", script)
    return [statement.strip() for statement in bare.split(";") if statement.strip()]
