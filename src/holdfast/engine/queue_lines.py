"""What a group of requests knows of the lines of queues: their last turns, and who has a place in them.

Part of a working set, which undoes what a request has changed: so changes go through its `put`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.engine.needed import Footprint, LineKey, Missing, line_name
from holdfast.engine.places import has_entered, key_of
from holdfast.protocol.address import claim_group
from holdfast.protocol.records import Task

Put = Callable[[dict[Any, Any], Any, Any], None]


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

    def fill_turn(self, line: LineKey, turn: int) -> None:
        self.turns.setdefault(line, turn)


def _line_of_place(task: Task) -> str:
    return line_name(claim_group(task.target) or "", key_of(task))
