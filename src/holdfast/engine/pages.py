"""The page of a search: as many of the records that were found as fit, and where the next page begins.

Records are read a few at a time, because nobody knows how large they are before they are read. The first one
always fits.
"""

from typing import Final

from holdfast.engine.needed import Footprint
from holdfast.engine.newest import ExecutionScan
from holdfast.engine.scans import (
    ClaimScan,
    LeaseScan,
    PromiseScan,
    QueueScan,
    Scan,
    ScheduleScan,
    SearchScan,
    TaskScan,
    TreeScan,
)
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.sizes import fitting, queue_bytes, schedule_bytes, whole_promise_bytes

read_at_once: Final = 16


class PageReading:
    """Ask `next_ids`, load them, `note` them, until there are none; then `ids` fit."""

    def __init__(self, scan: SearchScan | ExecutionScan, found: list[str]) -> None:
        self._scan = scan
        self._found = found
        self._read = 0
        self._sizes: list[int] = []
        self.ids: list[str] = []

    def next_ids(self) -> set[str]:
        if self._read > len(self.ids):  # one of them did not fit
            return set()
        return set(self._found[self._read : self._read + read_at_once])

    def footprint(self, ids: set[str]) -> Footprint:
        match self._scan:
            case ScheduleScan():
                return Footprint(schedule_views=ids)
            case QueueScan():
                return Footprint(queue_views=ids)
            case PromiseScan() | TaskScan() | ExecutionScan():
                return Footprint(views=ids)

    def note(self, ws: WorkingSet) -> None:
        read = self._found[self._read : self._read + read_at_once]
        self._sizes += [self._size(record_id, ws) for record_id in read]
        self._read += len(read)
        self.ids = self._found[: max(1, fitting(self._sizes, limits.search_bytes_max))]

    @property
    def is_whole(self) -> bool:
        return len(self.ids) == len(self._found)

    def _size(self, record_id: str, ws: WorkingSet) -> int:
        match self._scan:
            case ScheduleScan():
                entry = ws.schedule(record_id)
                return 0 if entry is None else schedule_bytes(entry.schedule)
            case QueueScan():
                queue = ws.queue(record_id)
                return 0 if queue is None else queue_bytes(queue)
            case PromiseScan() | TaskScan() | ExecutionScan():
                promise = ws.promise(record_id)
                return 0 if promise is None else whole_promise_bytes(promise)


def found_footprint(scan: Scan, found: set[str]) -> Footprint:
    """What to load of the records that a scan found which is no search."""
    match scan:
        case LeaseScan():
            return Footprint(promises=found)
        case ClaimScan():  # for a queue that was set or resumed: offers to be repeated
            return Footprint(task_views=found)
        case TreeScan():  # which of them are needed, and for what, only the request knows
            return Footprint()
        case _:
            raise AssertionError("no request asks for that here")
