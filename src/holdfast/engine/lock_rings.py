"""Finds out whether executions would wait for each other forever, where a lock is part of the reason.

Tickets wait, not executions: one that waits in one strand of its code goes on in another. So a ticket says
which others its strand keeps meanwhile (`holding`), and those are released only after its own turn has come.
A suspended execution waits as a whole. If all that it waits for are tickets and executions, those are noted
with it (`bound`), and the search goes on with them. A call of an entity waits for the execution that it is:
nobody else answers, and that one answers nobody while it is stuck.

1. A holder is stuck if a ticket that is stuck keeps it, or if its execution is stuck. A ticket is stuck if
   the permits of holders that are not are too few for it. An execution is stuck if it is suspended and all
   that it waits for is stuck. What is not known to be stuck is not.
2. Whatever is looked at is held until the commit: of two that close a ring at the same time, one sees the
   other.
"""

from collections.abc import Set

from holdfast.engine.view import is_live, is_open
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.executions import read_bound
from holdfast.protocol.locks import Lock, Ticket, is_lock_id, lock_id, read_lock
from holdfast.protocol.records import Millis, Promise, Task


def find_ring(ticket: Ticket, lock: Lock, ws: WorkingSet, now: Millis) -> str | None:
    """Why this ticket, which is not in the queue yet, would never be granted; None if it may be."""
    search = _Search(ws, now)
    search.ask(ticket, lock)
    stuck = search.stuck()
    return search.describe(search.path(ticket.id, stuck), stuck) if ticket.id in stuck else None


def find_ring_of_execution(execution_id: str, bound: list[str], ws: WorkingSet, now: Millis) -> "Ring | None":
    """The ring that this execution would close by waiting for these, if a lock is part of it."""
    search = _Search(ws, now)
    search.wait(execution_id, bound)
    stuck = search.stuck()
    if execution_id not in stuck:
        return None
    path = search.path(execution_id, stuck)
    ring = path[path.index(search.following(path[-1], stuck)) :]
    victim = next((key for key in ring if key in search.tickets), None)
    return None if victim is None else Ring(victim, search.describe(ring, stuck))


def bound_by(task: Task, awaited: list[Promise], ws: WorkingSet) -> list[str]:
    """Their ids, if all of them are tickets or executions; else something may settle by itself. So does what
    has a deadline of its own: who waits for it goes on then."""
    if len(awaited) > limits.ring_waits_max:
        return []
    callees = {each.id: each.tags[tags.DEPENDENT] for each in awaited if tags.ANSWER in each.tags}
    ws.need(callees.values())
    bound: dict[str, None] = {}
    for each in awaited:
        meant = ws.promise(callees[each.id]) if each.id in callees else each
        is_entity = meant is not None and meant is not each and tags.ENTITY in meant.tags
        if meant is None or not (is_entity or tags.TICKET in each.tags or ws.task(each.id) is not None):
            return []
        if min(each.timeout_at, meant.timeout_at) < task.timeout_at:
            return []
        bound[meant.id] = None
    return [*bound]


class Ring:
    """`ticket`: one that is part of it, and to be given up; `why`: the ring, as a sentence."""

    __slots__ = ("ticket", "why")

    def __init__(self, ticket: str, why: str) -> None:
        self.ticket = ticket
        self.why = why


