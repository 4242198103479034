"""promise.*: a promise is created, settled, awaited, found."""

from msgspec.structs import replace

from holdfast.engine.deadlines import set_deadline
from holdfast.engine.job_state import close, is_expired, new_job, unique_name
from holdfast.engine.jobs import expire, make_room
from holdfast.engine.kept_versions import is_superseded, take_version, with_run, with_version
from holdfast.engine.overlap import make_place
from holdfast.engine.scans import page_of
from holdfast.engine.transitions import offer, settle
from holdfast.engine.view import is_live, is_open, see_promise, view_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.address import parse_address
from holdfast.protocol.dialect import Dialect
from holdfast.protocol.errors import CannotAwait, InvalidField, KeyConflict, PromiseMissing
from holdfast.protocol.jobs import QueuePlace
from holdfast.protocol.records import NOTHING, Listener, Millis, Promise, PromiseState, Task, Value
from holdfast.protocol.replies import PromiseReply, PromisesReply, Reply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSearch,
    PromiseSettle,
    Request,
)


def find_promise(promise_id: str, ws: WorkingSet) -> Promise:
    promise = ws.promise(promise_id)
    if promise is None:
        raise PromiseMissing(promise_id)
    return promise


def show_promise(promise_id: str, ws: WorkingSet, now: Millis) -> Promise:
    """As it is at this instant, whatever has been written down."""
    return see_promise(find_promise(promise_id, ws), ws, now)


def get(request: Request, data: PromiseGet, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, PromiseReply(show_promise(data.id, ws, now)))


def create(request: Request, data: PromiseCreate, ws: WorkingSet, now: Millis) -> Reply:
    target = check_creation(request, data)
    return Reply(200, PromiseReply(create_promise(request, data, target, ws, now)))


def check_creation(request: Request, data: PromiseCreate) -> str | None:
    """The target of what is to be created; a refusal if no such promise can be."""
    target = target_of(data.tags, request.dialect)
    if data.settle is not None and target is not None:
        raise InvalidField(
            "a promise that is settled at once cannot have a target: nobody would have to work"
        )
    return target


def target_of(entries: dict[str, str], dialect: Dialect) -> str | None:
    """Where the task of such a promise is delivered; None when there is to be no task."""
    if not entries:
        return None
    target = entries.get(tags.TARGET)
    if target is None and dialect == "B" and (alias := entries.get(tags.INVOKE)) is not None:
        try:
            parse_address(alias)
        except ValueError as error:
            raise InvalidField(str(error)) from None
        target = alias
    if target is None and tags.DELAY in entries:
        raise InvalidField("tag resonate:delay needs a resonate:target: only a task can be delayed")
    return target


def create_promise(
    request: Request, data: PromiseCreate, target: str | None, ws: WorkingSet, now: Millis
) -> Promise:
    """The promise with this id: the one that exists, or a new one, with its task offered.

    With `settle` it is as if promise.settle had followed: one write for what both do.
    """
    existing, kept = ws.promise(data.id), None
    if existing is not None and is_superseded(existing):
        existing, kept = None, existing
    if existing is not None:
        check_creation_key(existing, data.ikc)
        if data.settle is not None:
            settle_now = PromiseSettle(data.id, data.settle.state, data.settle.value, data.settle.iku)
            return settle_promise(settle_now, ws, now)
        return see_promise(existing, ws, now)
    if target is not None:
        if (holder := held_key(data.tags, target, request.scope, ws, now)) is not None:
            return holder
        if tags.QUEUE in data.tags:
            make_place(data.tags, target, request.scope, ws, now)
    version = 0 if kept is None else take_version(kept, ws)
    entries = with_version(data.tags, version) if version and target is None else data.tags
    if data.settle is not None and now < data.timeout_at:
        settled = Promise(
            data.id,
            data.settle.state,
            data.param,
            data.settle.value,
            entries,
            data.timeout_at,
            now,
            now,
            data.ikc,
            data.settle.iku,
        )
        ws.put_promise(settled)
        return settled
    promise, task = new_promise(
        data.id,
        data.param,
        entries,
        data.timeout_at,
        data.ikc,
        target,
        request.dialect,
        ws,
        now,
        now,
        version,
    )
    if task is not None and is_open(task, now):
        offer(task, ws, now, rest_until=tags.delay_of(data.tags) or 0)
    elif task is not None and is_expired(task, now):
        return expire(task, ws, now)
    return promise


def held_key(
    entries: dict[str, str], target: str | None, scope: str | None, ws: WorkingSet, now: Millis
) -> Promise | None:
    """The promise of the job that holds the unique key of this one, if that is what the caller gets."""
    if not entries or tags.JOB not in entries or target is None:
        return None
    spec = tags.job_of(entries)
    if spec is None or spec.unique is None:
        return None
    return make_room(unique_name(target, spec.unique), spec.on_unique, entries.get(tags.TASK), scope, ws, now)


