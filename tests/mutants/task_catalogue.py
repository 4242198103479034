"""Mutants of background tasks: the engine's half of them, and the worker's."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TASKS = (
    Mutant(
        "a retry is not counted",
        "a task is tried as often as its policy says",
        "engine",
        "replace(task, started_at=None, retries=task.retries + 1, bounces=0, job=job)",
        "replace(task, started_at=None, bounces=0, job=job)",
        "tests/job_rules/test_state_table.py -k memory",
    ),
    Mutant(
        "a deadline for the start is a millisecond late",
        "at good_until it is too late to start",
        "engine",
        "... and job.good_until is not None and job.good_until <= now and ...",
        "... and job.good_until is not None and job.good_until < now and ...",
        "tests/job_rules/test_state_table.py -k memory",
    ),
    Mutant(
        "a queue lets one too many through",
        "at most so many tasks of a queue run at once",
        "engine",
        "sum(self.held.values()) >= queue.concurrency",
        "sum(self.held.values()) > queue.concurrency",
        "tests/job_rules/test_queues.py -k memory",
    ),
    Mutant(
        "a result that was not answered is forgotten",
        "a worker tells a result until it is heard",
        "host",
        "if pending.once:\n    pending.answered(None)\nelse:\n    self._waiting.appendleft(pending)",
        "pending.answered(None)",
        "tests/jobs/test_outbox.py",
    ),
    Mutant(
        "a crash is offered again whatever the policy says",
        "a task that may have run is tried again only if its policy says so",
        "engine",
        "fail(task, WORKER_CRASHED, verdict(WORKER_CRASHED, task), None, ws, now, crashed=True)",
        "go_back(task, ws, now)",
        "tests/job_rules/test_state_table.py -k memory",
    ),
    Mutant(
        "a task that comes back unbegun goes to the end",
        "what has waited longest goes first",
        "engine",
        "return task.job.enqueued_at",
        "return now",
        "tests/job_rules/test_queues.py -k memory",
    ),
    Mutant(
        "the memory store hands out by creation",
        "what has waited longest goes first",
        "engine",
        "task.created_at if task.job is None or task.acquired_at is None else task.acquired_at",
        "task.created_at",
        "tests/job_rules/test_queues.py -k memory",
    ),
    Mutant(
        "a search by status shows what has expired meanwhile",
        "a task is found under the status that it has",
        "engine",
        "return status is None or (view.job is not None and view.job.status == status)",
        "return True",
        "tests/job_rules/test_search.py -k memory",
    ),
    Mutant(
        "what was told of every failure is kept",
        "a task that fails for long does not grow without end",
        "engine",
        "oldest >= 0 and attempts[oldest].error is not None",
        "oldest < 0 and attempts[oldest].error is not None",
        "tests/job_rules/test_state_table.py -k memory",
    ),
    Mutant(
        "a crash is retried only if its code is listed",
        "a worker that died is no answer of the function: its task is tried again",
        "protocol",
        "return self.crashes",
        "return self.crashes and (self.codes is None or code in self.codes)",
        "tests/job_rules/test_state_table.py -k memory",
    ),
)
