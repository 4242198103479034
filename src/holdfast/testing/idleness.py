"""Checks that work which nobody takes, although workers are free, is offered again after a while.

What waits for room in its queue waits for others, and is not counted.
"""

from holdfast.engine.job_state import queue_name
from holdfast.protocol.records import Millis, Task
from holdfast.store.memory import MemoryStore


class Idleness:
    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: dict[tuple[str, int], float] = {}  # pending tasks, and since when

    def note(
        self, store: MemoryStore, now: Millis, at_s: float, *, for_executions: bool, for_tasks: bool
    ) -> list[str]:
        """What lies about too long, where somebody is idle for such work and the nodes' time goes on."""
        since, self._waiting = self._waiting, {}
        for key, task in store.tasks.items():
            if _waits(task, store, now):
                is_open = for_executions if task.job is None else for_tasks
                place = key, task.version
                self._waiting[place] = since.get(place, at_s) if is_open else at_s
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
