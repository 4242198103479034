"""Lines of queues: what has a place there and counts, in which line it waits, and when it has its turn.

A queue has a line for each key. In a fair queue each waiting task has a turn, and the lowest goes first. A
task takes its turn when it may begin: when it is sent, when its delay is over, when its retry is due. That is
one step behind the last of its key that waits, but never before the turns that are being served. A step is
shorter the greater the weight of the key. So a million tasks of one key lie a step apart from each other, and
the one task of another key goes in among the first of them.

1. A background task counts while it is held. An execution counts from its first claim until it is over, also
   while it is suspended, waits to be claimed again, or is halted. So whoever counts already is never kept out
   by the limit that it counts in.
2. Nobody counts what a key was given. Its turn follows from what waits, and from one number per priority: the
   highest turn that was granted (`QueueRecord.turns`), written with the grant.
3. A key that was idle gets no credit: its next task begins one step behind what is being served.
4. Nobody waits forever: before a task stand only those with lower turns, and turns only grow.
5. A task that comes back unbegun keeps its turn. One that rests loses it, and takes another afterwards.
6. So many priorities of a queue have turns of their own (`fair_priorities_max`). In any further one, and in a
   queue that is no longer fair, whoever comes is the last of all: first come, first served.

`QueueLines` is what a group of requests knows of them. It is part of a working set, which undoes what a
request has changed: so changes go through its `put`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.engine.needed import Footprint, LineKey, Missing
from holdfast.protocol import limits
from holdfast.protocol.address import claim_group
from holdfast.protocol.jobs import QueueRecord, queue_of
from holdfast.protocol.records import Task

Put = Callable[[dict[Any, Any], Any, Any], None]

step: Final = 1_000_000  # between two turns of a key whose weight is 1


def is_queued(task: Task) -> bool:
    return task.job is not None or task.place is not None


def key_of(task: Task) -> str | None:
    """What limits per key count it by."""
    if task.job is not None:
        return task.job.key
    return None if task.place is None else task.place.key


def has_entered(task: Task) -> bool:
    """Is it an execution that counts already?"""
    return task.place is not None and task.place.entered_at is not None


def is_counted(task: Task) -> bool:
    if task.job is not None:
        return task.state == "acquired"
    return has_entered(task) and task.state != "fulfilled"


def line_name(group: str, key: str | None, *, entered: bool = False) -> str:
    """In a queue each key has a line, what has no key has one, and so have executions that count already. No
    name of a queue holds a slash."""
    return f"{group}/+" if entered else f"{group}/" if key is None else f"{group}/={key}"


def lines_of(task: Task) -> tuple[LineKey, LineKey]:
    """The lines in which it waits: that of its key, and that of all keys."""
    group = claim_group(task.target) or ""
    name = line_name(group, key_of(task), entered=has_entered(task))
    return LineKey(group, task.priority, name), LineKey(group, task.priority, None)


class QueueLines:
    __slots__ = ("_put", "places", "stale_turns", "turns")

    def __init__(self, put: Put) -> None:
        self._put = put
        self.places: dict[str, dict[str, None]] = {}  # by line: executions that have a place there, or had
        self.turns: dict[LineKey, int] = {}  # the last one of what waits
        self.stale_turns: dict[LineKey, None] = {}  # those that must be looked up again, after this request

    def placed(self, line: str) -> list[str]:
        """Executions with a place in this line of a queue, some of which may be over by now."""
        try:
            return sorted(self.places[line])
        except KeyError:
            raise Missing(Footprint(placed={line})) from None

    def last_turn(self, line: LineKey) -> int:
        """The highest turn of all that wait in this line, or did before this request; 0 if none does."""
        try:
            return self.turns[line]
        except KeyError:
            raise Missing(Footprint(turns={line})) from None

    def follow(self, before: Task | None, after: Task) -> None:
        """A task is about to be changed."""
        if after.place is not None and self.places and after.state != "fulfilled":
            members = self.places.get(_line_of_place(after))
            if members is not None:
                self._put(members, after.id, None)
        if after.turn or (before is not None and before.turn):
            self._follow_turn(before, after)

    def _follow_turn(self, before: Task | None, after: Task) -> None:
        """Whoever begins to wait is the last of his line, or before the last. Who leaves may have been it."""
        is_waiting = after.state == "pending" and not after.parked
        for line in lines_of(after):
            last = self.turns.get(line)
            if last is None:
                continue
            if is_waiting:
                self._put(self.turns, line, max(last, after.turn))
            elif before is not None and before.turn == last:
                self._put(self.stale_turns, line, None)

    def begin(self) -> None:
        """Another request: what the one before it made stale is forgotten."""
        while self.stale_turns:
            self.turns.pop(self.stale_turns.popitem()[0], None)

    def clear(self) -> None:
        for known in (self.places, self.turns, self.stale_turns):
            known.clear()

    def fill_places(self, line: str, members: Iterable[str], changed: Iterable[Task | None]) -> None:
        """The stored members of a line, and those of the changed tasks."""
        if line not in self.places:
            new = [task.id for task in changed if task and task.place and _line_of_place(task) == line]
            self.places[line] = dict.fromkeys([*members, *new])

    def must_be_read(self, line: LineKey, queues: Mapping[str, QueueRecord | None]) -> bool:
        """Is its last turn unknown? That is looked up only where the queue is known to have turns."""
        queue = queues.get(queue_of(line.group) or "")
        return queue is not None and queue.has_turns and line not in self.turns

    def fill_turn(self, line: LineKey, turn: int) -> None:
        self.turns.setdefault(line, turn)


def _line_of_place(task: Task) -> str:
    return line_name(claim_group(task.target) or "", key_of(task))


def take_turn(task: Task, queue: QueueRecord | None, lines: QueueLines) -> int:
    """The turn of a task that begins to wait; 0 where its queue has none."""
    if queue is None or not queue.has_turns:
        return 0
    own, all_keys = lines_of(task)
    if not queue.fair or not has_turns_of_its_own(queue, task.priority):
        return lines.last_turn(all_keys)
    served = queue.turns.get(task.priority, 0)
    return max(served, lines.last_turn(own)) + step // queue.weights.get(key_of(task) or "", 1)


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
