"""The oracle's locks, as docs/reference/protocol.md tells of them: a queue of tickets for each name.

Part of the oracle, so it shares nothing with the product. A deadlock is found by playing the future: whoever
can release does so, whoever can be served is, and who is left then waits forever.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model import fields
from tests.model.fields import INSTANT_MAX, Json, Refused, bad
from tests.model.machine import Machine, Promise, Task

if TYPE_CHECKING:
    from tests.model.oracle import Answer, Call

NOT_OF_A_TICKET = ("resonate:target", "resonate:invoke", "resonate:delay", "holdfast:job")


@dataclass(slots=True)
class Ticket:
    id: str
    execution: str
    since: int
    count: int
    token: int = 0
    holding: list[str] = field(default_factory=list[str])

    def show(self) -> Json:
        shown: Json = {"id": self.id, "execution": self.execution, "since": self.since}
        if self.count != 1:
            shown["count"] = self.count
        if self.token:
            shown["token"] = self.token
        if self.holding:
            shown["holding"] = self.holding
        return shown


@dataclass(slots=True)
class Lock:
    name: str
    limit: int
    token: int = 0
    holders: list[Ticket] = field(default_factory=list[Ticket])
    waiters: list[Ticket] = field(default_factory=list[Ticket])
    idle_since: int | None = None
    forced: Json | None = None

    @property
    def tickets(self) -> list[Ticket]:
        return [*self.holders, *self.waiters]

    def show(self) -> Json:
        shown: Json = {"name": self.name, "limit": self.limit}
        if self.token:
            shown["token"] = self.token
        if self.holders:
            shown["holders"] = [ticket.show() for ticket in self.holders]
        if self.waiters:
            shown["waiters"] = [ticket.show() for ticket in self.waiters]
        if self.idle_since is not None:
            shown["idleSince"] = self.idle_since
        if self.forced is not None:
            shown["forced"] = self.forced
        return shown


Leaves = Callable[[Ticket], bool]


class LockMachine(Machine):
    """The requests lock.*, and the same as actions of a fence."""

    WAITERS_MAX = 1_000
    BOUND_MAX = 64

    def __init__(self, *, retry_ms: int) -> None:
        super().__init__(retry_ms=retry_ms)
        self.locks: dict[str, Lock] = {}

    # ------------------------------------------------------------------------------------------ requests

    def lock_get(self, data: Json, call: Call) -> Answer:
        return 200, {"lock": self.lock_or_404(read_name(data)).show()}

    def lock_search(self, data: Json, call: Call) -> Answer:
        used = fields.flag(data, "used")
        limit = fields.optional_integer(data, "limit", 1, 1_000) or 100
        cursor = fields.optional_text(data, "cursor") or ""
        prefix = fields.optional_text(data, "prefix") or ""
        scope: str | None = getattr(self, "scope", None)
        found = [
            promise
            for key, promise in sorted(self.promises.items())
            if key.startswith(f"lock@{prefix}")
            and key > cursor
            and (scope is None or fields.reaches(scope, key.removeprefix("lock@")))
        ]
        count = self.fitting([self.chars(promise) for promise in found[:limit]])
        shown = [promise for promise in found[:count] if "holdfast:lock" in promise.tags]
        locks = [self.locks[promise.tags["holdfast:lock"]] for promise in shown]
        answer: Json = {"locks": [lock.show() for lock in locks if lock.tickets or not used]}
        if len(found) > count:
            answer["cursor"] = found[count - 1].id
        return 200, answer

    def fitting(self, sizes: list[int]) -> int:
        """How many records of these sizes go into one answer."""
        raise NotImplementedError

    def chars(self, promise: Promise) -> int:
        """About how large it is in an answer."""
        raise NotImplementedError

    def lock_release(self, data: Json, call: Call) -> Answer:
        name, ticket_id, reason = read_release(data)
        if reason is None:
            raise Refused(409, "a release from outside needs a reason", "HF1504")
        lock = self.lock_or_404(name)
        ended = [ticket for ticket in lock.tickets if ticket_id in (ticket.id, ticket.execution)]
        if ended:
            lock.forced = {"execution": ended[0].execution, "at": call.now, "reason": reason}
            self.write_lock(lock, call.now)
        for ticket in ended:
            self.end_ticket(lock, ticket.id, call.now)
        return 200, {"lock": lock.show()}

    # --------------------------------------------------------------------------------------------- fenced

    def acquire_lock(self, data: Json, task: Task, call: Call) -> Json:
        asked, name, limit, deadline, param, tags = read_acquire(data)
        existing = self.created(asked.id)
        if existing is not None:
            if existing.tags.get("holdfast:ticket") != name:
                raise Refused(409, "the promise exists and is no ticket", "HF1202")
            return {"promise": self.show_promise(existing, call.dialect, call.now)}
        anchor = self.promises.get(f"lock@{name}")
        if anchor is not None and "holdfast:lock" not in anchor.tags:
            raise Refused(409, "the id of the lock is taken", "HF1505")
        lock = self.locks.get(name) or Lock(name, limit)
        if lock.limit != limit and lock.tickets:
            raise Refused(409, "the lock has another limit", "HF1501")
        asked.execution, asked.since = task.id, call.now
        deadline = min(deadline, self.promises[task.id].timeout_at)
        ticket = Promise(asked.id, param, tags | {"holdfast:ticket": name}, deadline, min(call.now, deadline))
        if deadline <= call.now:
            ticket.state, ticket.settled_at = "rejected_timedout", deadline
        else:
            held = sum(each.count for each in lock.holders)
            served = not lock.waiters and limit - held >= asked.count
            if not served and len(lock.waiters) >= self.WAITERS_MAX:
                raise Refused(409, "too many wait", "HF1502")
            if not served and self.waits_for_ever(asked, lock, call.now):
                raise Refused(409, "executions wait for each other", "HF1503")
            lock.limit = limit
            self.locks[name] = lock
            if anchor is None:
                anchor = Promise(f"lock@{name}", {}, {"holdfast:lock": name}, INSTANT_MAX, call.now)
                self.promises[anchor.id] = anchor
            if served:
                ticket.state, ticket.settled_at = "resolved", call.now
                ticket.value = self.take(lock, asked, call.now)
            else:
                lock.waiters.append(asked)
            owed = self.promises[task.id].callbacks
            if anchor.id not in owed:
                owed.append(anchor.id)
            self.write_lock(lock, call.now)
        self.put_record(ticket)
        return {"promise": self.show_promise(ticket, call.dialect, call.now)}

    def release_lock(self, data: Json, task: Task, call: Call) -> Json:
        name, ticket_id, _ = read_release(data)
        lock = self.lock_or_404(name)
        if any(ticket.id == ticket_id and ticket.execution != task.id for ticket in lock.tickets):
            raise Refused(409, "the ticket is another execution's", "HF1504")
        self.end_ticket(lock, ticket_id, call.now)
        return {"lock": lock.show()}

    # ---------------------------------------------------------------------------------------- transitions

    def lock_or_404(self, name: str) -> Lock:
        anchor = self.promises.get(f"lock@{name}")
        if anchor is None:
            raise Refused(404, "no such lock", "HF1506")
        if "holdfast:lock" not in anchor.tags:
            raise Refused(409, "the id of the lock is taken", "HF1505")
        return self.locks[name]

    def holder_of(self, awaited: str) -> Json:
        """If that is a ticket which waits for a lock: who has held it longest."""
        ticket = self.promises.get(awaited)
        if ticket is None or ticket.state != "pending" or "holdfast:ticket" not in ticket.tags:
            return {}
        lock = self.locks.get(ticket.tags["holdfast:ticket"])
        first = min(lock.holders, key=lambda holder: holder.since, default=None) if lock else None
        return {} if first is None else {"heldBy": first.execution, "heldSince": first.since}

    def free(self, lock: Lock) -> int:
        return lock.limit - sum(ticket.count for ticket in lock.holders)

    def take(self, lock: Lock, ticket: Ticket, now: int) -> Json:
        """The ticket holds the lock from now on."""
        lock.token = max(lock.token + 1, now)
        lock.holders.append(Ticket(ticket.id, ticket.execution, now, ticket.count, lock.token))
        return {"headers": {"holdfast:token": str(lock.token)}}

    def write_lock(self, lock: Lock, now: int) -> None:
        if lock.tickets:
            lock.idle_since = None
        elif lock.idle_since is None:
            lock.idle_since = now
        text = json.dumps(lock.show(), ensure_ascii=False, separators=(",", ":"))
        self.promises[f"lock@{lock.name}"].value = {"data": text}

    def end_ticket(self, lock: Lock, ticket_id: str, now: int) -> None:
        promise = self.promises.get(ticket_id)
        named = None if promise is None else promise.tags.get("holdfast:ticket")
        if promise is not None and named == lock.name and self.live(promise.id, now):
            over: Json = {"headers": {"holdfast-code": "HF1402"}}
            self.settle(promise, "rejected_canceled", over, now, now)
        else:
            self.drop(lock, lambda ticket: ticket.id == ticket_id, now)

    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        lock = self.locks.get(promise.tags.get("holdfast:ticket", ""))
        super().settle(promise, state, value, settled_at, now)
        if lock is not None and any(ticket.id == promise.id for ticket in lock.waiters):
            self.drop(lock, lambda ticket: ticket.id == promise.id, now)

    def end_dependent(self, promise: Promise, now: int, ended: str = "") -> None:
        """A lock is let go by an execution that has ended."""
        lock = self.locks.get(promise.tags.get("holdfast:lock", ""))
        if lock is None:
            super().end_dependent(promise, now, ended)
            return
        waited = [ticket.id for ticket in lock.waiters if ticket.execution == ended]
        self.drop(lock, lambda ticket: ticket.execution == ended, now)
        for ticket_id in waited:
            if self.live(ticket_id, now):
                over: Json = {"headers": {"holdfast-code": "HF1402"}}
                self.settle(self.promises[ticket_id], "rejected_canceled", over, now, now)

    def drop(self, lock: Lock, leaves: Leaves, now: int) -> None:
        """Some leave; whoever is first now, and can be served, is."""
        left = {ticket.execution for ticket in lock.tickets if leaves(ticket)}
        if not left:
            return
        lock.holders = [ticket for ticket in lock.holders if not leaves(ticket)]
        lock.waiters = [ticket for ticket in lock.waiters if not leaves(ticket)]
        served: list[tuple[Promise, Json]] = []
        while lock.waiters:
            first = lock.waiters[0]
            if not self.live(first.id, now):
                left.add(lock.waiters.pop(0).execution)
                continue
            if self.free(lock) < first.count:
                break
            lock.waiters.pop(0)
            served.append((self.promises[first.id], self.take(lock, first, now)))
        anchor = f"lock@{lock.name}"
        for execution in left - {ticket.execution for ticket in lock.tickets}:
            owed = self.promises[execution].callbacks
            if anchor in owed:
                owed.remove(anchor)
        self.write_lock(lock, now)
        for promise, value in served:
            self.settle(promise, "resolved", value, now, now)

    # ------------------------------------------------------------------------------------------- deadlock

    def waits_for_ever(self, asked: Ticket, lock: Lock, now: int) -> bool:
        tickets, _ = self.left_over({asked.id: (asked, lock)}, {}, now)
        return asked.id in tickets

    def left_over(
        self, tickets: dict[str, tuple[Ticket, Lock]], executions: dict[str, list[str]], now: int
    ) -> tuple[dict[str, tuple[Ticket, Lock]], dict[str, list[str]]]:
        """Whoever waits once everybody who can has gone on: tickets and suspended executions."""
        for _, lock in sorted(self.locks.items()):
            tickets |= {ticket.id: (ticket, lock) for ticket in lock.waiters}
        for task in self.tasks.values():
            if task.state == "suspended" and task.bound and self.live(task.id, now):
                executions.setdefault(task.id, task.bound)
        while True:
            waiting = {*executions, *(key for key in tickets if self.is_awaitable(key, now))}
            left = {
                key: (ticket, lock)
                for key, (ticket, lock) in tickets.items()
                if lock.limit - sum(h.count for h in lock.holders if self.is_kept(h, tickets, executions))
                < ticket.count
            }
            staying = {key: bound for key, bound in executions.items() if waiting.issuperset(bound)}
            if len(left) == len(tickets) and len(staying) == len(executions):
                return left, staying
            tickets, executions = left, staying

    def is_awaitable(self, ticket_id: str, now: int) -> bool:
        """One that is asked for has no promise yet, and one past its deadline has ended."""
        return ticket_id in self.promises and self.live(ticket_id, now)

    def is_kept(self, holder: Ticket, tickets: dict[str, tuple[Ticket, Lock]], executions: Json) -> bool:
        return holder.execution in executions or bool(self.keepers(holder, tickets))

    def keepers(self, holder: Ticket, tickets: dict[str, tuple[Ticket, Lock]]) -> list[str]:
        every = [t for t, _ in tickets.values() if t.execution == holder.execution]
        return [t.id for t in every if holder.id in t.holding]

    def bound_by(self, task: Task, awaiteds: list[str]) -> list[str]:
        """What the execution waits for, if all of it are tickets and executions that last as long."""
        asked, ends_at = [*dict.fromkeys(awaiteds)], self.promises[task.id].timeout_at
        found = [*dict.fromkeys(map(self.who_settles, asked))]
        is_bound = all(key in self.tasks or "holdfast:ticket" in self.promises[key].tags for key in found)
        lasts = all(self.promises[key].timeout_at >= ends_at for key in (*asked, *found))
        return found if is_bound and lasts and len(asked) <= self.BOUND_MAX else []

    def who_settles(self, awaited: str) -> str:
        """An answer of an entity comes from its execution; anything else is meant itself."""
        tags = self.promises[awaited].tags
        asked = tags["holdfast:dependent"] if "holdfast:answer" in tags else ""
        is_entity = asked in self.promises and "holdfast:entity" in self.promises[asked].tags
        return asked if is_entity else awaited

    def break_ring(self, task: Task, now: int) -> None:
        """A ticket fails that is part of the ring which this execution would close."""
        if not task.bound:
            return
        tickets, executions = self.left_over({}, {task.id: task.bound}, now)
        if task.id not in executions:
            return
        path, key = list[str](), task.id
        while key not in path:
            path.append(key)
            if key in executions:
                key = executions[key][0]
            else:
                kept = next(h for h in tickets[key][1].holders if self.is_kept(h, tickets, executions))
                key = (*self.keepers(kept, tickets), kept.execution)[0]
        ring = path[path.index(key) :]
        parts: list[str] = []
        for each in ring:
            if each in tickets:
                ticket, lock = tickets[each]
                kept = next(h for h in lock.holders if self.is_kept(h, tickets, executions))
                parts.append(f"{ticket.execution!r} waits for {lock.name!r}, which {kept.execution!r} holds")
            elif executions[each][0] in executions:
                parts.append(f"{each!r} waits for {executions[each][0]!r}")
        failing = [each for each in ring if each in tickets]
        if failing:
            headers = {"holdfast-code": "HF1503", "holdfast:ring": "; ".join(parts)[:2_000]}
            self.settle(self.promises[failing[0]], "rejected", {"headers": headers}, now, now)


def read_name(data: Json) -> str:
    name = fields.check_text(data.get("name"), "name", 256)
    if not name:
        raise bad("name is empty")
    return name


def read_release(data: Json) -> tuple[str, str, str | None]:
    name, ticket_id = read_name(data), fields.identifier(data, "id")
    reason = fields.optional_text(data, "reason", 4_096)
    if reason == "":
        raise bad("reason is empty")
    return name, ticket_id, reason


def read_acquire(data: Json) -> tuple[Ticket, str, int, int, Json, dict[str, str]]:
    name = read_name(data)
    limit = fields.optional_integer(data, "limit", 1, 10_000)
    limit = 1 if limit is None else limit
    count = fields.optional_integer(data, "count", 1, limit)
    holding = [] if data.get("holding") is None else fields.items(data, "holding", 0, 16)
    for held in holding:
        fields.identifier({"held": held}, "held")
    tags = fields.tags(data, "tags", "A")
    if any(tag in tags for tag in NOT_OF_A_TICKET):
        raise bad("a ticket has no target")
    ticket = Ticket(fields.identifier(data, "id"), "", 0, 1 if count is None else count, 0, holding)
    return ticket, name, limit, fields.integer(data, "timeoutAt"), fields.payload(data, "param"), tags
