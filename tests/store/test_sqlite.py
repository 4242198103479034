"""The SQLite file: private, durable, checked, set-based, and never slower because it is full."""

import asyncio
import re
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import Rules
from holdfast.engine.newest import ExecutionScan, ExecutionStretch, execution_scan
from holdfast.engine.scans import Page, StretchScan, TaskScan
from holdfast.node import Node
from holdfast.node.clock import wall_clock
from holdfast.node.group import CommitContext, CommitOutcome, run_group, run_sweep
from holdfast.protocol.requests import ExecutionSearch, Request, ScheduleCreate, ScheduleGet, TaskClaim
from holdfast.store import sqlite, sqlite_statements as sql
from holdfast.store.interface import CannotOpen, FileGone, NewerSchema, NotAStore, Now, Work
from holdfast.store.migrations import migrate, migrations
from holdfast.store.newest_sql import newest_query, stretch_query
from holdfast.store.scan_sql import SQLITE, find_query
from holdfast.store.sqlite import SqliteFile, SqliteStore
from tests.requests import acquire, ask, create, get, listen, register, settle

HERE = "poll://uni@g/me"

# As the first version wrote them: a promise with a task that nobody has taken.
OLD_ROWS = """
INSERT INTO promises (id, state, param, value, tags, timeout_at, created_at, watched)
VALUES ('old', 'pending', '{}', '{}', '{"resonate:target":"poll://any@g"}', 9000000000000, 1, TRUE);
INSERT INTO tasks (id, state, version, target, dialect, timer, priority, timeout_at, created_at, resumes,
  due_at, parked, bounces, retries, poll_group, claim_group)
VALUES ('old', 'pending', 0, 'poll://any@g', 'A', FALSE, 0, 9000000000000, 1, 0,
  9000000000000, FALSE, 0, 0, 'g', 'g');
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


def commit(file: SqliteFile, *requests: Request, now: int = 1_000) -> CommitOutcome:
    return file.run(lambda: run_group(requests, CommitContext(now, Rules(), debug=False)))


def opened(path: Path, **options: Any) -> SqliteFile:
    file = SqliteFile(path, **options)
    file.open()
    return file


def test_the_file_and_its_log_belong_to_their_owner_alone(path: Path) -> None:
    file = opened(path)
    commit(file, create("a"))
    modes = {stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    assert modes == {0o600}
    file.close()


def test_a_commit_is_synced_in_full(path: Path) -> None:
    seen: list[sqlite3.Connection] = []

    def connect(name: str) -> sqlite3.Connection:
        seen.append(sqlite.connect(name))
        return seen[-1]

    file = opened(path, connect=connect)
    assert seen[0].execute("PRAGMA synchronous").fetchone() == (2,)
    assert seen[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
    file.close()


def test_a_large_commit_makes_no_temporary_file(path: Path) -> None:
    """What undoes one statement of many rows stays in memory."""
    seen: list[sqlite3.Connection] = []

    def connect(name: str) -> sqlite3.Connection:
        seen.append(sqlite.connect(name))
        return seen[-1]

    file = opened(path, connect=connect)
    in_memory = 2
    assert seen[0].execute("PRAGMA temp_store").fetchone() == (in_memory,)
    file.close()


@pytest.mark.parametrize("most", [1, 7, 32, 45, 157])
def test_rows_are_written_in_order_by_few_statements_of_few_lengths(most: int) -> None:
    lengths: set[int] = set()
    for count in range(1, 400):
        rows = [(number,) for number in range(count)]
        found = [[*chunk] for chunk in sql.chunks(rows, most)]
        assert [row for chunk in found for row in chunk] == rows
        assert max(map(len, found)) <= most
        assert len(found) <= count // (most - most % sql.rows_step or most) + 2
        lengths.update(map(len, found))
    assert len(lengths) <= sql.counted_rows_max + most // sql.rows_step


def test_what_was_committed_is_there_after_reopening(path: Path) -> None:
    file = opened(path)
    before = commit(file, create("a", target="poll://any@g"), acquire("a"), create("b"), settle("b", "x"))
    file.close()
    again = opened(path)
    after = commit(again, get("a"), get("b"))
    assert after.replies[0].data == before.replies[0].data
    assert after.replies[1].data == before.replies[3].data
    again.close()


def test_the_latest_instant_survives(path: Path) -> None:
    file = opened(path)
    commit(file, create("a"), now=777_000)
    commit(file, create("b"), now=5)
    file.close()
    again = SqliteFile(path)
    assert again.open() == 777_000
    again.close()


def traced(path: Path) -> tuple[SqliteFile, list[str]]:
    """An open file, and every statement that it performs."""
    statements: list[str] = []

    def connect(name: str) -> sqlite3.Connection:
        connection = sqlite.connect(name)
        connection.set_trace_callback(statements.append)
        return connection

    return opened(path, connect=connect), statements


@pytest.mark.parametrize("size", [1, 64, 500])
def test_a_group_takes_far_fewer_statements_than_it_has_rows(path: Path, size: int) -> None:
    file, statements = traced(path)
    requests = [create(f"p{index}", target="poll://any@g") for index in range(size)]
    statements.clear()
    commit(file, *requests)  # writes two rows a request
    assert len(statements) <= 8 + size * 3 / 8
    statements.clear()
    commit(file, *(acquire(f"p{index}") for index in range(size)))  # reads and writes one
    assert len(statements) <= 8 + size / 4
    file.close()


@pytest.mark.parametrize("kind", ["callbacks", "listeners"])
def test_who_waits_takes_far_fewer_statements_than_rows(path: Path, kind: str) -> None:
    file, statements = traced(path)
    commit(file, create("w", target="poll://any@g"), acquire("w"), *(create(f"p{n}") for n in range(500)))
    for wait in (
        [register(f"p{n}", "w") if kind == "callbacks" else listen(f"p{n}", HERE) for n in range(500)],
        [settle(f"p{n}") for n in range(500)],  # each is discharged
    ):
        statements.clear()
        assert {reply.status for reply in commit(file, *wait).replies} == {200}
        assert sum(kind in statement for statement in statements) <= 12, "those of this table"
        assert len(statements) <= 50
    file.close()


def test_a_failed_transaction_leaves_no_trace(path: Path) -> None:
    file = opened(path)

    def broken() -> Any:
        yield from run_group([create("a")], CommitContext(1, Rules(), debug=False))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        file.run(broken)
    assert commit(file, get("a")).replies[0].status == 404
    file.close()


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    opened(path).close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE schema_version SET version = 9999")
    raw.commit()
    copy = path.with_name("copy.db")
    raw.execute("VACUUM INTO ?", (str(copy),))
    raw.close()
    for each in (path, copy):
        before = fingerprint(path.parent)
        with pytest.raises(NewerSchema, match="9999"):
            SqliteFile(each).open()
        assert fingerprint(path.parent) == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("Dear diary, today I was opened as a database. " * 100)
    with pytest.raises(NotAStore):
        SqliteFile(path).open()


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file, byte for byte."""
    return {found.name: sha256(found.read_bytes()).hexdigest() for found in folder.iterdir()}


