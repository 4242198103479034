"""task.restart: an execution goes on under its id, with new arguments and fresh records.

1. Whoever holds the claim ends the generation that it names and begins the next one, in one commit. The
   claim, its lease and its version stay; what was written for the old generation is refused from then on
   (`held_task`).
2. The promise stays pending: whoever waits for it goes on waiting. Its param stays that of the first start.
3. Messages that were not taken stay. Those that were are deleted once they are old, a few at a time, with the
   records of their keys and their settled answers; so are published values that later ones have replaced.
   What was emitted stays.
4. The records that the request names are deleted: those of the execution itself, never those of executions
   that it has called, nor elements of its streams. One that is pending is cancelled first, so nobody waits
   for it.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.engine.kept_versions import delete
from holdfast.engine.streams import note_read
from holdfast.engine.tasks import find_task, held_task
from holdfast.engine.transitions import EXECUTION_OVER, settle
from holdfast.engine.view import is_open, promise_of
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import InvalidField, NotAJob
from holdfast.protocol.generations import Generation, begun_with, generation_of
from holdfast.protocol.ids import lies_within
from holdfast.protocol.records import Millis, Promise, Task
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import Request, TaskRestart
from holdfast.protocol.streams import (
    ANSWER_HEADER,
    KEY_HEADER,
    MAILBOX,
    NUMBER_HEADER,
    Streams,
    aside_id,
    element_id,
    key_id,
)


def restart(request: Request, data: TaskRestart, ws: WorkingSet, now: Millis) -> Reply:
    task = find_task(data.id, ws)
    promise = promise_of(task, ws)
    if _is_repeated(data, task, promise, now):
        return Reply(200, PromiseReply(promise))
    task = held_task(data.id, data.version, ws, now, data.generation)
    if task.job is not None:
        raise NotAJob(f"The background task {data.id!r} runs once and cannot continue as new")
    before = generation_of(promise)
    streams = ws.streams_of(data.id)
    if streams is not None and streams.created_at != promise.created_at:
        streams = None
    count = 0 if streams is None else streams.count(MAILBOX)
    if not before.read <= data.read <= count:
        raise InvalidField(f"read must be from {before.read} to {count}: the mailbox has {count} messages")
    forget(data.forget, promise, ws, now)
    if streams is not None:
        _trim(_with_read(streams, data.read, ws), data.read, ws, now)
    again = replace(promise, value=begun_with(data.param, Generation(before.number + 1, data.read)))
    ws.put_promise(again)
    task = find_task(data.id, ws)  # which a record that it awaited, and that is gone now, may have woken
    fresh = replace(task, progress=None, woken_by=None, retries=0, error=None, bounces=0, crashes=0)
    if fresh != task:
        ws.put_task(fresh)
    return Reply(200, PromiseReply(again))


def _is_repeated(data: TaskRestart, task: Task, promise: Promise, now: Millis) -> bool:
    """The very restart that began the current generation, sent again because its reply was lost."""
    return (
        is_open(task, now)
        and task.state == "acquired"
        and task.version == data.version
        and generation_of(promise).number == data.generation + 1
    )


def forget(record_ids: Iterable[str], execution: Promise, ws: WorkingSet, now: Millis) -> None:
    """Delete records of an execution."""
    record_ids = [*dict.fromkeys(record_ids)]
    ws.handled += len(record_ids) // 8  # to look at so many takes about as long as to load one
    ws.need_obligations(record_ids)
    for record_id in record_ids:
        record = ws.promise(record_id)
        if record is None or not _is_own(record, execution.id, ws):
            continue
        if record.state == "pending":
            settle(record, "rejected_canceled", EXECUTION_OVER, now, None, ws, now)
        delete(record_id, ws)


def _is_own(record: Promise, root: str, ws: WorkingSet) -> bool:
    return (
        record.id != root
        and lies_within(record.id, root)
        and record.tags.get(tags.PARENT) == root
        and tags.STREAM not in record.tags
        and record.tags.get(tags.DEPENDENT) != root
        and ws.task(record.id) is None
    )


# --- streams ---------------------------------------------------------------------------------------------


def _with_read(streams: Streams, read: int, ws: WorkingSet) -> Streams:
    """What a generation has taken counts as read, though it has not asked for more."""
    noted = note_read(streams, read, ws)
    if noted != streams:
        ws.put_streams(noted)
    return noted


def _trim(streams: Streams, read: int, ws: WorkingSet, now: Millis) -> None:
    """Delete what nobody needs of the mailbox and of the published values, as far as it is old enough."""
    ends = {name: count - 1 for name, count in streams.counts.items() if name.startswith("value.")}
    ends[MAILBOX] = read
    ends = {name: end for name, end in ends.items() if end > streams.trimmed.get(name, 0)}
    if not ends or now < streams.trim_at:
        return
    trimmed, next_at = dict(streams.trimmed), now + limits.read_message_ms
    for name in sorted(ends):
        trimmed[name], at = _trim_one(streams, name, ends[name], ws, now)
        next_at = min(next_at, at)
    now_known = ws.streams_of(streams.id)
    assert now_known is not None
    ws.put_streams(replace(now_known, trimmed=trimmed, trim_at=next_at))


def _trim_one(streams: Streams, stream: str, end: int, ws: WorkingSet, now: Millis) -> tuple[int, Millis]:
    """The number up to which all is gone now, and when it is worth while to look again."""
    first = streams.trimmed.get(stream, 0) + 1
    last = min(end, first + limits.trim_max - 1)
    names = [element_id(streams.id, stream, number) for number in range(first, last + 1)]
    for number, name in enumerate(names, first):
        ws.need([name] if number == first else names)  # nearly always the first one is too young
        element = ws.promise(name)
        if element is None:
            continue
        goes_at = (element.settled_at or 0) + limits.read_message_ms
        if goes_at > now:
            return number - 1, goes_at
        beside = _beside(element, streams.id, stream)
        ws.need(beside)
        found = [
            record
            for record_id in beside
            if (record := ws.promise(record_id)) is not None and _is_of(record, element, number)
        ]
        if any(record.state == "pending" for record in found):  # a question that nobody has answered yet
            return number - 1, now + limits.read_message_ms
        for record in (element, *found):
            if record.tags.get(tags.PARENT) == streams.id and ws.task(record.id) is None:
                delete(record.id, ws)
    return last, now if last < end else now + limits.read_message_ms


def _beside(element: Promise, root: str, stream: str) -> list[str]:
    """The ids of the record of its key, of its answer, and of why it could not be read."""
    headers = element.value.headers or {}
    keys = {key: None for key in (element.ikc, headers.get(KEY_HEADER)) if key is not None}
    names, answer = [key_id(root, stream, key) for key in keys], headers.get(ANSWER_HEADER)
    if answer is not None and lies_within(answer, root):
        names.append(answer)
    return [*names, aside_id(element.id)] if stream == MAILBOX else names


def _is_of(record: Promise, element: Promise, number: int) -> bool:
    """Under the number of an element somebody else may have written anything, also the key of another one."""
    named = (record.value.headers or {}).get(NUMBER_HEADER)
    if named is not None:
        return named == str(number)
    return record.id == aside_id(element.id) or record.tags.get(tags.ANSWER) == element.id
