"""Mutants of background tasks: the engine's half of them, and the worker's."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TASKS = (
    Mutant(
        "a retry is not counted",
        "a task is tried as often as its policy says",
        "engine/jobs.py",
        "retries=task.retries + 1, bounces=0, job=job)",
        "bounces=0, job=job)",
        "tests/jobs/test_state_table.py -k memory",
    ),
    Mutant(
        "a deadline for the start is a millisecond late",
        "at good_until it is too late to start",
        "engine/job_state.py",
        "        and job.good_until <= now\n",
        "        and job.good_until < now\n",
        "tests/jobs/test_state_table.py -k memory",
    ),
    Mutant(
        "a queue lets one too many through",
        "at most so many tasks of a queue run at once",
        "engine/claims.py",
        "sum(self.held.values()) >= queue.concurrency",
        "sum(self.held.values()) > queue.concurrency",
        "tests/jobs/test_queues.py -k memory",
    ),
    Mutant(
        "a result that was not answered is forgotten",
        "a worker tells a result until it is heard",
        "tasks/outbox.py",
        "                self._letters.appendleft(letter)\n",
        "                letter.answered(None)\n",
        "tests/tasks/test_outbox.py",
    ),
    Mutant(
        "a crash is offered again whatever the policy says",
        "a task that may have run is tried again only if its policy says so",
        "engine/jobs.py",
        "        fail(task, WORKER_CRASHED, verdict(WORKER_CRASHED, task), None, ws, now, crashed=True)\n",
        "        go_back(task, ws, now)\n",
        "tests/jobs/test_state_table.py -k memory",
    ),
)
