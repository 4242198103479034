"""A store at work, recorded from a seed, and what a cut may have left of it.

The seed decides what is committed (promises, tasks, callbacks, suspensions, background tasks, sweeps, sizes),
how much in one commit, how often SQLite copies its log into the file, and by how much the log grows. After
every commit the contents are remembered. When power fails, the store must hold afterwards exactly what was
acknowledged last, or that and all of the commit which was under way.

A cut is named `SEED:RECORDING:NUMBER`, which decides the recording, the point and what the disk kept.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.requests import Request
from holdfast.protocol.wire import decode_body
from holdfast.store import sqlite
from holdfast.store.interface import StoreError
from holdfast.store.sqlite import SqliteFile
from holdfast.store.sqlite_log import SqliteLog, stretch_bytes
from tests.backends import scratch_folder
from tests.crash.power_loss import NAME, Ack, Event, RecordingVfs, Sync, disk_at
from tests.job_rules.wire import job_creation
from tests.model.generator import Generator
from tests.model.oracle import Oracle
from tests.requests import create, settle

TABLES = ("promises", "tasks", "callbacks", "listeners", "schedules", "queues", "clock")
SIZES = (0, 40, 160, 160, 1_000, 9_000)
CHECKPOINT_PAGES = (10, 40, 40, 200, 1_000)
STRETCHES = (4_096 * 4, 4_096 * 4, 4_096 * 16, stretch_bytes)


class Recording(Struct, frozen=True):
    log: list[Event]
    contents: list[str]  # after so many commits


class Cut(Struct, frozen=True):
    name: str
    point: int
    amid: bool  # a commit was under way
    wrong: str  # empty: nothing is


class Work:
    """Draws what the commits consist of."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._oracle = Oracle()
        self._generator = Generator(chance, self._oracle)
        self._sizes = chance.sample(SIZES, 3)
        self._group_max = chance.choice((1, 3, 12))
        self._count = 0

    def commit(self) -> list[Request]:
        requests: list[Request] = []
        for _ in range(self._chance.randint(1, self._group_max)):
            requests += self._walk() if self._chance.random() < 0.6 else self._grow()
        return requests

    def _walk(self) -> list[Request]:
        """One step of the guided generator: few ids, written again and again."""
        step = self._generator.step()
        envelopes: list[Any] = step if isinstance(step, list) else [step]
        for envelope in envelopes:
            self._oracle.handle(envelope)
        return _decode(envelopes)

    def _grow(self) -> list[Request]:
        """New ids, so that the file grows."""
        self._count += 1
        name = f"n{self._count}"
        data = "QUJD" * (self._chance.choice(self._sizes) // 4)
        if self._chance.random() < 0.2:
            job = {"kind": "promise.create", "data": job_creation(name, param={"data": data})}
            return _decode([job | {"head": {"corrId": name, "version": "2026-04-01"}}])
        made = [create(f"{name}.{part}", data=data) for part in range(self._chance.randint(1, 4))]
        return [*made, settle(f"{name}.0", data)]


def _decode(envelopes: list[Any]) -> list[Request]:
    decoded = decode_body(msgspec.json.encode(envelopes))
    return [item for item in decoded if isinstance(item, Request)] if isinstance(decoded, list) else []


def record(seed: str, *, synchronous: str | None = None, astray_bytes: int = 0) -> Recording:
    """Commit what the seed says; every commit is acknowledged as the node would, after `run` returns.

    `synchronous` and `astray_bytes` (zeros put too far to the front) plant faults.
    """
    chance = random.Random(seed)
    vfs = RecordingVfs("recording", chance)
    connections: list[Any] = []

    def connect(path: str) -> Any:
        connections.append(apsw.Connection(path, vfs="recording"))
        return connections[-1]

    def write_zeros(file: int, data: bytes, offset: int) -> int:
        return vfs.record_zeros(file, data, max(0, offset - astray_bytes))

    def open_log(path: str) -> SqliteLog:
        return SqliteLog(path, stretch=chance.choice(STRETCHES), write=write_zeros)

    try:
        with scratch_folder() as folder:
            file = SqliteFile(Path(folder) / NAME, connect=connect, log=open_log)
            file.open()
            if synchronous is not None:
                connections[0].execute(f"PRAGMA synchronous={synchronous}")
            # So that checkpoints are cut in two as well.
            connections[0].execute(f"PRAGMA wal_autocheckpoint={chance.choice(CHECKPOINT_PAGES)}")
            contents = [contents_of(connections[0])]
            vfs.log.append(Ack(0))
            work = Work(chance)
            for number in range(1, chance.randint(20, 60)):
                requests = work.commit()
                moment = CommitContext(1_000 + number, Rules(), debug=True)
                file.run(lambda requests=requests, moment=moment: run_group(requests, moment))  # type: ignore[misc]
                contents.append(contents_of(connections[0]))
                vfs.log.append(Ack(number))
            file.close()
            return Recording(vfs.log, contents)
    finally:
        vfs.unregister()


def contents_of(connection: Any) -> str:
    """Everything that is stored, in few letters."""
    digest = hashlib.sha256()
    for table in TABLES:
        for row in sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall())):
            digest.update(row.encode())
        digest.update(table.encode())
    return digest.hexdigest()


def cut(recording: Recording, name: str) -> Cut:
    """Let power fail once, and look at what is left."""
    chance = random.Random(name)
    log = recording.log
    point = chance.randrange(len(log) + 1)
    with scratch_folder() as folder:
        for file, content in disk_at(log, point, chance).items():
            (Path(folder) / file).write_bytes(content)
        wrong = _wrong_after_restart(recording, point, Path(folder) / NAME)
    amid = point > 0 and not isinstance(log[point - 1], Ack | Sync)
    return Cut(name, point, amid, wrong)


def _wrong_after_restart(recording: Recording, point: int, path: Path) -> str:
    path.touch(0o600)
    connections: list[sqlite3.Connection] = []

    def connect(name: str) -> sqlite3.Connection:
        connections.append(sqlite.connect(name))
        return connections[-1]

    file = SqliteFile(path, connect=connect)
    try:
        file.open()
        [[answer]] = connections[0].execute("PRAGMA integrity_check(1)").fetchall()
        found = contents_of(connections[0])
    except (StoreError, sqlite3.DatabaseError) as error:
        return f"it cannot be opened: {error}"
    finally:
        file.close()
    if answer != "ok":
        return f"SQLite calls it broken: {answer}"
    acknowledged = max((event.number for event in recording.log[:point] if isinstance(event, Ack)), default=0)
    if found in recording.contents[acknowledged : acknowledged + 2]:
        return ""
    if found in recording.contents:
        return (
            f"commit {acknowledged} was acknowledged, and what is there is as after commit "
            f"{recording.contents.index(found)}"
        )
    return f"what is there never was: commit {acknowledged} was acknowledged"


def cut_one_recording(seed: str, cuts: int) -> list[Cut]:
    recording = record(seed)
    return [cut(recording, f"{seed}:{number}") for number in range(cuts)]


def repeat(name: str) -> Cut:
    """The cut of that name once more."""
    return cut(record(name.rpartition(":")[0]), name)
