"""What looks through records of which the request names none: searches, and counts of executions.

A search of executions goes from new to old along lanes (engine/newest.py). Like every other it looks at a
bounded number of records, and counts its steps (budget.py).
"""

from msgspec.structs import replace

from holdfast.engine import WorkingSet
from holdfast.engine.newest import (
    ExecutionScan,
    ExecutionStretch,
    ExecutionTally,
    reach_among,
    within_reach,
)
from holdfast.engine.pages import PageReading
from holdfast.engine.scans import PromiseScan, QueueScan, ScheduleScan, TaskScan
from holdfast.node.budget import commit_steps_max, count_steps, load_page, read_page
from holdfast.protocol import limits
from holdfast.protocol.executions import PageEnd
from holdfast.store.interface import Find, TookTooLong, Work

Look = PromiseScan | TaskScan | ScheduleScan | QueueScan | ExecutionScan | ExecutionTally


def look(scan: Look, scope: str | None, ws: WorkingSet) -> Work[int]:
    """Find what is asked for within what the caller may see. Answers how many steps that took."""
    if isinstance(scan, ExecutionTally):
        return (yield from _count_lanes(scan, scope, ws))
    if isinstance(scan, ExecutionScan):
        return (yield from _read_newest(scan, scope, ws))
    return (yield from read_page(scan, scope, ws))


def _read_newest(scan: ExecutionScan, scope: str | None, ws: WorkingSet) -> Work[int]:
    """A search that may look no further ends at an instant."""
    scan = replace(scan, wanted=replace(scan.wanted, scope=scope))
    steps = limits.search_steps_max if scan.wanted.passes_over else len(scan.wanted.lanes) * scan.limit
    found: list[str] = []
    end: int | None = None
    reach = reach_among(scan.wanted)
    while scan.wanted.lanes:
        try:
            end = yield from _end_of(scan, reach)
            found = yield Find(scan if end is None else _from(scan, end))
            break
        except TookTooLong:
            steps += commit_steps_max
            if reach == 1 or not scan.wanted.passes_over:
                raise
            reach = max(1, reach // 16)
    ws.until = None if end is None else str(PageEnd(end))
    page = PageReading(scan, found)
    steps += yield from load_page(page, ws)
    if not page.is_whole:
        task = ws.task(ws.found[-1])
        assert task is not None
        ws.until = str(PageEnd(task.created_at, task.id))
    return steps


def _end_of(scan: ExecutionScan, reach: int) -> Work[int | None]:
    if not scan.wanted.passes_over:
        return None
    [end] = yield Find(ExecutionStretch(scan.wanted, scan.after, reach))
    return None if end is None else int(end)


def _from(scan: ExecutionScan, instant: int) -> ExecutionScan:
    return replace(scan, wanted=replace(scan.wanted, since=instant))


def _count_lanes(tally: ExecutionTally, scope: str | None, ws: WorkingSet) -> Work[int]:
    """How many executions of each lane are wanted, as far as one may look; and whether that is all of it."""
    tally = within_reach(replace(tally, wanted=replace(tally.wanted, scope=scope)))
    while tally.wanted.lanes:
        try:
            rows: list[tuple[str, int, int]] = yield Find(tally)
        except TookTooLong:
            if tally.reach == 1:
                raise
            tally = replace(tally, reach=max(1, tally.reach // 16))
            continue
        ws.counts = {lane: (number, looked < tally.reach) for lane, number, looked in rows}
        return count_steps * len(rows) + sum(looked for _, _, looked in rows) // 2
    return 0
