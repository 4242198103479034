"""The two deployments of a campaign: one server on a SQLite file, three nodes on PostgreSQL.

It reads the store behind everybody's back: who holds what, what is stored, and the whole snapshot for
the invariants. It never writes.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import msgspec

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.requests import DebugSnap
from holdfast.store.interface import SyncStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteFile
from tests.backends import AwaitedStore
from tests.chaos.proxy import FaultProxy
from tests.model.invariants import check_state
from tests.postgres import PORT, PostgresServer, execute
from tests.requests import ask

Held = tuple[str, int, str]  # task, version, pid
# Pending promises and the milliseconds that they were given.
OPEN_FOR = "SELECT id, timeout_at - created_at FROM promises WHERE state = 'pending'"
TABLES = ("promises", "tasks", "callbacks", "listeners", "schedules", "clock", "queues")
DISK_BYTES = 48 * 1024 * 1024


class Impossible(Exception):
    """This machine cannot have that fault."""


class Deployment(Protocol):
    name: str
    store: str
    node_count: int

    def held(self) -> list[Held]: ...
    def states(self) -> dict[str, str]: ...
    def tasks(self) -> list[str]: ...
    def task_states(self) -> dict[str, tuple[str, int, str]]: ...
    def open_for(self) -> dict[str, int]: ...
    def violations(self) -> list[str]: ...
    def close(self) -> None: ...


class SqliteDeployment:
    name = "sqlite"
    node_count = 1

    def __init__(self, folder: Path, *, small_disk: bool = False) -> None:
        self.disk = folder / "disk"
        self.disk.mkdir()
        self._mounted = False
        if small_disk:
            if os.geteuid() != 0:
                raise Impossible("a small disk needs root, to mount a tmpfs")
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "holdfast-chaos", str(self.disk)]
            done = subprocess.run(mount, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Impossible(f"a small disk cannot be mounted: {done.stderr.strip()}")
            self._mounted = True
        self.path = self.disk / "holdfast.db"
        self.store = f"sqlite:///{self.path}"

    def _rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=20)) as file:
            return file.execute(query).fetchall()

    def held(self) -> list[Held]:
        return self._rows("SELECT id, version, pid FROM tasks WHERE state = 'acquired'")

    def states(self) -> dict[str, str]:
        return dict(self._rows("SELECT id, state FROM promises"))

    def tasks(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT id FROM tasks")]

    def task_states(self) -> dict[str, tuple[str, int, str]]:
        rows = self._rows(
            "SELECT id, state, version, coalesce(pid, '') FROM tasks WHERE state <> 'fulfilled'"
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def open_for(self) -> dict[str, int]:
        return dict(self._rows(OPEN_FOR))

    def violations(self) -> list[str]:
        """Of a copy that is made while the server goes on."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy.db"
            with (
                closing(sqlite3.connect(self.path, timeout=20)) as source,
                closing(sqlite3.connect(copy)) as to,
            ):
                source.backup(to)
                broken = to.execute("PRAGMA integrity_check").fetchall()
            if broken != [("ok",)]:
                return [f"integrity_check: {broken}"]
            return _violations(SqliteFile(copy))

    def close(self) -> None:
        if self._mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)
            self._mounted = False


class PostgresDeployment:
    """A server of its own with fsync on. Nodes reach it through a proxy on a socket."""

    name = "postgres"
    node_count = 3

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer(durable=True).create()
        self._has_copy = False
        self._sockets = Path(tempfile.mkdtemp(prefix="holdfast-px-", dir="/tmp"))
        name = f".s.PGSQL.{PORT}"
        self.proxy = FaultProxy(self.server.folder / name, at=self._sockets / name)
        self.proxy.__enter__()
        self.store = self.server.url(host=str(self._sockets))

    def _rows(self, query: str) -> list[list[str]]:
        return [line.split("|") for line in execute(self.server.url(), query).splitlines()]

    def held(self) -> list[Held]:
        rows = self._rows("SELECT id, version, pid FROM tasks WHERE state = 'acquired'")
        return [(row[0], int(row[1]), row[2]) for row in rows]

    def states(self) -> dict[str, str]:
        return {row[0]: row[1] for row in self._rows("SELECT id, state FROM promises")}

    def tasks(self) -> list[str]:
        return [row[0] for row in self._rows("SELECT id FROM tasks")]

    def task_states(self) -> dict[str, tuple[str, int, str]]:
        query = "SELECT id, state, version, coalesce(pid, '') FROM tasks WHERE state <> 'fulfilled'"
        return {row[0]: (row[1], int(row[2]), row[3]) for row in self._rows(query)}

    def open_for(self) -> dict[str, int]:
        return {row[0]: int(row[1]) for row in self._rows(OPEN_FOR)}

    def violations(self) -> list[str]:
        """Of a copy in a schema of its own, read in one snapshot of the database while the nodes go on."""
        url = self.server.url(search_path="copied")
        if not self._has_copy:
            execute(self.server.url(), "CREATE SCHEMA copied")
            store = AwaitedStore(PostgresStore(url))
            store.open()
            store.close()
            self._has_copy = True
        copy = "".join(
            f"DELETE FROM copied.{table}; INSERT INTO copied.{table} SELECT * FROM public.{table};"
            for table in TABLES
        )
        execute(self.server.url(), f"BEGIN ISOLATION LEVEL REPEATABLE READ; {copy} COMMIT")
        return _violations(AwaitedStore(PostgresStore(url)))

    def close(self) -> None:
        self.proxy.__exit__()
        self.server.remove()
        for left in [*self._sockets.iterdir()]:
            left.unlink()
        self._sockets.rmdir()


def _violations(store: SyncStore) -> list[str]:
    now = max(store.open(), time.time_ns() // 1_000_000 + 3_600_000)  # its clock may have been set ahead
    try:
        moment = CommitContext(now, Rules(), debug=True)
        [reply] = store.run(lambda: run_group([ask(DebugSnap())], moment)).replies
    finally:
        store.close()
    snap = msgspec.json.decode(msgspec.json.encode(reply.data))
    return check_state(snap, now)
