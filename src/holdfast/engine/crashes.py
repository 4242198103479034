"""Executions that do not get on: their worker dies under them again and again, or cannot run their code.

1. A lease that lapses, and a claim that is given back with an error, count as a failure of the execution. The
   first one changes nothing; with each further one it rests longer; and when there are as many as its promise
   allows (`holdfast:crashes`), it is halted with the reason. `task.continue` sets it going, and counts anew.
2. Progress starts the count anew: a record that was not there (of a lock or a wait for an event, too), a
   settlement, a suspension, a new generation, or a step or task that has come further than ever before.
3. Only executions of workflows are counted: a promise that says neither which workflow it runs nor how many
   failures it allows is offered again forever, as the protocol has it.
"""

from msgspec.structs import replace

from holdfast.engine.lost_claims import with_given_back, with_lapsed
from holdfast.engine.transitions import halted, offer
from holdfast.engine.view import promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import StuckExecution
from holdfast.protocol.records import Millis, Promise, Task


def lapse(task: Task, ws: WorkingSet, now: Millis) -> None:
    """Its lease has run out: whoever held it may be dead."""
    count = task.crashes + 1
    why = f"its worker died {count} times in a row without progress, the last one was {task.pid}"
    lost = with_lapsed(task)
    _again(replace(lost, started_at=None, crashes=count), why, ws, now, lapsed=task.pid)


def give_back(task: Task, delay: Millis, error: str | None, ws: WorkingSet, now: Millis) -> None:
    """Its worker could not run it, for a reason that another one may not have."""
    count = task.crashes if error is None else task.crashes + 1
    rested = replace(
        task if error is None else with_given_back(task, now),
        started_at=None,
        bounces=0,
        retries=task.retries + 1,
        error=task.error if error is None else error,
        crashes=count,
    )
    why = f"it could not be run {count} times in a row: {rested.error}"
    _again(rested, why, ws, now, delay=delay, counts=error is not None)


def _again(
    task: Task,
    why: str,
    ws: WorkingSet,
    now: Millis,
    *,
    delay: Millis = 0,
    lapsed: str | None = None,
    counts: bool = True,
) -> None:
    most = tags.crashes_of(promise_of(task, ws).tags)
    if most is None:
        task = replace(task, crashes=0)
    if most is not None and counts and task.crashes >= most:
        raw = why.encode()[: limits.error_bytes_max]
        ws.put_task(halted(task, raw.decode("utf-8", "ignore"), StuckExecution.code, now))
        return
    rest = max(delay, rest_after(task.crashes) if counts else 0)
    offer(task, ws, now, rest_until=min(now + rest, limits.instant_ms_max) if rest else 0, lapsed=lapsed)


def rest_after(crashes: int) -> Millis:
    """One is ordinary: a deployment, a machine that went down."""
    if crashes < 2:
        return 0
    return min(limits.crash_rest_ms_max, limits.crash_rest_ms << min(crashes - 2, 20))


def note_progress(task: Task, record: str, before: Promise | None, ws: WorkingSet) -> None:
    """It has recorded something, which is new unless the promise is what it was before."""
    if ws.promise(record) is not before:
        found = ws.task(task.id)
        assert found is not None
        ws.put_task(replace(found, crashes=0))