class _Search:
    def __init__(self, ws: WorkingSet, now: Millis) -> None:
        self._ws = ws
        self._now = now
        self._asked: Ticket | None = None
        self.tickets: dict[str, tuple[Ticket, Lock]] = {}
        self._executions: dict[str, list[str]] = {}  # suspended ones, and what each waits for
        self._locks: dict[str, Lock | None] = {}  # by the id of their promises
        self._keepers: dict[str, list[str]] = {}  # of a holder: the tickets that wait while they keep it

    def ask(self, ticket: Ticket, lock: Lock) -> None:
        self._asked = ticket
        self.tickets[ticket.id] = ticket, lock
        self._explore([ticket.id])

    def wait(self, execution_id: str, bound: list[str]) -> None:
        self._executions[execution_id] = bound
        self._explore([execution_id])

    def _explore(self, unseen: list[str]) -> None:
        """What lies behind the bound is not known, and so it is not stuck. It ends as soon as the first one
        may go on, whatever the others wait for: those that it looks at are held until the commit."""
        [first] = unseen
        while unseen and len(self.tickets) + len(self._executions) <= limits.ring_tickets_max:
            key = unseen.pop(0)
            if key in self._executions:
                self._ws.need(self._executions[key])
                for awaited in self._executions[key]:
                    unseen += self._note_awaited(awaited)
            else:
                self._ws.need_obligations([each.execution for each in self.tickets[key][1].holders])
                for holder in self.tickets[key][1].holders:
                    if holder.id not in self._keepers:
                        unseen += self._note_keepers(holder) + self._note_execution(holder.execution)
            if first not in self.stuck({*unseen}):
                return

    def _note_keepers(self, holder: Ticket) -> list[str]:
        """Who keeps it while he waits, among the tickets of the same execution. Which of them are new?"""
        found = self._tickets_of(holder.execution)
        keepers = {each.id: (each, lock) for each, lock in found if holder.id in each.holding}
        new = [key for key in keepers if key not in self.tickets]
        self.tickets |= keepers
        self._keepers[holder.id] = [*keepers]
        return new

    def _tickets_of(self, execution: str) -> list[tuple[Ticket, Lock]]:
        """Those of its tickets that wait, in the order of the locks' names."""
        asks = self._asked is not None and execution == self._asked.execution
        asked = [it for it in self.tickets.values() if asks and it[0] is self._asked]
        names = [name for name in self._ws.awaiters(execution) if is_lock_id(name)]
        self._ws.need(names)
        locks = [lock for name in names if (lock := self._lock(name)) is not None]
        waiting = [(each, lock) for lock in locks for each in lock.waiters if each.execution == execution]
        return asked + waiting

    def _lock(self, promise_id: str) -> Lock | None:
        if promise_id not in self._locks:
            record = self._ws.promise(promise_id)
            self._locks[promise_id] = (
                None if record is None or tags.LOCK not in record.tags else read_lock(record)
            )
        return self._locks[promise_id]

    def _note_execution(self, execution_id: str) -> list[str]:
        """It, if it is new and waits for nothing but tickets and executions."""
        task = self._ws.task(execution_id)
        if execution_id in self._executions or task is None or task.state != "suspended":
            return []
        bound = [] if task.waits is None or not is_open(task, self._now) else read_bound(task.waits)
        if not bound:
            return []
        self._executions[execution_id] = bound
        return [execution_id]

    def _note_awaited(self, promise_id: str) -> list[str]:
        """The ticket or the execution, if it is new and still waits."""
        promise = self._ws.promise(promise_id)
        if promise is None or promise_id in self.tickets or not self._is_pending(promise_id):
            return []
        if tags.TICKET not in promise.tags:
            return self._note_execution(promise_id)
        lock = self._lock(lock_id(promise.tags[tags.TICKET]))
        found = None if lock is None else next((it for it in lock.waiters if it.id == promise_id), None)
        if lock is None or found is None:
            return []
        self.tickets[promise_id] = found, lock
        return [promise_id]

    def stuck(self, unseen: Set[str] = frozenset()) -> set[str]:
        """Begin with all, and take out whoever may still go on, until nobody is left to take out. Those that
        are `unseen` may be stuck."""
        stuck = {*self.tickets, *self._executions}
        while True:
            free = {key for key in stuck - unseen if self._may_go_on(key, stuck)}
            if not free:
                return stuck
            stuck -= free

    def _may_go_on(self, key: str, stuck: set[str]) -> bool:
        if key in self._executions:
            return not all(each in stuck and self._is_pending(each) for each in self._executions[key])
        ticket, lock = self.tickets[key]
        kept = sum(holder.count for holder in lock.holders if self._is_kept(holder, stuck))
        return lock.limit - kept >= ticket.count

    def _is_pending(self, promise_id: str) -> bool:
        promise = self._ws.promise(promise_id)
        return promise is not None and is_live(promise, self._now)

    def _is_kept(self, holder: Ticket, stuck: set[str]) -> bool:
        return holder.execution in stuck or any(it in stuck for it in self._keepers.get(holder.id, ()))

    def path(self, start: str, stuck: set[str]) -> list[str]:
        """From there on, from one to the next that it waits for, until one comes again."""
        found = [start]
        while (key := self.following(found[-1], stuck)) not in found:
            found.append(key)
        return found

    def following(self, key: str, stuck: set[str]) -> str:
        if key in self._executions:
            return self._executions[key][0]
        holder = self._holder_of(key, stuck)
        keepers = [each for each in self._keepers.get(holder.id, ()) if each in stuck]
        if self._asked is not None and self._asked.id in keepers:
            return self._asked.id
        return keepers[0] if keepers else holder.execution

    def _holder_of(self, ticket_id: str, stuck: set[str]) -> Ticket:
        return next(each for each in self.tickets[ticket_id][1].holders if self._is_kept(each, stuck))

    def describe(self, path: list[str], stuck: set[str]) -> str:
        """The path, as a sentence."""
        parts: list[str] = []
        for key in path:
            if key in self.tickets:
                ticket, lock = self.tickets[key]
                holder = self._holder_of(key, stuck).execution
                parts.append(f"{ticket.execution!r} waits for {lock.name!r}, which {holder!r} holds")
            elif (awaited := self._executions[key][0]) in self._executions:
                parts.append(f"{key!r} waits for {awaited!r}")
        return "; ".join(parts)[: limits.ring_chars_max]
