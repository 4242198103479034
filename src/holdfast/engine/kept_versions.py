"""The versions of an id never repeat, whatever is created under it.

Somebody may hold a task of an execution that has been replaced, or be invited to it. Whoever creates that
task again must go on from its version. A version that begins at 0 again would sooner or later be the one that
a worker of the old run holds, and then that worker could write.

1. What has a task and lies below what begins anew stays, as cancelled, with the value `SUPERSEDED`. A reader
   finds a promise. For whoever creates something there, or mends the execution, it does not exist.
2. Code that has changed may create something under its id that has no task: a step, a ticket for a lock, a
   wait for an event, an answer. That one carries the version, in a tag that nobody else writes.
3. When that is deleted while the execution stays, what is left of it is again only kept for its version: an
   empty promise, in no branch and of no parent.
4. All of it goes when the whole tree is deleted.
"""

from msgspec.structs import replace

from holdfast.engine.view import promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import tags
from holdfast.protocol.mending import SUPERSEDED
from holdfast.protocol.records import NOTHING, Promise, Task
from holdfast.protocol.streams import Streams


def is_superseded(promise: Promise) -> bool:
    """Is it only kept for its version?"""
    return promise.value == SUPERSEDED


def find_created(promise_id: str, ws: WorkingSet) -> Promise | None:
    """What is there for whoever creates something under this id."""
    promise = ws.promise(promise_id)
    return None if promise is None or is_superseded(promise) else promise


def supersede(task: Task, ws: WorkingSet) -> None:
    """Somebody may still work on it, or be invited to: it stays, as cancelled, until it is created again."""
    promise = promise_of(task, ws)
    ws.put_promise(replace(promise, state="rejected_canceled", value=SUPERSEDED))
    ws.put_task(task)  # it is listed by its outcome
    if ws.streams_of(task.id) is not None:
        ws.put_streams(Streams(task.id, promise.created_at))


def take_version(superseded: Promise, ws: WorkingSet) -> int:
    """Delete what is only kept for its version. Answers with the version that its successor begins at."""
    task = ws.task(superseded.id)
    ws.forget(superseded.id)
    return tags.next_version_of(superseded.tags) if task is None else task.version + 1


def with_version(entries: dict[str, str], version: int) -> dict[str, str]:
    """The tags of something without a task, created where there was a task."""
    return {**entries, tags.NEXT_VERSION: str(version)}


def with_run(entries: dict[str, str], version: int) -> dict[str, str]:
    """The tags of something with a task that begins at this version, not the first run under its id."""
    return {**entries, tags.RUN: str(version)}


def put_record(record: Promise, ws: WorkingSet) -> Promise:
    """Write something new without a task, such as a ticket. It carries the version that was kept there."""
    kept = ws.promise(record.id)
    version = 0 if kept is None else take_version(kept, ws)
    if version:
        record = replace(record, tags=with_version(record.tags, version))
    ws.put_promise(record)
    return record


def delete(promise_id: str, ws: WorkingSet) -> None:
    """Delete a settled record that has no task, and keep the version that it carries."""
    promise = ws.promise(promise_id)
    ws.forget(promise_id)
    if promise is None or tags.NEXT_VERSION not in promise.tags:
        return
    names = (tags.ORIGIN, tags.NEXT_VERSION)
    kept = {name: text for name, text in promise.tags.items() if name in names}
    ws.put_promise(
        Promise(
            promise.id,
            "rejected_canceled",
            NOTHING,
            SUPERSEDED,
            kept,
            promise.timeout_at,
            promise.created_at,
            promise.settled_at,
        )
    )
