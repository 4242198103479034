"""The instruments of OpenTelemetry: what `app.metrics()` counts, under the names of that world.

Counters and histograms are written when something happens. The gauges of queues are read when somebody
collects: see host/queue_figures.py.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.protocol.records import Promise
from holdfast.steps.observer import EndedExecution, TaskAttempt


class Instruments:
    def __init__(self, metrics: Any, provider: Any) -> None:
        meter = (provider or metrics.get_meter_provider()).get_meter("holdfast")
        self._started = meter.create_counter("holdfast.executions.started", description="that began here")
        self._ended = meter.create_counter("holdfast.executions.ended", description="by outcome")
        self._failed = meter.create_counter("holdfast.executions.failed", description="of those that ended")
        self._lasted = meter.create_histogram(
            "holdfast.execution.duration", "s", "from the start of an execution to its end"
        )
        self._waited = meter.create_histogram(
            "holdfast.execution.wait", "s", "from the start of an execution to its first claim"
        )
        self._attempts = meter.create_counter("holdfast.task.attempts.started", description="that began here")
        self._attempts_ended = meter.create_counter("holdfast.task.attempts.ended", description="by code")
        self._attempts_failed = meter.create_counter("holdfast.task.attempts.failed", description="by code")
        self._task_lasted = meter.create_histogram("holdfast.task.duration", "s", "of an attempt at a task")
        self._task_waited = meter.create_histogram(
            "holdfast.task.wait", "s", "how long a task waited in its queue for an attempt"
        )
        self._observation = metrics.Observation
        self._apps: list[Any] = []
        meter.create_observable_gauge(
            "holdfast.queue.age", [self._ages], "s", "age of the oldest pending task, by group"
        )
        meter.create_observable_gauge("holdfast.queue.length", [self._lengths], "", "pending tasks, by group")

    def watch(self, app: Any) -> None:
        """The queues of its node, if that is in this process."""
        self._apps.append(app)

    def _ages(self, _: Any) -> Iterable[Any]:
        for each in self._queues():
            yield self._observation(each.oldest_s, {"group": each.group})

    def _lengths(self, _: Any) -> Iterable[Any]:
        for each in self._queues():
            yield self._observation(each.pending, {"group": each.group})

    def _queues(self) -> Iterator[Any]:
        for app in self._apps:
            yield from app.queue_figures.read()

    def execution_began(self, root: Promise, workflow: str, waited_s: float) -> None:
        self._started.add(1, {"workflow": workflow})
        self._waited.record(waited_s, {"workflow": workflow})

    def execution_ended(self, ended: EndedExecution) -> None:
        self._ended.add(1, {"workflow": ended.workflow, "outcome": ended.ending})
        if ended.ending == "failed":
            self._failed.add(1, {"workflow": ended.workflow})
        lasted_s = max(0.0, ended.ended_at - ended.root.created_at) / 1000
        self._lasted.record(lasted_s, {"workflow": ended.workflow})

    def task_began(self, attempt: TaskAttempt) -> None:
        labels = {"task": attempt.name, "queue": attempt.queue}
        self._attempts.add(1, labels)
        self._task_waited.record(attempt.waited_s, labels)

    def task_ended(self, attempt: TaskAttempt) -> None:
        labels = {"task": attempt.name, "queue": attempt.queue}
        self._attempts_ended.add(1, labels | {"code": attempt.code or ""})
        if attempt.code is not None:
            self._attempts_failed.add(1, labels | {"code": attempt.code})
        self._task_lasted.record(attempt.took_s, labels)
