"""What a node logs about tasks whose worker stopped answering, and about executions that were halted because
that went on: once each, by the node that found it.

WARNING if it will be tried again, ERROR if not. When many go down at once, the first few are told of, and how
many there are.
"""

import logging
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.engine import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.errors import StuckExecution
from holdfast.protocol.jobs import WORKER_CRASHED, Attempt
from holdfast.protocol.records import Millis
from holdfast.protocol.text import printable

log = logging.getLogger("holdfast.node")

told_max: Final = 20


class Crash(Struct, frozen=True):
    """An attempt whose worker fell silent."""

    id: str
    task: str
    attempt: Attempt


class HaltedByCrashes(Struct, frozen=True):
    """An execution that was halted because its worker died too often."""

    id: str
    reason: str


def find_stuck(ws: WorkingSet, task_ids: Sequence[str], now: Millis) -> list[HaltedByCrashes]:
    """Those of these tasks that were just halted."""
    tasks = [task for task in map(ws.tasks.get, task_ids) if task is not None and task.state == "halted"]
    return [
        HaltedByCrashes(task.id, task.error or "")
        for task in tasks
        if (task.corr_id, task.acquired_at) == (StuckExecution.code, now)
    ]


def find_crashes(ws: WorkingSet, task_ids: Sequence[str], now: Millis) -> list[Crash]:
    """Those of these tasks that were just found so."""
    found: list[Crash] = []
    for task_id in task_ids:
        task, promise = ws.tasks.get(task_id), ws.promises.get(task_id)
        if task is None or task.job is None or not task.job.attempts or promise is None:
            continue
        last = task.job.attempts[-1]
        if last.code == WORKER_CRASHED and last.finished_at == now and task.version == last.version:
            found.append(Crash(task_id, promise.tags.get(tags.TASK, ""), last))
    return found


def tell_stuck(stuck: Sequence[HaltedByCrashes]) -> None:
    for each in stuck[:told_max]:
        name = printable(each.id)
        fields = {"execution": name, "code": StuckExecution.code}
        log.error("%s is halted: %s", name, printable(each.reason), extra=fields)
    if len(stuck) > told_max:
        log.error("%d executions are halted; %d of them are named", len(stuck), told_max)


def tell_crashes(crashes: Sequence[Crash]) -> None:
    for crash in crashes[:told_max]:
        attempt = crash.attempt
        task_id, task, worker = map(printable, (crash.id, crash.task, attempt.pid or ""))
        log.log(
            logging.WARNING if attempt.will_retry else logging.ERROR,
            "task %s %s: the worker %s fell silent in attempt %d, which %s be tried again",
            task,
            task_id,
            worker,
            attempt.number,
            "will" if attempt.will_retry else "will not",
            extra={
                "execution": task_id,
                "task": task,
                "attempt": attempt.number,
                "code": WORKER_CRASHED,
                "worker": worker,
            },
        )
    if len(crashes) > told_max:
        log.warning(
            "%d tasks lost their worker (no heartbeat); %d of them are named", len(crashes), told_max,
            extra={"tasks": len(crashes), "code": WORKER_CRASHED},
        )  # fmt: skip
