"""Numbered schema changes. An upgraded schema equals a fresh one, because both are made here.

`schema_version` holds the number of the last change applied. Everything happens in one transaction: a
crash in the middle leaves the file as it was. What is not ours, or newer than we are, is not touched; only
`beside`, when an application asks for it, makes our tables beside its own.
"""

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

from holdfast.store.interface import NameClash, NewerSchema, NotAStore

OURS: Final = frozenset({"schema_version", "promises", "tasks", "clock"})  # some that every version has
_CREATES: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)")


def migrations(engine: str) -> list[tuple[int, str]]:
    folder = files("holdfast.store.migrations") / engine
    found = [
        (int(entry.name[:4]), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name[:4].isdigit()
    ]
    return sorted(found)


def clashes(engine: str, version: int, present: Iterable[str]) -> set[str]:
    """Those of the names present that belong to somebody else, and that the changes after `version` need."""
    scripts = migrations(engine)
    made = {"schema_version"} if version else set[str]()
    made |= {name for number, script in scripts if number <= version for name in _CREATES.findall(script)}
    needed = {"schema_version"} | {name for _, script in scripts for name in _CREATES.findall(script)}
    return (needed - made) & {name.lower() for name in present}


def migrate(connection: Any, engine: str, *, up_to: int | None = None, beside: bool = False) -> None:
    """Bring the schema up to date. `up_to` stops early, for tests of the way there."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = look(connection, engine, beside=beside)
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


def look(connection: Any, engine: str, *, beside: bool = False) -> int:
    """The version of the schema; 0 when there is none. Refuses a file of something else, unless we are to be
    `beside` its tables, and these have other names. Changes nothing.
    """
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
    if not present:
        return 0
    versions: list[Any] = []
    if present >= OURS:
        versions = connection.execute("SELECT version FROM schema_version").fetchall()
    is_ours = len(versions) == 1 and isinstance(versions[0][0], int) and versions[0][0] >= 1
    if not is_ours and not beside:
        raise NotAStore(
            "The file is not a Holdfast database: it has tables of another program. Check the path; "
            "to have our tables beside those of your application, add ?beside=1 to it. "
            f"The file was not touched. [{NotAStore.code}]"
        )
    version: int = versions[0][0] if is_ours else 0
    if in_the_way := clashes(engine, version, present):
        raise NameClash(in_the_way, "Give Holdfast a file of its own")
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
