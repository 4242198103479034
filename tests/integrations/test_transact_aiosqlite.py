"""Transactional steps on SQLite in asyncio: with SQLAlchemy's AsyncSession and AsyncEngine, and aiosqlite."""

import asyncio
import importlib
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast as hf
from holdfast.host.transactions import StepTransactions
from holdfast.payloads.payloads import Payloads
from tests.transact.test_killed import kill_at_every_statement

RESULT_S = 60
WAYS = pytest.mark.parametrize("way", ["own", "other"])

Credit = Callable[..., Awaitable[int]]


class Bank:
    """An app, and a ledger in the app's own file or in another one."""

    def __init__(self, folder: Path, way: str) -> None:
        self.file = folder / ("node.db" if way == "own" else "bank.db")
        with closing(sqlite3.connect(self.file)) as setup:
            setup.execute("CREATE TABLE ledger (who TEXT, cents INTEGER)")
            setup.commit()
        self.app = hf.App(f"sqlite:///{folder}/node.db?beside=1")

    def entries(self) -> list[tuple[str, int]]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute("SELECT who, cents FROM ledger ORDER BY rowid").fetchall()

    def has_step_table(self) -> bool:
        with closing(sqlite3.connect(self.file)) as connection:
            return bool(
                connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_steps'").fetchall()
            )

    def engine(self) -> Any:
        return importlib.import_module("sqlalchemy.ext.asyncio").create_async_engine(
            f"sqlite+aiosqlite:///{self.file}"
        )


async def credit_by_sqlalchemy(session: Any, who: str, cents: int) -> int:
    text: Any = importlib.import_module("sqlalchemy").text
    await session.execute(text("INSERT INTO ledger VALUES (:who, :cents)"), {"who": who, "cents": cents})
    found = await session.execute(text("SELECT sum(cents) FROM ledger WHERE who = :who"), {"who": who})
    if cents < 0:
        raise ValueError("no debts")
    return int(found.scalar())


async def credit_by_aiosqlite(connection: Any, who: str, cents: int) -> int:
    await connection.execute("INSERT INTO ledger VALUES (?, ?)", (who, cents))
    found = await connection.execute("SELECT sum(cents) FROM ledger WHERE who = ?", (who,))
    [total] = await found.fetchone()
    if cents < 0:
        raise ValueError("no debts")
    return int(total)


def sessions(bank: Bank) -> tuple[Any, Credit]:
    return importlib.import_module("sqlalchemy.ext.asyncio").async_sessionmaker(
        bank.engine()
    ), credit_by_sqlalchemy


def engine(bank: Bank) -> tuple[Any, Credit]:
    return bank.engine(), credit_by_sqlalchemy


def connections(bank: Bank) -> tuple[Any, Credit]:
    aiosqlite: Any = importlib.import_module("aiosqlite")
    return lambda: aiosqlite.connect(bank.file), credit_by_aiosqlite


@WAYS
@pytest.mark.parametrize("source", [sessions, engine, connections])
def test_a_step_and_its_record_are_one_commit(source: Any, way: str, tmp_path: Path) -> None:
    bank = Bank(tmp_path, way)
    database, credit = source(bank)

    @bank.app.workflow
    async def reward(who: str) -> list[int]:
        totals = [await hf.transact(credit, who, cents, on=database) for cents in (5, 7)]
        try:
            await hf.transact(credit, who, -1, on=database)
        except ValueError:
            totals.append(await hf.transact(credit, who, 1, on=database))
        return totals

    with bank.app:
        assert bank.app.start(reward, "ada", id="r").result(RESULT_S) == [5, 12, 13]
    assert bank.entries() == [("ada", 5), ("ada", 7), ("ada", 1)], "what raised was rolled back"
    assert bank.has_step_table() is (way == "other")


@WAYS
@pytest.mark.parametrize("source", [sessions, engine, connections])
def test_a_function_that_commits_by_itself_is_told_so(source: Any, way: str, tmp_path: Path) -> None:
    bank = Bank(tmp_path, way)
    database, credit = source(bank)

    async def commits(given: Any) -> None:
        await given.commit()
        await credit(given, "ada", 5)

    @bank.app.workflow
    async def reward() -> None:
        await hf.transact(commits, on=database)

    with bank.app, pytest.raises(hf.errors.TransactionEnded):
        bank.app.start(reward).result(RESULT_S)
    assert bank.entries() == []


def test_the_commit_is_durable_whatever_the_connection_was_set_to(tmp_path: Path) -> None:
    """And a connection of the driver's is left as it was found."""
    bank = Bank(tmp_path, "other")
    aiosqlite: Any = importlib.import_module("aiosqlite")
    seen: list[int] = []

    async def level(connection: Any) -> int:
        [found] = await (await connection.execute("PRAGMA synchronous")).fetchone()
        return int(found)

    async def credit(connection: Any) -> None:
        seen.append(await level(connection))
        await connection.execute("INSERT INTO ledger VALUES ('ada', 5)")

    class Kept:
        """Says what it finds when it is closed."""

        async def __aenter__(self) -> Any:
            self._connection = await aiosqlite.connect(bank.file)
            await self._connection.execute("PRAGMA synchronous=NORMAL")
            return self._connection

        async def __aexit__(self, *_: object) -> None:
            seen.append(await level(self._connection))
            await self._connection.close()

    @bank.app.workflow
    async def reward() -> None:
        await hf.transact(credit, on=Kept)

    with bank.app:
        bank.app.start(reward).result(RESULT_S)
    assert seen == [2, 1]
    assert bank.entries() == [("ada", 5)]


def test_a_plain_function_cannot_use_it(tmp_path: Path) -> None:
    bank = Bank(tmp_path, "other")
    database, _ = connections(bank)

    def credit(connection: Any) -> None: ...

    @bank.app.workflow
    async def reward() -> None:
        await hf.transact(credit, on=database)

    with bank.app, pytest.raises(hf.errors.BadDatabase, match="is asynchronous and the step is a plain"):
        bank.app.start(reward).result(RESULT_S)


@WAYS
def test_killed_at_every_statement_a_step_happens_once(way: str, tmp_path: Path) -> None:
    kill_at_every_statement(way, "aiosqlite", tmp_path)


async def test_a_step_that_is_cancelled_while_it_begins_holds_no_lock(tmp_path: Path) -> None:
    """BEGIN goes on in aiosqlite's thread, and succeeds when nobody waits for it any more."""
    bank = Bank(tmp_path, "other")
    aiosqlite: Any = importlib.import_module("aiosqlite")
    async with aiosqlite.connect(bank.file, timeout=60) as shared:

        @asynccontextmanager
        async def share() -> AsyncGenerator[Any]:
            yield shared

        nothing: Any = None  # is provided by name
        transactions = StepTransactions(nothing, Payloads(), lambda: 0, None)
        step: Any = SimpleNamespace(
            function=credit_by_aiosqlite, database=share, name="credit", key=("k", 1), commit_error=None
        )
        with closing(sqlite3.connect(bank.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            work = asyncio.ensure_future(transactions.wrap(step)())
            await asyncio.sleep(0.1)  # now BEGIN waits for the lock; if it does not yet, that is fine, too
            work.cancel()
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
            with pytest.raises(asyncio.CancelledError):
                await work
            assert not shared.in_transaction
            other.execute("BEGIN IMMEDIATE")
