"""kill -9 before and after every statement of a transactional step: the user's own table shows it once."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest

from tests.postgres import database_url, execute
from tests.transact import killed

together_max = 4
lease_s = killed.lease_s
_processes = get_context("forkserver")
_processes.set_forkserver_preload(["tests.transact.killed"])

Count = Callable[[], dict[str, int]]


def for_psycopg(url: str) -> str:
    return url.replace("search_path=", "options=-csearch_path%3D")


def places(way: str, kind: str, folder: Path) -> tuple[str, str, Count]:
    """The URL of the node, where the user's database is, and how often each has been paid there."""
    if kind in ("sqlite3", "aiosqlite"):
        path = folder / ("node.db" if way == "own" else "shop.db")

        def count_sqlite() -> dict[str, int]:
            with closing(sqlite3.connect(path)) as connection:
                return dict(connection.execute("SELECT who, count(*) FROM ledger GROUP BY who").fetchall())

        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE ledger (who TEXT, cents INTEGER)")
            connection.commit()
        return f"sqlite:///{folder}/node.db?beside=1", str(path), count_sqlite
    node_url = shop_url = database_url(beside="1")
    if way == "other":
        shop_url = database_url()
    shop_url = shop_url.replace("&beside=1", "")
    execute(shop_url, "CREATE TABLE ledger (who TEXT, cents BIGINT)")

    def count_postgres() -> dict[str, int]:
        with psycopg.connect(for_psycopg(shop_url)) as connection:
            return dict(connection.execute("SELECT who, count(*) FROM ledger GROUP BY who").fetchall())

    return node_url, shop_url if kind == "asyncpg" else for_psycopg(shop_url), count_postgres


def run_all(
    jobs: list[tuple[str, int]], node_url: str, kind: str, database: str, folder: Path, warm: bool = False
) -> list[int]:
    """Each in a process of its own; how they ended."""
    ended: list[int] = []
    for start in range(0, len(jobs), together_max):
        begun = [
            _processes.Process(
                target=killed.run,
                args=(node_url, kind, database, kill_at, str(folder / f"{who}.answer"), warm),
            )
            for who, kill_at in jobs[start : start + together_max]
        ]
        for process in begun:
            process.start()
        for process in begun:
            process.join(60)
            assert process.exitcode is not None, "it neither died nor ended"
            ended.append(process.exitcode)
    return ended


@pytest.mark.parametrize(
    "kind", ["sqlite3", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("psycopg", "asyncpg"))]
)
@pytest.mark.parametrize("way", ["own", "other"])
def test_killed_at_every_statement_a_step_happens_once(way: str, kind: str, tmp_path: Path) -> None:
    kill_at_every_statement(way, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("way", ["own", "other"])
def test_the_same_where_it_is_known_where_the_database_leads(way: str, kind: str, tmp_path: Path) -> None:
    """The second step of a process asks less of the server."""
    kill_at_every_statement(way, kind, tmp_path, warm=True)


def kill_at_every_statement(way: str, kind: str, tmp_path: Path, *, warm: bool = False) -> None:
    node_url, database, count_all = places(way, kind, tmp_path)

    def count() -> dict[str, int]:
        return {who: times for who, times in count_all().items() if not who.startswith(killed.WARM)}

    for who in ("first", "whole"):  # the first makes the table of steps
        assert run_all([(who, killed.NEVER)], node_url, kind, database, tmp_path, warm) == [0]
    paid, points = map(int, (tmp_path / "whole.answer").read_text().split())
    assert paid == 5
    assert points > (8 if warm else 10), "every statement is a point before it and one after it"

    everyone = [f"at-{point}" for point in range(1, points + 1)]
    dying = list(zip(everyone, range(1, points + 1), strict=True))
    assert run_all(dying, node_url, kind, database, tmp_path, warm) == [-9] * points
    before = count()
    assert len(before) < points, "most died before they had committed"
    assert "at-1" not in before
    assert everyone[-1] in before, "the last one had"

    time.sleep(lease_s)  # of those who died last: a claim lapses
    again = [(who, killed.NEVER) for who in everyone]
    assert run_all(again, node_url, kind, database, tmp_path) == [0] * points
    assert count() == dict.fromkeys(["first", "whole", *everyone], 1)
    assert {(tmp_path / f"{who}.answer").read_text().split()[0] for who in everyone} == {"5"}
