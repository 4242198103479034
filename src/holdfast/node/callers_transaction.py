"""Requests inside the caller's own transaction: a node's work, done on the caller's connection.

The same work as a node's (node/group.py) on the same steps (store/), so the same rules hold. What a node does
after a commit cannot be done here, because the commit is the caller's: on PostgreSQL the nodes are told by a
NOTIFY that he commits along, on SQLite the node looks at its file (node/foreign_writes.py).
"""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from holdfast.engine import Rules
from holdfast.node.cluster import write_calls
from holdfast.node.group import CommitContext, CommitOutcome, run_group
from holdfast.protocol.records import Millis
from holdfast.protocol.requests import Request
from holdfast.store.callers_database import Begun
from holdfast.store.callers_session import (
    in_its_thread,
    is_aiosqlite,
    must_be_awaited,
    unwrap,
    unwrap_async,
)
from holdfast.store.interface import CannotJoin, Work
from holdfast.store.postgres_bus import text_bytes_max

CheckPlace = Callable[[str], None]


def request_inside(
    connection: Any,
    requests: Sequence[Request],
    reading: Millis,
    check_place: CheckPlace | None = None,
    *,
    begun: Begun | None = None,
) -> CommitOutcome:
    """On a connection that answers at once: sqlite3's, psycopg's, or SQLAlchemy's on one of these.

    `check_place` is told where the connection leads, and raises CannotJoin if that is not where it should.
    `begun`: whoever asks began this transaction, knows that it leads to tables of ours, and commits it next.
    """
    connection = unwrap(connection)
    if isinstance(connection, sqlite3.Connection):
        from holdfast.store import sqlite_caller

        return sqlite_caller.run_in_callers_transaction(
            connection,
            lambda floor: _work(requests, max(floor, reading)),
            check_place,
            is_begun=begun is not None,
        )
    from holdfast.store import postgres_caller, postgres_drivers

    adapted = postgres_drivers.adapt_sync(connection)
    if adapted is None:
        if postgres_drivers.adapt(connection) or must_be_awaited(connection):
            raise CannotJoin(
                "The connection must be awaited: use `await send_async(...)` with it, in asyncio"
            )
        raise CannotJoin(_not_a_connection(connection))

    async def check_now(place: str) -> None:
        assert check_place is not None
        check_place(place)

    work = postgres_caller.run_in_callers_transaction(
        adapted,
        lambda floor: _work(requests, max(floor, reading)),
        _calls,
        None if check_place is None else check_now,
        begun=begun,
    )
    return postgres_drivers.run_now(work)


async def request_inside_async(
    connection: Any,
    requests: Sequence[Request],
    reading: Millis,
    check_place: CheckPlace | None = None,
    check_place_async: Callable[[str], Awaitable[None]] | None = None,
    *,
    begun: Begun | None = None,
) -> CommitOutcome:
    """On a connection that must be awaited (asyncpg, psycopg, aiosqlite), or on one that answers at once."""
    from holdfast.store import postgres_caller, postgres_drivers

    connection = await unwrap_async(connection)
    if is_aiosqlite(connection):
        return await in_its_thread(
            connection, lambda plain: request_inside(plain, requests, reading, check_place, begun=begun)
        )
    adapted = postgres_drivers.adapt(connection)
    if adapted is None:
        return request_inside(connection, requests, reading, check_place, begun=begun)
    return await postgres_caller.run_in_callers_transaction(
        adapted,
        lambda floor: _work(requests, max(floor, reading)),
        _calls,
        check_place_async,
        begun=begun,
    )


def _not_a_connection(given: Any) -> str:
    cls = cast(Any, type(given))
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
    instead = ". Pass a session or a connection of it" if name.startswith("sqlalchemy.") else ""
    return f"Expected a sqlite3, aiosqlite, psycopg or asyncpg connection, got {name}{instead}"


def _work(requests: Sequence[Request], reading: Millis) -> Work[CommitOutcome]:
    return run_group(requests, CommitContext(reading, Rules(), debug=False))


def _calls(outcome: CommitOutcome) -> list[str]:
    return write_calls("", outcome.messages, outcome.next_due, text_bytes_max)