RECORDS = "CREATE TABLE promises (id); CREATE TABLE tasks (id); CREATE TABLE clock (now);"
VERSION = "CREATE TABLE schema_version (version);"
FOREIGN = {
    "without a table of that name": "CREATE TABLE customers (name)",
    "in WAL mode": "PRAGMA journal_mode=WAL; CREATE TABLE customers (name)",
    "with other columns": "CREATE TABLE schema_version (a, version); INSERT INTO schema_version VALUES (1,2)",
    "with our version": f"{VERSION} INSERT INTO schema_version VALUES (3)",
    "with a newer version": f"{VERSION} INSERT INTO schema_version VALUES (9999)",
    "with no version": f"{RECORDS} {VERSION}",
    "with two versions": f"{RECORDS} {VERSION} INSERT INTO schema_version VALUES (1), (2)",
    "with a version of words": f"{RECORDS} {VERSION} INSERT INTO schema_version VALUES ('1.2')",
    "with a version below zero": f"{RECORDS} {VERSION} INSERT INTO schema_version VALUES (-5)",
    "with a version that is none": f"{RECORDS} {VERSION} INSERT INTO schema_version VALUES (0)",
}


@pytest.mark.parametrize("made", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_database_of_something_else_is_refused_and_left_alone(path: Path, made: str) -> None:
    raw = sqlite3.connect(path)
    raw.executescript(made)
    raw.close()
    before = fingerprint(path.parent)
    with pytest.raises(NotAStore, match=r"not a Holdfast database.*not touched.*HF2003"):
        SqliteFile(path).open()
    assert fingerprint(path.parent) == before


def test_a_folder_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match=r"cannot be created.*\[HF2003\]"):
        SqliteFile(tmp_path / "nowhere" / "holdfast.db").open()


