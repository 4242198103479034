"""A worker whose executions share a lock, and write down when they are inside, until it is killed.

`python -m tests.cluster.lock_worker URL OUTSIDE`. Outside of Holdfast there is a table that takes marks in
the order of their tokens: whoever comes with a smaller one than was seen is refused, which is written down.
"""

import asyncio
import importlib
import sys
from typing import Any

import holdfast as hf

LEASE_S = 2.0
INSIDE_S = 0.05

OUTSIDE = """
    CREATE SCHEMA outside;
    SET search_path = outside;
    CREATE TABLE marks (n BIGSERIAL, token BIGINT, execution TEXT, mark TEXT);
    CREATE TABLE refused (token BIGINT, execution TEXT, mark TEXT);
"""
# One at a time, so that the order of the marks is that of the transactions.
_ALONE = "SELECT pg_advisory_xact_lock(5127)"
_MARK = """
    INSERT INTO marks (token, execution, mark) SELECT $1, $2, $3
    WHERE NOT EXISTS (SELECT 1 FROM marks WHERE token > $1) RETURNING n
"""

asyncpg: Any = importlib.import_module("asyncpg")  # it has no types


def make_app(url: str, pool: Any = None) -> tuple[hf.App, Any]:
    app = hf.App(url, group="g", worker=pool is not None, lease=LEASE_S, concurrency=8)

    async def mark(execution: str, token: int, what: str) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(_ALONE)
            if await connection.fetchval(_MARK, token, execution, what) is None:
                await connection.execute("INSERT INTO refused VALUES ($1, $2, $3)", token, execution, what)

    async def be_inside(execution: str, token: int) -> None:
        await mark(execution, token, "in")
        await asyncio.sleep(INSIDE_S)
        await mark(execution, token, "out")

    @app.workflow
    async def share(turns: int) -> list[int]:
        tokens: list[int] = []
        for _ in range(turns):
            async with hf.lock("printer") as held:
                await hf.run(be_inside, hf.current().id, held.token)
                tokens.append(held.token)
        return tokens

    return app, share


async def main(url: str, outside: str) -> None:
    async with asyncpg.create_pool(outside, min_size=1, max_size=8) as pool:
        app, _ = make_app(url, pool)
        async with app:
            print("ready", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
