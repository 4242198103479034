"""The statements of the SQLite store, in named blocks. One statement serves any number of rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.protocol import limits
from holdfast.protocol.ids import below
from holdfast.store import rows
from holdfast.store.scan_sql import (
    BEHIND,
    COUNTED,
    IN_QUEUES,
    LINE,
    PLACED,
    READY,
    SQLITE,
    WITHIN,
    count_query,
)

texts_max: Final = 256  # of statements for one row, by which columns are null
# Each statement of a commit costs about 12 us. But each number of rows is a text of its own to be prepared,
# so above the first only every eighth number is used.
counted_rows_max: Final = 32
rows_step: Final = 8


def _columns(names: Iterable[str], table: str = "") -> str:
    return ", ".join(f"{table}.{name}" if table else name for name in names)


class Writing(NamedTuple):
    """A statement that writes rows, in parts, so that it can be made for any number of them.

    The rows of one save are nearly always alike in all but a few columns. `varying` has the places of those
    in which they differ, as a rule: few, then more. What is alike is a parameter once: a third less time for
    a row.
    """

    into: str
    width: int
    tail: str
    varying: tuple[tuple[int, ...], ...] = ()


def _upsert(table: str, columns: Sequence[str], fixed: Sequence[str], *varying: Sequence[str]) -> Writing:
    """An insert that replaces."""
    changing = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in fixed)
    return Writing(
        f"INSERT INTO {table} ({_columns(columns)})",
        len(columns),
        f" ON CONFLICT ({columns[0]}) DO UPDATE SET {changing}",
        tuple(tuple(columns.index(name) for name in names) for names in varying),
    )


def varying_columns(statement: Writing, records: Sequence[rows.Row]) -> tuple[int, ...] | None:
    """The fewest columns of those that the statement proposes which hold all that differs in these rows."""
    columns = [*zip(*records, strict=True)]
    for varying in statement.varying:
        others = (column for place, column in enumerate(columns) if place not in varying)
        if all(map(rows.is_alike, others)):
            return varying
    return None


def chunks(records: Sequence[rows.Row], most: int) -> Iterator[Sequence[rows.Row]]:
    start = 0
    while (left := len(records) - start) > 0:
        size = min(left, most)
        if size > counted_rows_max:
            size -= size % rows_step
        yield records[start : start + size]
        start += size


@cache
def for_rows(statement: Writing, count: int) -> str:
    row = "(" + ", ".join("?" * statement.width) + ")"
    return f"{statement.into} VALUES {', '.join([row] * count)}{statement.tail}"


@lru_cache(maxsize=texts_max)
def for_row(statement: Writing, nulls: tuple[bool, ...]) -> str:
    """One row. Python's driver takes long for a parameter that is None."""
    row = ", ".join("NULL" if is_null else "?" for is_null in nulls)
    return f"{statement.into} VALUES ({row}){statement.tail}"


@cache
def for_rows_alike(statement: Writing, varying: tuple[int, ...], count: int) -> str:
    """The parameters are what is alike, and then row by row what varies."""
    row = "(" + ", ".join("?" * len(varying)) + ")"
    names = {place: f"new.column{number}" for number, place in enumerate(varying, 1)}
    sources = ", ".join(names.get(place, "?") for place in range(statement.width))
    values = ", ".join([row] * count)
    return f"{statement.into} SELECT {sources} FROM (VALUES {values}) AS new WHERE true{statement.tail}"


UPSERT_PROMISES: Final = _upsert(
    "promises",
    rows.PROMISE_COLUMNS,
    ("id", "param", "tags", "timeout_at", "created_at", "ikc", "branch", "origin"),
    ("id", "param", "tags", "branch"),
    ("id", "param", "value", "tags", "timeout_at", "created_at", "settled_at", "branch", "origin"),
    ("id", "value", "tags", "timeout_at", "ikc", "iku", "origin"),  # elements of streams, and their keys
)
UPSERT_TASKS: Final = _upsert(
    "tasks",
    rows.TASK_COLUMNS,
    (
        "id",
        "target",
        "dialect",
        "timer",
        "priority",
        "timeout_at",
        "created_at",
        "poll_group",
        "claim_group",
        "job_key",
        "name",
    ),
    ("id", "job"),
    ("id", "version", "timeout_at", "created_at", "acquired_at", "started_at", "waits", "job", "job_unique"),
)
REPLACE_PROMISES: Final = _upsert("promises", rows.PROMISE_COLUMNS, ("id",))
REPLACE_TASKS: Final = _upsert("tasks", rows.TASK_COLUMNS, ("id",))
UPSERT_QUEUES: Final = _upsert("queues", rows.QUEUE_COLUMNS, ("name",))
UPSERT_STREAMS: Final = _upsert("streams", rows.STREAM_COLUMNS, ("id",))
UPSERT_SCHEDULES: Final = _upsert("schedules", rows.SCHEDULE_COLUMNS, ("id",))
INSERT_CALLBACKS: Final = Writing("INSERT INTO callbacks", 2, " ON CONFLICT DO NOTHING")
INSERT_LISTENERS: Final = Writing("INSERT INTO listeners", 3, " ON CONFLICT DO NOTHING")

