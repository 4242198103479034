"""Executions from new to old, as SQL: each lane is a walk along an index from its end.

Three indexes lead: by lane; by name and lane; by the code of a failure. Pages of several lanes are read from
each of them and then put in order. As in scan_sql, every value is a parameter and a parameter is `?`.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.engine.newest import ExecutionScan, ExecutionStretch, ExecutionTally, Filter
from holdfast.engine.scans import (
    LeaseScan,
    PromiseScan,
    QueueScan,
    ScheduleScan,
    StretchScan,
    TaskScan,
    TreeScan,
    WaitingScan,
)
from holdfast.protocol.executions import PageEnd
from holdfast.store import rows
from holdfast.store.scan_sql import CEILING, WITHIN, Words, find_query, waiting_query, within

# What `engine.newest.lane_of` says of a task, as the indexes have it.
LANE: Final = (
    "(CASE WHEN {t}job IS NULL THEN 'execution ' ELSE 'task ' END || "
    "CASE WHEN {t}state = 'fulfilled' THEN coalesce({t}outcome, 'ended') "
    "WHEN {t}state = 'pending' AND {t}{parked} THEN 'waiting' "
    "WHEN {t}state = 'acquired' AND {t}job IS NOT NULL AND {t}started_at IS NULL THEN 'claimed' "
    "WHEN {t}state = 'acquired' THEN 'running' ELSE {t}state END)"
)
_WITHIN: Final = WITHIN.format(id="t.id", size="?", prefix="?", edge="?").removeprefix("AND ")
_ORDER: Final = " ORDER BY t.created_at DESC, t.id DESC LIMIT ?"


FoundByQuery = (
    TreeScan
    | WaitingScan
    | StretchScan
    | PromiseScan
    | TaskScan
    | ScheduleScan
    | LeaseScan
    | QueueScan
    | ExecutionScan
    | ExecutionStretch
    | ExecutionTally
)


class _Conditions:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def add(self, text: str, *values: Any) -> None:
        self.texts.append(text)
        self.values += values

    @property
    def text(self) -> str:
        return " AND ".join(self.texts)


def _walks(wanted: Filter, words: Words) -> list[_Conditions]:
    """Where each walk begins: what its index is led by."""
    lane = LANE.format(t="t.", parked=words.parked)
    walks: list[_Conditions] = []
    if wanted.code is not None:
        walk = _Conditions()
        marks = ", ".join("?" * len(wanted.lanes))
        walk.add("t.code IS NOT NULL AND t.code = ?", wanted.code)
        walk.add(f"{lane} IN ({marks})", *wanted.lanes)
        return [walk]
    for each in wanted.lanes:
        walk = _Conditions()
        if wanted.name is not None:
            walk.add("t.name IS NOT NULL AND t.name = ?", rows.key_of(wanted.name))
        walk.add(f"{lane} = ?", each)
        walks.append(walk)
    return walks


def _stretch(wanted: Filter, after: PageEnd | None) -> _Conditions:
    """How far each walk goes."""
    stretch = _Conditions()
    stretch.add("t.created_at >= ? AND t.created_at < ?", wanted.since, wanted.until)
    if after is not None and after.id is not None:
        stretch.add(
            "t.created_at <= ? AND (t.created_at, t.id) < (?, ?)",
            after.created_at,
            after.created_at,
            after.id,
        )
    elif after is not None:
        stretch.add("t.created_at < ?", after.created_at)
    return stretch


def _choice(wanted: Filter, words: Words) -> _Conditions:
    """What is wanted of all that a walk passes."""
    choice = _Conditions()
    if wanted.code is not None and wanted.name is not None:
        choice.add("t.name = ?", rows.key_of(wanted.name))
    if wanted.groups:
        choice.add("t.poll_group IN (?, ?)", *wanted.groups)
    if wanted.prefix:
        choice.add("t.id BETWEEN ? AND ?", wanted.prefix, wanted.prefix + CEILING)
    if wanted.scope is not None:
        choice.add(_WITHIN, *within(wanted.scope))
    if wanted.tags:
        has_tags = words.tags.format(column="p.tags", count=len(wanted.tags))
        choice.add(has_tags, msgspec.json.encode(wanted.tags).decode())
    return choice


def _join(wanted: Filter) -> str:
    return " JOIN promises p ON p.id = t.id" if wanted.tags else ""


def newest_query(scan: ExecutionScan, words: Words) -> tuple[str, list[Any]]:
    stretch, choice = _stretch(scan.wanted, scan.after), _choice(scan.wanted, words)
    parts: list[str] = []
    values: list[Any] = []
    join = _join(scan.wanted)
    for number, walk in enumerate(_walks(scan.wanted, words)):
        where = " AND ".join([*walk.texts, *stretch.texts, *choice.texts])
        part = f"SELECT t.created_at, t.id FROM tasks t{join} WHERE {where}{_ORDER}"
        parts.append(f"SELECT created_at, id FROM ({part}) part{number}")
        values += [*walk.values, *stretch.values, *choice.values, scan.limit]
    every = " UNION ALL ".join(parts)
    return f"SELECT id FROM ({every}) newest ORDER BY created_at DESC, id DESC LIMIT ?", [*values, scan.limit]


def stretch_query(scan: ExecutionStretch, words: Words) -> tuple[str, list[Any]]:
    stretch = _stretch(scan.wanted, scan.after)
    parts: list[str] = []
    values: list[Any] = []
    for number, walk in enumerate(_walks(scan.wanted, words)):
        where = " AND ".join([*walk.texts, *stretch.texts])
        part = f"SELECT t.created_at FROM tasks t WHERE {where}{_ORDER} OFFSET ?"
        parts.append(f"SELECT created_at FROM ({part}) part{number}")
        values += [*walk.values, *stretch.values, 1, scan.reach]
    return f"SELECT max(created_at) FROM ({' UNION ALL '.join(parts)}) ends", values


def tally_query(scan: ExecutionTally, words: Words) -> tuple[str, list[Any]]:
    """One row: for each lane how many were looked at, and where there is a choice, how many are wanted."""
    stretch, choice = _stretch(scan.wanted, None), _choice(scan.wanted, words)
    numbers: list[str] = []
    values: list[Any] = []
    for walk in _lane_walks(scan.wanted, words):
        where = " AND ".join([*walk.texts, *stretch.texts])
        looked = f"SELECT t.id, t.name, t.poll_group FROM tasks t WHERE {where}{_ORDER}"
        numbers.append(f"(SELECT count(*) FROM ({looked}) t)")
        values += [*walk.values, *stretch.values, scan.reach]
        if choice.texts:
            join = _join(scan.wanted)
            numbers.append(f"(SELECT count(*) FROM ({looked}) t{join} WHERE {choice.text})")
            values += [*walk.values, *stretch.values, scan.reach, *choice.values]
    return f"SELECT {', '.join(numbers)}", values


def _lane_walks(wanted: Filter, words: Words) -> list[_Conditions]:
    """Counts are by lane, also where the code of a failure leads."""
    if wanted.code is None:
        return _walks(wanted, words)
    lane = LANE.format(t="t.", parked=words.parked)
    walks: list[_Conditions] = []
    for each in wanted.lanes:
        walk = _Conditions()
        walk.add("t.code IS NOT NULL AND t.code = ?", wanted.code)
        walk.add(f"{lane} = ?", each)
        walks.append(walk)
    return walks


def query_of(scan: FoundByQuery, words: Words) -> tuple[str, list[Any]]:
    match scan:
        case ExecutionScan():
            return newest_query(scan, words)
        case ExecutionStretch():
            return stretch_query(scan, words)
        case ExecutionTally():
            return tally_query(scan, words)
        case WaitingScan(group, limit):
            return waiting_query(group, limit, words)
        case _:
            return find_query(scan, words)


def found_by(scan: FoundByQuery, found: Sequence[Any]) -> list[Any]:
    """What the rows of the query say: ids, or for a count lane, number, how many were looked at."""
    if isinstance(scan, WaitingScan):
        return [tuple(row) for row in found]
    if not isinstance(scan, ExecutionTally):
        return [row[0] for row in found]
    [numbers] = map(list, found)
    lanes = scan.wanted.lanes
    if len(numbers) == len(lanes):
        return [(lane, number, number) for lane, number in zip(lanes, numbers, strict=True)]
    return [(lane, numbers[2 * at + 1], numbers[2 * at]) for at, lane in enumerate(lanes)]
