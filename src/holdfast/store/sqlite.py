"""A store in one SQLite file.

1. A transaction is durable when `run` returns: write-ahead log, `synchronous=FULL`.
2. One statement serves many rows. (Each statement gives up Python's interpreter lock once; one per row
   would let a busy event loop stall a commit row by row.)
3. The file is readable and writable by its owner alone.
"""

import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine import Due, Footprint, Scan, WorkingSet
from holdfast.engine.scans import ClaimScan, HeldScan, QueueCountScan, passes_over
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.records import Millis
from holdfast.store import lines, rows, sqlite_statements as sql
from holdfast.store.documents import perform_on_sqlite
from holdfast.store.granted_records import GrantedRecords
from holdfast.store.interface import (
    Backlog,
    CannotOpen,
    CountBacklog,
    Find,
    FindDue,
    GroupBacklog,
    Load,
    LoadAll,
    NotAStore,
    Now,
    Result,
    Save,
    Step,
    StoreError,
    TooMuchAtOnce,
    Work,
    drive,
)
from holdfast.store.loading import (
    Fetch,
    Loading,
    fill_record,
    load,
    load_obligations,
    param_at,
    tags_at,
    value_at,
    weighed_from,
)
from holdfast.store.migrations import look, migrate, migrations
from holdfast.store.newest_sql import found_by, query_of
from holdfast.store.scan_sql import SQLITE, behind, within
from holdfast.store.sqlite_log import SqliteLog
from holdfast.store.sqlite_place import SqlitePlace, create_private
from holdfast.store.sqlite_search import Stopwatch, in_time
from holdfast.store.threaded import ThreadedStore

Connect = Callable[[str], Any]
OpenLog = Callable[[str], SqliteLog]

# Past about this many parameters a row takes SQLite no less time any more: see docs/performance.md.
parameters_per_statement_max: Final = 640
cache_bytes: Final = 64 * 1024 * 1024
# Ids that users make fall all over the index: the longer the log, the more often a page is written again
# before it must be copied into the file. But until it has that length once, every commit makes it grow, and
# to sync a file that grows takes a disk two or three times as long. (In pages of 4 kB.)
checkpoint_pages: Final = 8_000
busy_ms: Final = 5_000
busy_pause_s: Final = 0.01  # between two tries, where SQLite itself does not wait

_encode: Final = msgspec.json.Encoder().encode


def connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, cached_statements=512, check_same_thread=False)


