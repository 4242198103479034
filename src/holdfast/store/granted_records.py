"""The records of tasks that are granted to workers, kept in memory by a store that is as good as alone.

Every fence, heartbeat and fulfilment names a task that is acquired, and nearly always nobody but this process
has written to the file since it was. Then its promise and its task need not be read again.

1. What is kept is what the file holds. A record that a transaction writes is dropped at once, and kept again,
   as it was written, when the transaction is durable; never if it is undone.
2. Whatever somebody else commits to the file drops everything: the store calls `see` with a number that is
   another one after that, once it holds the write lock.
3. Only records of acquired tasks are kept, no large ones, and so many at most.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.engine import WorkingSet
from holdfast.protocol.records import Promise, Task
from holdfast.protocol.sizes import promise_bytes

granted_records_max: Final = 2_048
granted_record_bytes_max: Final = 16_384

Record = tuple[Promise, Task]


class GrantedRecords:
    def __init__(self) -> None:
        self._kept: dict[str, Record] = {}
        self._coming: dict[str, Record] = {}  # of the transaction that is open
        self._version: object = None

    def see(self, version: object) -> None:
        """A transaction has begun. `version` is another one after a commit that was not ours."""
        if version != self._version:
            self._version = version
            self._kept.clear()

    def fill(self, ws: WorkingSet, ids: Iterable[str]) -> None:
        for key in ids:
            if (record := self._kept.get(key)) is not None:
                ws.fill_promise(record[0])
                ws.fill_task(record[1])

    def loaded(self, ws: WorkingSet, ids: Iterable[str]) -> None:
        """These were asked for, and are as the file has them, but for what has changed since."""
        for key in ids:
            if ws.tasks.get(key) is not None and not (
                key in self._kept or key in ws.changed_tasks or key in ws.changed_promises
            ):
                self._note(ws, key)

    def written(self, ws: WorkingSet) -> None:
        """Before the working set is told that its changes are in the store."""
        if ws.cleared:
            self._kept.clear()
            self._coming.clear()
        for key in ws.forgotten:
            self._drop(key)
        tasks = ws.tasks
        for changed in (ws.changed_promises, ws.changed_tasks):
            for key in changed:
                if tasks.get(key) is not None or key in self._kept:  # most have no task: records of steps
                    self._drop(key)
                    self._note(ws, key)

    def committed(self) -> None:
        if self._coming:
            self._kept.update(self._coming)
            self._coming.clear()
            while len(self._kept) > granted_records_max:
                del self._kept[next(iter(self._kept))]

    def undone(self) -> None:
        self._coming.clear()

    def _drop(self, key: str) -> None:
        self._kept.pop(key, None)
        self._coming.pop(key, None)

    def _note(self, ws: WorkingSet, key: str) -> None:
        promise, task = ws.promises.get(key), ws.tasks.get(key)
        if (
            promise is not None
            and task is not None
            and task.state == "acquired"
            and promise_bytes(promise) <= granted_record_bytes_max
        ):
            self._coming[key] = promise, task