SELECT_RECORDS: Final = (
    f"SELECT {_columns(rows.PROMISE_COLUMNS, 'p')}, {_columns(rows.TASK_COLUMNS, 't')} "
    "FROM promises p LEFT JOIN tasks t ON t.id = p.id WHERE "
)
few: Final = 4
EXISTING: Final = [
    "",
    *(f"SELECT id FROM promises WHERE id IN ({', '.join('?' * n)})" for n in range(1, few + 1)),
]
RECORDS_ONE: Final = SELECT_RECORDS + "p.id = ?"
RECORDS_BY_ID: Final = SELECT_RECORDS + "p.id IN (SELECT value FROM json_each(?))"
TASKS_BY_ID: Final = (
    f"SELECT {_columns(rows.TASK_COLUMNS)} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
)
# Of each branch the first, one more than are read: by the index of branches what has another id; and along
# the ids what lies below the branch, of which that without a branch may be its own. What a colon begins
# ends before a semicolon, what a full stop begins before a slash. What `in~` begins is the key of a message.
_FIRST: Final = "ORDER BY id LIMIT {limit}"
_MAY_BE_MEMBER: Final = (
    "p.branch IS NULL AND instr(substr(p.id, {rest}), '.') = 0 AND instr(substr(p.id, {rest}), ':') = 0 "
    "AND substr(p.id, {rest}, 3) <> 'in~'"
)
_OF_NAMED: Final = _MAY_BE_MEMBER.format(rest="length(named.value) + 2")
_OF_SPAN: Final = _MAY_BE_MEMBER.format(rest="span.value ->> 3")
_INDEXED: Final = (
    "SELECT named.value, p.id, 1 FROM json_each(?1) named CROSS JOIN promises p ON p.id IN (SELECT id "
    f"FROM promises WHERE branch = named.value AND branch IS NOT NULL {_FIRST})"
)
_WALKED: Final = (
    f"SELECT named.value, p.id, {_OF_NAMED} "
    "FROM json_each(?1) named CROSS JOIN promises p ON p.id IN (SELECT id FROM promises "
    "WHERE id >= named.value || iif(instr(named.value, ':'), '.', ':') "
    f"AND id < named.value || iif(instr(named.value, ':'), '/', ';') {_FIRST})"
)
# Most branches are short: a glance at their first ids shows all of them.
glance_ids: Final = 32
BRANCHES: Final = f"{_INDEXED} UNION ALL {_WALKED}".format(limit=glance_ids + 1)
# Of the others what lies below is walked in spans, each of which is [branch, first id, id behind the last,
# place of what follows the branch in an id].
_SPANNED: Final = (
    f"SELECT span.value ->> 0, p.id, {_OF_SPAN} "
    "FROM json_each(?2) span CROSS JOIN promises p ON p.id IN (SELECT id FROM promises "
    f"WHERE id >= span.value ->> 1 AND id < span.value ->> 2 {_FIRST})"
)
LONG_BRANCHES: Final = f"{_INDEXED} UNION ALL {_SPANNED}".format(limit=limits.preload_records_max + 1)


def spans(branch: str) -> list[tuple[str, str, str, int]]:
    """What may be of a branch among the ids below it. The elements of streams, and the keys of messages, are
    passed over without a look: they are never of a branch, and may be very many."""
    start, end = below(branch), branch + ("/" if ":" in branch else ";")
    edges = [start, "in.", "in/", "in~", "in\x7f", "out.", "out/", "value.", "value/", end]
    edges[1:-1] = [start + each for each in edges[1:-1]]
    rest = len(branch) + 2
    return [(branch, edges[at], edges[at + 1], rest) for at in range(0, len(edges), 2)]


def find_branches(query: Callable[[str, Sequence[str]], list[Any]], branches: Iterable[str]) -> list[Any]:
    """The rows of `branches` of a `Fetch`."""
    found = query(BRANCHES, (_text(list(branches)),))
    if len(found) <= glance_ids:
        return found
    counts = Counter([row[0] for row in found])
    long = [branch for branch, count in counts.items() if count > glance_ids]
    if long:
        found = [row for row in found if counts[row[0]] <= glance_ids]
        found += query(LONG_BRANCHES, (_text(long), _text([span for each in long for span in spans(each)])))
    return found


