"""What happens to a lock when somebody leaves it: the next in its queue are granted, in the same commit.

`transitions.settle` calls this, whatever it is that ends an execution or a ticket; and settling a ticket is
how one is granted, so `settle` is handed in.

1. First come, first served, by commit. Nobody passes one who waits, also where there are permits for him.
2. A token is larger than every earlier one of the lock. It is at least the instant of the grant in
   milliseconds: so it rises also after the record was deleted, and after a backup was restored.
3. While an execution holds a lock or waits for it, the lock is among the awaiters of its promise.
"""

from typing import Protocol

from msgspec.structs import replace

from holdfast.engine.view import is_live
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.locks import TOKEN_HEADER, Lock, Ticket, lock_id, lock_value, read_lock
from holdfast.protocol.records import Millis, Promise, PromiseState, Value


class SettleCall(Protocol):
    def __call__(
        self,
        promise: Promise,
        state: PromiseState,
        value: Value,
        settled_at: Millis,
        iku: str | None,
        ws: WorkingSet,
        now: Millis,
    ) -> Promise: ...


def put_lock(promise: Promise, lock: Lock, ws: WorkingSet, now: Millis) -> None:
    idle_since = (now if lock.idle_since is None else lock.idle_since) if lock.is_idle else None
    value = lock_value(replace(lock, idle_since=idle_since))
    ws.note_bytes(2 * len(value.data or ""))  # it was read, too
    ws.put_promise(replace(promise, value=value))


def granted(lock: Lock, ticket: Ticket, now: Millis) -> Lock:
    """The lock, once this ticket holds it."""
    token = max(lock.token + 1, now)
    holder = Ticket(ticket.id, ticket.execution, now, ticket.count, token)
    return replace(lock, token=token, holders=[*lock.holders, holder])


def token_value(lock: Lock) -> Value:
    """What the ticket that was granted last is resolved with."""
    return Value({TOKEN_HEADER: str(lock.token)})


def drop_ticket(promise: Promise, ticket_id: str, ws: WorkingSet, now: Millis, settle: SettleCall) -> None:
    """Nobody waits or holds by this ticket any more."""
    lock = read_lock(promise)
    found = next((each for each in (*lock.holders, *lock.waiters) if each.id == ticket_id), None)
    if found is not None:
        holders = [each for each in lock.holders if each.id != ticket_id]
        waiters = [each for each in lock.waiters if each.id != ticket_id]
        left = replace(lock, holders=holders, waiters=waiters)
        if not left.concerns(found.execution):
            ws.remove_callback(found.execution, promise.id)
        _grant_next(promise, left, ws, now, settle)


def ticket_settled(ticket: Promise, ws: WorkingSet, now: Millis, settle: SettleCall) -> None:
    """By its deadline, or by somebody else, before its turn. One that was granted is among the holders."""
    promise = ws.promise(lock_id(ticket.tags[tags.TICKET]))
    if promise is None or tags.LOCK not in promise.tags:
        return
    if any(each.id == ticket.id for each in read_lock(promise).waiters):
        drop_ticket(promise, ticket.id, ws, now, settle)


def execution_ended(
    promise: Promise, execution_id: str, over: Value, ws: WorkingSet, now: Millis, settle: SettleCall
) -> None:
    """It holds nothing any more, and its tickets that still wait end with it."""
    lock = read_lock(promise)
    ended = [ticket.id for ticket in lock.waiters if ticket.execution == execution_id]
    holders = [ticket for ticket in lock.holders if ticket.execution != execution_id]
    waiters = [ticket for ticket in lock.waiters if ticket.execution != execution_id]
    _grant_next(promise, replace(lock, holders=holders, waiters=waiters), ws, now, settle)
    ws.need_obligations(ended)
    for ticket_id in ended:
        ticket = ws.promise(ticket_id)
        if ticket is not None and is_live(ticket, now):
            settle(ticket, "rejected_canceled", over, now, None, ws, now)


def _grant_next(promise: Promise, lock: Lock, ws: WorkingSet, now: Millis, settle: SettleCall) -> None:
    """Grant to the first ones that wait, as many as there are permits for. A ticket past its deadline has
    ended, whether that is written down or not."""
    waiters, taken = list(lock.waiters), list[tuple[Promise, Value]]()
    while waiters:
        first = waiters[0]
        ticket = ws.promise(first.id)
        is_over = ticket is None or not is_live(ticket, now)
        if not is_over and lock.free < first.count:
            break
        waiters.pop(0)
        lock = replace(lock, waiters=[*waiters])
        if ticket is None or is_over:
            if not lock.concerns(first.execution):
                ws.remove_callback(first.execution, promise.id)
        else:
            lock = granted(lock, first, now)
            taken.append((ticket, token_value(lock)))
    put_lock(promise, lock, ws, now)
    ws.need_obligations(ticket.id for ticket, _ in taken)
    for ticket, value in taken:
        settle(ticket, "resolved", value, now, None, ws, now)
