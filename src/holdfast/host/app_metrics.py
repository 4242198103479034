"""What an app counts of its own executions and tasks, and how that is written as Prometheus text.

`holdfast serve` has the figures of the node (server/metrics.py). These are a worker's: by workflow and task.

1. Counting costs a few additions for each execution and each attempt at a task, none for steps that succeed.
2. The number of names is bounded. Whoever is past it is counted under `other`.
3. What a process has counted is gone with it: Prometheus knows what a counter that begins anew means.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from holdfast.host.queue_figures import read_queues
from holdfast.protocol.records import Promise
from holdfast.steps.observer import EndedExecution, FailedAttempt, Observer, TaskAttempt

if TYPE_CHECKING:
    from holdfast.host.session import Session

names_max: Final = 1_000
bounds_s: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600, 86_400)
OTHER: Final = "other"

Labels = tuple[tuple[str, str], ...]


class Durations:
    """One histogram."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(bounds_s, seconds)] += 1
        self.total_s += seconds

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for bound, count in zip((*bounds_s, "+Inf"), self.counts, strict=True):
            total += count
            yield _line(f"{name}_bucket", (*labels, ("le", str(bound))), total)
        yield _line(f"{name}_sum", labels, self.total_s)
        yield _line(f"{name}_count", labels, total)


class Family:
    """One metric with its samples, by labels."""

    def __init__(self, name: str, kind: str, text: str) -> None:
        self.name = name
        self._kind = kind
        self._text = text
        self._counts: dict[Labels, float] = {}
        self._durations: dict[Labels, Durations] = {}

    def count(self, **labels: str) -> None:
        key = tuple(labels.items())
        self._counts[key] = self._counts.get(key, 0) + 1

    def set(self, value: float, **labels: str) -> None:
        self._counts[tuple(labels.items())] = value

    def add(self, seconds: float, **labels: str) -> None:
        key = tuple(labels.items())
        if key not in self._durations:
            self._durations[key] = Durations()
        self._durations[key].add(seconds)

    def lines(self) -> Iterator[str]:
        if self._counts or self._durations:
            yield f"# HELP {self.name} {self._text}"
            yield f"# TYPE {self.name} {self._kind}"
        for labels, value in sorted(self._counts.items()):
            yield _line(self.name, labels, value)
        for labels, durations in sorted(self._durations.items()):
            yield from durations.lines(self.name, labels)


class AppMetrics(Observer):
    def __init__(self) -> None:
        self._names: set[str] = set()
        self._started = Family(
            "holdfast_executions_started_total", "counter", "executions that began here, by workflow"
        )
        self._ended = Family(
            "holdfast_executions_ended_total",
            "counter",
            "executions that ended here, by workflow and outcome",
        )
        self._lasted = Family(
            "holdfast_execution_duration_seconds", "histogram", "from the start of an execution to its end"
        )
        self._waited = Family(
            "holdfast_execution_wait_seconds",
            "histogram",
            "from the start of an execution to its first claim",
        )
        self._steps = Family(
            "holdfast_step_failures_total", "counter", "failed attempts at steps, by workflow and step"
        )
        self._tasks_started = Family(
            "holdfast_task_attempts_started_total", "counter", "attempts at background tasks that began here"
        )
        self._tasks_ended = Family(
            "holdfast_task_attempts_ended_total", "counter", "attempts that ended here, by code of failure"
        )
        self._task_lasted = Family(
            "holdfast_task_attempt_duration_seconds", "histogram", "how long attempts at tasks took"
        )
        self._task_waited = Family(
            "holdfast_task_wait_seconds", "histogram", "how long tasks waited in their queue for an attempt"
        )

    @property
    def families(self) -> list[Family]:
        return [each for each in vars(self).values() if isinstance(each, Family)]

    def execution_began(self, root: Promise, workflow: str, waited_s: float) -> None:
        name = self._known(workflow)
        self._started.count(workflow=name)
        self._waited.add(waited_s, workflow=name)

    def execution_ended(self, ended: EndedExecution) -> None:
        name = self._known(ended.workflow)
        self._ended.count(workflow=name, outcome=ended.ending)
        self._lasted.add(max(0.0, ended.ended_at - ended.root.created_at) / 1000, workflow=name)

    def attempt_failed(self, failed: FailedAttempt) -> None:
        if failed.kind == "step":
            step = self._known(f"{failed.workflow}/{failed.name}")
            name = OTHER if step == OTHER else failed.name
            self._steps.count(workflow=self._known(failed.workflow), step=name)

    def task_began(self, attempt: TaskAttempt) -> None:
        name = self._known(attempt.name)
        self._tasks_started.count(task=name, queue=attempt.queue)
        self._task_waited.add(attempt.waited_s, task=name, queue=attempt.queue)

    def task_ended(self, attempt: TaskAttempt) -> None:
        name = self._known(attempt.name)
        self._tasks_ended.count(task=name, queue=attempt.queue, code=attempt.code or "")
        self._task_lasted.add(attempt.took_s, task=name, queue=attempt.queue)

    def _known(self, name: str) -> str:
        if name in self._names:
            return name
        if len(self._names) >= names_max:
            return OTHER
        self._names.add(name)
        return name


async def render(metrics: AppMetrics, session: "Session") -> str:
    """All of it; and what waits in the queues of a node in this process."""
    pending = Family("holdfast_backlog", "gauge", "pending tasks, by group")
    oldest = Family("holdfast_oldest_pending_seconds", "gauge", "age of the oldest pending task, by group")
    for each in await read_queues(session):
        pending.set(each.pending, group=each.group)
        oldest.set(each.oldest_s, group=each.group)
    families = [*metrics.families, pending, oldest]
    return _text(line for family in families for line in family.lines())


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _line(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inner}}} {value}" if inner else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
