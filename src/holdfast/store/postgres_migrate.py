"""The schema on PostgreSQL: made and changed by whichever node comes first, under a lock.

A node that finds its schema needs no right to change it.
"""

from typing import Any, Final

from holdfast.protocol.records import Millis
from holdfast.store.interface import NewerSchema
from holdfast.store.migrations import migrations, split_statements
from holdfast.store.postgres_statements import NOW

# Asked of the catalogue itself: what to_regclass knows may be older than the lock we waited for.
_IS_THERE: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relname = 'schema_version')"
)
_lock_key: Final = 0x486F6C6466617374  # "Holdfast"


async def migrate(connection: Any, *, up_to: int | None = None) -> Millis:
    """Bring the schema up to date; answer with the time. `up_to` stops early, for tests of the way there."""
    steps = migrations("postgres")
    latest = steps[-1][0] if up_to is None else up_to
    async with connection.transaction():
        version = await _version(connection)
        if version < latest:
            await connection.execute("SET LOCAL lock_timeout = 0")
            await connection.fetchval("SELECT pg_advisory_xact_lock($1)", _lock_key)
            version = await _version(connection)  # while we waited, somebody else may have done it
            if version < 0:
                await connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
                await connection.execute("INSERT INTO schema_version VALUES (0)")
            for number, script in steps:
                if version < number <= latest:
                    for statement in split_statements(script):
                        await connection.execute(statement)
                    await connection.execute("UPDATE schema_version SET version = $1", number)
        elif version > steps[-1][0]:
            raise NewerSchema(
                f"The database has schema version {version}; this Holdfast knows only {steps[-1][0]}. "
                "Upgrade Holdfast; the database was not touched."
            )
        now: Millis = await connection.fetchval(NOW)
        return now


async def _version(connection: Any) -> int:
    """-1 when there is no schema at all."""
    if not await connection.fetchval(_IS_THERE):
        return -1
    return int(await connection.fetchval("SELECT version FROM schema_version"))
