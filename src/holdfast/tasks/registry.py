"""Tasks by name: what a queue asks for, and what this process can run."""

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.tasks.errors import DuplicateTask, UnknownTask
from holdfast.tasks.task import Task

AnyTask = Task[..., Any, Any, Any]


class TaskRegistry:
    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}

    def add(self, task: AnyTask) -> None:
        other = self._tasks.get(task.name)
        if other is not None:
            here, there = where(task.function), where(other.function)
            raise DuplicateTask(f"The task {task.name!r} is defined twice: {there} and {here}")
        self._tasks[task.name] = task

    def find(self, name: str) -> AnyTask:
        if name not in self._tasks:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(f"The task {name!r} is not registered here (known: {known})")
        return self._tasks[name]

    def get(self, name: str) -> AnyTask | None:
        return self._tasks.get(name)

    @property
    def queues(self) -> list[str]:
        """The queues that the tasks of this process are sent to."""
        return sorted({task.queue for task in self._tasks.values()})

    def __iter__(self) -> Iterator[AnyTask]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)


def where(function: Callable[..., Any]) -> str:
    """`file:line`, for people."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