async def test_a_store_that_cannot_open_ends_its_thread(tmp_path: Path) -> None:
    before = {*threading.enumerate()}  # a test before this one may have left a thread that is about to end
    with pytest.raises(NotAStore):
        await Node(SqliteStore(tmp_path / "nowhere" / "holdfast.db")).start()
    assert "holdfast-sqlite" not in {thread.name for thread in {*threading.enumerate()} - before}


def schema(path: Path) -> list[Any]:
    raw = sqlite3.connect(path)
    try:
        return sorted(raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall(), key=str)
    finally:
        raw.close()


def test_an_upgraded_schema_equals_a_fresh_one(tmp_path: Path) -> None:
    opened(tmp_path / "fresh.db").close()
    for number, _ in migrations("sqlite"):
        raw = sqlite3.connect(tmp_path / "upgraded.db", isolation_level=None)
        migrate(raw, "sqlite", up_to=number)
        raw.close()
    assert schema(tmp_path / "upgraded.db") == schema(tmp_path / "fresh.db")


def test_what_an_older_version_stored_is_there_after_the_upgrade(path: Path) -> None:
    raw = sqlite3.connect(path, isolation_level=None)
    migrate(raw, "sqlite", up_to=1)
    raw.executescript(OLD_ROWS)
    raw.close()
    file = opened(path)
    found = commit(file, get("old"), ask(TaskClaim(["g"], 5, "p", 1_000)), now=5).replies
    assert found[0].data.promise.tags == {"resonate:target": "poll://any@g"}  # type: ignore[union-attr]
    assert [item.task.id for item in found[1].data.tasks] == ["old"]  # type: ignore[union-attr]
    assert found[1].data.tasks[0].task.job is None  # type: ignore[union-attr]
    file.close()


@pytest.mark.parametrize("begun", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_file_that_another_program_is_making_is_waited_for(path: Path, begun: str) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute(begun)
    other.execute("PRAGMA user_version=0")
    frees = threading.Timer(0.2, other.execute, ["COMMIT"])
    frees.start()
    store = SqliteFile(path)
    store.open()
    store.close()
    frees.join()
    other.close()


def test_a_file_that_stays_locked_is_a_clear_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "busy_ms", 50)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CannotOpen, match=r"locked by another program .*HF2010"):
            SqliteFile(path).open()


