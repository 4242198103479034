"""Mutants of what executions share: locks and events."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LOCKS = "tests/conformance/test_locks.py -k memory"
_EVENTS = "tests/conformance/test_events.py -k memory"

SHARES = (
    Mutant(
        "a page of events holds any number of bytes",
        "a page ends where it becomes too large",
        "engine",
        "if found and size > limits.stream_page_bytes_max:\n    break",
        "if found and size > limits.commit_bytes_max:\n    break",
        _EVENTS,
    ),
    Mutant(
        "a wait looks back at any number of bytes",
        "a wait reads a bounded part of what was sent before it",
        "engine",
        "size > limits.event_look_back_bytes_max",
        "size > limits.commit_bytes_max",
        _EVENTS,
    ),
    Mutant(
        "a lock is passed on to the last that came",
        "a lock is granted in the order in which it was asked for",
        "engine",
        "lock = replace(lock, waiters=[*lock.waiters, asked])",
        "lock = replace(lock, waiters=[asked, *lock.waiters])",
        _LOCKS,
    ),
    Mutant(
        "whoever wants less passes",
        "nobody passes somebody who waits",
        "engine",
        "if not lock.waiters and lock.free >= data.wanted:\n    ...\nelse:\n    ...",
        "if lock.free >= data.wanted:\n    ...\nelse:\n    ...",
        _LOCKS,
    ),
    Mutant(
        "tokens stand still within an instant",
        "a token is larger than every earlier one of the lock",
        "engine",
        "token = max(lock.token + 1, now)",
        "token = max(lock.token, now)",
        _LOCKS,
    ),
    Mutant(
        "a lock outlives its holder",
        "an execution that ends lets go of its locks",
        "engine",
        "holders = [ticket for ticket in lock.holders if ticket.execution != execution_id]",
        "holders = [ticket for ticket in lock.holders if ticket.id != execution_id]",
        _LOCKS,
    ),
    Mutant(
        "a ticket past its deadline is granted",
        "a ticket past its deadline has ended, written down or not",
        "engine",
        "is_over = ticket is None or not is_live(ticket, now)",
        'is_over = ticket is None or ticket.state != "pending"',
        _LOCKS,
    ),
    Mutant(
        "a ticket that timed out stays in the queue",
        "a ticket that settles leaves the queue",
        "engine",
        "if any((each.id == ticket.id for each in read_lock(promise).waiters)):\n    drop_ticket(...)",
        "if any((each.id == ticket.id for each in read_lock(promise).holders)):\n"
        "    drop_ticket(promise, ticket.id, ws, now, settle)",
        _LOCKS,
    ),
    Mutant(
        "a ring is not looked for",
        "who would close a ring is refused",
        "engine",
        "if ring is not None:\n    raise LockDeadlock(...)",
        'if ring == "":\n    raise LockDeadlock(ring)',
        _LOCKS,
    ),
    Mutant(
        "a strand that holds nothing closes a ring",
        "only what a ticket keeps while it waits is stuck with it",
        "engine",
        "keepers = {each.id: (each, lock) for each, lock in found if holder.id in each.holding}",
        "keepers = {each.id: (each, lock) for each, lock in found}",
        _LOCKS,
    ),
    Mutant(
        "what a stuck execution holds may come free",
        "a holder is stuck if its execution is",
        "engine",
        "return holder.execution in stuck or any(...)",
        "return any(it in stuck for it in self._keepers.get(holder.id, ()))",
        _LOCKS,
    ),
    Mutant(
        "an execution is stuck if one of its waits is",
        "an execution is stuck if all that it waits for is",
        "engine",
        "if meant is None or not (...):\n    return []",
        "if meant is None or not (is_entity or tags.TICKET in each.tags or ws.task(each.id) is not None):\n"
        "    continue",
        _LOCKS,
    ),
    Mutant(
        "a ring that a suspension closes is left alone",
        "a ticket of a ring fails when the ring is closed",
        "engine",
        "if bound and break_ring(task.id, bound, ws, now):\n    ...",
        "if not bound and break_ring(task.id, bound, ws, now):\n"
        "    task, awaited = find_task(task.id, ws), _awaited(data, ws, now)",
        _LOCKS,
    ),
    Mutant(
        "a wait that ends by itself closes a ring",
        "what has an earlier deadline than whoever waits for it opens the ring",
        "engine",
        "min(each.timeout_at, meant.timeout_at) < task.timeout_at",
        "min(each.timeout_at, meant.timeout_at) < 0",
        _LOCKS,
    ),
    Mutant(
        "an entity that ends by itself closes a ring",
        "a call of an entity ends at the latest with the entity",
        "engine",
        "min(each.timeout_at, meant.timeout_at) < task.timeout_at",
        "each.timeout_at < task.timeout_at",
        _LOCKS,
    ),
    Mutant(
        "a call of an entity opens every ring",
        "who calls an entity waits for that entity",
        "engine",
        "is_entity = meant is not None and meant is not each and tags.ENTITY in meant.tags",
        "is_entity = False",
        _LOCKS,
    ),
    Mutant(
        "a question counts as a call of an entity",
        "the answer to a question may come from somebody else",
        "engine",
        "is_entity = meant is not None and meant is not each and tags.ENTITY in meant.tags",
        "is_entity = meant is not None and meant is not each",
        _LOCKS,
    ),
    Mutant(
        "an awaiter that came back is removed",
        "what leaves and comes back within a commit is there",
        "engine",
        "if pair in self.removed_callbacks:\n    self._remove(...)\nelse:\n    ...",
        "if pair in self.added_callbacks:\n    self._remove(self.removed_callbacks, pair)\n"
        "else:\n    self._set(self.added_callbacks, pair, None)",
        _LOCKS,
    ),
    Mutant(
        "an event wakes whoever waits for its name",
        "an event wakes only those whose attributes it has",
        "engine",
        "promise = join(wait_list_id(data.name, data.match), promise, ws, now)",
        "promise = join(wait_list_id(data.name, {}), promise, ws, now)",
        _EVENTS,
    ),
    Mutant(
        "whoever looks back is given the newest",
        "the first event that counts",
        "engine",
        "if all((event.tags.get(...) == text for key, text in data.match.items())):\n    first = event",
        "if first is None and all(\n"
        "    event.tags.get(tags.ATTRIBUTE + key) == text for key, text in data.match.items()\n"
        "):\n    first = event",
        _EVENTS,
    ),
    Mutant(
        "the rest of an event is forgotten",
        "an event wakes all that wait for it, in portions",
        "engine",
        "if left:\n    ws.put_promise(...)\nelse:\n    ...",
        "if left and not buckets:\n    ws.put_promise(event)\nelse:\n"
        "    ws.put_promise(replace(event, state='resolved', value=NOTHING, settled_at=now))",
        _EVENTS,
    ),
    Mutant(
        "a wait does not end with its execution",
        "a wait is registered with its execution",
        "engine",
        "promise = join(...)\nws.add_callback(fence.id, data.id)",
        "promise = join(...)",
        _EVENTS,
    ),
    Mutant(
        "a lock is given to one too many",
        "at most so many permits are held as the lock has",
        "engine",
        "if not is_over and lock.free < first.count:\n    break",
        "if not is_over and lock.free < 0:\n    break",
        _LOCKS,
    ),
    Mutant(
        "an event sent again wakes again",
        "under one id there is one event",
        "engine",
        "if data.id is not None and (known := _sent_before(...)) is not None:\n    return EventReply(known)",
        'if data.id == "" and (known := _sent_before(data.name, "", ws)) is not None:\n'
        "    return EventReply(known)",
        _EVENTS,
    ),
    Mutant(
        "an event starts an execution for each time it is heard of",
        "an event starts an execution once by its id",
        "engine",
        'started_id(..., event.ikc or event.id.rpartition("@")[2])',
        'started_id(..., event.id.rpartition("@")[2])',
        _EVENTS,
    ),
    Mutant(
        "whoever was woken stays in the list",
        "an event takes all buckets of its lists in its commit",
        "engine",
        "if waits.open:\n    ...",
        "pass",
        _EVENTS,
    ),
)
