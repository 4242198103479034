"""Power fails at any instant: after a restart, everything acknowledged is there and nothing is broken."""

import os
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.engine import Rules
from holdfast.node.group import Moment, run_group
from holdfast.store.sqlite import SqliteFile
from tests.backends import scratch_folder
from tests.crash.power_loss import Ack, Event, RecordingVfs, disk_at
from tests.requests import create, settle
from tests.seeds import chosen_seed

POINTS = int(os.environ.get("HOLDFAST_POWER_POINTS", "2000"))
SEED = chosen_seed()
COMMITS = 60


def record(folder: Path, *, synchronous: str | None = None) -> list[Event]:
    """Commits of several promises each; every one is acknowledged as the node would, after `run` returns."""
    vfs = RecordingVfs("recording")
    try:
        connections: list[Any] = []

        def connect(path: str) -> Any:
            connections.append(apsw.Connection(path, vfs="recording"))
            return connections[-1]

        file = SqliteFile(folder / "holdfast.db", connect=connect)
        file.open()
        if synchronous is not None:
            connections[0].execute(f"PRAGMA synchronous={synchronous}")
        connections[0].execute("PRAGMA wal_autocheckpoint=40")  # so that checkpoints are cut in two as well
        for number in range(COMMITS):
            requests = [create(f"{number}.{part}", data="QUJD" * 40) for part in range(4)]
            requests += [settle(f"{number}.{part}", "RE9ORQ==") for part in range(2)]
            moment = Moment(1_000 + number, Rules(), debug=False)
            file.run(lambda requests=requests, moment=moment: run_group(requests, moment))  # type: ignore[misc]
            vfs.log.append(Ack(number))
        file.close()
        return vfs.log
    finally:
        vfs.unregister()


def lost_after_restart(log: list[Event], point: int, chance: random.Random, folder: Path) -> list[int]:
    """The acknowledged commits that are gone; a broken or half-applied database fails at once."""
    for name, content in disk_at(log, point, chance).items():
        (folder / name).write_bytes(content)
    (folder / "holdfast.db").touch(0o600)
    file = SqliteFile(folder / "holdfast.db")
    file.open()
    file.close()
    database = sqlite3.connect(folder / "holdfast.db")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stored = dict(database.execute("SELECT id, state FROM promises").fetchall())
    database.close()
    whole: set[int] = set()
    for number in range(COMMITS):
        states = [stored.get(f"{number}.{part}") for part in range(4)]
        assert states in ([None] * 4, ["resolved"] * 2 + ["pending"] * 2), (
            f"commit {number} is half applied: {states}"
        )
        if states[0] is not None:
            whole.add(number)
    acknowledged = {event.number for event in log[:point] if isinstance(event, Ack)}
    return sorted(acknowledged - whole)


def losses(log: list[Event], points: int, chance: random.Random) -> int:
    lost = 0
    for _ in range(points):
        with scratch_folder() as folder:
            lost += bool(lost_after_restart(log, chance.randrange(len(log) + 1), chance, Path(folder)))
    return lost


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def test_no_acknowledged_commit_is_lost_when_power_fails(folder: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    log = record(folder)
    assert sum(isinstance(event, Ack) for event in log) == COMMITS
    assert losses(log, POINTS, random.Random(SEED)) == 0


def test_this_disk_does_lose_what_was_not_synced(folder: Path) -> None:
    """The test above can fail: with weaker settings, acknowledged commits are lost."""
    assert losses(record(folder, synchronous="NORMAL"), 60, random.Random(1)) > 0
