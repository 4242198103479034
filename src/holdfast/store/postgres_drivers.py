"""Adapters for the caller's PostgreSQL connections: asyncpg's, and psycopg 3's of both kinds.

A synchronous psycopg connection answers at once, so what is awaited on it never really waits: `run_now`
drives such work without an event loop.
"""

import asyncio
import time
from collections.abc import Coroutine, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class CallersConnection(Protocol):
    """The caller's connection, with the methods that our statements use."""

    @property
    def in_transaction(self) -> bool:
        """Is a transaction open, or begun by the next statement?"""
        ...

    async def execute(self, statement: str) -> Any: ...

    async def run(self, *statements: str) -> None:
        """Several, without parameters, in one trip if possible."""
        ...

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]: ...

    async def fetchval(self, statement: str, *parameters: Any) -> Any: ...

    async def fetchrow(self, statement: str, *parameters: Any) -> Any: ...

    async def rest(self, seconds: float) -> None: ...


class AsyncpgConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.execute = connection.execute
        self.fetch = connection.fetch
        self.fetchval = connection.fetchval
        self.fetchrow = connection.fetchrow

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.is_in_transaction())

    async def run(self, *statements: str) -> None:
        await self.execute("; ".join(statements))

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PsycopgConnection:
    """Either kind; `waits` says whether its answers must be awaited."""

    def __init__(self, connection: Any, *, waits: bool) -> None:
        psycopg: Any = import_module("psycopg")
        self._connection = connection
        self._waits = waits
        self._idle = psycopg.pq.TransactionStatus.IDLE
        self._cursor = psycopg.AsyncRawCursor if waits else psycopg.RawCursor
        self._rows = psycopg.rows.tuple_row

    @property
    def in_transaction(self) -> bool:
        return not self._connection.autocommit or self._connection.info.transaction_status != self._idle

    async def execute(self, statement: str) -> Any:
        cursor = self._cursor(self._connection, row_factory=self._rows)
        answer = cursor.execute(statement)
        if self._waits:
            await answer

    async def run(self, *statements: str) -> None:
        in_a_pipeline = self._connection.pgconn.pipeline_status  # where a text holds one statement only
        for statement in statements if in_a_pipeline else ["; ".join(statements)]:
            await self.execute(statement)

    async def fetch(self, statement: str, *parameters: Any) -> Sequence[Any]:
        cursor = self._cursor(self._connection, row_factory=self._rows)
        # To psycopg a tuple is one composite value, and a list is an array.
        lists = [list(value) if isinstance(value, tuple) else value for value in parameters]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        answer = cursor.execute(statement, lists)
        if self._waits:
            await answer
        if cursor.description is None:
            return []
        found: Any = cursor.fetchall()
        rows: Sequence[Any] = await found if self._waits else found
        return rows

    async def fetchval(self, statement: str, *parameters: Any) -> Any:
        rows = await self.fetch(statement, *parameters)
        return rows[0][0] if rows else None

    async def fetchrow(self, statement: str, *parameters: Any) -> Any:
        rows = await self.fetch(statement, *parameters)
        return rows[0] if rows else None

    async def rest(self, seconds: float) -> None:
        if self._waits:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251


def adapt(connection: Any) -> CallersConnection | None:
    """The connection as ours, if it must be awaited; None when it is of no kind that we know."""
    if callable(getattr(connection, "fetchval", None)) and hasattr(connection, "is_in_transaction"):
        return AsyncpgConnection(connection)
    return PsycopgConnection(connection, waits=True) if _is_psycopg(connection, "AsyncConnection") else None


def adapt_sync(connection: Any) -> CallersConnection | None:
    """The connection as ours, if it answers at once."""
    return PsycopgConnection(connection, waits=False) if _is_psycopg(connection, "Connection") else None


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run what never really waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("A connection that answers at once made somebody wait")


def _is_psycopg(connection: Any, kind: str) -> bool:
    return any(
        cls.__module__.partition(".")[0] == "psycopg" and cls.__name__ == kind
        for cls in type(connection).__mro__
    )
