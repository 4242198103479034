"""Scans as SQL. Every value is a parameter; only names and shapes are text.

Databases differ in how they look into JSON, so each brings its own words for that. A parameter is `?`.
"""

from itertools import chain
from typing import Any, Final

from msgspec import Struct

from holdfast.engine.scans import (
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
from holdfast.store import rows

# The largest text that starts with a prefix: no id is longer than its bytes allow.
_ceiling = "\U0010ffff" * (limits.id_bytes_max // 4)


# Only ids that a prefix covers (`is_covered`).
WITHIN: Final = (
    "AND substr({id}, 1, {size}) = {prefix} AND substr({id}, {edge}, 1) IN ('', '-', '.', '/', ':') "
)


class Words(Struct, frozen=True):
    """How a database says that a tag has a value (parameters: name, value), that a promise is a timer."""

    tag: str  # with {column}
    timer: str
    parked: str
    offered: str


SQLITE: Final = Words(
    "EXISTS (SELECT 1 FROM json_each({column}) WHERE key = ? AND value = ?)",
    "(p.tags ->> '$.\"resonate:timer\"' = 'true')",
    "parked = 1",
    "parked = 0",
)
POSTGRES: Final = Words(
    "{column}::jsonb ->> ?::text = ?::text",
    "(p.tags::jsonb ->> 'resonate:timer' = 'true')",
    "parked",
    "NOT parked",
)


def within(scope: str | None) -> list[Any]:
    """The parameters of `WITHIN`, if that is asked for."""
    return [] if scope is None else [len(scope), scope, edge_of(scope) + 1]


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
            self.where(f"{table}.id BETWEEN ? AND ?", page.prefix, page.prefix + _ceiling)
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
        for key, value in wanted.items():
            self.where(self.words.tag.format(column=column), key, value)


# All that have a root as their origin: most by their id, the others by the index of origins. A full stop is
# followed by a slash, a colon by a semicolon: each of these is a walk along an index.
_IN_TREE: Final = ("id = ?", "id >= ? AND id < ?", "id >= ? AND id < ?", "origin = ?")
_TREE: Final = " UNION ".join(f"SELECT id FROM promises WHERE {which}" for which in _IN_TREE)


def _tree_values(root: str) -> list[list[Any]]:
    """The parameters of each condition of `_IN_TREE`."""
    return [[root], [root + ".", root + "/"], [root + ":", root + ";"], [rows.key_of(root)]]


# The groups of open jobs: from each to the next along an index, however many jobs there are of each.
_GROUPS: Final = (
    "{name}(g) AS (SELECT min(claim_group) FROM tasks WHERE {which} UNION ALL SELECT "
    "(SELECT min(claim_group) FROM tasks WHERE {which} AND claim_group > {name}.g) FROM {name} "
    "WHERE {name}.g IS NOT NULL)"
)
_QUEUES: Final = (
    "WITH RECURSIVE {groups} SELECT name FROM (SELECT name FROM queues UNION SELECT substr(g, 7) FROM "
    "(SELECT g FROM offered UNION SELECT g FROM parked UNION SELECT g FROM held) used "
    "WHERE substr(g, 1, 6) = 'queue.') q "
)


def count_query(words: Words) -> str:
    """Of one group: offered, parked, claimed and started jobs."""
    waiting = "FROM tasks WHERE state = 'pending' AND {parked} AND job IS NOT NULL AND claim_group = ?"
    held = "FROM tasks WHERE state = 'acquired' AND job IS NOT NULL AND claim_group = ? AND started_at IS"
    return (
        f"SELECT (SELECT count(*) {waiting.format(parked=words.offered)}), "
        f"(SELECT count(*) {waiting.format(parked=words.parked)}), "
        f"(SELECT count(*) {held} NULL), (SELECT count(*) {held} NOT NULL)"
    )


def _queue_query(words: Words) -> str:
    pending = "state = 'pending' AND {parked} AND claim_group IS NOT NULL AND job IS NOT NULL"
    groups = ", ".join(
        _GROUPS.format(name=name, which=which)
        for name, which in (
            ("offered", pending.format(parked=words.offered)),
            ("parked", pending.format(parked=words.parked)),
            ("held", "state = 'acquired' AND job IS NOT NULL"),
        )
    )
    return _QUEUES.format(groups=groups)


def _page_of_tree(origin: str, rest: str, parameters: list[Any]) -> tuple[str, list[Any]]:
    """A page of each part of the tree, each along its index; then a page of all of them together."""
    parts: list[str] = []
    values: list[Any] = []
    for number, (which, own) in enumerate(zip(_IN_TREE, _tree_values(origin), strict=True)):
        part = f"SELECT p.id FROM (SELECT * FROM promises WHERE {which}) p{rest}"
        parts.append(f"SELECT id FROM ({part}) part{number}")
        values += [*own, *parameters]
    return f"{' UNION '.join(parts)} ORDER BY id LIMIT ?", [*values, parameters[-1]]


def find_query(
    scan: TreeScan | StretchScan | PromiseScan | TaskScan | ScheduleScan | LeaseScan | QueueScan, words: Words
) -> tuple[str, list[Any]]:
    query = _Query(words)
    match scan:
        case TreeScan(roots, limit):
            values: list[Any] = []
            for root in roots:
                values += chain.from_iterable(_tree_values(root))
            return f"{' UNION '.join([_TREE] * len(roots))} LIMIT ?", [*values, limit]
        case StretchScan(kind, page):
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
            for column, wish in (("target", scan.target), ("poll_group", scan.group), ("pid", scan.pid)):
                if wish is not None:
                    query.where(f"t.{column} = ?", wish)
            query.tags(scan.tags, "p.tags")
            rest, parameters = query.page(page, "t")
            join = " JOIN promises p ON p.id = t.id" if scan.tags else ""
            return "SELECT t.id FROM tasks t" + join + rest, parameters
        case QueueScan(page):
            query.where("q.name > ?", page.after)
            if page.prefix:
                query.where("q.name BETWEEN ? AND ?", page.prefix, page.prefix + _ceiling)
            where = f"WHERE {' AND '.join(query.conditions)} ORDER BY q.name LIMIT ?"
            return _queue_query(words) + where, [*query.parameters, page.limit]
        case ScheduleScan(page, wanted):
            query.tags(wanted, "s.promise_tags")
            rest, parameters = query.page(page, "s")
            return "SELECT s.id FROM schedules s" + rest, parameters
        case LeaseScan(pid, now):
            sql = "SELECT id FROM tasks WHERE state = 'acquired' AND pid = ? AND timeout_at > ? ORDER BY id"
            return sql, [pid, now]
