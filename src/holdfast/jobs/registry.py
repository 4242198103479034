"""Tasks by name, and the queues and schedules that an app declares.

A queue has a default priority, and limits that hold across all workers. They are stored when a worker of the
app starts, and replace those that were there. A queue that nobody declared has none.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct, convert

from holdfast.jobs.errors import BadOption, DuplicateTask, UnknownTask
from holdfast.jobs.findings import read_options
from holdfast.jobs.options import check_priority, check_queue_name
from holdfast.jobs.schedules import Recurrence
from holdfast.jobs.task import AnyTask
from holdfast.payloads.durations import duration_s
from holdfast.payloads.errors import BadDuration
from holdfast.payloads.interactive import is_interactive
from holdfast.protocol import limits
from holdfast.protocol.jobs import Rate, check_weights
from holdfast.protocol.requests import QueueSet
from holdfast.steps.hooks import Hooks

log = logging.getLogger("holdfast.tasks")

_rate: Final = re.compile(r"\s*([0-9]+)\s*/\s*(.+)", re.ASCII)


class QueueLimits(Struct, frozen=True, kw_only=True):
    """What is declared about one queue."""

    name: str
    priority: int = 0
    concurrency: int | None = None
    per_key: int | None = None
    rate: Rate | None = None
    per_key_rate: Rate | None = None
    running: int | None = None
    fair_by: str | None = None
    weights: dict[str, int] | None = None

    def request(self) -> QueueSet:
        return QueueSet(
            self.name,
            self.concurrency,
            self.per_key,
            self.rate,
            self.per_key_rate,
            self.fair_by is not None,
            self.weights,
            self.running,
        )


def declare_queue(given: Mapping[str, Any]) -> QueueLimits:
    """The options of `app.queue`. Raises BadOption for what makes no sense."""
    read: dict[str, Any] = {"name": str(given["name"])} | read_options("a queue", given, _readers)
    if read.get("weights") is not None and read.get("fair_by") is None:
        raise BadOption('weights are for a fair queue: add fair_by="limit_key"')
    return QueueLimits(**read)


def parse_rate(name: str, text: Any) -> Rate | None:
    """`10/s`, `100/m`, `5/10s`: so many in any stretch of that length."""
    if text is None:
        return None
    match = _rate.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadOption(f'{name}={text!r} is not a rate: write "10/s", "100/m" or "5/10s"')
    span = match[2] if match[2][:1].isdigit() else f"1{match[2]}"
    try:
        return Rate(int(match[1]), round(duration_s(span) * 1000))
    except (BadDuration, ValueError) as error:
        what = error.what if isinstance(error, BadDuration) else str(error)
        raise BadOption(f"{name}={text!r} is not a rate: {what}") from None


def _count(name: str, count: Any) -> int | None:
    if count is None:
        return None
    most = limits.concurrency_max
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise BadOption(f"{name} must be a whole number from 1 to {most}, not {count!r}")
    return count


def _fair_by(key: Any) -> str | None:
    if key not in (None, "limit_key"):
        raise BadOption(f'fair_by is "limit_key", the key that a task is sent with, not {key!r}')
    return None if key is None else str(key)


def _weights(weights: Any) -> dict[str, int] | None:
    if weights is None:
        return None
    try:
        found = convert(weights, dict[str, int])
        check_weights(found)
    except ValueError as error:  # of msgspec too
        raise BadOption(
            f"weights are whole numbers by key, such as {{'acme': 3}}, not {weights!r}: {error}"
        ) from None
    return found


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "name": check_queue_name,
    "priority": check_priority,
    "concurrency": partial(_count, "concurrency"),
    "per_key": partial(_count, "per_key"),
    "rate": partial(parse_rate, "rate"),
    "per_key_rate": partial(parse_rate, "per_key_rate"),
    "running": partial(_count, "running"),
    "fair_by": _fair_by,
    "weights": _weights,
}


class TaskRegistry:
    def __init__(self) -> None:
        self.hooks = Hooks()
        self._tasks: dict[str, AnyTask] = {}
        self.limits: dict[str, QueueLimits] = {}
        self.recurrences: dict[str, Recurrence] = {}
        self._not_served: set[str] = set()
        self.watchers: list[Callable[[], None]] = []  # told of every declaration, on the thread that makes it

    def add(self, task: AnyTask) -> None:
        other = self._tasks.get(task.name)
        if other is not None and not is_interactive():
            here, there = where(task.function), where(other.function)
            raise DuplicateTask(f"The task {task.name!r} is defined twice: {there} and {here}")
        self._tasks[task.name] = task
        task.middlewares = self.hooks.middlewares
        self.tell_watchers()

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

    def note_use(self, queue: str) -> None:
        """Something waits in this queue. Say so once if the worker of this app does not serve it."""
        if not self.watchers or queue in self._not_served or queue in self.queues:
            return
        self._not_served.add(queue)
        log.warning(
            "the queue %r is not declared in this app, so this worker does not serve it. "
            "Declare it with app.queue(%r), or leave its tasks to other workers",
            queue,
            queue,
        )

    def add_queue(self, limits: QueueLimits) -> None:
        known = self.limits.get(limits.name)
        if known is not None and known != limits and not is_interactive():
            raise BadOption(f"The queue {limits.name!r} is declared twice, with different options")
        self.limits[limits.name] = limits
        self.tell_watchers()

    def add_recurrence(self, recurrence: Recurrence) -> None:
        if recurrence.id in self.recurrences and not is_interactive():
            raise BadOption(f"The schedule {recurrence.id!r} is declared twice: give one of them another id=")
        self.recurrences[recurrence.id] = recurrence
        self.tell_watchers()

    def tell_watchers(self) -> None:
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
