"""lock.*: executions ask for a lock and release it, people look and may force a release.

1. A lock is held by an execution, from the commit that grants its ticket until a release or the end of the
   execution, however it ends. A halted execution goes on holding: it may be continued in the middle.
2. At most `limit` permits are held. Who asks while nobody waits and there are enough holds it at once.
3. One name has one limit, as long as anybody holds or wants the lock.
4. A ticket is asked for once: its id is that of a promise of the execution.
   A record that has become too large takes no more of them.
5. Who would close a ring of executions that wait for each other is refused, and told of the ring. If it is
   closed by an execution that is suspended, a ticket of the ring fails instead.
"""

from msgspec.structs import replace

from holdfast.engine.kept_versions import find_created, put_record
from holdfast.engine.lock_queue import drop_ticket, granted, put_lock, token_value
from holdfast.engine.lock_rings import find_ring, find_ring_of_execution
from holdfast.engine.scans import page_of
from holdfast.engine.transitions import EXECUTION_OVER, settle
from holdfast.engine.view import is_live, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import (
    KeyConflict,
    LimitDiffers,
    LockDeadlock,
    LockFull,
    NoSuchLock,
    NotALock,
    NotItsTicket,
)
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.locks import RING_HEADER, Forced, Lock, Ticket, lock_id, read_lock
from holdfast.protocol.records import NOTHING, Millis, Promise, Task, Value
from holdfast.protocol.replies import LockReply, LocksReply, Reply
from holdfast.protocol.requests import LockAcquire, LockGet, LockRelease, LockSearch, Request


def acquire(data: LockAcquire, fence: Task, ws: WorkingSet, now: Millis) -> Promise:
    """The ticket: resolved if the lock is held by it now. Whatever refuses does so before it is written."""
    existing = find_created(data.id, ws)
    if existing is not None:
        if existing.tags.get(tags.TICKET) != data.name:
            raise KeyConflict(f"The promise {data.id!r} exists, and is no ticket for {data.name!r}")
        return see_promise(existing, ws, now)
    promise, lock = _find_or_make(data, ws, now)
    if lock.limit != data.permits:
        if not lock.is_idle:
            raise LimitDiffers(f"The lock {data.name!r} has {lock.limit} permit(s), not {data.permits}")
        lock = replace(lock, limit=data.permits)
    deadline = min(data.timeout_at, fence.timeout_at)
    entries = {**data.tags, tags.TICKET: data.name}
    if deadline <= now:
        ended = Promise(
            data.id, "rejected_timedout", data.param, NOTHING, entries, deadline, deadline, deadline
        )
        return put_record(ended, ws)
    _check_room(promise, lock)
    asked = Ticket(data.id, fence.id, now, data.wanted, holding=data.holding or [])
    if not lock.waiters and lock.free >= data.wanted:
        lock = granted(lock, asked, now)
        value = token_value(lock)
        ticket = Promise(data.id, "resolved", data.param, value, entries, deadline, now, now)
    else:
        _check_wait(asked, lock, ws, now)
        lock = replace(lock, waiters=[*lock.waiters, asked])
        ticket = Promise(data.id, "pending", data.param, NOTHING, entries, deadline, now)
    ticket = put_record(ticket, ws)
    put_lock(promise, lock, ws, now)
    ws.add_callback(fence.id, promise.id)
    return ticket


def release(data: LockRelease, fence: Task, ws: WorkingSet, now: Millis) -> Lock:
    """By its holder. A ticket that still waits is given up; one that is gone was released before."""
    promise, lock = find_lock(data.name, ws)
    if any(each.id == data.id and each.execution != fence.id for each in (*lock.holders, *lock.waiters)):
        raise NotItsTicket(f"{data.id!r} is a ticket of another execution than {fence.id!r}")
    _end_ticket(promise, data.id, ws, now)
    return find_lock(data.name, ws)[1]


