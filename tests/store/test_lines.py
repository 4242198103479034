"""A claim that leaves keys out finds what a walk over everything finds, on every store and by every way."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import Rules
from holdfast.engine.scans import ClaimScan
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.requests import PromiseCreate, QueueSet, TaskClaim
from holdfast.store import lines
from holdfast.store.interface import Find, SyncStore, Work
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteFile
from tests.backends import AwaitedStore, MemorySyncStore, scratch_folder
from tests.postgres import database_url
from tests.requests import FAR, ask
from tests.seeds import seed_for_test

NOW = 1_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[SyncStore]:
    folder = scratch_folder()
    opened: SyncStore = (
        SqliteFile(Path(folder.name) / "h.db")
        if request.param == "sqlite"
        else AwaitedStore(PostgresStore(database_url()))
    )
    opened.open()
    yield opened
    opened.close()
    folder.cleanup()


def creation(name: str, key: str | None, priority: int = 0, *, job: bool = True) -> PromiseCreate:
    tags = {"resonate:target": "poll://any@queue.q", "holdfast:priority": str(priority)}
    if job:
        tags["holdfast:job"] = "{}" if key is None else f'{{"key": "{key}"}}'
    return PromiseCreate(name, FAR, tags=tags)


def commit(store: SyncStore, *data: Any, now: int = NOW) -> Any:
    def work() -> Work[Any]:
        return run_group([ask(it) for it in data], CommitContext(now, Rules(), debug=False))

    return store.run(work).replies


def find(store: SyncStore, scan: ClaimScan) -> list[str]:
    def work() -> Work[list[str]]:
        found: list[str] = yield Find(scan)
        return found

    return store.run(work)


@pytest.mark.parametrize("reaches", [lines.reaches, (1,), (2, 8), (8, 64)])
def test_every_way_finds_the_same(
    store: SyncStore, monkeypatch: pytest.MonkeyPatch, reaches: tuple[int, ...]
) -> None:
    monkeypatch.setattr(lines, "reaches", reaches)
    monkeypatch.setattr(lines, "offers_per_line", 2)
    rng = random.Random(seed_for_test())
    model = MemorySyncStore()
    names = ["a", "a/", "a0", "b", "é", "", "zz"]
    data = [
        creation(
            f"{rng.choice(['x', 'x-', 'y'])}{number:03}",
            rng.choice(names) or None,
            rng.choice([0, 0, 1]),
            job=rng.random() < 0.9,
        )
        for number in range(150)
    ]
    for part in range(0, 150, 30):
        for each in (store, model):
            commit(each, *data[part : part + 30], now=NOW + part)
    # Stores keep their own time, so places are compared with what the model has of theirs.
    for _ in range(40):
        without = tuple(sorted(rng.sample([name for name in names if name], rng.randint(1, 5))))
        scan = ClaimScan(
            ("queue.q",),
            NOW + 500,
            rng.choice([1, 2, 5, 20, 200]),
            ceiling=rng.choice([0, 1_000_000]),
            without={"queue.q": without},
            scope=rng.choice([None, "x", "x-", "y"]),
        )
        found = find(store, scan)
        expected = find(model, scan)
        if isinstance(store, SqliteFile):
            assert found == expected, scan
        else:  # its clock stamped them: only the order within a commit is its own
            assert len(found) == len(expected), scan
            assert order(model, found) == sorted(order(model, found)), scan


def order(model: MemorySyncStore, names: list[str]) -> list[tuple[int, int, str]]:
    tasks = [model.tasks[name] for name in names]
    return [(-task.priority, task.created_at, task.id) for task in tasks]


def test_what_is_left_out_is_never_looked_at(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's machine, so that no busy machine disturbs it."""
    costs: list[int] = []
    for count in (20, 5_000):
        path = tmp_path / f"{count}.db"
        instructions = 0

        def look() -> int:
            nonlocal instructions
            instructions += 1
            return 0

        def connect(name: str) -> sqlite3.Connection:
            connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
            connection.set_progress_handler(look, 100)
            return connection

        file = SqliteFile(path, connect=connect)
        file.open()
        commit(file, QueueSet("q", key_concurrency=1))
        for start in range(0, count, 500):
            commit(file, *(creation(f"s{start + n:06}", "full") for n in range(min(500, count - start))))
        commit(file, creation("t0", "other"), creation("t1", None))
        [reply] = commit(file, TaskClaim(["queue.q"], 1, "w", 1_000))
        assert [it.task.id for it in reply.data.tasks] == ["s000000"]
        instructions = 0
        [reply] = commit(file, TaskClaim(["queue.q"], 5, "w", 1_000))
        assert [it.task.id for it in reply.data.tasks] == ["t0", "t1"]
        costs.append(instructions)
        file.close()
    assert costs[1] <= costs[0] * 1.5 + 5, costs
