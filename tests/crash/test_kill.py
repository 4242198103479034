"""kill -9 in the middle of commits: nothing acknowledged is lost, nothing is half applied."""

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.store.sqlite import SqliteFile
from tests.counts import count_of
from tests.crash.acknowledged import check_acknowledged
from tests.seeds import chosen_seed

KILLS = count_of("HOLDFAST_KILLS", quick=3, full=12)
SEED = chosen_seed()


@pytest.mark.sized
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    path = tmp_path / "holdfast.db"
    acknowledged: list[str] = []
    for run in range(KILLS):
        acknowledged += kill_one(path, f"r{run}", lines=chance.randrange(1, 400))
        check(path, acknowledged)
    assert len(acknowledged) > KILLS, "the children were killed before they did anything"


def kill_one(path: Path, run: str, lines: int) -> list[str]:
    """Let a child work until it has acknowledged some lines, then kill it, mid-flight."""
    command = [sys.executable, "-m", "tests.crash.committing_child", f"sqlite:///{path}", run]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    heard = [child.stdout.readline() for _ in range(lines)]
    child.send_signal(signal.SIGKILL)
    heard += child.stdout.readlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL, "the child ended by itself"
    return [line.strip() for line in heard if line.endswith("\n")]


def check(path: Path, acknowledged: list[str]) -> None:
    file = SqliteFile(path)
    file.open()
    file.close()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    promises = dict(database.execute("SELECT id, state FROM promises").fetchall())
    tasks = dict(database.execute("SELECT id, state FROM tasks").fetchall())
    database.close()
    check_acknowledged(acknowledged, promises, tasks)
