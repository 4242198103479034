"""Searches, and counts of queues: what looks through records of which the request names none.

Meanwhile nobody else may commit. So a search looks at so many records and no more, a statement that takes too
long is ended and looks at fewer, and all of it counts its steps (budget.py).
"""

from collections.abc import Sequence

from holdfast.engine import WorkingSet
from holdfast.engine.pages import PageReading
from holdfast.engine.scans import (
    QueueCountScan,
    QueueScan,
    SearchScan,
    at_most,
    ending_at,
    parts_of,
    passes_over,
    reach_of,
    stretch_of,
)
from holdfast.node.budget import ArrayBudget, commit_steps_max, count_steps, record_steps, step_bytes
from holdfast.protocol import limits
from holdfast.store.interface import Find, Load, TookTooLong, Work

Counts = tuple[int, int, int, int]


def read_page(scan: SearchScan, scope: str | None, ws: WorkingSet) -> Work[int]:
    """Find what a search asks for within what its caller may see, and read as much as fits. Answers how many
    steps that took."""
    parts = parts_of(scan, scope)
    steps = limits.search_steps_max if passes_over(scan) else 0
    if isinstance(scan, QueueScan):  # it looks each of them up, and may find nothing with a prefix
        steps += scan.page.limit * record_steps
    found: list[str] = []
    for part in parts:
        left = at_most(part, scan.page.limit - len(found))
        ids, late_steps = yield from _search(left, reach_of(scan, len(parts)), ws)
        found += ids
        steps += late_steps
        if ws.until is not None or len(found) == scan.page.limit:
            break
    page = PageReading(scan, found)
    while wanted := page.next_ids():
        yield Load(ws, page.footprint(wanted))
        page.note(ws)
    ws.found = page.ids
    if not page.is_whole:
        ws.until = page.ids[-1]
    return steps + ws.handled * record_steps + ws.read_bytes // step_bytes


def _search(scan: SearchScan, reach: int, ws: WorkingSet) -> Work[tuple[list[str], int]]:
    """Where it takes too long, look at fewer records: how much is in each nobody knows beforehand."""
    late_steps = 0
    while True:
        try:
            within = yield from _within_reach(scan, reach, ws)
            found: list[str] = yield Find(within)
            return found, late_steps
        except TookTooLong:
            late_steps += commit_steps_max
            if reach == 1 or stretch_of(scan, reach) is None:
                raise
            reach = max(1, reach // 16)


def _within_reach(scan: SearchScan, reach: int, ws: WorkingSet) -> Work[SearchScan]:
    stretch = stretch_of(scan, reach)
    if stretch is not None:
        ends: list[str] = yield Find(stretch)
        if len(ends) == 2:
            ws.until = ends[0]
            return ending_at(scan, ends[0])
    return scan


class QueueCounts:
    """How many tasks queues have: counted once in a commit, until a task is written."""

    def __init__(self) -> None:
        self._known: dict[str, Counts] = {}
        self.steps = 0

    def forget(self) -> None:
        self._known.clear()

    def count(self, names: Sequence[str], ws: WorkingSet) -> Work[None]:
        """As many of these as there is time for. What is left out of a search follows its cursor."""
        ws.counts = {}
        budget = ArrayBudget(1, self.steps)
        for name in names:
            if budget.is_used(self.steps):
                ws.found = [*ws.counts]
                ws.until = ws.found[-1]
                break
            if name not in self._known:
                self._known[name] = yield from self._count(name)
            ws.counts[name] = self._known[name]

    def _count(self, name: str) -> Work[Counts]:
        [(_, *numbers)] = yield Find(QueueCountScan((name,), limits.queue_count_max))
        pending, delayed, claimed, running = numbers
        self.steps += sum(numbers) // 2 + count_steps
        return pending, delayed, claimed, running
