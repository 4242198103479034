"""Work that nobody takes although there are hands: it must be offered again after a while.

What waits for room in its queue waits for others, and is not counted.
"""

from holdfast.engine.job_state import queue_name
from holdfast.protocol.records import Millis, Task
from holdfast.store.memory import MemoryStore


class Idleness:
    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: dict[tuple[str, int], float] = {}  # pending tasks, and since when

    def note(self, store: MemoryStore, now: Millis, at_s: float, *, is_open: bool) -> list[str]:
        """What lies about too long. `is_open`: somebody is idle, and the nodes' time goes on."""
        waiting = [(key, task.version) for key, task in store.tasks.items() if _waits(task, store, now)]
        since = self._waiting if is_open else {}
        self._waiting = {key: since.get(key, at_s) for key in waiting}
        return [
            f"nobody takes {key} at version {version} for {self._patience_s:g} s"
            for (key, version), began_s in self._waiting.items()
            if at_s - began_s > self._patience_s
        ]


def _waits(task: Task, store: MemoryStore, now: Millis) -> bool:
    if task.state != "pending" or task.parked or task.timeout_at <= now:
        return False
    queue = None if task.job is None else store.queues.get(queue_name(task.target))
    return queue is None or not queue.is_gated