def _text(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()


RECORDS_ALL: Final = SELECT_RECORDS + "true"
OBLIGATIONS: Final = (
    "SELECT awaited, awaiter, NULL, NULL FROM callbacks "
    "WHERE awaited IN (SELECT value FROM json_each(?1)) UNION ALL "
    "SELECT promise, NULL, address, dialect FROM listeners "
    "WHERE promise IN (SELECT value FROM json_each(?1))"
)
SCHEDULES: Final = (
    f"SELECT {_columns(rows.SCHEDULE_COLUMNS)} FROM schedules WHERE id IN (SELECT value FROM json_each(?))"
)
UNIQUES: Final = (
    "SELECT job_unique, id FROM tasks WHERE job_unique IN (SELECT value FROM json_each(?)) "
    "AND job_unique IS NOT NULL AND state <> 'fulfilled'"
)
QUEUES: Final = "SELECT name, gated, record FROM queues WHERE name IN (SELECT value FROM json_each(?))"
STREAMS: Final = "SELECT id, record FROM streams WHERE id IN (SELECT value FROM json_each(?))"
GATES: Final = f"{QUEUES} AND gated = 1"
DROP_CALLBACK: Final = "DELETE FROM callbacks WHERE awaited = ? AND awaiter = ?"
DROP_CALLBACKS: Final = "DELETE FROM callbacks WHERE awaited IN (SELECT value FROM json_each(?))"
# The condition is that of the index, so that it is used.
DROP_WAITS: Final = (
    "DELETE FROM callbacks WHERE awaiter IN (SELECT value FROM json_each(?)) "
    "AND substr(awaited, 1, length(awaiter) + 1) NOT IN (awaiter || ':', awaiter || '.')"
)
DROP_LISTENERS: Final = "DELETE FROM listeners WHERE promise IN (SELECT value FROM json_each(?))"
DROP_PROMISES: Final = "DELETE FROM promises WHERE id IN (SELECT value FROM json_each(?))"
DROP_TASKS: Final = "DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
DROP_STREAMS: Final = "DELETE FROM streams WHERE id IN (SELECT value FROM json_each(?))"
FORGET: Final = (DROP_PROMISES, DROP_TASKS, DROP_STREAMS, DROP_CALLBACKS, DROP_WAITS, DROP_LISTENERS)
DROP_SCHEDULES: Final = "DELETE FROM schedules WHERE id IN (SELECT value FROM json_each(?))"
SET_CLOCK: Final = "UPDATE clock SET now = ? WHERE now < ?"

_READY: Final = READY.format(t="")
_OFFERS: Final = (
    f"SELECT -priority, turn, {_READY}, created_at, id FROM tasks "
    "WHERE state = 'pending' AND parked = 0 AND claim_group = ? AND timeout_at > ? AND priority <= ? "
    f"{{without}}{{within}}{{behind}}ORDER BY priority DESC, turn, {_READY}, created_at, id LIMIT ?"
)
_WITHOUT: Final = (
    "AND (job_key IS NULL OR entered_at IS NOT NULL OR job_key NOT IN (SELECT value FROM json_each(?))) "
)
_WITHIN: Final = WITHIN.format(id="id", size="?", prefix="?", edge="?")
# By whether keys are left out, and whether only some ids are wanted.
OFFERS: Final = {
    (without, within): _OFFERS.format(without=_WITHOUT * without, within=_WITHIN * within, behind="")
    for without in (False, True)
    for within in (False, True)
}
# Numbered from there on, because SQLite counts the others from the highest number before them.
OFFERS_BEHIND: Final = _OFFERS.format(
    without="", within="", behind=BEHIND.format(t="", ready=_READY, p="?4", u="?5", r="?6", c="?7", i="?8")
)
COUNT_QUEUE: Final = count_query(SQLITE)
HELD: Final = (
    "SELECT claim_group, job_key, count(*), count(pid) FROM tasks "
    f"WHERE {COUNTED} AND claim_group IN (SELECT value FROM json_each(?)) GROUP BY claim_group, job_key"
)
WATCHED: Final = "FROM promises WHERE state = 'pending' AND watched = 1 AND timeout_at"
DUE_PROMISES: Final = f"SELECT id {WATCHED} <= ? ORDER BY timeout_at, id LIMIT ?"
DUE_TASKS: Final = "SELECT id FROM tasks WHERE due_at <= ? ORDER BY due_at, id LIMIT ?"
DUE_SCHEDULES: Final = "SELECT id FROM schedules WHERE next_run_at <= ? ORDER BY next_run_at, id LIMIT ?"
NEXT_PROMISE: Final = f"SELECT min(timeout_at) {WATCHED} > ?"
NEXT_TASK: Final = "SELECT min(due_at) FROM tasks WHERE due_at > ?"
NEXT_SCHEDULE: Final = "SELECT min(next_run_at) FROM schedules WHERE next_run_at > ?"

# Of each line, which is [group, priority, key or null], the highest turn of what waits.
_TURN: Final = (
    "(SELECT turn FROM tasks WHERE state = 'pending' AND parked = 0 AND {which} "
    "AND priority = line.value ->> 1 ORDER BY turn DESC LIMIT 1)"
)
TURNS: Final = (
    "SELECT line.value, CASE WHEN line.value ->> 2 IS NULL THEN "
    + _TURN.format(which="claim_group = line.value ->> 0")
    + " ELSE "
    + _TURN.format(which=f"{IN_QUEUES.format(t='')} AND {LINE.format(t='')} = line.value ->> 2")
    + " END FROM json_each(?) line"
)

OF_PLACES: Final = (
    "SELECT line.value, t.id FROM json_each(?) line CROSS JOIN tasks t ON t.id IN (SELECT id FROM tasks "
    f"WHERE {PLACED} = line.value ORDER BY id LIMIT {limits.replaced_max + 1})"
)

# Of each execution: open tasks below it, and others that it waits for. A full stop is followed by a slash, a
# colon by a semicolon. Who waits is found by the index of waits: the condition is its.
_BELOW: Final = (
    "SELECT named.value, t.id FROM json_each(?1) named CROSS JOIN tasks t ON t.id IN (SELECT id FROM tasks "
    "WHERE id > named.value || '{first}' AND id < named.value || '{end}' AND state <> 'fulfilled' "
    f"ORDER BY id LIMIT {limits.mended_records_max})"
)
_AWAITED: Final = (
    "SELECT named.value, t.id FROM json_each(?1) named CROSS JOIN callbacks c ON c.awaiter = named.value "
    "AND substr(c.awaited, 1, length(c.awaiter) + 1) NOT IN (c.awaiter || ':', c.awaiter || '.') "
    "CROSS JOIN tasks t ON t.id = c.awaited AND t.state <> 'fulfilled'"
)
FAMILIES: Final = " UNION ALL ".join(
    (_BELOW.format(first=":", end=";"), _BELOW.format(first=".", end="/"), _AWAITED)
)

FETCH: Final = {
    "records": RECORDS_BY_ID,
    "tasks": TASKS_BY_ID,
    "obligations": OBLIGATIONS,
    "schedules": SCHEDULES,
    "uniques": UNIQUES,
    "queues": QUEUES,
    "gates": GATES,
    "streams": STREAMS,
    "turns": TURNS,
    "placed": OF_PLACES,
    "families": FAMILIES,
}
# In the order of `Due`.
DUE: Final = (DUE_PROMISES, DUE_TASKS, DUE_SCHEDULES)
NEXT: Final = (NEXT_PROMISE, NEXT_TASK, NEXT_SCHEDULE)

# --- what a scrape of the metrics counts, each by a partial index alone -----------------------------------

# Along its index, which must be named by the same words.
_RESTING: Final = "FROM tasks WHERE state IN ('suspended', 'halted') AND state ="
_OFFERED: Final = "FROM tasks WHERE state = 'pending' AND parked = 0 AND claim_group IS NOT NULL"
BACKLOG_GROUPS: Final = (
    f"SELECT claim_group, count(*), min(created_at) {_OFFERED} GROUP BY claim_group "
    "ORDER BY count(*) DESC, claim_group LIMIT ?"
)
BACKLOG_TOTALS: Final = (
    f"SELECT (SELECT count(*) {_OFFERED}), (SELECT count(*) FROM tasks WHERE state = 'acquired'), "
    "(SELECT count(*) FROM tasks WHERE due_at IS NOT NULL) "
    f"- (SELECT count(*) {_RESTING} 'halted' AND due_at IS NOT NULL), "
    f"(SELECT count(*) {_RESTING} 'suspended'), (SELECT count(*) {_RESTING} 'halted'), "
    f"(SELECT count(*) {WATCHED} <= ?) + (SELECT count(*) FROM tasks WHERE due_at <= ?) "
    "+ (SELECT count(*) FROM schedules WHERE next_run_at <= ?)"
)
