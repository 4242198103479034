"""How much one commit may search and load for requests that name no records, or not all they need.

Everybody waits for a commit. What a request names costs about what it cost to send; but a search, a count
of a queue or the preload of a claim may take any time. So these count what they do, in steps, and a commit
carries out only so many. A search looks at so many records and no more; a statement that takes too long is
ended and looks at fewer.

1. What is over the budget goes to a later commit, and whoever waits behind it passes. The members of one
   array cannot be parted; of those the ones that are over are refused, and have changed nothing.
2. In every commit the first of each flow (a tenant's searches; a tenant's claims; what may write very many
   records) is carried out, whatever others have used. So each of them goes on, whoever sends more.
3. A commit that has taken several times its budget takes nothing more, whatever it is.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.engine import WorkingSet
from holdfast.engine.pages import PageReading
from holdfast.engine.scans import (
    QueueCountScan,
    QueueScan,
    SearchScan,
    at_most,
    class_of,
    ending_at,
    parts_of,
    passes_over,
    reach_of,
    stretch_of,
)
from holdfast.node.queue import Flow, Submission
from holdfast.protocol import limits
from holdfast.protocol.requests import EventSearch, RequestData, StreamRead
from holdfast.store.interface import Find, Load, TookTooLong, Work

commit_steps_max: Final = 20_000  # a step: one record is looked at, in about a microsecond
request_steps: Final = 64  # what each request of a commit may take besides
ceiling_steps: Final = 80_000  # past this, and as much for each request, a commit takes nothing more
ceiling_request_steps: Final = 256  # plain requests, which name what they write, stay far below
page_kinds: Final = frozenset({EventSearch, StreamRead})
step_bytes: Final = 512  # of payloads, to read them for a search: its page is held until it is answered
record_steps: Final = 8  # to load a record, or to show it in a preload
count_steps: Final = 64  # a statement that counts a queue, besides what it counts
claim_steps: Final = 1_000  # a claim that may have to pass over tasks of others, or of keys that are full

Counts = tuple[int, int, int, int]


class Budget:
    """Of one commit. `spent` is what all requests so far have used."""

    def __init__(self, requests: int) -> None:
        self._most = _most(requests)
        self._flows: set[Flow] = set()
        self.blocked: set[str] = set()

    def admits(self, part: Submission, spent: int) -> bool:
        """May this be carried out in this commit? Whoever came first on a root id is carried out first."""
        if self.blocked and not part.roots.isdisjoint(self.blocked):
            is_admitted = False
        else:
            is_admitted = part.flow is None or part.flow not in self._flows or spent < self._most
        if not is_admitted:
            self.blocked |= part.roots
        elif part.flow is not None:
            self._flows.add(part.flow)
        return is_admitted


class ArrayBudget:
    """Of one array, from what was spent when it began."""

    def __init__(self, requests: int, spent: int) -> None:
        self._most = spent + _most(requests)
        self._ceiling = spent + ceiling_steps + ceiling_request_steps * requests

    def is_used(self, spent: int) -> bool:
        return spent > self._most

    def is_over(self, spent: int) -> bool:
        return spent > self._ceiling

    def refuses(self, data: RequestData, spent: int) -> bool:
        if spent <= self._most:
            return False
        return spent > self._ceiling or class_of(data) is not None or type(data) in page_kinds


def _most(requests: int) -> int:
    return commit_steps_max + request_steps * requests


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
    steps += yield from load_page(page, ws)
    if not page.is_whole:
        ws.until = page.ids[-1]
    return steps


def load_page(page: PageReading, ws: WorkingSet) -> Work[int]:
    """Read as much of what a search has found as fits. Answers how many steps that took."""
    while wanted := page.next_ids():
        yield Load(ws, page.footprint(wanted))
        page.note(ws)
    ws.found = page.ids
    return ws.handled * record_steps + ws.read_bytes // step_bytes


def _search(scan: SearchScan, reach: int, ws: WorkingSet) -> Work[tuple[list[str], int]]:
    """Where it takes too long, look at fewer records: how much is in each nobody knows beforehand. What can
    look at no less is tried once more: a database that stood still for a moment is no reason to refuse it."""
    late_steps = 0
    is_last = False
    while True:
        try:
            within = yield from _within_reach(scan, reach, ws)
            found: list[str] = yield Find(within)
            return found, late_steps
        except TookTooLong:
            late_steps += commit_steps_max
            if reach > 1 and stretch_of(scan, reach) is not None:
                reach = max(1, reach // 16)
            elif is_last:
                raise
            else:
                is_last = True


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
