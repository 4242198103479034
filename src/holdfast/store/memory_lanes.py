"""Executions from new to old, in memory: the twin of the indexes that newest_sql walks along.

A lane is a list in the order of creation, so a page is read from its end. Entries are put in where they
belong, nearly always near the end.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.engine.newest import (
    ExecutionScan,
    ExecutionStretch,
    ExecutionTally,
    Filter,
    lane_of,
    listing_of,
)
from holdfast.protocol.address import poll_group
from holdfast.protocol.executions import PageEnd
from holdfast.protocol.ids import is_covered
from holdfast.protocol.records import Millis, Promise, Task

Entry = tuple[Millis, str]
Walk = tuple[str, str | None, str | None]  # lane, name, code

_nothing: Final[list[Entry]] = []


class _Listed(Struct, frozen=True):
    created_at: Millis
    lane: str
    name: str | None
    code: str | None
    group: str | None

    @property
    def walks(self) -> list[Walk]:
        walks: list[Walk] = [(self.lane, None, None)]
        if self.name is not None:
            walks.append((self.lane, self.name, None))
        if self.code is not None:
            walks.append((self.lane, None, self.code))
        return walks


class Lanes:
    def __init__(self) -> None:
        self._walks: dict[Walk, list[Entry]] = {}
        self._listed: dict[str, _Listed] = {}

    def put(self, task: Task, promise: Promise) -> None:
        listing = listing_of(task, promise)
        lane = lane_of(task, listing.outcome)
        listed = _Listed(task.created_at, lane, listing.name, listing.code, poll_group(task.target))
        if self._listed.get(task.id) == listed:
            return
        self.drop(task.id)
        self._listed[task.id] = listed
        for walk in listed.walks:
            insort(self._walks.setdefault(walk, []), (task.created_at, task.id))

    def drop(self, task_id: str) -> None:
        listed = self._listed.pop(task_id, None)
        if listed is not None:
            entry = (listed.created_at, task_id)
            for walk in listed.walks:
                entries = self._walks[walk]
                del entries[bisect_left(entries, entry)]

    def find(self, scan: ExecutionScan, promises: Mapping[str, Promise]) -> list[str]:
        wanted = scan.wanted
        walks = [self._newest(walk, wanted, scan.after) for walk in _walks(wanted)]
        in_order = heapq.merge(*walks, reverse=True)
        chosen = (key for _, key in in_order if self._is_wanted(key, wanted, promises))
        return [*islice(chosen, scan.limit)]

    def end_of(self, scan: ExecutionStretch) -> list[Millis | None]:
        walks = [self._newest(walk, scan.wanted, scan.after) for walk in _walks(scan.wanted)]
        if scan.wanted.code is not None:  # one walk of the others
            walks = [heapq.merge(*walks, reverse=True)]
        ends = [instant for walk in walks for instant, _ in islice(walk, scan.reach, scan.reach + 1)]
        return [max(ends, default=None)]

    def count(self, scan: ExecutionTally, promises: Mapping[str, Promise]) -> list[tuple[str, int, int]]:
        counts: list[tuple[str, int, int]] = []
        for walk in _walks(scan.wanted):
            newest = [*islice(self._newest(walk, scan.wanted, None), scan.reach)]
            number = sum(self._is_wanted(key, scan.wanted, promises) for _, key in newest)
            counts.append((walk[0], number, len(newest)))
        return counts

    def _newest(self, walk: Walk, wanted: Filter, after: PageEnd | None) -> Iterator[Entry]:
        entries = self._walks.get(walk, _nothing)
        end = bisect_left(entries, (wanted.until, ""))
        if after is not None:
            end = min(end, bisect_left(entries, (after.created_at, after.id or "")))
        for at in range(end - 1, -1, -1):
            if entries[at][0] < wanted.since:
                return
            yield entries[at]

    def _is_wanted(self, key: str, wanted: Filter, promises: Mapping[str, Promise]) -> bool:
        listed = self._listed[key]
        found = promises[key].tags if wanted.tags else {}
        return (
            (wanted.name is None or listed.name == wanted.name)
            and (not wanted.groups or listed.group in wanted.groups)
            and key.startswith(wanted.prefix)
            and (wanted.scope is None or is_covered(key, wanted.scope))
            and all(found.get(name) == value for name, value in wanted.tags.items())
        )


def _walks(wanted: Filter) -> list[Walk]:
    if wanted.code is not None:
        return [(lane, None, wanted.code) for lane in wanted.lanes]
    return [(lane, wanted.name, None) for lane in wanted.lanes]
