"""Starts and sends in a transaction on SQLite in asyncio: with SQLAlchemy's AsyncSession, and aiosqlite."""

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

RESULT_S = 60


class Shop:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "shop.db"
        self.app = app = hf.App(f"sqlite:///{self.file}?beside=1")

        @app.workflow
        async def double(number: int) -> int:
            return number * 2

        @app.task
        def mail(to: str) -> str:
            return to

        self.double, self.mail = double, mail

    async def is_started(self, execution_id: str) -> bool:
        try:
            await asyncio.wait_for(self.app.handle(execution_id), RESULT_S)
        except hf.errors.NoSuchExecution:
            return False
        return True


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_an_async_session_of_sqlalchemy_is_taken(shop: Shop) -> None:
    sqlalchemy: Any = importlib.import_module("sqlalchemy.ext.asyncio")
    text: Any = importlib.import_module("sqlalchemy").text

    async def main() -> list[Any]:
        engine = sqlalchemy.create_async_engine(f"sqlite+aiosqlite:///{shop.file}")
        async with shop.app:
            async with sqlalchemy.AsyncSession(engine) as session, session.begin():
                await session.execute(text("CREATE TABLE orders (name TEXT)"))
                await session.execute(text("INSERT INTO orders VALUES ('tea')"))
                started = await shop.double.with_options(id="kept", connection=session).start(21).started()
                sent = await shop.mail.with_options(connection=session).send_async("ada")
            found = [await started, (await sent.get_async(timeout=RESULT_S)).ok_value]
            async with sqlalchemy.AsyncSession(engine) as session:
                await shop.double.with_options(id="gone", connection=session).start(1).started()
                await session.rollback()
            found.append(await shop.is_started("gone"))
            async with sqlalchemy.AsyncSession(engine) as session:
                found.append((await session.execute(text("SELECT count(*) FROM orders"))).scalar())
        await engine.dispose()
        return found

    assert asyncio.run(main()) == [42, "ada", False, 1]


def test_a_connection_of_aiosqlite_is_taken(shop: Shop) -> None:
    aiosqlite: Any = importlib.import_module("aiosqlite")

    async def main() -> list[bool]:
        async with shop.app, aiosqlite.connect(shop.file) as connection:
            await shop.double.with_options(id="kept", connection=connection).start(1).started()
            await connection.commit()
            await shop.double.with_options(id="gone", connection=connection).start(1).started()
            await connection.rollback()
            return [await shop.is_started("kept"), await shop.is_started("gone")]

    assert asyncio.run(main()) == [True, False]
