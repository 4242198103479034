"""In which order the keys of a fair queue are served: each waiting task has a turn; the lowest goes first.

A task takes its turn when it may begin: when it is sent, when its delay is over, when its retry is due. That
is one step behind the last of its key that waits, but never before the turns that are being served. A step is
shorter the greater the weight of the key. So a million tasks of one key lie a step apart from each other, and
the one task of another key goes in among the first of them.

1. Nobody counts what a key was given. Its place follows from what waits, and from one number per priority:
   the highest turn that was granted (`QueueRecord.turns`), written with the grant.
2. A key that was idle gets no credit: its next task begins one step behind what is being served.
3. Nobody waits forever: before a task stand only those with lower turns, and turns only grow.
4. A task that comes back unbegun keeps its turn. One that rests loses it, and takes another afterwards.
5. So many priorities of a queue have turns of their own (`fair_priorities_max`). In any further one, and in a
   queue that is no longer fair, whoever comes is the last of all: first come, first served.
"""

from typing import Final

from holdfast.engine.job_state import queue_name
from holdfast.engine.places import key_of
from holdfast.engine.queue_lines import lines_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits
from holdfast.protocol.jobs import QueueRecord
from holdfast.protocol.records import Task

step: Final = 1_000_000  # between two turns of a key whose weight is 1


def take_turn(task: Task, ws: WorkingSet) -> int:
    """The turn of a background task that begins to wait; 0 where its queue has none."""
    queue = ws.queue(queue_name(task.target))
    if queue is None or not queue.has_turns:
        return 0
    own, all_keys = lines_of(task)
    if not queue.fair or not has_turns_of_its_own(queue, task.priority):
        return ws.lines.last_turn(all_keys)
    served = queue.turns.get(task.priority, 0)
    return max(served, ws.lines.last_turn(own)) + step // queue.weights.get(key_of(task) or "", 1)


def has_turns_of_its_own(queue: QueueRecord, priority: int) -> bool:
    return priority in queue.turns or len(queue.turns) < limits.fair_priorities_max


def served(queue: QueueRecord, turns: dict[int, int], task: Task) -> dict[int, int]:
    """The turns that were granted, with this task's; the same where nothing has changed."""
    known = turns.get(task.priority)
    if not queue.fair or task.turn <= (known or 0):
        return turns
    if known is None and len(turns) >= limits.fair_priorities_max:
        return turns
    return turns | {task.priority: task.turn}
