"""The records of tasks that are granted to workers, or suspended, kept in memory by a store that is as good
as alone.

Every fence, heartbeat and fulfilment names a task that is acquired, every message one that is acquired or
suspended, and nearly always nobody but this process has written to the file since it was. Then its promise,
its task and the record of its streams need not be read again.

1. What is kept is what the file holds. A record that a transaction writes is dropped at once, and kept again,
   as it was written, when the transaction is durable; never if it is undone.
2. Whatever somebody else commits to the file drops everything: the store calls `see` with a number that is
   another one after that, once it holds the write lock.
3. Only records of acquired and suspended tasks are kept, no large ones, and so many at most. However many are
   suspended, those of acquired tasks keep their room.
"""

from typing import Any, Final

from holdfast.engine import Footprint, WorkingSet
from holdfast.protocol.records import Promise, Task
from holdfast.protocol.sizes import promise_bytes
from holdfast.protocol.streams import Streams

granted_records_max: Final = 2_048
granted_record_bytes_max: Final = 16_384
suspended_records_max: Final = 2_048
suspended_record_bytes_max: Final = 4_096
streams_max: Final = 4_096

Record = tuple[Promise, Task]


class GrantedRecords:
    def __init__(self) -> None:
        self._kept: dict[str, Record] = {}  # of acquired tasks
        self._suspended: dict[str, Record] = {}
        self._streams: dict[str, Streams] = {}
        self._coming: dict[str, Record] = {}  # of the transaction that is open
        self._coming_streams: dict[str, Streams] = {}
        self._version: object = None

    def see(self, version: object) -> None:
        """A transaction has begun. `version` is another one after a commit that was not ours."""
        if version != self._version:
            self._version = version
            self._clear()

    def fill(self, ws: WorkingSet, needed: Footprint) -> None:
        kept, suspended = self._kept, self._suspended
        for key in needed.promises if kept or suspended else ():
            if (record := kept.get(key) or suspended.get(key)) is not None:
                ws.fill_promise(record[0])
                ws.fill_task(record[1])
        for key in needed.streams:
            if (streams := self._streams.get(key)) is not None:
                ws.fill_streams(key, streams)

    def loaded(self, ws: WorkingSet, needed: Footprint) -> None:
        """These were asked for, and are as the file has them, but for what has changed since."""
        for key in needed.promises:
            if ws.tasks.get(key) is not None and not (
                key in self._kept
                or key in self._suspended
                or key in ws.changed_tasks
                or key in ws.changed_promises
            ):
                self._note(ws, key)
        for key in needed.streams:
            if key not in self._streams and key not in ws.changed_streams:
                self._note_streams(ws, key)

    def written(self, ws: WorkingSet) -> None:
        """Before the working set is told that its changes are in the store."""
        if ws.cleared:
            self._clear()
            self._coming.clear()
            self._coming_streams.clear()
        for key in ws.forgotten:
            self._drop(key)
            self._drop_streams(key)
        tasks, kept, suspended = ws.tasks, self._kept, self._suspended
        for changed in (ws.changed_promises, ws.changed_tasks):
            for key in changed:
                if tasks.get(key) is not None or key in kept or key in suspended:
                    self._drop(key)  # most have no task: records of steps
                    self._note(ws, key)
        for key in ws.changed_streams:
            self._drop_streams(key)
            self._note_streams(ws, key)

    def committed(self) -> None:
        if self._coming:
            for key, record in self._coming.items():
                (self._kept if record[1].state == "acquired" else self._suspended)[key] = record
            self._coming.clear()
            _keep_last(self._kept, granted_records_max)
            _keep_last(self._suspended, suspended_records_max)
        if self._coming_streams:
            self._streams.update(self._coming_streams)
            self._coming_streams.clear()
            _keep_last(self._streams, streams_max)

    def undone(self) -> None:
        self._coming.clear()
        self._coming_streams.clear()

    def _clear(self) -> None:
        self._kept.clear()
        self._suspended.clear()
        self._streams.clear()

    def _drop(self, key: str) -> None:
        self._kept.pop(key, None)
        self._suspended.pop(key, None)
        self._coming.pop(key, None)

    def _note(self, ws: WorkingSet, key: str) -> None:
        promise, task = ws.promises.get(key), ws.tasks.get(key)
        if promise is None or task is None:
            return
        if task.state == "acquired":
            bytes_max = granted_record_bytes_max
        elif task.state == "suspended":
            bytes_max = suspended_record_bytes_max
        else:
            return
        if promise_bytes(promise) <= bytes_max:
            self._coming[key] = promise, task

    def _drop_streams(self, key: str) -> None:
        self._streams.pop(key, None)
        self._coming_streams.pop(key, None)

    def _note_streams(self, ws: WorkingSet, key: str) -> None:
        if (streams := ws.streams.get(key)) is not None:
            self._coming_streams[key] = streams


def _keep_last(kept: dict[str, Any], count_max: int) -> None:
    while len(kept) > count_max:
        del kept[next(iter(kept))]
