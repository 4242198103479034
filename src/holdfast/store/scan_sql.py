"""Scans as SQL. Every value is a parameter; only names and shapes are text.

Databases differ in how they look into JSON, so each brings its own words for that. A parameter is `?`.
"""

from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.engine.scans import (
    ClaimPlace,
    LeaseScan,
    Page,
    PromiseScan,
    QueueScan,
    ScheduleScan,
    Span,
    StretchScan,
    TaskScan,
    TreeScan,
)
from holdfast.protocol import limits, tags
from holdfast.protocol.ids import edge_of
from holdfast.protocol.jobs import JobStatus, queue_group
from holdfast.store import rows

# The largest text that starts with a prefix: no id is longer than its bytes allow.
CEILING: Final = "\U0010ffff" * (limits.id_bytes_max // 4)


# Since when a pending task may begin, as the index of offers has it: of a background task the instant from
# which it is on offer (its creation, its delay, its retry), of a workflow's the creation of its execution.
READY: Final = "CASE WHEN {t}job IS NULL THEN {t}created_at ELSE coalesce({t}acquired_at, {t}created_at) END"

# What waits in a queue, as the index of lines has it; and in which line (`line_name`): one text, so that no
# other index is taken for this one.
IN_QUEUES: Final = "substr({t}claim_group, 1, 6) = 'queue.'"
LINE: Final = (
    "({t}claim_group || CASE WHEN {t}entered_at IS NOT NULL THEN '/+' WHEN {t}job_key IS NULL THEN '/' "
    "ELSE '/=' || {t}job_key END)"
)
# Where an execution with a key has its place, whether it waits or goes on; in the words of its index.
PLACED: Final = "place IS NOT NULL AND state <> 'fulfilled' AND (claim_group || '/=' || job_key)"
# What has a place in a queue; and what counts there. In the words of their indexes.
QUEUED: Final = "(job IS NOT NULL OR place IS NOT NULL)"
COUNTED: Final = (
    "((job IS NOT NULL AND state = 'acquired') OR (entered_at IS NOT NULL AND state <> 'fulfilled'))"
)

# Only ids that a prefix covers (`is_covered`).
WITHIN: Final = (
    "AND substr({id}, 1, {size}) = {prefix} AND substr({id}, {edge}, 1) IN ('', '-', '.', '/', ':') "
)


# Only those of one priority behind a place: a walk along the index of offers from there on.
BEHIND: Final = (
    "AND {t}priority = {p} AND {t}turn >= {u} "
    "AND ({t}turn, {ready}, {t}created_at, {t}id) > ({u}, {r}, {c}, {i}) "
)


class Words(Struct, frozen=True):
    """How a database says that a record has tags, that a promise is a timer. The wanted tags are one object
    in JSON: what is stored is read once for each record, however many are wanted."""

    tags: str  # with {column} and {count}
    timer: str
    parked: str
    offered: str
    outcome: str  # what the index of outcomes holds of a background task `t`


SQLITE: Final = Words(
    "(SELECT count(*) FROM json_each({column}) "
    "WHERE (key, value) IN (SELECT key, value FROM json_each(?))) = {count}",
    "(p.tags ->> '$.\"resonate:timer\"' = 'true')",
    "parked = 1",
    "parked = 0",
    "CASE WHEN t.state = 'fulfilled' THEN t.job ->> '$.outcome' ELSE t.state END",
)
POSTGRES: Final = Words(
    "{column}::jsonb @> ?::text::jsonb",
    "(p.tags::jsonb ->> 'resonate:timer' = 'true')",
    "parked",
    "NOT parked",
    "CASE WHEN t.state = 'fulfilled' THEN (t.job::jsonb ->> 'outcome') COLLATE \"C\" ELSE t.state END",
)


def within(scope: str | None) -> list[Any]:
    """The parameters of `WITHIN`, if that is asked for."""
    return [] if scope is None else [len(scope), scope, edge_of(scope) + 1]


def behind(place: ClaimPlace | None) -> list[Any]:
    """The parameters of `BEHIND`, if that is asked for."""
    if place is None:
        return []
    return [place.priority, place.turn, place.ready_at, place.created_at, place.id]


class _Query:
    """Conditions and their parameters, side by side."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.conditions: list[str] = []
        self.parameters: list[Any] = []

    def where(self, condition: str, *parameters: Any) -> None:
        self.conditions.append(condition)
        self.parameters.extend(parameters)

    def page(self, page: Page, table: str) -> tuple[str, list[Any]]:
        self.where(f"{table}.id > ?", page.after)
        if page.prefix:
            self.where(f"{table}.id BETWEEN ? AND ?", page.prefix, page.prefix + CEILING)
        if page.until is not None:
            self.where(f"{table}.id <= ?", page.until)
        return f" WHERE {' AND '.join(self.conditions)} ORDER BY {table}.id LIMIT ?", [
            *self.parameters,
            page.limit,
        ]

    def spans(self, spans: tuple[Span, ...], now: int, table: str, timer: str) -> None:
        if not spans:
            return
        choices: list[str] = []
        for span in spans:
            choice = f"{table}.state = ?"
            self.parameters.append(span.state)
            if span.deadline != "any":
                choice += f" AND {table}.timeout_at {'>' if span.deadline == 'ahead' else '<='} ?"
                self.parameters.append(now)
            if span.timer is not None:
                choice += f" AND {timer} IS {'TRUE' if span.timer else 'NOT TRUE'}"
            choices.append(f"({choice})")
        self.conditions.append(f"({' OR '.join(choices)})")

    def tags(self, wanted: dict[str, str], column: str) -> None:
        if wanted:
            condition = self.words.tags.format(column=column, count=len(wanted))
            self.where(condition, msgspec.json.encode(wanted).decode())


# All that have a root as their origin: most by their id, the others by the index of origins. A full stop is
# followed by a slash, a colon by a semicolon: each of these is a walk along an index.
_IN_TREE: Final = ("id = ?", "id >= ? AND id < ?", "id >= ? AND id < ?", "origin = ?")
_TREE: Final = " UNION ".join(f"SELECT id FROM promises WHERE {which}" for which in _IN_TREE)


def _tree_values(root: str) -> list[list[Any]]:
    """The parameters of each condition of `_IN_TREE`."""
    return [[root], [root + ".", root + "/"], [root + ":", root + ";"], [rows.key_of(root)]]


# The groups of open jobs: from each to the next along an index, however many jobs there are of each, and no
# more of them than are asked for.
_GROUPS: Final = (
    "{name}(g, n) AS (SELECT min(claim_group), 1 FROM tasks WHERE {which} AND claim_group >= {first} "
    "UNION ALL SELECT (SELECT min(claim_group) FROM tasks WHERE {which} AND claim_group > {name}.g), "
    "{name}.n + 1 FROM {name} WHERE {name}.g IS NOT NULL AND {name}.n <= {most})"
)
_QUEUES: Final = (
    "WITH RECURSIVE {groups} SELECT name FROM (SELECT name FROM (SELECT name FROM queues "
    "WHERE name >= {first} ORDER BY name LIMIT {most} + 1) known UNION SELECT substr(g, 7) FROM "
    "(SELECT g FROM offered UNION SELECT g FROM parked UNION SELECT g FROM held) used "
    "WHERE substr(g, 1, 6) = 'queue.') q "
)


def count_query(words: Words) -> str:
    """Of one group: what is offered, parked, claimed and running, each up to a limit. An execution runs while
    it is claimed."""
    count = (
        "(SELECT count(*) FROM (SELECT 1 FROM tasks WHERE {which} AND claim_group = ? LIMIT ?) some_{name})"
    )
    waiting = f"state = 'pending' AND {{parked}} AND {QUEUED}"
    held = f"{COUNTED} AND state = 'acquired' AND"
    kinds = {
        "offered": waiting.format(parked=words.offered),
        "parked": waiting.format(parked=words.parked),
        "claimed": f"{held} place IS NULL AND started_at IS NULL",
        "running": f"{held} (place IS NOT NULL OR started_at IS NOT NULL)",
    }
    return "SELECT " + ", ".join(count.format(which=which, name=name) for name, which in kinds.items())


def waiting_query(group: str, limit: int, words: Words) -> tuple[str, list[Any]]:
    """Of one group: keys, how many tasks of each wait, and the instant at which the first was created."""
    parts = " UNION ALL ".join(
        f"SELECT job_key, created_at FROM (SELECT job_key, created_at FROM tasks WHERE state = 'pending' "
        f"AND {which} AND {QUEUED} AND claim_group = ? LIMIT ?) some_{number}"
        for number, which in enumerate((words.offered, words.parked))
    )
    statement = f"SELECT job_key, count(*), min(created_at) FROM ({parts}) waiting GROUP BY job_key"
    return statement, [group, limit] * 2


def _queue_query(words: Words, start: str, most: int) -> tuple[str, list[Any]]:
    """The names from one on, and its parameters."""
    pending = f"state = 'pending' AND {{parked}} AND claim_group IS NOT NULL AND {QUEUED}"
    groups = ", ".join(
        _GROUPS.format(name=name, which=which, first="?", most="?")
        for name, which in (
            ("offered", pending.format(parked=words.offered)),
            ("parked", pending.format(parked=words.parked)),
            ("held", COUNTED),
        )
    )
    values = [queue_group(start), most] * 3
    return _QUEUES.format(groups=groups, first="?", most="?"), [*values, start, most]


def _page_of_tree(origin: str, rest: str, parameters: list[Any]) -> tuple[str, list[Any]]:
    """A page of each part of the tree, each along its index; then a page of all of them together."""
    parts: list[str] = []
    values: list[Any] = []
    for number, (which, own) in enumerate(zip(_IN_TREE, _tree_values(origin), strict=True)):
        part = f"SELECT p.id FROM (SELECT * FROM promises WHERE {which}) p{rest}"
        parts.append(f"SELECT id FROM ({part}) part{number}")
        values += [*own, *parameters]
    return f"{' UNION '.join(parts)} ORDER BY id LIMIT ?", [*values, parameters[-1]]


# What the index of outcomes holds of background tasks with a status, and what else is true of them.
_HELD_UNDER: Final[dict[JobStatus, tuple[tuple[str, ...], str]]] = {
    "PENDING": (("pending", "halted"), ""),
    "CLAIMED": (("acquired",), " AND t.started_at IS NULL"),
    "RUNNING": (("acquired",), " AND t.started_at IS NOT NULL"),
    "COMPLETED": (("COMPLETED",), ""),
    "FAILED": (("FAILED",), ""),
    "CANCELLED": (("CANCELLED",), ""),
    "EXPIRED": (("EXPIRED",), ""),
}


def _with_status(status: JobStatus, query: _Query, page: Page, join: str) -> tuple[str, list[Any]]:
    """A page of the background tasks with a status, along their index."""
    places, more = _HELD_UNDER[status]
    query.conditions.insert(0, f"t.job IS NOT NULL AND {query.words.outcome} = ?{more}")
    rest, parameters = query.page(page, "t")
    parts: list[str] = []
    values: list[Any] = []
    chosen = f"SELECT t.id FROM tasks t{join}{rest}"
    if len(places) == 1:
        return chosen, [*places, *parameters]
    for number, place in enumerate(places):
        parts.append(f"SELECT id FROM ({chosen}) part{number}")
        values += [place, *parameters]
    return f"{' UNION '.join(parts)} ORDER BY id LIMIT ?", [*values, page.limit]


def find_query(
    scan: TreeScan | StretchScan | PromiseScan | TaskScan | ScheduleScan | LeaseScan | QueueScan,
    words: Words,
) -> tuple[str, list[Any]]:
    query = _Query(words)
    match scan:
        case TreeScan((root,), limit, str(after)):
            return _page_of_tree(root, *query.page(Page(after, "", limit), "p"))
        case TreeScan(roots, limit):
            values: list[Any] = []
            for root in roots:
                values += chain.from_iterable(_tree_values(root))
            return f"{' UNION '.join([_TREE] * len(roots))} LIMIT ?", [*values, limit]
        case StretchScan("tasks", page, status) if status is not None:
            found, parameters = _with_status(status, query, page, "")
            return f"{found} OFFSET ?", [*parameters[:-1], 2, page.limit - 2]
        case StretchScan(kind, page, _, origin):
            if origin is not None:
                tree, values = _page_of_tree(origin, *query.page(page, "p"))
                return f"SELECT id FROM ({tree}) tree ORDER BY id LIMIT 2 OFFSET ?", [*values, page.limit - 2]
            rest, parameters = query.page(page, "r")
            values = [*parameters[:-1], 2, page.limit - 2]
            if kind == "promises":
                return "SELECT r.id FROM promises r" + rest + " OFFSET ?", values
            if kind == "tasks":
                return "SELECT r.id FROM tasks r" + rest + " OFFSET ?", values
            return "SELECT r.id FROM schedules r" + rest + " OFFSET ?", values
        case PromiseScan(page, now, spans, wanted):
            query.spans(spans, now, "p", words.timer)
            query.tags(wanted, "p.tags")
            rest, parameters = query.page(page, "p")
            if (origin := wanted.get(tags.ORIGIN)) is not None:
                return _page_of_tree(origin, rest, parameters)
            return "SELECT p.id FROM promises p" + rest, parameters
        case TaskScan(page):
            query.spans(scan.spans, scan.now, "t", "t.timer")
            for column, exact in (("target", scan.target), ("poll_group", scan.group), ("pid", scan.pid)):
                if exact is not None:
                    query.where(f"t.{column} = ?", exact)
            query.tags(scan.tags, "p.tags")
            join = " JOIN promises p ON p.id = t.id" if scan.tags else ""
            if scan.status is not None:
                return _with_status(scan.status, query, page, join)
            rest, parameters = query.page(page, "t")
            return "SELECT t.id FROM tasks t" + join + rest, parameters
        case QueueScan(page):
            query.where("q.name > ?", page.after)
            if page.prefix:
                query.where("q.name BETWEEN ? AND ?", page.prefix, page.prefix + CEILING)
            if page.until is not None:
                query.where("q.name <= ?", page.until)
            where = f"WHERE {' AND '.join(query.conditions)} ORDER BY q.name LIMIT ?"
            names, values = _queue_query(words, max(page.after, page.prefix), page.limit)
            return names + where, [*values, *query.parameters, page.limit]
        case ScheduleScan(page, wanted):
            query.tags(wanted, "s.promise_tags")
            rest, parameters = query.page(page, "s")
            return "SELECT s.id FROM schedules s" + rest, parameters
        case LeaseScan(pid, now):
            sql = "SELECT id FROM tasks WHERE state = 'acquired' AND pid = ? AND timeout_at > ? ORDER BY id"
            return sql, [pid, now]
