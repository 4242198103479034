"""Schemas of a real PostgreSQL for tests: made empty, dropped afterwards. Needs the extra `postgres`."""

import asyncio
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import quote


@contextmanager
def fresh_schema(url: str) -> Generator[str]:
    """The URL of an empty schema of this database. It is dropped at the end, whatever the test did."""
    name = f"holdfast_test_{os.getpid()}_{secrets.token_hex(4)}"
    asyncio.run(_execute(url, f"CREATE SCHEMA {name}"))
    try:
        yield f"{url}{'&' if '?' in url else '?'}search_path={quote(name)}"
    finally:
        asyncio.run(_execute(url, f"DROP SCHEMA {name} CASCADE"))


async def _execute(url: str, statement: str) -> None:
    asyncpg: Any = import_module("asyncpg")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