def test_a_file_that_is_up_to_date_is_opened_while_somebody_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He may be the caller himself, who starts something inside the transaction that he has begun."""
    monkeypatch.setattr(sqlite, "busy_ms", 50)
    opened(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened(path).close()
        other.execute("ROLLBACK")


def test_opening_twice_changes_nothing(path: Path) -> None:
    opened(path).close()
    before = schema(path)
    opened(path).close()
    assert schema(path) == before


CORRUPTIONS = {
    "an unknown state": "UPDATE promises SET state = 'maybe'",
    "settled without an instant": "UPDATE promises SET state = 'resolved'",
    "pending with an instant": "UPDATE promises SET settled_at = 5",
    "a value that is no JSON": "UPDATE promises SET value = '{'",
    "tags of the wrong kind": "UPDATE promises SET tags = '{\"a\": 1}'",
    "a task without its deadline": "UPDATE tasks SET due_at = NULL",
    "a task held by nobody": "UPDATE tasks SET state = 'acquired'",
    "a task in no state": "UPDATE tasks SET state = 'lost'",
    "a version that is no number": "UPDATE tasks SET version = 'two'",
    "a version below zero": "UPDATE tasks SET version = -3",
    "a task for nobody": "UPDATE tasks SET target = 'nonsense'",
    "a task in no dialect": "UPDATE tasks SET dialect = 'Z'",
    "a deadline that is no instant": "UPDATE promises SET timeout_at = 'soon'",
    "a deadline between two instants": "UPDATE promises SET timeout_at = 1.5",
    "created at no instant": "UPDATE promises SET created_at = 'x'",
    "settled at no instant": "UPDATE promises SET state = 'resolved', settled_at = 'x'",
    "a key that is no text": "UPDATE promises SET ikc = x'05'",
    "a second key that is no text": "UPDATE promises SET iku = x'05'",
    "a listener at no address": "UPDATE listeners SET address = 'nonsense'",
    "a listener in no dialect": "UPDATE listeners SET dialect = 'Z'",
    "an unknown overlap": "UPDATE schedules SET overlap = 'bogus'",
    "a run at no instant": "UPDATE schedules SET next_run_at = 'soon'",
    "a last run at no instant": "UPDATE schedules SET last_run_at = 'x'",
    "a schedule without a rhythm": "UPDATE schedules SET cron = 'zz'",
    "a schedule in no dialect": "UPDATE schedules SET dialect = 'Z'",
    "a schedule of no promise": "UPDATE schedules SET promise_id = x'00ff'",
    "tags of a schedule of the wrong kind": "UPDATE schedules SET promise_tags = '7'",
    "catching up on no number": "UPDATE schedules SET catch_up = 'many'",
}


@pytest.mark.parametrize("harm", CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_what_cannot_have_been_written_is_an_error_that_names_it(path: Path, harm: str) -> None:
    file = opened(path)
    every_minute = ScheduleCreate("the-one", "* * * * *", "x", 1)
    commit(file, create("the-one", target="poll://any@g"), listen("the-one", HERE), ask(every_minute))
    file.close()
    raw = sqlite3.connect(path)
    raw.execute(harm)
    raw.commit()
    raw.close()
    again = opened(path)
    request = settle("the-one")
    if "schedules" in harm:
        request = ask(ScheduleGet("the-one"))
    [reply] = commit(again, request).replies
    assert reply.status == 500
    assert re.search(r"the-one.*HF2002", str(reply.data))
    again.run(lambda: run_sweep(CommitContext(2**50, Rules(), debug=False)))
    again.close()


@pytest.mark.parametrize(
    "table", ["promises SET timeout_at", "tasks SET due_at", "schedules SET next_run_at"]
)
async def test_an_instant_that_is_none_hides_no_other(path: Path, table: str) -> None:
    async with Node(SqliteStore(path), sweeps=False) as node:
        made = [create("bad", target="poll://any@g"), ask(ScheduleCreate("bad", "0 0 1 1 *", "x", 1))]
        await node.request([*made, create("good"), listen("good", HERE)])
    raw = sqlite3.connect(path)
    raw.execute(f"UPDATE {table} = 'soon' WHERE id = 'bad'")
    raw.execute("UPDATE promises SET timeout_at = ? WHERE id = 'good'", [wall_clock()])
    raw.commit()
    raw.close()
    async with Node(SqliteStore(path)) as node:
        [message] = await asyncio.wait_for(node.connect("g", "me").receive(), 60)
        assert message.promise.id == "good"  # type: ignore[union-attr]


def scans_of_failed() -> list[TaskScan | StretchScan]:
    page = Page("", "", 100)
    return [
        TaskScan(page, 1, (), {}, status="FAILED"),
        TaskScan(page, 1, (), {}, group="queue.mail", status="FAILED"),
        TaskScan(page, 1, (), {}, status="RUNNING"),
        StretchScan("tasks", page, status="FAILED"),
    ]


def newest(**filters: Any) -> ExecutionScan:
    return execution_scan(ExecutionSearch(**filters, limit=50), 1)


@pytest.mark.parametrize(
    ("scan", "index"),
    [
        (
            newest(status=["failed"], kind="execution"),
            "tasks_newest (<expr>=? AND created_at>? AND created_at<?)",
        ),
        (newest(), "tasks_newest (<expr>=? AND created_at>? AND created_at<?)"),
        (newest(cursor="7/x"), "tasks_newest (<expr>=? AND created_at>? AND created_at<?)"),
        (newest(name="pay", status=["running"]), "tasks_named (name=? AND <expr>=? AND created_at>?"),
        (newest(code="BROKEN"), "tasks_failed (code=? AND created_at>? AND created_at<?)"),
    ],
)
def test_the_newest_are_read_from_the_end_of_an_index(
    tmp_path: Path, scan: ExecutionScan, index: str
) -> None:
    opened(tmp_path / "h.db").close()
    for statement, _ in (
        newest_query(scan, SQLITE),
        stretch_query(ExecutionStretch(scan.wanted, None, 9), SQLITE),
    ):
        words = plan(tmp_path / "h.db", statement)
        assert words.count("SCAN t") == 0, words
        assert words.count(f"INDEX {index.partition(' ')[0]}") == words.count("SEARCH t "), words
        assert index in words.replace("COVERING INDEX ", ""), words
        assert words.count("TEMP B-TREE") <= 1, "only what several lanes have found is sorted"


def plan(path: Path, statement: str) -> str:
    raw = sqlite3.connect(path)
    places = 2 if "?2" in statement else 1 if "?1" in statement else statement.count("?")
    rows = raw.execute(f"EXPLAIN QUERY PLAN {statement}", ["1"] * places).fetchall()
    raw.close()
    return "; ".join(row[3] for row in rows)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (sql.DUE_PROMISES, "promises_due"),
        (sql.NEXT_PROMISE, "promises_due"),
        (sql.DUE_TASKS, "tasks_due"),
        (sql.NEXT_TASK, "tasks_due"),
        (sql.DUE_SCHEDULES, "schedules_due"),
        *((statement, "tasks_offers") for statement in sql.OFFERS.values()),
        (sql.HELD, "tasks_held"),
        (sql.COUNT_QUEUE, "tasks_parked"),
        *((find_query(scan, SQLITE)[0], "tasks_outcome") for scan in scans_of_failed()),
        (sql.UNIQUES, "tasks_unique"),
        (sql.BRANCHES, "promises_branch"),
        (sql.LONG_BRANCHES, "promises_branch"),
        (sql.RECORDS_BY_ID, "sqlite_autoindex_promises_1"),
        (sql.DROP_WAITS, "callbacks_outside"),
        (sql.FAMILIES, "callbacks_outside"),
    ],
)
def test_what_runs_often_goes_by_an_index_and_sorts_nothing(path: Path, statement: str, index: str) -> None:
    opened(path).close()
    found = plan(path, statement)
    assert index in found
    assert "SCAN p" not in found
    assert "SCAN tasks" not in found
    assert "USE TEMP B-TREE FOR ORDER BY" not in found


async def test_the_event_loop_turns_while_the_disk_is_busy(path: Path) -> None:
    async with Node(SqliteStore(path)) as node:
        turns = 0
        asked = asyncio.ensure_future(node.request([create(f"p{index}") for index in range(500)]))
        while not asked.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 3


def test_a_claim_reads_only_what_it_takes(path: Path) -> None:
    """However long the backlog, the number of steps of the virtual machine stays about the same."""
    steps = {"count": 0}

    def connect(name: str) -> sqlite3.Connection:
        connection = sqlite.connect(name)
        connection.set_progress_handler(lambda: steps.update(count=steps["count"] + 1) or 0, 100)
        return connection

    file = opened(path, connect=connect)
    costs: list[int] = []
    for wave in range(4):
        commit(file, *(create(f"w{wave}-{index}", target="poll://any@g") for index in range(400)))
        steps["count"] = 0
        commit(file, ask(TaskClaim(["g"], 1, "p", 1_000)))
        costs.append(steps["count"])
    assert max(costs) <= min(costs) + 5
    file.close()


ALIKE = [create(f"p{index}", data=str(index), target="poll://any@g") for index in range(70)]
NEARLY_ALIKE = [create(f"p{index}", 2_000 + index, str(index), target="poll://any@g") for index in range(70)]
UNLIKE = [create(f"p{index}", target="poll://any@g" if index % 3 else "http://h") for index in range(70)]


@pytest.mark.parametrize("made", [ALIKE, NEARLY_ALIKE, UNLIKE], ids=["alike", "nearly", "unlike"])
def test_rows_come_back_whether_they_are_alike_or_not(path: Path, made: list[Request]) -> None:
    """What all rows of a save have in common is sent once; what they have not, row by row."""
    file = opened(path)
    before = commit(file, *made)
    claimed = commit(file, ask(TaskClaim(["g"], 70, "p", 500)))
    after = commit(file, *(get(f"p{index}") for index in range(70)))
    assert [reply.data for reply in after.replies] == [reply.data for reply in before.replies]
    held = [each.task.id for each in claimed.replies[0].data.tasks]  # type: ignore[union-attr]
    assert sorted(held) == sorted(request.data.id for request in made if "poll" in str(request.data.tags))  # type: ignore[attr-defined]
    settled = commit(file, *(settle(f"p{index}", str(index)) for index in range(70)))
    file.close()
    again = opened(path)
    seen = commit(again, *(get(f"p{index}") for index in range(70)))
    assert [reply.data for reply in seen.replies] == [reply.data for reply in settled.replies]
    again.close()


def test_what_rests_is_counted_along_its_index(tmp_path: Path) -> None:
    """A look at what is finished would take longer with every execution that ever was."""
    with closing(sqlite3.connect(tmp_path / "h.db", isolation_level=None)) as connection:
        migrate(connection, "sqlite")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql.BACKLOG_TOTALS}", (0, 0, 0))
        steps = [row[3] for row in plan.fetchall()]
    assert len([step for step in steps if "COVERING INDEX tasks_resting" in step]) == 3
    assert not [step for step in steps if "SCAN tasks" in step and "INDEX" not in step]


def _delete(path: Path) -> None:
    path.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("which", ["", "-wal"])
@pytest.mark.parametrize("harm", [_delete, _move, _replace])
def test_nothing_is_acknowledged_once_the_file_or_its_log_is_gone(
    which: str, harm: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the program has changed its folder, which the path was relative to."""
    monkeypatch.chdir(tmp_path)
    file = SqliteFile("store.db")
    file.open()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    file.run(nothing)
    harm(tmp_path / f"store.db{which}")
    for _ in range(2):
        with pytest.raises(FileGone):
            file.run(nothing)
    file.close()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
