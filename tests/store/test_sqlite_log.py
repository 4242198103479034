"""The write-ahead log grows by stretches of zeros, and nothing depends on them."""

import resource
import shutil
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, CommitOutcome, run_group
from holdfast.protocol.requests import Request
from holdfast.store import sqlite
from holdfast.store.sqlite import SqliteFile
from holdfast.store.sqlite_log import stretch_bytes
from tests.requests import create


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


def opened(path: Path) -> SqliteFile:
    file = SqliteFile(path)
    file.open()
    return file


def commit(file: SqliteFile, *requests: Request) -> CommitOutcome:
    return file.run(lambda: run_group(requests, CommitContext(1_000, Rules(), debug=False)))


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def as_after_power_loss(path: Path, folder: Path) -> list[str]:
    """The ids that are found in a copy of the file and its log, without the index that is never on disk."""
    folder.mkdir()
    for name in (path, Path(f"{path}-wal")):
        shutil.copy(name, folder)
    database = sqlite3.connect(folder / path.name)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = [promise_id for (promise_id,) in database.execute("SELECT id FROM promises ORDER BY id")]
    database.close()
    return found


def test_the_log_grows_by_stretches_and_not_by_commits(path: Path) -> None:
    file = opened(path)
    commit(file, create("first"))
    before = log_size(path)
    assert before >= stretch_bytes
    for number in range(20):
        commit(file, create(f"p{number}"))
        assert log_size(path) == before
    file.close()


def test_a_log_that_has_its_length_grows_no_more(path: Path) -> None:
    connections: list[sqlite3.Connection] = []

    def connect(name: str) -> sqlite3.Connection:
        connections.append(sqlite.connect(name))
        return connections[-1]

    file = SqliteFile(path, connect=connect)
    file.open()
    connections[0].execute("PRAGMA wal_autocheckpoint=1000")
    sizes: list[int] = []
    for number in range(300):  # a dozen pages each: more than two checkpoints
        commit(file, create(f"p{number}", data="QUJD" * 10_000))
        sizes.append(log_size(path))
    assert sizes[-1] == sizes[-150] < 1200 * 4096 + 2 * stretch_bytes
    file.close()


def test_commits_are_found_in_front_of_the_zeros(path: Path, tmp_path: Path) -> None:
    file = opened(path)
    for number in range(5):
        commit(file, create(f"p{number}"))
        ids = [f"p{each}" for each in range(number + 1)]
        assert as_after_power_loss(path, tmp_path / f"copy{number}") == ids
    file.close()


@pytest.mark.parametrize("truncated", [False, True])
def test_power_that_fails_after_the_zeros_and_before_the_commit_costs_nothing(
    path: Path, tmp_path: Path, truncated: bool
) -> None:
    file = opened(path)
    commit(file, create("a"))
    if truncated:
        outside = sqlite3.connect(path)
        outside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        outside.close()
        assert log_size(path) == 0
    found: list[str] = []

    def cut() -> Generator[Any, Any, None]:
        yield from run_group([create("b")], CommitContext(1_000, Rules(), debug=False))
        assert log_size(path) >= stretch_bytes
        found.extend(as_after_power_loss(path, tmp_path / "copy"))

    file.run(cut)
    assert found == ["a"]
    assert as_after_power_loss(path, tmp_path / "later") == ["a", "b"]
    file.close()


def test_two_that_write_to_one_file_leave_each_others_commits_alone(path: Path, tmp_path: Path) -> None:
    files = [opened(path), opened(path)]
    ids = [f"p{number:03}" for number in range(400)]
    for number, promise_id in enumerate(ids):
        commit(files[number % 2], create(promise_id, data="QUJD" * 2_000))
    assert log_size(path) > 2 * stretch_bytes
    assert as_after_power_loss(path, tmp_path / "copy") == ids
    for file in files:
        file.close()


def test_the_log_of_two_that_write_in_turn_grows_no_faster_than_that_of_one(path: Path) -> None:
    files = [opened(path), opened(path)]
    for number in range(20):
        commit(files[number % 2], create(f"p{number}"))
    assert log_size(path) < 3 * stretch_bytes
    for file in files:
        file.close()


def test_a_disk_that_has_no_room_for_zeros_still_takes_commits(path: Path) -> None:
    file = opened(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log_size(path) + stretch_bytes // 4, hard))
    try:
        for number in range(5):
            assert commit(file, create(f"p{number}")).replies[0].status == 200
        assert log_size(path) < stretch_bytes
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.close()
