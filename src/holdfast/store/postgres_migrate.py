"""Migrations on PostgreSQL: run by whichever node comes first, under a lock.

1. A node that finds its schema needs no right to change it.
2. A change only adds, or replaces an index, so a node that knows an older schema can go on working while
   others use the newer one.
   `compatible_from` in the version table is the oldest schema whose nodes may also start on it. A script says
   so in its first lines (`-- compatible from 2`); one that does not is for its own number and newer ones.
3. Nodes that work meanwhile lock the same tables in another order. If PostgreSQL ends the migration to break
   a deadlock, nothing has changed, and it is run again.
"""

import re
from typing import Any, Final

from holdfast.protocol.records import Millis
from holdfast.store.interface import NameClash, NewerSchema, NotAStore
from holdfast.store.migrations import OURS, clashes, migrations, split_statements
from holdfast.store.postgres_connection import is_conflict
from holdfast.store.postgres_statements import NOW

# Asked of the catalogue itself: what to_regclass knows may be older than the lock we waited for.
# What extensions have made (views of statistics, say) is nobody's application.
_PRESENT: Final = (
    "SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND NOT EXISTS (SELECT 1 FROM "
    "pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid "
    "AND d.deptype = 'e')"
)
_ADD_COMPATIBLE_FROM: Final = "ALTER TABLE schema_version ADD COLUMN IF NOT EXISTS compatible_from BIGINT"
# A node must be able to live with every change, so the least tolerant one counts.
_SET_VERSION: Final = (
    "UPDATE schema_version SET version = $1, compatible_from = GREATEST(compatible_from, $2::bigint)"
)
_lock_key: Final = 0x486F6C6466617374  # "Holdfast"
migration_tries_max: Final = 20


async def migrate(connection: Any, *, up_to: int | None = None, beside: bool = False) -> Millis:
    """Bring the schema up to date; answer with the time. `up_to` stops early, for tests of the way there.
    `beside`: our tables may be made in a schema that has tables of an application.
    """
    for _ in range(migration_tries_max - 1):
        try:
            return await _migrate_once(connection, up_to, beside)
        except Exception as error:
            if not is_conflict(error):
                raise
    return await _migrate_once(connection, up_to, beside)


async def _migrate_once(connection: Any, up_to: int | None, beside: bool) -> Millis:
    steps = migrations("postgres")
    latest = steps[-1][0] if up_to is None else up_to
    async with connection.transaction():
        version = await _version(connection)
        if version < latest:
            await connection.execute("SET LOCAL lock_timeout = 0")
            await connection.fetchval("SELECT pg_advisory_xact_lock($1)", _lock_key)
            version = await _version(connection)  # while we waited, somebody else may have done it
            await _check_room(connection, version, beside=beside)
            if version < 0:
                await connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
                await connection.execute("INSERT INTO schema_version VALUES (0)")
            await connection.execute(_ADD_COMPATIBLE_FROM)
            for number, script in steps:
                if version < number <= latest:
                    for statement in split_statements(script):
                        await connection.execute(statement)
                    await connection.execute(_SET_VERSION, number, compatible_from(number, script))
        elif version > steps[-1][0] and await _compatible_from(connection, version) > steps[-1][0]:
            raise NewerSchema(
                f"The database has schema version {version}; this Holdfast knows only {steps[-1][0]}. "
                "Upgrade Holdfast; the database was not touched."
            )
        now: Millis = await connection.fetchval(NOW)
        return now


def compatible_from(number: int, script: str) -> int:
    """The oldest schema whose nodes can work on what this script makes."""
    found = re.search(r"^-- compatible from (\d+)", script, re.MULTILINE)
    return int(found[1]) if found else number


async def _compatible_from(connection: Any, version: int) -> int:
    """As whoever made the schema wrote it down, if they did."""
    row = await connection.fetchrow("SELECT * FROM schema_version")
    return int(dict(row).get("compatible_from") or version)


async def _version(connection: Any) -> int:
    """-1 when there is no schema at all."""
    if not await _present(connection) >= OURS:
        return -1
    return int(await connection.fetchval("SELECT version FROM schema_version"))


async def _present(connection: Any) -> set[str]:
    return {name for (name,) in await connection.fetch(_PRESENT)}


async def _check_room(connection: Any, version: int, *, beside: bool) -> None:
    """Before anything is changed: is it ours, empty, or asked for by name and without clashes?"""
    present = await _present(connection)
    if version < 0 and present and not beside:
        raise NotAStore(
            "The schema of this database has tables of another program. Give Holdfast its own schema "
            "(?search_path=NAME); to have our tables beside those of your application, add beside=1 to the "
            f"URL. The database was not touched. [{NotAStore.code}]"
        )
    if in_the_way := clashes("postgres", max(version, 0), present):
        raise NameClash(in_the_way, "Give Holdfast a schema of its own (?search_path=NAME)")
