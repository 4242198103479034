"""What the dictionaries of the memory store hold of queues: the model of what others find by indexes."""

from collections import Counter
from collections.abc import Iterable

from holdfast.engine.needed import LineKey
from holdfast.engine.queue_lines import is_counted, is_queued, key_of, line_name, lines_of
from holdfast.engine.scans import HeldRow, WaitingRow
from holdfast.protocol import limits
from holdfast.protocol.address import claim_group
from holdfast.protocol.jobs import queue_group
from holdfast.protocol.records import Millis, Task


def held(tasks: Iterable[Task], groups: tuple[str, ...]) -> list[HeldRow]:
    counted = [
        (group, key_of(task), task.pid is not None)
        for task in tasks
        if is_counted(task) and (group := claim_group(task.target)) in groups
    ]
    number = Counter((group or "", key) for group, key, _ in counted)
    claimed = Counter((group or "", key) for group, key, is_claimed in counted if is_claimed)
    return [(*line, count, claimed[line]) for line, count in number.items()]


def waiting(tasks: Iterable[Task], group: str, limit: int) -> list[WaitingRow]:
    found: dict[str | None, list[Millis]] = {}
    left = {False: limit, True: limit}
    for task in tasks:
        if is_queued(task) and task.state == "pending" and claim_group(task.target) == group:
            left[task.parked] -= 1
            if left[task.parked] >= 0:
                found.setdefault(key_of(task), []).append(task.created_at)
    return [(key, len(created), min(created)) for key, created in found.items()]


def count(tasks: Iterable[Task], name: str) -> tuple[int, int, int, int]:
    pending = delayed = claimed = running = 0
    for task in tasks:
        if is_queued(task) and claim_group(task.target) == queue_group(name):
            runs = task.started_at is not None or task.place is not None
            pending += task.state == "pending"
            delayed += task.state == "pending" and task.parked
            claimed += task.state == "acquired" and not runs
            running += task.state == "acquired" and runs
    return pending, delayed, claimed, running


def placed(tasks: Iterable[Task], line: str) -> list[str]:
    """Open executions with this key, one more than can be replaced."""
    found = (
        task.id
        for task in tasks
        if task.place is not None
        and task.state != "fulfilled"
        and line_name(claim_group(task.target) or "", task.place.key) == line
    )
    return sorted(found)[: limits.replaced_max + 1]


def last_turn(tasks: Iterable[Task], line: LineKey) -> int:
    waiting = (
        task.turn
        for task in tasks
        if task.turn and task.state == "pending" and not task.parked and line in lines_of(task)
    )
    return max(waiting, default=0)