def check_creation_key(existing: Promise, ikc: str | None) -> None:
    if ikc is not None and existing.ikc is not None and existing.ikc != ikc:
        raise KeyConflict(f"The promise {existing.id!r} was created under another idempotency key")


def new_promise(
    promise_id: str,
    param: Value,
    entries: dict[str, str],
    timeout_at: Millis,
    ikc: str | None,
    target: str | None,
    dialect: Dialect,
    ws: WorkingSet,
    created_at: Millis,
    now: Millis,
    version: int = 0,
) -> tuple[Promise, Task | None]:
    """A promise that did not exist, and its task, nearly always at version 0. Past its deadline it is born
    settled."""
    if version and target is not None:
        entries = with_run(entries, version)
    if now < timeout_at:
        promise = Promise(promise_id, "pending", param, NOTHING, entries, timeout_at, created_at, ikc=ikc)
    else:
        state: PromiseState = "resolved" if tags.is_timer(entries) else "rejected_timedout"
        created_at = min(created_at, timeout_at)
        promise = Promise(promise_id, state, param, NOTHING, entries, timeout_at, created_at, timeout_at, ikc)
    ws.put_promise(promise)
    if target is None:
        return promise, None
    spec = tags.job_of(entries) if tags.JOB in entries else None
    task = Task(
        promise_id,
        "pending" if promise.state == "pending" else "fulfilled",
        version,
        target,
        dialect,
        tags.is_timer(entries),
        tags.priority_of(entries),
        timeout_at,
        created_at,
        place=_new_place(entries),
        job=None if spec is None else new_job(spec, target, tags.delay_of(entries), created_at),
    )
    if spec is not None and task.state == "fulfilled":
        task = replace(task, job=close(task, promise.state, NOTHING, timeout_at))
    ws.put_task(task)
    if tags.GRACE in entries:
        set_deadline(promise, ws, now)
    return promise, task


def _new_place(entries: dict[str, str]) -> QueuePlace | None:
    spec = tags.place_of(entries) if tags.QUEUE in entries else None
    return None if spec is None else QueuePlace(spec.key)


def settle_promise(data: PromiseSettle, ws: WorkingSet, now: Millis) -> Promise:
    promise = find_promise(data.id, ws)
    if promise.state == "pending" and tags.is_record(promise.tags):
        raise InvalidField(f"{data.id!r} is the record of a lock or of events, which only the node settles")
    if tags.JOB in promise.tags and (task := ws.task(data.id)) is not None and is_expired(task, now):
        promise = expire(task, ws, now)
    if is_live(promise, now):
        return settle(promise, data.state, data.value, now, data.iku, ws, now)
    return settled_already(promise, data, now)


def settled_already(promise: Promise, data: PromiseSettle, now: Millis) -> Promise:
    if data.iku is not None and promise.iku is not None and promise.iku != data.iku:
        raise KeyConflict(f"The promise {data.id!r} was settled under another idempotency key")
    return view_promise(promise, now)


def settle_request(request: Request, data: PromiseSettle, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, PromiseReply(settle_promise(data, ws, now)))


def register_callback(request: Request, data: PromiseRegisterCallback, ws: WorkingSet, now: Millis) -> Reply:
    awaited = show_promise(data.awaited, ws, now)
    awaiter = ws.promise(data.awaiter)
    if awaiter is None:
        raise CannotAwait(f"There is no promise {data.awaiter!r} that could await")
    if ws.task(data.awaiter) is None:
        raise CannotAwait(f"The promise {data.awaiter!r} has no target and cannot be woken")
    if awaited.state == "pending" and is_live(awaiter, now):
        ws.add_callback(data.awaited, data.awaiter)
    return Reply(200, PromiseReply(awaited))


def register_listener(request: Request, data: PromiseRegisterListener, ws: WorkingSet, now: Millis) -> Reply:
    awaited = show_promise(data.awaited, ws, now)
    if awaited.state == "pending":
        ws.add_listener(data.awaited, Listener(data.address, request.dialect))
        if len(ws.listeners[data.awaited]) > limits.listeners_max:
            raise InvalidField(f"{data.awaited!r} has {limits.listeners_max} listeners, which is the limit")
    return Reply(200, PromiseReply(awaited))


def search(request: Request, data: PromiseSearch, ws: WorkingSet, now: Millis) -> Reply:
    page, cursor = page_of(ws.found, ws.until, data.limit)
    promises = (ws.promise(promise_id) for promise_id in page)
    shown = (see_promise(promise, ws, now) for promise in promises if promise is not None)
    return Reply(200, PromisesReply([it for it in shown if data.state in (None, it.state)], cursor))
