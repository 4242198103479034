"""`holdfast_steps`: our one table in a database that is not the node's, beside the tables of its owner.

A row says that a step of an execution has happened, and what came of it. It is written in the transaction
that the step itself writes in, so both happen or neither.

1. A step is known by its id and by the instant its execution was created: an id that is used again after
   its execution was deleted is another step.
2. The table is made when it is first missed, in a transaction of its own.
3. A row is kept for `kept_ms`: until the result is recorded by the node, and as long as a worker that has
   lost its claim could still be about to commit the same step. Older ones are deleted, a few at a time.
"""

import re
import sqlite3
from typing import Any, Final

from holdfast.store.callers_database import (
    BEGUN,
    BEGUN_AT,
    OF_ITSELF,
    TRANSACTION_NUMBER,
    Ended,
    UserTransaction,
)

kept_ms: Final = 90 * 24 * 60 * 60 * 1000
deleted_per_look_max: Final = 1_000

CREATE_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS holdfast_steps (
        step TEXT NOT NULL,
        execution_created_at BIGINT NOT NULL,
        outcome TEXT,
        recorded_at BIGINT NOT NULL,
        PRIMARY KEY (step, execution_created_at))
"""
CREATE_INDEX: Final = "CREATE INDEX IF NOT EXISTS holdfast_steps_by_time ON holdfast_steps (recorded_at)"
_FIND: Final = "SELECT outcome FROM holdfast_steps WHERE step = $1 AND execution_created_at = $2"
_FOUND: Final = (
    "found.step IS NOT NULL, found.outcome FROM (SELECT 1) one "
    "LEFT JOIN holdfast_steps found ON found.step = $1 AND found.execution_created_at = $2"
)
_BEGUN_AND_FOUND: Final = f"{BEGUN}, {_FOUND}"
_BEGUN_AT_AND_FOUND: Final = f"{BEGUN_AT}, {_FOUND}"
_INSERT: Final = (
    "INSERT INTO holdfast_steps (step, execution_created_at, outcome, recorded_at) VALUES ($1, $2, $3, $4)"
)
# In one trip: whether it is still the same transaction, and the row.
_INSERT_IF_SAME: Final = (
    "INSERT INTO holdfast_steps (step, execution_created_at, outcome, recorded_at) "
    f"SELECT $1::text, $2::bigint, $3::text, $4::bigint WHERE {TRANSACTION_NUMBER} = $5::text RETURNING 1"
)
_DELETE: Final = (
    "DELETE FROM holdfast_steps WHERE (step, execution_created_at) IN "
    "(SELECT step, execution_created_at FROM holdfast_steps WHERE recorded_at < $1 "
    "ORDER BY recorded_at LIMIT $2)"
)
_LOCK: Final = "SELECT pg_advisory_xact_lock(5217318042563339380)"  # two that create it would collide
_NUMBER: Final = re.compile(r"\$\d")  # our parameters are used in their order

Key = tuple[str, int]


class StepTable:
    """The table, in one open transaction."""

    def __init__(self, transaction: UserTransaction) -> None:
        self._transaction = transaction

    async def find(self, key: Key) -> tuple[str | None] | None:
        """The outcome of a step that has happened. Raises what the driver does where there is no table."""
        rows = await self._ask(_FIND, *key)
        return (rows[0][0],) if rows else None

    async def begin_and_find(
        self, key: Key, *, locate: bool
    ) -> tuple[str | None, tuple[str | None] | None] | None:
        """Begin the transaction and find, in one trip: the place, if wanted, and what `find` gives.

        None where a trip costs nothing: it has begun. Raises what the driver does where there is no table.
        """
        asked = _BEGUN_AT_AND_FOUND if locate else _BEGUN_AND_FOUND
        begun = await self._transaction.begin_and_ask(asked, *key)
        if begun is None:
            return None
        place, (is_there, outcome) = begun
        return place, (outcome,) if is_there else None

    async def insert(self, key: Key, outcome: str | None, now: int) -> None:
        """Raises `Ended` if this is not the transaction that was begun."""
        transaction = self._transaction
        if transaction.sqlite is not None:
            await transaction.check_same()
            await self._ask(_INSERT, *key, outcome, now)
            return
        await transaction.look_again()
        if not await self._ask(_INSERT_IF_SAME, *key, outcome, now, transaction.number):
            raise Ended(OF_ITSELF)

    async def create(self) -> None:
        if self._transaction.sqlite is None:
            await self._transaction.postgres.fetchval(_LOCK)
        await self._ask(CREATE_TABLE)
        await self._ask(CREATE_INDEX)

    async def delete_old(self, now: int) -> None:
        await self._ask(_DELETE, now - kept_ms, deleted_per_look_max)

    async def _ask(self, statement: str, *parameters: Any) -> Any:
        sqlite = self._transaction.sqlite
        if sqlite is None:
            return await self._transaction.postgres.fetch(statement, *parameters)
        return await sqlite.do(lambda connection: _rows(connection, statement, parameters))


def _rows(connection: sqlite3.Connection, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
    cursor = connection.cursor()
    cursor.row_factory = None
    text_factory, connection.text_factory = connection.text_factory, str
    try:
        return cursor.execute(_NUMBER.sub("?", statement), parameters).fetchall()
    finally:
        connection.text_factory = text_factory


def is_no_table(error: Exception) -> bool:
    """Is it what a driver says when there is no such table?"""
    if isinstance(error, sqlite3.OperationalError):
        return "no such table: holdfast_steps" in str(error)
    return getattr(error, "sqlstate", None) == "42P01" and "holdfast_steps" in str(error)


def is_taken(error: Exception) -> bool:
    """Is it what a driver says when a row of that key is there, or was there first?"""
    if isinstance(error, sqlite3.IntegrityError):
        return "holdfast_steps" in str(error)
    return getattr(error, "sqlstate", None) in ("23505", "40001")