def _is_busy(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class SqliteFile:
    """The store itself, without a thread: call it from one thread only.

    `connect` makes the connection, `log` opens its log; tests pass those whose file system can fail.
    `beside`: our tables may be made in a file that has tables of an application.
    `stopwatch` tells how long a search takes; a simulation passes one that counts virtual time.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        connect: Connect = connect,
        log: OpenLog = SqliteLog,
        beside: bool = False,
        stopwatch: Stopwatch = time.monotonic,
    ) -> None:
        self._path = str(path)
        self._beside = beside
        self._stopwatch = stopwatch
        self._connect = connect
        self._open_log = log
        self._transaction: SqliteTransaction | None = None
        self._log: SqliteLog | None = None

    def open(self) -> Millis:
        create_private(self._path)
        try:
            connection = self._connect(self._path)
        except sqlite3.Error as error:
            raise self._not_a_store(error) from error
        try:
            self._prepare(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise self._not_a_store(error) from error
        except BaseException:
            connection.close()
            raise
        self._granted = GrantedRecords()
        self._transaction = SqliteTransaction(connection, self._granted, self._stopwatch)
        ((now,),) = connection.execute("SELECT now FROM clock")
        if sys.platform != "win32":  # sqlite_log.py says why
            with suppress(FileNotFoundError):  # of a database in memory
                self._log = self._open_log(self._path)
        self._place = SqlitePlace(self._path)
        return int(now)

    def _prepare(self, connection: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout={busy_ms}")
        # Whoever changes the journal of a file that others open or close at this moment is told at once that
        # it is locked: `busy_timeout` does not count there.
        until = time.monotonic() + busy_ms / 1000
        while True:
            try:
                # Before anything is changed: the change of the journal lasts.
                version = look(connection, "sqlite", beside=self._beside)
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(busy_pause_s)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # on macOS fsync leaves it in the disk's own memory
        connection.execute(f"PRAGMA cache_size=-{cache_bytes // 1024}")
        connection.execute(f"PRAGMA wal_autocheckpoint={checkpoint_pages}")
        if version < migrations("sqlite")[-1][0]:  # else no lock is needed: somebody may be writing for long
            migrate(connection, "sqlite", beside=self._beside)
        # Or a statement of 16 pages keeps its undo in a file. But a migration sorts whole tables.
        connection.execute("PRAGMA temp_store=MEMORY")

    def _not_a_store(self, error: sqlite3.Error) -> StoreError:
        if _is_busy(error):
            return CannotOpen(
                f"{self._path} was locked by another program for {busy_ms / 1000:g} s: {error}. "
                f"End what writes to it, or open it again later. [{CannotOpen.code}]"
            )
        return NotAStore(
            f"{self._path} cannot be used as a Holdfast database: {error}. Check the path. [{NotAStore.code}]"
        )

    def foreign_version(self) -> int:
        """Another number after any other connection has committed."""
        if self._transaction is None:
            raise StoreError(f"{self._path} is not open")
        ((version,),) = self._transaction.connection.execute("PRAGMA data_version").fetchall()
        return int(version)

    def close(self) -> None:
        if self._transaction is not None:
            self._transaction.connection.close()
            self._transaction = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def run(self, work: Callable[[], Work[Result]]) -> Result:
        transaction = self._transaction
        if transaction is None:
            raise StoreError(f"{self._path} is not open")
        execute, granted = transaction.connection.execute, self._granted
        execute("BEGIN IMMEDIATE")
        try:
            if self._log is not None:
                self._log.make_room()
            granted.see(self.foreign_version())
            result = drive(work(), transaction.perform)
            execute("COMMIT")
        except BaseException:
            granted.undone()
            with suppress(Exception):  # whatever is wrong, the first error is the one to tell
                execute("ROLLBACK")
            raise
        granted.committed()
        self._place.check()
        return result


class SqliteStore(ThreadedStore):
    """A SQLite file behind a thread of its own: what a node is given."""

    def __init__(self, path: str | Path, *, connect: Connect = connect, beside: bool = False) -> None:
        self._file = SqliteFile(path, connect=connect, beside=beside)
        super().__init__(self._file, "holdfast-sqlite")

    def foreign_version(self) -> Awaitable[int]:
        return self._call(self._file.foreign_version)


class SqliteTransaction:
    """The steps, on one connection, between BEGIN and COMMIT."""

    def __init__(
        self,
        connection: Any,
        granted: GrantedRecords | None = None,
        stopwatch: Stopwatch = time.monotonic,
    ) -> None:
        self.connection = connection
        self._stopwatch = stopwatch
        self._granted = granted  # None: of somebody else's transaction, which nobody tells us the end of

    def perform(self, step: Step) -> Any:
        kind = type(step)
        if kind is Load:
            return self._load_footprint(step)  # type: ignore[arg-type]
        if kind is Now:
            return step.reading  # type: ignore[union-attr]
        if kind is Save:
            return self._save(step.ws, step.clock)  # type: ignore[union-attr]
        if isinstance(step, Find):
            return self._find(step.scan)
        if isinstance(step, FindDue):
            return self._find_due(step.now, step.limit)
        if isinstance(step, CountBacklog):
            return self._count_backlog(step.now, step.groups_max)
        if isinstance(step, LoadAll):
            return self._load_all(step.ws)
        return perform_on_sqlite(self.connection, step)  # type: ignore[arg-type]  # all others are above

    def _query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self.connection.execute(statement, parameters).fetchall()
        return found

    def _by_ids(self, statement: str, ids: Iterable[str]) -> list[Any]:
        return self._query(statement, (_encode(list(ids)).decode(),))

    # --- load ----------------------------------------------------------------------------------------

    def _load_footprint(self, step: Load) -> None:
        ws, needed = step.ws, step.footprint
        granted = self._granted if needed.promises or needed.streams else None
        if granted is not None:
            granted.fill(ws, needed)
        self._load(load(ws, needed, step.bytes_max))
        if granted is not None:
            granted.loaded(ws, needed)

    def _load(self, loading: Loading) -> None:
        found: Sequence[Any] | None = None
        while True:
            try:
                fetch = loading.send(found)  # type: ignore[arg-type]  # the first is None, as it must be
            except StopIteration:
                return
            found = self._fetch(fetch)

    def _fetch(self, fetch: Fetch) -> list[Any]:
        if fetch.what == "records" and len(fetch.ids) <= sql.few:
            # As a rule they are about to be created. Each column takes Python time, found or not.
            found = self._query(sql.EXISTING[len(fetch.ids)], tuple(fetch.ids))
            if len(found) > 1:
                return self._by_ids(sql.RECORDS_BY_ID, [key for (key,) in found])
            return self._query(sql.RECORDS_ONE, found[0]) if found else []
        if fetch.what == "branches":
            return sql.find_branches(self._query, fetch.ids)
        if fetch.bytes_max is not None:
            return self._fetch_weighing(fetch, fetch.bytes_max)
        return self._by_ids(sql.FETCH[fetch.what], fetch.ids)

    def _fetch_weighing(self, fetch: Fetch, bytes_max: int) -> list[Any]:
        """Rows come as they are asked for: those behind the bound are never read."""
        cursor = self.connection.execute(sql.FETCH[fetch.what], (_encode(list(fetch.ids)).decode(),))
        found: list[Any] = []
        size = 0
        while some := cursor.fetchmany(weighed_from):
            found += some
            size += sum(
                [len(row[param_at] or "") + len(row[value_at] or "") + len(row[tags_at]) for row in some]
            )
            if size > bytes_max:
                cursor.close()
                raise TooMuchAtOnce(f"{len(fetch.ids)} records hold more than {bytes_max} bytes")
        return found

    def _load_all(self, ws: WorkingSet) -> None:
        for row in self._query(sql.RECORDS_ALL):
            fill_record(ws, row)
        if ws.promises:
            self._load(load_obligations(ws, set(ws.promises)))
        schedules = {schedule_id for (schedule_id,) in self._query("SELECT id FROM schedules")}
        queues = {name for (name,) in self._query("SELECT name FROM queues")}
        streams = {execution_id for (execution_id,) in self._query("SELECT id FROM streams")}
        self._load(load(ws, Footprint(schedules=schedules, queues=queues, streams=streams)))

    # --- save ----------------------------------------------------------------------------------------

    def _save(self, ws: WorkingSet, clock: Millis | None) -> None:
        if ws.cleared:
            for table in ("promises", "tasks", "callbacks", "listeners", "schedules", "queues", "streams"):
                self.connection.execute(f"DELETE FROM {table}")
        if ws.forgotten:  # first: what is gone may be there again
            for statement in sql.FORGET:
                self._by_ids(statement, ws.forgotten)
        promises = {
            key: rows.sqlite_promise_row(promise, ws.is_watched(key))
            for key in ws.changed_promises
            if (promise := ws.promises[key]) is not None
        }
        tasks = rows.changed_task_rows(ws)
        if ws.replaced:
            again = [row for key in ws.replaced if (row := promises.pop(key, None))]
            self._write(sql.REPLACE_PROMISES, again)
            self._write(sql.REPLACE_TASKS, [row for key in ws.replaced if (row := tasks.pop(key, None))])
        self._write(sql.UPSERT_PROMISES, [*promises.values()])
        self._write(sql.UPSERT_TASKS, [*tasks.values()])
        self._write(sql.INSERT_CALLBACKS, list(ws.added_callbacks))
        listeners = [(*pair, listener.dialect) for pair, listener in ws.added_listeners.items()]
        self._write(sql.INSERT_LISTENERS, listeners)
        for pair in ws.removed_callbacks:
            self.connection.execute(sql.DROP_CALLBACK, pair)
        if ws.changed_streams:
            found = (ws.streams[key] for key in ws.changed_streams)
            self._write(sql.UPSERT_STREAMS, [rows.streams_row(each) for each in found if each is not None])
        if ws.discharged:
            if awaited := [key for key, had_awaiters in ws.discharged.items() if had_awaiters]:
                self._by_ids(sql.DROP_CALLBACKS, awaited)
            self._by_ids(sql.DROP_LISTENERS, ws.discharged)
        if ws.changed_schedules:
            entries = [ws.schedules[key] for key in ws.changed_schedules]
            kept = [rows.schedule_row(entry) for entry in entries if entry is not None]
            self._write(sql.UPSERT_SCHEDULES, kept)
            gone = [key for key in ws.changed_schedules if ws.schedules[key] is None]
            self._by_ids(sql.DROP_SCHEDULES, gone)
        if ws.changed_queues:
            queues = (ws.queues[name] for name in ws.changed_queues)
            self._write(sql.UPSERT_QUEUES, [rows.queue_row(queue) for queue in queues if queue is not None])
        if clock is not None:
            self.connection.execute(sql.SET_CLOCK, (clock, clock))
        if self._granted is not None:
            self._granted.written(ws)
        ws.saved()

    def _write(self, statement: sql.Writing, records: Sequence[rows.Row]) -> None:
        """Many rows a statement: `sql.chunks` says how many."""
        if not records:
            return
        if len(records) == 1:
            text = sql.for_row(statement, tuple([field is None for field in records[0]]))
            self.connection.execute(text, [field for field in records[0] if field is not None])
            return
        varying = sql.varying_columns(statement, records)
        if varying is None:
            most = parameters_per_statement_max // statement.width
            for chunk in sql.chunks(records, most):
                fields = [field for row in chunk for field in row]
                self.connection.execute(sql.for_rows(statement, len(chunk)), fields)
            return
        alike = [field for place, field in enumerate(records[0]) if place not in varying]
        most = (parameters_per_statement_max - len(alike)) // len(varying)
        for chunk in sql.chunks(records, most):
            fields = [row[place] for row in chunk for place in varying]
            self.connection.execute(sql.for_rows_alike(statement, varying, len(chunk)), alike + fields)

    # --- find ----------------------------------------------------------------------------------------

    def _find(self, scan: Scan) -> list[Any]:
        if isinstance(scan, ClaimScan):
            return self._find_offers(scan)
        if isinstance(scan, HeldScan):
            return self._by_ids(sql.HELD, scan.groups)
        if isinstance(scan, QueueCountScan):
            return [(name, *self._count_queue(queue_group(name), scan.limit)) for name in scan.names]
        statement, parameters = query_of(scan, SQLITE)
        with in_time(self.connection, self._stopwatch) if passes_over(scan) else nullcontext():
            return found_by(scan, self._query(statement, parameters))

    def _find_offers(self, scan: ClaimScan) -> list[str]:
        """The best of each group by its index, then the best of those: the backlog does not matter."""
        best: list[Any] = []
        scope = within(scan.scope)
        for group in scan.groups:
            if scan.after is not None:
                place = behind(scan.after)
                best += self._query(sql.OFFERS_BEHIND, [group, scan.now, scan.ceiling, *place, scan.limit])
                continue
            if group in scan.entered:
                names = _encode(lines.of_entered(group)).decode()
                parameters = lines.parameters(scan, group)
                best += [row[1:] for row in self._query(lines.SQLITE_DEEP, [*parameters, scan.limit, names])]
                continue
            without = scan.without.get(group)
            if without and (places := self._find_places(scan, group)) is not None:
                best += places
                continue
            keys = [_encode(without).decode()] if without else []
            parameters = [group, scan.now, scan.ceiling, *keys, *scope, scan.limit]
            best += self._query(sql.OFFERS[bool(without), bool(scope)], parameters)
        return [row[-1] for row in sorted(best)[: scan.limit]]

    def _find_places(self, scan: ClaimScan, group: str) -> list[lines.Place] | None:
        """Where keys are left out, without a look at their tasks."""
        parameters, without = lines.parameters(scan, group), _encode(lines.left_out(scan, group)).decode()
        finding = lines.find_places(scan.limit)
        found: Sequence[Any] | None = None
        while True:
            try:
                question = finding.send(found)  # type: ignore[arg-type]  # the first is None, as it must be
            except StopIteration as done:
                places: list[lines.Place] | None = done.value
                return places
            match question:
                case lines.Heads(reach):
                    found = self._query(lines.SQLITE_HEADS, [*parameters, reach, without])
                case lines.Walk(reach):
                    found = self._query(lines.SQLITE_WALK, [*parameters, reach, without, scan.limit])
                case lines.Deep(names, each):
                    found = self._query(lines.SQLITE_DEEP, [*parameters, each, _encode(names).decode()])

    def _count_queue(self, group: str, limit: int) -> tuple[int, int, int, int]:
        ((offered, parked, claimed, running),) = self._query(sql.COUNT_QUEUE, [group, limit] * 4)
        return min(offered + parked, limit), parked, claimed, running

    def _find_due(self, now: Millis, limit: int) -> Due:
        due = [[row[0] for row in self._query(statement, (now, limit))] for statement in sql.DUE]
        if any(len(kind) == limit for kind in due):
            return Due(due[0], due[1], due[2], next_at=now)
        ahead = [self._query(statement, (now,))[0][0] for statement in sql.NEXT]
        # What is no number, here last in order, is told of when it is read.
        next_at = min((int(instant) for instant in ahead if isinstance(instant, int | float)), default=None)
        return Due(due[0], due[1], due[2], next_at)

    def _count_backlog(self, now: Millis, groups_max: int) -> Backlog:
        groups = [GroupBacklog(*row) for row in self._query(sql.BACKLOG_GROUPS, (groups_max,))]
        (totals,) = self._query(sql.BACKLOG_TOTALS, (now, now, now))
        offered, leases, pending_or_leased, suspended, halted, due = totals
        return Backlog(groups, leases, pending_or_leased - offered - leases, due, suspended, halted)
