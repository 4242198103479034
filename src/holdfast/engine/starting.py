"""execution.start: an execution is started under an id that another one may have.

| `onExisting` | it is open | it has completed | it failed, timed out or was cancelled |
|---|---|---|---|
| `return` | is answered | is answered | is answered |
| `reject` | refused | refused | refused |
| `again_if_failed` | is answered | is answered | begins anew |
| `replace` | ended as cancelled, begins anew | begins anew | begins anew |

1. A start with the key (`ikc`) that made the execution is the same start, sent again: it is answered with it.
2. What begins anew keeps its id and nothing else: its records are deleted, and what is open among them ends
   as cancelled. Whoever waits is told so, and does not wait for the new one.
3. Its version goes on from the old one's, so whoever held that one can write nothing. The same holds for
   what it had called or started, whatever is created under that id: `kept_versions.py`.
4. What another execution called is nobody's to begin anew: whoever called it has seen how it ended.
"""

from msgspec.structs import replace

from holdfast.engine.cancelling import end
from holdfast.engine.kept_versions import delete, is_superseded, supersede
from holdfast.engine.overlap import make_place
from holdfast.engine.promises import check_creation, create_promise, new_promise
from holdfast.engine.transitions import offer
from holdfast.engine.trees import check_uncalled, write_end
from holdfast.engine.view import is_live, is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import AlreadyExists, InvalidField, TooManyRecords
from holdfast.protocol.ids import lies_within
from holdfast.protocol.records import Millis, Promise, Task
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import ExecutionStart, PromiseCreate, Request
from holdfast.protocol.streams import Streams


def start(request: Request, data: ExecutionStart, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, PromiseReply(_start(request, data, ws, now)))


def _start(request: Request, data: ExecutionStart, ws: WorkingSet, now: Millis) -> Promise:
    creation = data.action.data
    target = check_creation(request, creation)
    existing, task = ws.promise(creation.id), ws.task(creation.id)
    if existing is None or is_superseded(existing):
        return create_promise(request, creation, target, ws, now)
    seen = see_promise(existing, ws, now)
    if creation.ikc is not None and existing.ikc == creation.ikc:
        return seen
    if data.on_existing == "reject":
        raise AlreadyExists(creation.id)
    has_failed = seen.state not in ("pending", "resolved")
    if data.on_existing in (None, "return") or (data.on_existing == "again_if_failed" and not has_failed):
        return seen
    if task is None or task.job is not None:
        raise AlreadyExists(creation.id)
    check_uncalled(existing)
    if creation.timeout_at <= now:
        raise InvalidField("timeoutAt must be in the future")
    assert target is not None
    return _begin_anew(request, creation, target, existing, task, ws, now)


def _begin_anew(
    request: Request,
    creation: PromiseCreate,
    target: str,
    existing: Promise,
    task: Task,
    ws: WorkingSet,
    now: Millis,
) -> Promise:
    if len(ws.found) > limits.mended_records_max:
        raise TooManyRecords(f"More than {limits.mended_records_max} records lie below {existing.id!r}")
    below = [key for key in sorted(ws.found) if key != existing.id and lies_within(key, existing.id)]
    ws.need_obligations([existing.id, *below])
    for key in (existing.id, *below):
        promise = ws.promise(key)
        if promise is not None and is_live(write_end(promise, ws, now), now):
            end(promise, ws, now)
    for key in below:
        if (called := ws.task(key)) is not None:
            supersede(called, ws)
        elif ws.promise(key) is not None:
            delete(key, ws)
    make_place(creation.tags, target, request.scope, ws, now)
    ws.put_again(replace(existing, tags=creation.tags))
    version = task.version + 1
    promise, born = new_promise(
        creation.id,
        creation.param,
        creation.tags,
        creation.timeout_at,
        creation.ikc,
        target,
        request.dialect,
        ws,
        now,
        now,
        version,
    )
    assert born is not None
    if ws.streams_of(existing.id) is not None:
        ws.put_streams(Streams(existing.id, now))
    if is_open(born, now):
        offer(born, ws, now, rest_until=tags.delay_of(creation.tags) or 0)
    return promise
