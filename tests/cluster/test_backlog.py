"""A long backlog of background tasks with keys that are full and keys that are unique: what a claim reads."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.node import Node
from holdfast.store import postgres_statements as sql
from holdfast.store.postgres import PostgresStore
from tests.counts import count_of
from tests.postgres import database_url, execute
from tests.requests import FAR

asyncpg: Any = importlib.import_module("asyncpg")  # it has no types
JOBS = count_of("HOLDFAST_BACKLOG", quick=2_000, full=20_000)
HELD = 1_000
KEYS = 50
PAGES_MAX = 400  # of 8 kB, for the claim of ten

# As the store writes them: pending jobs of one queue, KEYS keys in turn, all unique; some are held.
FILL = f"""
    INSERT INTO promises (id, state, param, value, tags, timeout_at, created_at, watched)
    SELECT 'j' || n, 'pending', '{{}}', '{{}}', '{{}}', {FAR}, n, true FROM generate_series(1, {JOBS}) n;
    INSERT INTO tasks (id, state, version, target, dialect, timer, priority, timeout_at, created_at, resumes,
                       due_at, parked, pid, ttl, bounces, retries, poll_group, claim_group, job, job_key,
                       job_unique)
    SELECT 'j' || n, CASE WHEN n % {JOBS // HELD} = 0 THEN 'acquired' ELSE 'pending' END, 1, 'poll://any@q',
           'A', false, 0, {FAR}, n, 0, {FAR}, false, CASE WHEN n % {JOBS // HELD} = 0 THEN 'w' END, 1000, 0,
           0, 'q', 'q', '{{}}', 'k' || n % {KEYS}, 'q/' || n
    FROM generate_series(1, {JOBS}) n;
    INSERT INTO queues VALUES ('q', true, '{{}}');
    VACUUM ANALYZE promises; VACUUM ANALYZE tasks; ANALYZE queues;
"""


@pytest.fixture(scope="module")
def filled() -> str:
    url = database_url()

    async def make() -> None:
        async with Node(PostgresStore(url)):
            pass

    asyncio.run(make())
    execute(url, FILL)
    return url


@pytest.fixture
async def connection(filled: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(filled, server_settings=sql.SETTINGS)
    yield connection
    await connection.close()


async def pages(connection: Any, statement: str, *parameters: Any) -> int:
    """How many pages a statement touches under its lasting plan. It may read no table from end to end."""
    async with connection.transaction():
        await connection.execute(f"PREPARE lasting AS {statement}")
        call = f"EXECUTE lasting ({', '.join(map(literal, parameters))})"
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {call}")
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan, plan
    found = re.search(r"Buffers: shared([^\n]*)", plan)
    assert found is not None, plan
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", found[1]))


def literal(parameter: int | str | list[str]) -> str:
    if isinstance(parameter, list):
        return f"ARRAY[{', '.join(map(literal, parameter))}]::text[]"
    return f"'{parameter}'" if isinstance(parameter, str) else str(parameter)


ANY = 2**31


@pytest.mark.sized
async def test_a_claim_of_ten_reads_little(connection: Any) -> None:
    assert await pages(connection, sql.OFFERS, "q", 1, 10, ANY, []) < PAGES_MAX


@pytest.mark.sized
async def test_a_claim_passes_over_keys_that_are_full(connection: Any) -> None:
    full = [f"k{number}" for number in range(KEYS // 2)]
    assert await pages(connection, sql.OFFERS, "q", 1, 10, ANY, full) < PAGES_MAX


@pytest.mark.sized
async def test_who_holds_a_unique_key_is_found_by_an_index(connection: Any) -> None:
    wanted = [f"q/{number}" for number in range(1, 64)]
    assert await pages(connection, sql.FETCH["uniques"], wanted) < PAGES_MAX


@pytest.mark.sized
async def test_counting_what_is_held_reads_only_what_is_held(connection: Any) -> None:
    assert await pages(connection, sql.HELD, ["q"]) < HELD * 3
