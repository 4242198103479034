"""What a process does that is killed in the middle of a transactional step: see test_killed.py."""

import asyncio
import importlib
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import asyncpg  # type: ignore[import-untyped]
import psycopg

import holdfast as hf

NEVER = 0
WARM = "warm-"  # who was paid only to know where the database leads
lease_s = 5.0  # a busy machine takes its time between two statements


class Points:
    """The points at which a process may die, counted: before and after each statement."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at = kill_at
        self.passed = 0
        self.is_counting = True

    def reach(self) -> None:
        if not self.is_counting:
            return
        self.passed += 1
        if self.passed == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def counted_sqlite(points: Points) -> type[sqlite3.Connection]:
    class Cursor(sqlite3.Cursor):
        def execute(self, *given: Any) -> Any:
            points.reach()
            done = super().execute(*given)
            points.reach()
            return done

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = None) -> Any:
            return super().cursor(Cursor)

        def execute(self, *given: Any) -> Any:
            return self.cursor().execute(*given)

        def commit(self) -> None:
            points.reach()
            super().commit()
            points.reach()

    return Connection


def sqlite_source(path: str, points: Points) -> Callable[[], sqlite3.Connection]:
    return lambda: sqlite3.connect(path, factory=counted_sqlite(points))


def aiosqlite_source(path: str, points: Points) -> Callable[[], Any]:
    aiosqlite: Any = importlib.import_module("aiosqlite")  # where the libraries of others are installed
    return lambda: aiosqlite.connect(path, factory=counted_sqlite(points))


def psycopg_source(url: str, points: Points) -> Callable[[], Any]:
    class Connection(psycopg.Connection[Any]):
        def wait(self, *given: Any, **options: Any) -> Any:
            points.reach()
            done = super().wait(*given, **options)
            points.reach()
            return done

    return lambda: Connection.connect(url)


def asyncpg_source(url: str, points: Points) -> Callable[[], Any]:
    base: Any = cast(Any, asyncpg).Connection

    class Connection(base):  # type: ignore[misc]
        async def _counted(self, work: Any) -> Any:
            points.reach()
            done = await work
            points.reach()
            return done

        async def execute(self, *given: Any, **options: Any) -> Any:
            return await self._counted(base.execute(self, *given, **options))

        async def fetch(self, *given: Any, **options: Any) -> Any:
            return await self._counted(base.fetch(self, *given, **options))

        async def fetchval(self, *given: Any, **options: Any) -> Any:
            return await self._counted(base.fetchval(self, *given, **options))

        async def fetchrow(self, *given: Any, **options: Any) -> Any:
            return await self._counted(base.fetchrow(self, *given, **options))

    return lambda: cast(Any, asyncpg).connect(url, connection_class=Connection)


def make_app(node_url: str, kind: str, database: str, points: Points, group: str) -> tuple[hf.App, Any]:
    app = hf.App(node_url, group=group, lease=lease_s)
    sources: dict[str, Any] = {"sqlite3": sqlite_source, "aiosqlite": aiosqlite_source}
    sources |= {"psycopg": psycopg_source, "asyncpg": asyncpg_source}
    app.provide("shop", lambda: sources[kind](database, points))

    def credit(connection: Any, who: str, cents: int) -> int:
        mark = "?" if kind == "sqlite3" else "%s"
        connection.execute(f"INSERT INTO ledger VALUES ({mark}, {mark})", (who, cents))
        found = connection.execute(f"SELECT sum(cents) FROM ledger WHERE who = {mark}", (who,)).fetchone()
        return int(found[0])

    async def credit_async(connection: Any, who: str, cents: int) -> int:
        await connection.execute("INSERT INTO ledger VALUES ($1, $2)", who, cents)
        return int(await connection.fetchval("SELECT sum(cents) FROM ledger WHERE who = $1", who))

    async def credit_aiosqlite(connection: Any, who: str, cents: int) -> int:
        await connection.execute("INSERT INTO ledger VALUES (?, ?)", (who, cents))
        found = await connection.execute("SELECT sum(cents) FROM ledger WHERE who = ?", (who,))
        return int((await found.fetchone())[0])

    @app.workflow
    async def pay(who: str) -> int:
        if kind == "aiosqlite":
            return await hf.transact(credit_aiosqlite, who, 5, on="shop")
        if kind == "asyncpg":
            return await hf.transact(credit_async, who, 5, on="shop")
        return await hf.transact(credit, who, 5, on="shop")

    return app, pay


def run(node_url: str, kind: str, database: str, kill_at: int, answer: str, warm: bool) -> None:
    """Pay, and die at a point; each point has an execution and workers of its own. `warm`: pay once before
    that, so that it is known where the database leads."""
    points = Points(kill_at)
    who = Path(answer).stem
    app, pay = make_app(node_url, kind, database, points, f"workers-{who}")

    async def main() -> int:
        async with app:
            if warm:
                points.is_counting = False
                await app.start(pay, f"{WARM}{who}")
                points.is_counting = True
            return int(await app.start(pay, who, id=f"pay-{who}"))

    paid = asyncio.run(main())
    Path(answer).write_text(f"{paid} {points.passed}")