def break_ring(execution_id: str, bound: list[str], ws: WorkingSet, now: Millis) -> bool:
    """Would this execution close a ring by waiting for these? Then a ticket that is part of it fails."""
    ring = find_ring_of_execution(execution_id, bound, ws, now)
    if ring is None:
        return False
    ws.need_obligations([ring.ticket])
    ticket = ws.promise(ring.ticket)
    assert ticket is not None
    value = Value({CODE_HEADER: LockDeadlock.code, RING_HEADER: ring.why})
    settle(ticket, "rejected", value, now, None, ws, now)
    return True


def release_request(request: Request, data: LockRelease, ws: WorkingSet, now: Millis) -> Reply:
    """By somebody else, who says why. Its holder is not told: what it does outside must check the token."""
    if data.reason is None:
        raise NotItsTicket(f"{data.name!r} cannot be released from outside without a reason")
    promise, lock = find_lock(data.name, ws)
    ended = [each for each in (*lock.holders, *lock.waiters) if data.id in (each.id, each.execution)]
    if ended:
        forced = Forced(ended[0].execution, now, data.reason)
        put_lock(promise, replace(lock, forced=forced), ws, now)
    for each in ended:
        promise, _ = find_lock(data.name, ws)
        _end_ticket(promise, each.id, ws, now)
    return Reply(200, LockReply(find_lock(data.name, ws)[1]))


def get(request: Request, data: LockGet, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, LockReply(find_lock(data.name, ws)[1]))


def search(request: Request, data: LockSearch, ws: WorkingSet, now: Millis) -> Reply:
    page, cursor = page_of(ws.found, ws.until, data.limit)
    promises = [ws.promise(promise_id) for promise_id in page]
    locks = [read_lock(each) for each in promises if each is not None and tags.LOCK in each.tags]
    return Reply(200, LocksReply([lock for lock in locks if not (data.used and lock.is_idle)], cursor))


def find_lock(name: str, ws: WorkingSet) -> tuple[Promise, Lock]:
    promise = ws.promise(lock_id(name))
    if promise is None:
        raise NoSuchLock(name)
    ws.note_bytes(len(promise.value.data or ""))
    return promise, _record_of(promise)


def _find_or_make(data: LockAcquire, ws: WorkingSet, now: Millis) -> tuple[Promise, Lock]:
    promise = ws.promise(lock_id(data.name))
    if promise is not None:
        return promise, _record_of(promise)
    entries = {tags.LOCK: data.name}
    record = lock_id(data.name)
    made = Promise(record, "pending", NOTHING, NOTHING, entries, limits.instant_ms_max, now)
    return made, Lock(data.name, data.permits)


def _record_of(promise: Promise) -> Lock:
    if tags.LOCK not in promise.tags:
        raise NotALock(promise.id)
    return read_lock(promise)


def _check_room(promise: Promise, lock: Lock) -> None:
    """Every change of a lock reads and writes all of its record."""
    if len(promise.value.data or "") > limits.lock_bytes_max:
        raise LockFull(
            f"The record of the lock {lock.name!r} has {limits.lock_bytes_max} characters, which is the limit"
        )


def _check_wait(asked: Ticket, lock: Lock, ws: WorkingSet, now: Millis) -> None:
    if len(lock.waiters) >= limits.lock_waiters_max:
        raise LockFull(f"{limits.lock_waiters_max} wait for the lock {lock.name!r}, which is the limit")
    ring = find_ring(asked, lock, ws, now)
    if ring is not None:
        raise LockDeadlock(f"Executions wait for each other: {ring}")


def _end_ticket(promise: Promise, ticket_id: str, ws: WorkingSet, now: Millis) -> None:
    """A ticket that waits is settled, by which it leaves; a hold is dropped."""
    ticket = ws.promise(ticket_id)
    if (
        ticket is not None
        and lock_id(ticket.tags.get(tags.TICKET, "")) == promise.id
        and is_live(ticket, now)
    ):
        settle(ticket, "rejected_canceled", EXECUTION_OVER, now, None, ws, now)
    else:
        drop_ticket(promise, ticket_id, ws, now, settle)
