"""The statements of the PostgreSQL store, in named blocks. One statement serves any number of rows.

Every statement is a walk along an index, whatever the tables hold, so the planner is told not to consider
anything else (`SETTINGS`): a plan that was made while a table was empty must not last until it is full. And
since it would find the same plan for any parameters, it is asked once, not in every transaction.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from holdfast.protocol import limits
from holdfast.store import rows
from holdfast.store.interface import search_ms_max
from holdfast.store.scan_sql import (
    BEHIND,
    COUNTED,
    IN_QUEUES,
    LINE,
    PLACED,
    POSTGRES,
    READY,
    WITHIN,
    count_query,
)

idle_transaction_ms: Final = 2_000
idle_transaction_ms_max: Final = 10_000  # while much is being sent: for the database that is idling, too
lock_wait_ms: Final = 5_000

SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    # A node that stands still in the middle of a transaction must not stop the others for long.
    "idle_in_transaction_session_timeout": str(idle_transaction_ms),
    "lock_timeout": str(lock_wait_ms),
}
# Whoever runs the database may ask for more than `on` (remote_apply), but never for less.
INSIST_ON_SYNC: Final = (
    "SELECT set_config('synchronous_commit', 'on', {local}) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)
INSISTED_ON_SYNC: Final = f"({INSIST_ON_SYNC.format(local='true')})"  # a column of another statement
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
# Behind a transaction pooler every transaction may be another session.
BEGIN_POOLED: Final = "; ".join(
    [
        BEGIN,
        *(f"SET LOCAL {name} = {value}" for name, value in SETTINGS.items()),
        INSIST_ON_SYNC.format(local="true"),
    ]
)
# What takes too long is undone alone, with its limit; what was locked and written before it stays.
BEGIN_SEARCH: Final = f"SAVEPOINT search; SET LOCAL statement_timeout = {search_ms_max}"
END_SEARCH: Final = "RELEASE search; SET LOCAL statement_timeout TO DEFAULT"
UNDO_SEARCH: Final = "ROLLBACK TO search; RELEASE search"
HAVE_PATIENCE: Final = f"SET LOCAL idle_in_transaction_session_timeout = {idle_transaction_ms_max}"

_BOOLEAN: Final = frozenset({"watched", "timer", "parked", "gated"})
_BIGINT: Final = frozenset(
    {
        "timeout_at", "created_at", "settled_at", "version", "priority", "resumes", "due_at", "ttl",
        "acquired_at", "started_at", "bounces", "crashes", "retries", "turn", "entered_at", "promise_timeout",
        "next_run_at", "last_run_at", "catch_up", "paused_at",
    }
)  # fmt: skip


def _columns(names: Iterable[str], table: str = "") -> str:
    return ", ".join(f"{table}.{name}" if table else name for name in names)


def _kind(column: str) -> str:
    return "boolean" if column in _BOOLEAN else "bigint" if column in _BIGINT else "text"


def _array(column: str) -> str:
    """An array that comes as one text, as `array_text` writes it."""
    return f"?::text::{_kind(column)}[]"


def array_text(values: Sequence[Any]) -> str:
    """Values as the text of an array. The driver would look at each of them twice, in Python."""
    first = next((value for value in values if value is not None), None)
    if not isinstance(first, str):  # numbers, truths, nothing at all
        return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"
    text = "" if None in values else _separator.join(values)
    if text.count(_separator) != len(values) - 1:
        return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + text.replace(_separator, '","') + '"}'


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


_separator: Final = "\x00"  # PostgreSQL has no text with it


def _unnest(columns: Sequence[str]) -> str:
    return f"unnest({', '.join(_array(name) for name in columns)}) AS new ({_columns(columns)})"


def numbered(statement: str) -> str:
    """Parameters as PostgreSQL writes them."""
    head, *rest = statement.split("?")
    return head + "".join(f"${index}{part}" for index, part in enumerate(rest, 1))


# --- load ------------------------------------------------------------------------------------------------

_CLOCK: Final = (
    "GREATEST((SELECT now FROM clock), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
)
NOW: Final = f"SELECT {_CLOCK}"
# The length of a value that is stored apart is known without reading it.
_SIZE: Final = (
    "coalesce(octet_length(p.param), 0) + coalesce(octet_length(p.value), 0) + octet_length(p.tags)"
)
WEIGH: Final = f"SELECT sum({_SIZE}) FROM promises p WHERE p.id = ANY($1::text[])"
# Rows are locked in the order of their ids. Each line tells the time after its row was locked; there is
# one line even if no row was found.
_LOCK: Final = (
    f"WITH held AS MATERIALIZED (SELECT p.id, {_SIZE} AS size FROM promises p "
    "WHERE {which} ORDER BY p.id FOR {how}) "
    f"SELECT {_CLOCK}, held.id, held.size FROM (VALUES (1)) one LEFT JOIN held ON true"
)
_NAMED: Final = "p.id = ANY($1::text[])"
_NAMED_AND_AWAITING: Final = (
    "p.id IN (SELECT unnest($1::text[]) UNION SELECT awaiter FROM callbacks WHERE awaited = ANY($2::text[]))"
)
LOCK: Final = _LOCK.format(which=_NAMED, how="UPDATE")
LOCK_AT_ONCE: Final = _LOCK.format(which=_NAMED, how="UPDATE NOWAIT")
LOCK_AWAITING: Final = _LOCK.format(which=_NAMED_AND_AWAITING, how="UPDATE")
LOCK_AWAITING_AT_ONCE: Final = _LOCK.format(which=_NAMED_AND_AWAITING, how="UPDATE NOWAIT")
# Is there any of these? For whoever is about to create them, and nearly always finds none.
ANY_EXISTS: Final = f"SELECT {_CLOCK}, EXISTS (SELECT 1 FROM promises p WHERE {_NAMED})"
# Beside this lock a task can be claimed (OFFERS), and nothing else can happen to the promise.
LOCK_LISTENED: Final = _LOCK.format(which=_NAMED, how="KEY SHARE")
LOCK_SCHEDULES: Final = "SELECT id FROM schedules WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE"

# The time comes along, behind the columns that anybody asked for.
_RECORD_COLUMNS: Final = f"{_columns(rows.PROMISE_COLUMNS, 'p')}, {_columns(rows.TASK_COLUMNS, 't')}"
_RECORDS: Final = f"SELECT {_RECORD_COLUMNS}, ({NOW}) FROM promises p LEFT JOIN tasks t ON t.id = p.id"
RECORDS_ALL: Final = _RECORDS
_QUEUES: Final = f"SELECT {_columns(rows.QUEUE_COLUMNS)} FROM queues WHERE name = ANY($1::text[])"
QUEUE_NAMES: Final = "SELECT name FROM queues"
STREAM_IDS: Final = "SELECT id FROM streams"
SCHEDULE_IDS: Final = "SELECT id FROM schedules"
# All of these, or none if together they hold too much.
RECORDS_WEIGHED: Final = f"{_RECORDS} WHERE p.id = ANY($1::text[]) AND coalesce(({WEIGH}), 0) <= $2::bigint"
# Of a line, which is [group, priority, key or null], the highest turn of what waits.
_TURN, _TURN_OF_ALL = (
    f"(SELECT t.turn FROM tasks t WHERE t.state = 'pending' AND NOT t.parked AND {which} "
    "AND t.priority = (of ->> 1)::bigint ORDER BY t.turn DESC LIMIT 1)"
    for which in (
        f"{IN_QUEUES.format(t='t.')} AND {LINE.format(t='t.')} = of ->> 2",
        "t.claim_group = of ->> 0",
    )
)
# Of an execution: open tasks below it, and others that it waits for. A full stop is followed by a slash, a
# colon by a semicolon. Who waits is found by the index of waits: the condition is its.
_BELOW: Final = (
    "(SELECT t.id FROM tasks t WHERE t.id > (caller || '{first}') COLLATE \"C\" "
    "AND t.id < (caller || '{end}') COLLATE \"C\" AND t.state <> 'fulfilled' "
    f"ORDER BY t.id LIMIT {limits.mended_records_max})"
)
_AWAITED: Final = (
    "SELECT t.id FROM callbacks c JOIN tasks t ON t.id = c.awaited AND t.state <> 'fulfilled' "
    "WHERE c.awaiter = caller "
    "AND left(c.awaited, length(c.awaiter) + 1) NOT IN (c.awaiter || ':', c.awaiter || '.')"
)
_FAMILY: Final = " UNION ALL ".join(
    (_BELOW.format(first=":", end=";"), _BELOW.format(first=".", end="/"), _AWAITED)
)
# Whom a promise owes its end, if anybody: who awaits it, and who listens.
_OWED: Final = (
    "CASE WHEN p.watched THEN (SELECT array_agg(c.awaiter) FROM callbacks c WHERE c.awaited = p.id) END, "
    "CASE WHEN p.watched THEN "
    "(SELECT array_agg(ARRAY[l.address, l.dialect]) FROM listeners l WHERE l.promise = p.id) END"
)
FETCH: Final = {
    "records": f"{_RECORDS} WHERE p.id = ANY($1::text[])",
    "records_owing": (
        f"SELECT {_RECORD_COLUMNS}, {_OWED}, ({NOW}) FROM promises p LEFT JOIN tasks t ON t.id = p.id "
        "WHERE p.id = ANY($1::text[])"
    ),
    "tasks": f"SELECT {_columns(rows.TASK_COLUMNS)} FROM tasks WHERE id = ANY($1::text[])",
    # Of each branch the first, one more than are read.
    "branches": (
        "SELECT named.branch, p.id, true FROM unnest($1::text[]) AS named (branch) "
        "CROSS JOIN LATERAL (SELECT id FROM promises WHERE branch = named.branch AND branch IS NOT NULL "
        f"ORDER BY id LIMIT {limits.preload_records_max + 1}) p"
    ),
    "obligations": (
        "SELECT awaited, awaiter, NULL::text, NULL::text FROM callbacks WHERE awaited = ANY($1::text[]) "
        "UNION ALL SELECT promise, NULL, address, dialect FROM listeners WHERE promise = ANY($1::text[])"
    ),
    "schedules": f"SELECT {_columns(rows.SCHEDULE_COLUMNS)} FROM schedules WHERE id = ANY($1::text[])",
    "uniques": (
        "SELECT job_unique, id FROM tasks WHERE job_unique = ANY($1::text[]) "
        "AND job_unique IS NOT NULL AND state <> 'fulfilled'"
    ),
    "queues": _QUEUES,
    "streams": "SELECT id, record FROM streams WHERE id = ANY($1::text[])",
    "placed": (
        "SELECT line, found.id FROM unnest($1::text[]) line CROSS JOIN LATERAL (SELECT id FROM tasks "
        f"WHERE {PLACED} = line ORDER BY id LIMIT {limits.replaced_max + 1}) found"
    ),
    "families": (
        f"SELECT caller, found.id FROM unnest($1::text[]) caller CROSS JOIN LATERAL ({_FAMILY}) found"
    ),
    "turns": (
        f"SELECT line, CASE WHEN of ->> 2 IS NULL THEN {_TURN_OF_ALL} ELSE {_TURN} END "
        "FROM (SELECT line, line::jsonb AS of FROM unnest($1::text[]) line) named"
    ),
}
# Whoever grants under limits holds the queue's row until the grants are committed. The time as with _LOCK.
_LOCK_QUEUES: Final = (
    "WITH held AS MATERIALIZED ({which} ORDER BY name FOR UPDATE{wait}) "
    f"SELECT {_CLOCK}, held.* FROM (VALUES (1)) one LEFT JOIN held ON true"
)
LOCK_QUEUES: Final = _LOCK_QUEUES.format(which=_QUEUES, wait="")
LOCK_QUEUES_AT_ONCE: Final = _LOCK_QUEUES.format(which=_QUEUES, wait=" NOWAIT")
LOCK_GATES: Final = _LOCK_QUEUES.format(which=f"{_QUEUES} AND gated", wait="")
LOCK_GATES_AT_ONCE: Final = _LOCK_QUEUES.format(which=f"{_QUEUES} AND gated", wait=" NOWAIT")

# --- save ------------------------------------------------------------------------------------------------

# What differs between the rows of one save, as a rule: see postgres_parts.
VARYING: Final = {
    "insert_promises": ("id", "param", "tags"),
    "update_promises": ("id", "value"),
    "insert_tasks": ("id", "job"),
    "update_tasks": ("id", "version", "waits", "job", "acquired_at", "started_at", "job_unique"),
}


def _source(name: str, varying: Sequence[str]) -> str:
    return f"new.{name}" if name in varying else f"?::{_kind(name)}"


def _insert(table: str, columns: Sequence[str], key: str = "id", varying: Sequence[str] | None = None) -> str:
    """New rows go in in the order of their ids: two groups that create the same ones cannot block each
    other."""
    varying = columns if varying is None else varying
    values = ", ".join(_source(name, varying) for name in columns)
    return (
        f"INSERT INTO {table} ({_columns(columns)}) "
        f"SELECT {values} FROM {_unnest(varying)} ORDER BY new.{key}"
    )


def _update(table: str, columns: Sequence[str], key: str = "id", varying: Sequence[str] | None = None) -> str:
    varying = columns if varying is None else varying
    changing = ", ".join(f"{name} = {_source(name, varying)}" for name in columns if name != key)
    return f"UPDATE {table} SET {changing} FROM {_unnest(varying)} WHERE {table}.{key} = new.{key}"


TASK_CHANGES: Final = tuple(
    name
    for name in rows.TASK_COLUMNS
    if name
    not in (
        "target", "dialect", "timer", "priority", "timeout_at", "created_at", "poll_group", "claim_group",
        "job_key", "name",
    )
)  # fmt: skip

# The row itself is written right after, in the same transaction.
RELEASE_UNIQUES: Final = "UPDATE tasks SET job_unique = NULL WHERE id = ANY($1::text[])"

PARTS: Final = {
    "insert_promises": _insert("promises", rows.PROMISE_COLUMNS),
    "update_promises": _update("promises", rows.PROMISE_CHANGES),
    "insert_tasks": _insert("tasks", rows.TASK_COLUMNS),
    "update_tasks": _update("tasks", TASK_CHANGES),
    "replace_promises": _update("promises", rows.PROMISE_COLUMNS),
    "replace_tasks": _update("tasks", rows.TASK_COLUMNS),
    "insert_promises_alike": _insert("promises", rows.PROMISE_COLUMNS, varying=VARYING["insert_promises"]),
    "update_promises_alike": _update("promises", rows.PROMISE_CHANGES, varying=VARYING["update_promises"]),
    "insert_tasks_alike": _insert("tasks", rows.TASK_COLUMNS, varying=VARYING["insert_tasks"]),
    "update_tasks_alike": _update("tasks", TASK_CHANGES, varying=VARYING["update_tasks"]),
    "insert_callbacks": (
        "INSERT INTO callbacks SELECT * FROM unnest(?::text::text[], ?::text::text[]) ON CONFLICT DO NOTHING"
    ),
    "insert_listeners": (
        "INSERT INTO listeners SELECT * FROM unnest(?::text::text[], ?::text::text[], ?::text::text[]) "
        "ON CONFLICT DO NOTHING"
    ),
    "drop_callbacks": "DELETE FROM callbacks WHERE awaited = ANY(?::text[])",
    # The second condition is that of the index, so that it is used.
    "drop_waits": (
        "DELETE FROM callbacks WHERE awaiter = ANY(?::text[]) "
        "AND left(awaited, length(awaiter) + 1) NOT IN (awaiter || ':', awaiter || '.')"
    ),
    "drop_listeners": "DELETE FROM listeners WHERE promise = ANY(?::text[])",
    "insert_schedules": _insert("schedules", rows.SCHEDULE_COLUMNS),
    "update_schedules": _update("schedules", rows.SCHEDULE_COLUMNS),
    "insert_queues": _insert("queues", rows.QUEUE_COLUMNS, "name"),
    "update_queues": _update("queues", rows.QUEUE_COLUMNS, "name"),
    "put_streams": (
        f"{_insert('streams', rows.STREAM_COLUMNS)} ON CONFLICT (id) DO UPDATE SET record = excluded.record"
    ),
    "drop_streams": "DELETE FROM streams WHERE id = ANY(?::text[])",
    "drop_some_callbacks": (
        "DELETE FROM callbacks USING unnest(?::text::text[], ?::text::text[]) AS gone (awaited, awaiter) "
        "WHERE callbacks.awaited = gone.awaited AND callbacks.awaiter = gone.awaiter"
    ),
    "drop_promises": "DELETE FROM promises WHERE id = ANY(?::text[])",
    "drop_tasks": "DELETE FROM tasks WHERE id = ANY(?::text[])",
    "drop_schedules": "DELETE FROM schedules WHERE id = ANY(?::text[])",
    "set_clock": (
        "UPDATE clock SET now = ?::bigint "
        "WHERE one IN (SELECT one FROM clock WHERE now < ?::bigint FOR UPDATE SKIP LOCKED)"
    ),
}


@cache
def save_statement(parts: tuple[str, ...]) -> str:
    """Several changes as one statement: one trip to the database. They touch different rows."""
    if len(parts) == 1:
        return numbered(PARTS[parts[0]])
    steps = ", ".join(f"{part} AS ({PARTS[part]})" for part in parts)
    return numbered(f"WITH {steps} SELECT 1")


CLEAR: Final = "; ".join(
    f"DELETE FROM {table}"
    for table in ("promises", "tasks", "callbacks", "listeners", "schedules", "queues", "streams")
)

# --- find ------------------------------------------------------------------------------------------------

# A promise's row stands for everything about it; its task's row is locked with it so that the condition is
# checked again on the newest version. What somebody else holds is passed over.
_TASKS: Final = "FROM promises p JOIN tasks t ON t.id = p.id"
_READY: Final = READY.format(t="t.")
_OFFERS: Final = (
    f"SELECT -t.priority, t.turn, {_READY}, t.created_at, t.id {_TASKS} "
    "WHERE t.state = 'pending' AND NOT t.parked AND t.claim_group = $1 AND t.timeout_at > $2 "
    "AND t.priority <= $4 "
    "AND (t.job_key IS NULL OR t.entered_at IS NOT NULL OR t.job_key <> ALL($5::text[])) "
    "{more}"
    f"ORDER BY t.priority DESC, t.turn, {_READY}, t.created_at, t.id LIMIT $3"
)
VIEW_OFFERS: Final = _OFFERS.format(more="")
VIEW_BEHIND: Final = _OFFERS.format(
    more=BEHIND.format(
        t="t.", ready=_READY, p="$6::bigint", u="$7::bigint", r="$8::bigint", c="$9::bigint", i="$10::text"
    )
)
_VIEW_WITHIN: Final = _OFFERS.format(
    more=WITHIN.format(id="t.id", size="$6::int", prefix="$7::text", edge="$8::int")
)
# Those that were found already, if they are still what they were: by their ids, and by no index of offers.
_VIEW_AMONG: Final = (
    _OFFERS.replace("t.job_key IS NULL OR t.entered_at IS NOT NULL OR t.job_key <> ALL", "t.id = ANY")
    .replace("t.state = 'pending'", "t.state || '' = 'pending'")
    .format(more="")
)
# Their records come along: from here on nobody else changes them. But only as many as a claim may be given.
# (The length of a value that is stored apart is known without reading it.) In front of each line, and of one
# even if nothing was found, stands how many offers were passed over although there was room for more: others
# hold them.
_BROUGHT: Final = "sum({size}) OVER (ROWS UNBOUNDED PRECEDING) - {size}".format(
    size="(coalesce(octet_length(param), 0) + octet_length(tags))"
)
OFFERS, OFFERS_WITHIN, OFFERS_AMONG = (
    f"WITH held AS MATERIALIZED ({view.replace(' FROM ', f', {_RECORD_COLUMNS} FROM ', 1)} "
    "FOR NO KEY UPDATE OF p SKIP LOCKED FOR UPDATE OF t SKIP LOCKED), "
    f"weighed AS (SELECT {_BROUGHT} AS brought, held.* FROM held), "
    "counted AS (SELECT count(*) AS number FROM held) "
    f"SELECT CASE WHEN number < $3 THEN (SELECT count(*) FROM ({view}) seen) - number END, weighed.* "
    f"FROM counted LEFT JOIN weighed ON brought < {2 * limits.claim_bytes_max}"
    for view in (VIEW_OFFERS, _VIEW_WITHIN, _VIEW_AMONG)
)
HELD: Final = (
    "SELECT claim_group, job_key, count(*), count(pid) FROM tasks "
    f"WHERE {COUNTED} AND claim_group = ANY($1::text[]) GROUP BY claim_group, job_key"
)
COUNT_QUEUE: Final = numbered(count_query(POSTGRES))
_WATCHED: Final = "FROM promises WHERE state = 'pending' AND watched"
DUE_PROMISES: Final = (
    f"SELECT timeout_at, id {_WATCHED} AND timeout_at <= $1 "
    "ORDER BY timeout_at LIMIT $2 FOR UPDATE SKIP LOCKED"
)
DUE_TASKS: Final = (
    f"SELECT t.due_at, t.id {_TASKS} WHERE t.due_at <= $1 "
    "ORDER BY t.due_at LIMIT $2 FOR UPDATE OF p, t SKIP LOCKED"
)
DUE_SCHEDULES: Final = (
    "SELECT next_run_at, id FROM schedules WHERE next_run_at <= $1 "
    "ORDER BY next_run_at LIMIT $2 FOR UPDATE SKIP LOCKED"
)
# In the order of `Due`.
DUE: Final = (DUE_PROMISES, DUE_TASKS, DUE_SCHEDULES)
FIRST: Final = (
    f"SELECT LEAST((SELECT min(timeout_at) {_WATCHED}), (SELECT min(due_at) FROM tasks), "
    "(SELECT min(next_run_at) FROM schedules))"
)
NEXT: Final = (
    f"SELECT (SELECT min(timeout_at) {_WATCHED} AND timeout_at > $1), "
    "(SELECT min(due_at) FROM tasks WHERE due_at > $1), "
    "(SELECT min(next_run_at) FROM schedules WHERE next_run_at > $1), "
    f"EXISTS (SELECT 1 {_WATCHED} AND timeout_at <= $1 AND id <> ALL($2::text[])) "
    "OR EXISTS (SELECT 1 FROM tasks WHERE due_at <= $1 AND id <> ALL($3::text[])) "
    "OR EXISTS (SELECT 1 FROM schedules WHERE next_run_at <= $1 AND id <> ALL($4::text[]))"
)

# --- what a scrape of the metrics counts, each by a partial index alone -----------------------------------

# Along its index, which must be named by the same words.
_RESTING: Final = "FROM tasks WHERE state IN ('suspended', 'halted') AND state ="
_OFFERED: Final = "FROM tasks WHERE state = 'pending' AND NOT parked AND claim_group IS NOT NULL"
BACKLOG_GROUPS: Final = (
    f"SELECT claim_group, count(*), min(created_at) {_OFFERED} GROUP BY claim_group "
    "ORDER BY count(*) DESC, claim_group LIMIT $1"
)
BACKLOG_TOTALS: Final = (
    f"SELECT (SELECT count(*) {_OFFERED}), (SELECT count(*) FROM tasks WHERE state = 'acquired'), "
    "(SELECT count(*) FROM tasks WHERE due_at IS NOT NULL) "
    f"- (SELECT count(*) {_RESTING} 'halted' AND due_at IS NOT NULL), "
    f"(SELECT count(*) {_RESTING} 'suspended'), (SELECT count(*) {_RESTING} 'halted'), "
    f"(SELECT count(*) {_WATCHED} AND timeout_at <= $1) + (SELECT count(*) FROM tasks WHERE due_at <= $1) "
    "+ (SELECT count(*) FROM schedules WHERE next_run_at <= $1)"
)

# Which server, database and schema: the same text for everybody whose statements lead to the same tables.
PLACE: Final = """
    SELECT concat_ws('/',
        (SELECT system_identifier FROM pg_control_system()),
        (SELECT oid FROM pg_database WHERE datname = current_database()),
        to_regclass('promises')::oid)
"""


def place_text(found: object) -> str:
    return f"postgres {found}"