async def test_callers_are_told_that_the_file_is_gone(tmp_path: Path) -> None:
    node = Node(SqliteStore(tmp_path / "store.db"))
    await node.start()
    [created] = await node.request([create("a")])
    (tmp_path / "store.db").unlink()
    [refused] = await node.request([create("b")])
    assert (created.status, refused.status, refused.code) == (200, 500, "HF2012")
    await node.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("harm", ["the file is deleted", "the link is deleted", "the link leads elsewhere"])
def test_a_file_behind_a_link_is_watched_with_its_link(harm: str, tmp_path: Path) -> None:
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "store.db").touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data")
    file = SqliteFile(link / "store.db")
    file.open()
    file.run(nothing)
    if harm == "the file is deleted":
        (tmp_path / "data" / "store.db").unlink()
    else:
        link.unlink()
    if harm == "the link leads elsewhere":
        link.symlink_to(tmp_path / "other")
    with pytest.raises(FileGone):
        file.run(nothing)
    file.close()


def test_a_file_that_cannot_be_looked_at_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the process has given up its rights."""

    def refused(path: str) -> None:
        raise PermissionError(path)

    file = SqliteFile(tmp_path / "store.db")
    file.open()
    with monkeypatch.context() as patched:
        patched.setattr("os.stat", refused)
        file.run(nothing)
    file.run(nothing)
    file.close()


def nothing() -> Work[None]:
    _ = yield Now(0)
