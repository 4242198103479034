"""What a transactional step costs, beside a plain step that makes the same insert by hand.

Run it with `make bench-transact`.

By hand the insert is committed on its own, and the step's result after it: two commits, and after a crash
between them the insert is made twice. Each round measures both, one step after the other; the median round
gives the ratio. PostgreSQL is one that is started here, and syncs its commits.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psycopg_pool

import holdfast as hf
from bench.table import Row, print_table
from tests.postgres import PostgresServer, database_url, execute

ROUNDS = 5
STEPS = 100
REQUIRED = 0.9


def insert_sqlite(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO ledger VALUES (?)", (number,))


def insert_postgres(connection: Any, number: int) -> None:
    connection.execute("INSERT INTO ledger VALUES (%s)", (number,))


def sqlite_case(folder: Path, own: bool) -> tuple[hf.App, Callable[[], Any]]:
    path = folder / ("node.db" if own else "shop.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE ledger (id INTEGER)")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.commit()
    app = hf.App(f"sqlite:///{folder}/node.db?beside=1")

    def by_hand(number: int) -> None:
        with closing(sqlite3.connect(path)) as connection:
            insert_sqlite(connection, number)
            connection.commit()

    declare(app, insert_sqlite, by_hand, lambda: sqlite3.connect(path))
    return app, lambda: None


def postgres_case(own: bool) -> tuple[hf.App, Callable[[], Any]]:
    node_url = database_url(beside="1")
    url = (node_url if own else database_url()).replace("&beside=1", "")
    execute(url, "CREATE TABLE ledger (id BIGINT)")
    pool: Any = psycopg_pool.ConnectionPool(
        url.replace("search_path=", "options=-csearch_path%3D"), min_size=2, open=True
    )
    app = hf.App(node_url)

    def by_hand(number: int) -> None:
        with pool.connection() as connection:
            insert_postgres(connection, number)

    declare(app, insert_postgres, by_hand, pool)
    return app, pool.close


def declare(app: hf.App, insert: Any, by_hand: Any, database: Any) -> None:
    @app.workflow(name="transact")
    async def transact(count: int) -> None:
        for number in range(count):
            await hf.transact(insert, number, on=database)

    @app.workflow(name="by hand")
    async def plain(count: int) -> None:
        for number in range(count):
            await hf.run(by_hand, number, name="insert")


async def measure(app: hf.App) -> tuple[float, float, float]:
    """Seconds for a step of each kind, and the median ratio of their speeds."""
    times: dict[str, list[float]] = {"transact": [], "by hand": []}
    async with app:
        for round_ in range(ROUNDS + 1):
            for name, taken in times.items():
                began = perf_counter()
                await app.start(name, STEPS if round_ else 5)
                if round_:
                    taken.append((perf_counter() - began) / STEPS)
    ratios = [hand / ours for ours, hand in zip(times["transact"], times["by hand"], strict=True)]
    return min(times["transact"]), min(times["by hand"]), median(ratios)


def main() -> None:
    server = PostgresServer(durable=True).create()
    os.environ["HOLDFAST_TEST_POSTGRES"] = server.url()  # where database_url makes its schemas
    try:
        compare()
    finally:
        server.remove()


def compare() -> None:
    rows: list[Row] = []
    for name, own in (("the node's own", True), ("another", False)):
        for engine in ("SQLite", "PostgreSQL"):
            with tempfile.TemporaryDirectory() as folder:
                app, close = sqlite_case(Path(folder), own) if engine == "SQLite" else postgres_case(own)
                try:
                    ours, hand, ratio = asyncio.run(measure(app))
                finally:
                    close()
            measured = f"{ratio:.2f}x ({ours * 1e3:.2f} ms, by hand {hand * 1e3:.2f} ms)"
            rows.append(Row(f"{engine}, {name} database", measured, f"{REQUIRED}x", ratio >= REQUIRED))
    print_table("a transactional step against a plain step plus the same insert made by hand", rows)


if __name__ == "__main__":
    main()
