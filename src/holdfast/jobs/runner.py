"""Runs the background tasks that a host claims: finds the function, has it performed, words the result.

1. A result that comes too late is dropped, whoever it comes from, and a line is logged.
2. What cannot be run here (an unknown name, another codec) is given back; the engine lets it rest longer and
   longer, and no attempt is counted.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from holdfast.jobs.errors import TaskLost
from holdfast.jobs.job_run import (
    JobRun,
    final_request,
    final_request_without_value,
    refuse_arguments,
    resolve,
    unstorable,
)
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.telling import tell_failed
from holdfast.payloads.errors import StepCalledOff
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.replies import AcquireReply, Reply
from holdfast.protocol.requests import RequestData, TaskRelease
from holdfast.steps.providers import Provided, Providers
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepOutcome

log = logging.getLogger("holdfast.tasks")


class JobRunner:
    writes_results = False

    def __init__(
        self,
        payloads: Payloads,
        registry: TaskRegistry,
        steps: StepRunner,
        *,
        pid: str,
        provided: Provided | None = None,
        grace_s: float = 60.0,
    ) -> None:
        self.grace_s = grace_s
        self._payloads = payloads
        self._registry = registry
        self._steps = steps
        self._pid = pid
        self._provided = provided or Provided(Providers())
        self._loop = asyncio.get_running_loop()

    def left_behind(self) -> int:
        """Threads and tasks that still perform what nobody wants."""
        return self._steps.left_behind

    def accept(self, claim: AcquireReply, lease_ends_s: float) -> JobRun | TaskRelease:
        try:
            return resolve(claim, self._registry, self._payloads, lease_ends_s)
        except Exception as error:
            fields = {"execution": claim.task.id, "worker": self._pid}
            log.warning("a task cannot be run here: %s", error, extra=fields)
            return TaskRelease(claim.task.id, claim.task.version)

    def begin(self, run: JobRun, ended: Callable[[RequestData | None], None]) -> None:
        if self._loop.time() >= run.lease_ends_s:  # this process was frozen in between
            ended(TaskRelease(run.id, run.version))
            return
        try:
            run.begin(self._steps, self._payloads, self._provided, partial(self._ended, run, ended))
        except Exception as error:
            ended(self._worded(run, partial(refuse_arguments, run, error, self._payloads)))

    def doubt(self, run: JobRun) -> None:
        """Nothing wakes a background task: it waits for nothing."""

    def lose(self, run: JobRun, why: str, *, is_stopping: bool) -> None:
        log.warning("a task was stopped: %s", why, extra=self._fields(run))
        run.lose(TaskLost(f"The task {run.id} was stopped here: {why}"))

    def answered(self, run: JobRun, reply: Reply, sent: int) -> RequestData | None:
        if run.attempt_result is None:  # it was given back
            return None
        if reply.status in (400, 413) and not run.is_refused:
            run.is_refused = True
            return self._worded(run, partial(unstorable, run, str(reply.data), self._payloads))
        if reply.status >= 400:
            what = "a late result was dropped" if sent == 1 else "a result was told twice or too late"
            log.warning("%s: %s", what, reply.data, extra=self._fields(run))
        elif run.attempt_result.code is not None:
            tell_failed(run.id, run.task.name, run.attempt, self._pid, run.attempt_result, reply)
        return None

    async def close(self, wait_s: float) -> None:
        await self._steps.close()

    def _ended(self, run: JobRun, ended: Callable[[RequestData | None], None], outcome: StepOutcome) -> None:
        if run.is_lost or isinstance(outcome.error, StepCalledOff):
            ended(None)
        else:
            ended(self._worded(run, partial(final_request, run, outcome, self._payloads)))

    def _worded(self, run: JobRun, word: Callable[[], RequestData]) -> RequestData:
        try:
            return word()
        except Exception:  # the user's codec, say. Unless something is told, the task runs for ever
            log.exception("what became of a task could not be stored", extra=self._fields(run))
            return final_request_without_value(run)

    def _fields(self, run: JobRun) -> dict[str, object]:
        """What a line of the log says beside its message."""
        return {"execution": run.id, "task": run.task.name, "attempt": run.attempt, "worker": self._pid}
