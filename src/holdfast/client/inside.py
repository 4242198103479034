"""Requests inside the caller's own transaction: what a node would do with them, done on his connection.

The same work as a node's (node/group.py) on the same steps (store/), so the same rules hold. What a node does
after a commit cannot be done here, because the commit is the caller's: on PostgreSQL the nodes are told by a
NOTIFY that he commits along, on SQLite the node looks at its file (node/outsiders.py).
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.engine import Rules
from holdfast.node.cluster import write_calls
from holdfast.node.group import Moment, Outcome, run_group
from holdfast.protocol.records import Millis
from holdfast.protocol.requests import Request
from holdfast.store.interface import CannotJoin, Work
from holdfast.store.postgres_bus import text_bytes_max


def request_inside(
    connection: Any, requests: Sequence[Request], reading: Millis, file: Path | None = None
) -> Outcome:
    """On a connection that answers at once: sqlite3's, or psycopg's. `file`: it must be open on that."""
    if isinstance(connection, sqlite3.Connection):
        from holdfast.store import sqlite_guest

        if file is not None and file.resolve() not in sqlite_guest.files_of(connection):
            raise CannotJoin(f"The connection is not one to {file}, where this app keeps its tasks")
        return sqlite_guest.run_as_guest(connection, lambda floor: _work(requests, max(floor, reading)))
    from holdfast.store import postgres_drivers, postgres_guest

    lent = postgres_drivers.borrow_sync(connection)
    if lent is None:
        hint = "; use `await send_async(...)` with it" if postgres_drivers.borrow(connection) else ""
        raise CannotJoin(f"{type(connection).__name__} is no connection that this can be done on{hint}")
    work = postgres_guest.run_as_guest(lent, lambda floor: _work(requests, max(floor, reading)), _calls)
    return postgres_drivers.run_now(work)


async def request_inside_async(
    connection: Any, requests: Sequence[Request], reading: Millis, file: Path | None = None
) -> Outcome:
    """On a connection that must be awaited: asyncpg's or psycopg's; or on one that answers at once."""
    from holdfast.store import postgres_drivers, postgres_guest

    lent = postgres_drivers.borrow(connection)
    if lent is None:
        return request_inside(connection, requests, reading, file)
    return await postgres_guest.run_as_guest(lent, lambda floor: _work(requests, max(floor, reading)), _calls)


def _work(requests: Sequence[Request], reading: Millis) -> Work[Outcome]:
    return run_group(requests, Moment(reading, Rules(), debug=False))


def _calls(outcome: Outcome) -> list[str]:
    return write_calls("", outcome.messages, outcome.next_due, text_bytes_max)
