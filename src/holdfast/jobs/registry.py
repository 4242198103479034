"""Tasks by name, and what an app declares about queues and schedules."""

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.jobs.errors import BadOption, DuplicateTask, UnknownTask
from holdfast.jobs.queues import QueueLimits
from holdfast.jobs.schedules import Recurrence
from holdfast.jobs.task import TaskDefinition

AnyTask = TaskDefinition[..., Any, Any, Any]


class TaskRegistry:
    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}
        self.limits: dict[str, QueueLimits] = {}
        self.recurrences: dict[str, Recurrence] = {}
        self.watchers: list[Callable[[], None]] = []  # told of every declaration, on the thread that makes it

    def add(self, task: AnyTask) -> None:
        other = self._tasks.get(task.name)
        if other is not None:
            here, there = where(task.function), where(other.function)
            raise DuplicateTask(f"The task {task.name!r} is defined twice: {there} and {here}")
        self._tasks[task.name] = task
        self._tell()

    def find(self, name: str) -> AnyTask:
        if name not in self._tasks:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(f"The task {name!r} is not registered here (known: {known})")
        return self._tasks[name]

    def get(self, name: str) -> AnyTask | None:
        return self._tasks.get(name)

    @property
    def queues(self) -> list[str]:
        """The queues that the tasks of this process are sent to, and those that are declared here."""
        return sorted({task.queue for task in [*self._tasks.values()]} | {*self.limits})

    def add_queue(self, limits: QueueLimits) -> None:
        known = self.limits.get(limits.name)
        if known is not None and known != limits:
            raise BadOption(f"The queue {limits.name!r} is declared twice, with different options")
        self.limits[limits.name] = limits
        self._tell()

    def add_recurrence(self, recurrence: Recurrence) -> None:
        if recurrence.id in self.recurrences:
            raise BadOption(f"The schedule {recurrence.id!r} is declared twice: give one of them another id=")
        self.recurrences[recurrence.id] = recurrence
        self._tell()

    def _tell(self) -> None:
        for watch in [*self.watchers]:
            watch()

    def priority_of(self, queue: str) -> int | None:
        limits = self.limits.get(queue)
        return None if limits is None else limits.priority

    def __iter__(self) -> Iterator[AnyTask]:
        return iter([*self._tasks.values()])

    def __len__(self) -> int:
        return len(self._tasks)


def where(function: Callable[..., Any]) -> str:
    """`file:line`, for people."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
