"""What a claim finds in a queue when some keys are left out: the same as a walk along the index of offers,
and never a walk over what is left out.

Keys are left out because they have no room, and half a million tasks of one of them may stand before all
others. Another index has the tasks of each key in their order, so from each key to the next is one look-up,
however many tasks it has. But there may be as many keys as tasks. So both ways are tried in turn, each time
further:

1. The first of every key, if there are at most so many keys. The best of all are among the keys whose first
   tasks are the best, and these are read as deep as it takes.
2. Otherwise the first so many offers, whoever they belong to: those with other keys may be enough.

Whichever way is shorter, what it costs is a small multiple of that. A generator of questions, so that the
same order serves a database that answers at once and one that must be awaited.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.engine.queue_lines import line_name
from holdfast.engine.scans import ClaimScan
from holdfast.protocol.ids import edge_of
from holdfast.store.scan_sql import IN_QUEUES, LINE, READY

reaches: Final = (64, 1_024, 16_384, 262_144)
offers_per_line: Final = 8  # a look at an offer takes so much less than one at a key


class Heads(Struct, frozen=True):
    """The first of every line, at most of `reach` + 1 lines: rows of its line and its place. A line that is
    left out, or has none that may be claimed, has a row without a place."""

    reach: int


class Walk(Struct, frozen=True):
    """Of the first `reach` offers those that are not left out, as places."""

    reach: int


class Deep(Struct, frozen=True):
    """The first `each` of these lines: rows of a line and a place."""

    lines: list[str]
    each: int


Question = Heads | Walk | Deep
Place = tuple[int, int, int, int, str]  # in the order of claims: -priority, turn, ready since, created at, id


def find_places(limit: int) -> Generator[Question, Sequence[Any], list[Place] | None]:
    """The best places that are not left out, or None: then nothing but the whole walk is left."""
    for reach in reaches:
        rows = yield Heads(reach)
        if len(rows) <= reach:
            return (yield from _best(rows, limit))
        walked = yield Walk(reach * offers_per_line)
        if len(walked) >= limit:
            return sorted(map(_place, walked))[:limit]
    return None


def _best(rows: Sequence[Any], limit: int) -> Generator[Question, Sequence[Any], list[Place]]:
    heads = sorted((_place(row[1:]), str(row[0])) for row in rows if row[-1] is not None)[:limit]
    found: dict[str, list[Place]] = {line: [place] for place, line in heads}
    each = 1
    cut: list[str] = list(found)  # lines of which more may follow
    while True:
        best = sorted(place for places in found.values() for place in places)[:limit]
        if len(best) == limit:
            cut = [line for line in cut if found[line][-1] < best[-1]]
        if not cut:
            return best
        each = min(limit, max(2 * each, -(-2 * limit // len(found))))
        deeper: dict[str, list[Place]] = {line: [] for line in cut}
        for row in (yield Deep(cut, each)):
            deeper[row[0]].append(_place(row[1:]))
        found |= {line: sorted(places) for line, places in deeper.items() if places}
        cut = [line for line in cut if len(deeper[line]) == each and each < limit]


def _place(row: Sequence[Any]) -> Place:
    return row[0], row[1], row[2], row[3], row[4]


_ORDER: Final = "t.priority DESC, t.turn, {ready}, t.created_at, t.id"
_PLACE: Final = "-t.priority AS p, t.turn AS u, {ready} AS r, t.created_at AS c, t.id AS i"
# What may be claimed, besides where it waits. A prefix that is NULL covers everything.
_OPEN: Final = (
    "AND t.timeout_at > {now} AND t.priority <= {ceiling} AND ({prefix} IS NULL OR ("
    "substr(t.id, 1, {size}) = {prefix} AND substr(t.id, {edge}, 1) IN ('', '-', '.', '/', ':')))"
)
# A slash is followed by a zero.
_AMONG: Final = "{line} < {group} || '0' AND {line}"


def _words(offered: str, **parameters: str) -> dict[str, str]:
    ready, line = READY.format(t="t."), LINE.format(t="t.")
    words = {
        "line": line,
        "waits": f"t.state = 'pending' AND {offered} AND {IN_QUEUES.format(t='t.')}",
        "among": _AMONG.format(line=line, group=parameters["group"]),
        "place": _PLACE.format(ready=ready),
        "order": _ORDER.format(ready=ready),
        "open": _OPEN.format(**parameters),
    }
    return words | parameters


# --- SQLite: parameters are the group, the instant, the ceiling, a prefix, a number, lines, a limit ---------

_SQLITE: Final = _words("t.parked = 0", group="?1", now="?2", ceiling="?3", size="?4", prefix="?5", edge="?6")
SQLITE_HEADS: Final = (
    "WITH RECURSIVE lines(line, n) AS "
    "(SELECT (SELECT min({line}) FROM tasks t WHERE {waits} AND {among} >= ?1 || '/'), 1 UNION ALL "
    "SELECT (SELECT min({line}) FROM tasks t WHERE {waits} AND {among} > lines.line), lines.n + 1 "
    "FROM lines WHERE lines.line IS NOT NULL AND lines.n <= ?7) "
    "SELECT lines.line, {place} FROM lines LEFT JOIN tasks t ON t.id = (SELECT t.id FROM tasks t "
    "WHERE {waits} AND {line} = lines.line {open} ORDER BY {order} LIMIT 1) "
    "AND lines.line NOT IN (SELECT value FROM json_each(?8)) WHERE lines.line IS NOT NULL"
).format(**_SQLITE)
SQLITE_DEEP: Final = (
    "SELECT named.value, {place} FROM json_each(?8) named CROSS JOIN tasks t ON t.id IN (SELECT t.id "
    "FROM tasks t WHERE {waits} AND {line} = named.value {open} ORDER BY {order} LIMIT ?7)"
).format(**_SQLITE)
SQLITE_WALK: Final = (
    "SELECT {place} FROM (SELECT * FROM tasks t WHERE t.state = 'pending' AND t.parked = 0 "
    "AND t.claim_group = ?1 AND t.priority <= ?3 ORDER BY {order} LIMIT ?7) t "
    "WHERE {line} NOT IN (SELECT value FROM json_each(?8)) {open} ORDER BY {order} LIMIT ?9"
).format(**_SQLITE)

# --- PostgreSQL: the same ----------------------------------------------------------------------------------

_POSTGRES: Final = _words(
    "NOT t.parked",
    group="$1::text",
    now="$2::bigint",
    ceiling="$3::bigint",
    size="$4::int",
    prefix="$5::text",
    edge="$6::int",
)
POSTGRES_HEADS: Final = (
    "WITH RECURSIVE lines(line, n) AS ((SELECT {line}, 1 FROM tasks t "
    "WHERE {waits} AND {among} >= $1::text || '/' ORDER BY {line} LIMIT 1) UNION ALL "
    "SELECT next.line, lines.n + 1 FROM lines CROSS JOIN LATERAL (SELECT {line} AS line FROM tasks t "
    "WHERE {waits} AND {among} > lines.line ORDER BY {line} LIMIT 1) next WHERE lines.n <= $7) "
    "SELECT lines.line, head.* FROM lines LEFT JOIN LATERAL (SELECT {place} FROM tasks t "
    "WHERE {waits} AND {line} = lines.line {open} ORDER BY {order} LIMIT 1) head "
    "ON lines.line <> ALL($8::text[])"
).format(**_POSTGRES)
POSTGRES_DEEP: Final = (
    "SELECT named.line, deep.* FROM unnest($8::text[]) AS named (line) CROSS JOIN LATERAL (SELECT {place} "
    "FROM tasks t WHERE {waits} AND {line} = named.line {open} ORDER BY {order} LIMIT $7) deep "
    "WHERE $1::text IS NOT NULL"
).format(**_POSTGRES)
POSTGRES_WALK: Final = (
    "SELECT {place} FROM (SELECT * FROM tasks t WHERE t.state = 'pending' AND NOT t.parked "
    "AND t.claim_group = $1::text AND t.priority <= $3 ORDER BY {order} LIMIT $7) t "
    "WHERE {line} <> ALL($8::text[]) {open} ORDER BY {order} LIMIT $9"
).format(**_POSTGRES)


def parameters(scan: ClaimScan, group: str) -> list[Any]:
    """The first six parameters."""
    prefix = scan.scope
    size, edge = (0, 1) if prefix is None else (len(prefix), edge_of(prefix) + 1)
    return [group, scan.now, scan.ceiling, size, prefix, edge]


def left_out(scan: ClaimScan, group: str) -> list[str]:
    """The lines that are left out."""
    return [line_name(group, key) for key in scan.without[group]]


def of_entered(group: str) -> list[str]:
    """What is asked where only executions that count already may go on."""
    return [line_name(group, None, entered=True)]
