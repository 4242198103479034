"""Finds out whether executions would wait for each other's locks forever, before one begins to wait.

Tickets wait, not executions: one that waits in one strand of its code goes on in another. So a ticket says
which others its strand keeps meanwhile (`holding`), and those are released only after its own turn has come.

1. A holder is stuck if a ticket that is stuck keeps it. A ticket is stuck if the permits of holders that are
   not are too few for it. What is not known to be stuck is not.
2. Whatever is looked at is held until the commit: of two that close a ring at the same time, one sees the
   other.
"""

from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.locks import Lock, Ticket, read_lock


def find_ring(ticket: Ticket, lock: Lock, ws: WorkingSet) -> str | None:
    """Why this ticket, which is not in the queue yet, would never be granted; None if it may be."""
    search = _Search(ticket, lock, ws)
    stuck = search.stuck()
    return search.describe(stuck) if ticket.id in stuck else None


class _Search:
    def __init__(self, ticket: Ticket, lock: Lock, ws: WorkingSet) -> None:
        self._asked = ticket
        self._ws = ws
        self._waiting: dict[str, tuple[Ticket, Lock]] = {ticket.id: (ticket, lock)}
        self._keepers: dict[str, list[str]] = {}  # of a holder: the tickets that wait while they keep it
        unseen = [ticket.id]
        while unseen and len(self._waiting) <= limits.ring_tickets_max:
            for holder in self._waiting[unseen.pop(0)][1].holders:
                if holder.id not in self._keepers:
                    unseen += self._note_keepers(holder)

    def _note_keepers(self, holder: Ticket) -> list[str]:
        """Who keeps it while he waits, among the tickets of the same execution. Which of them are new?"""
        found = self._tickets_of(holder.execution)
        keepers = {each.id: (each, lock) for each, lock in found if holder.id in each.holding}
        new = [key for key in keepers if key not in self._waiting]
        self._waiting |= keepers
        self._keepers[holder.id] = [*keepers]
        return new

    def _tickets_of(self, execution: str) -> list[tuple[Ticket, Lock]]:
        """Those of its tickets that wait, in the order of the locks' names."""
        asked = [self._waiting[self._asked.id]] if execution == self._asked.execution else []
        awaiters = self._ws.awaiters(execution)
        self._ws.need(awaiters)
        promises = [self._ws.promise(name) for name in awaiters]
        locks = [read_lock(each) for each in promises if each is not None and tags.LOCK in each.tags]
        waiting = [(each, lock) for lock in locks for each in lock.waiters if each.execution == execution]
        return asked + waiting

    def stuck(self) -> set[str]:
        """Begin with all, and take out whoever may still have a turn, until nobody is left to take out."""
        stuck = set(self._waiting)
        while True:
            free = {key for key in stuck if self._has_turn(*self._waiting[key], stuck)}
            if not free:
                return stuck
            stuck -= free

    def _has_turn(self, ticket: Ticket, lock: Lock, stuck: set[str]) -> bool:
        kept = sum(holder.count for holder in lock.holders if self._is_kept(holder, stuck))
        return lock.limit - kept >= ticket.count

    def _is_kept(self, holder: Ticket, stuck: set[str]) -> bool:
        return any(keeper in stuck for keeper in self._keepers.get(holder.id, ()))

    def describe(self, stuck: set[str]) -> str:
        """One ring, as a sentence; it begins and ends with whoever asks, where that is part of it."""
        ticket, lock = self._waiting[self._asked.id]
        seen: set[str] = set()
        parts: list[str] = []
        while ticket.id not in seen:
            seen.add(ticket.id)
            holder = next(each for each in lock.holders if self._is_kept(each, stuck))
            parts.append(f"{ticket.execution!r} waits for {lock.name!r}, which {holder.execution!r} holds")
            keepers = [key for key in self._keepers[holder.id] if key in stuck]
            ticket, lock = self._waiting[self._asked.id if self._asked.id in keepers else keepers[0]]
        return "; ".join(parts)
