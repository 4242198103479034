"""Records to rows and back, for every store that speaks SQL.

What was written is checked when it is read: a row that cannot have been written by us is an error that
names it, never a guess.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, cast, get_args, overload

import msgspec
from msgspec.structs import astuple, replace

from holdfast.engine import WorkingSet
from holdfast.engine.newest import Listing, listing_of
from holdfast.protocol import limits, tags
from holdfast.protocol.address import claim_group, parse_address, poll_group
from holdfast.protocol.cron import check_cron
from holdfast.protocol.dialect import Dialect
from holdfast.protocol.executions import read_lost_claims, read_waits
from holdfast.protocol.ids import lies_directly_below, lies_within
from holdfast.protocol.jobs import Job, QueuePlace, QueueRecord
from holdfast.protocol.locks import lock_id, read_lock
from holdfast.protocol.records import (
    NOTHING,
    Listener,
    Promise,
    PromiseState,
    Schedule,
    ScheduleEntry,
    Task,
    Value,
)
from holdfast.protocol.reported import read_reported
from holdfast.protocol.streams import MAILBOX, Streams
from holdfast.store.interface import CorruptRecord

Row = Sequence[Any]

PROMISE_COLUMNS: Final = (
    "id", "state", "param", "value", "tags", "timeout_at", "created_at", "settled_at", "ikc", "iku",
    "branch", "origin", "watched",
)  # fmt: skip
TASK_COLUMNS: Final = (
    *Task.__struct_fields__, "poll_group", "claim_group", "job_key", "job_unique", "entered_at",
    "name", "outcome", "code",
)  # fmt: skip
SCHEDULE_COLUMNS: Final = (*Schedule.__struct_fields__, "dialect")
QUEUE_COLUMNS: Final = ("name", "gated", "record")
STREAM_COLUMNS: Final = ("id", "record")

_keys: Final = f"{MAILBOX}~"  # with which the ids of the keys of messages begin, below their execution
_place_at: Final = Task.__struct_fields__.index("place")
_job_at: Final = Task.__struct_fields__.index("job")
assert (_place_at, _job_at) == (len(Task.__struct_fields__) - 2, len(Task.__struct_fields__) - 1)

_encode: Final = msgspec.json.Encoder().encode
_decode_value: Final = msgspec.json.Decoder(Value).decode
_decode_job: Final = msgspec.json.Decoder(Job).decode
_decode_place: Final = msgspec.json.Decoder(QueuePlace).decode
_decode_queue: Final = msgspec.json.Decoder(QueueRecord).decode
_decode_streams: Final = msgspec.json.Decoder(Streams).decode
_decode_tags: Final = msgspec.json.Decoder(dict[str, str]).decode
_promise_states: Final = frozenset(get_args(PromiseState))
_dialects: Final = frozenset(get_args(Dialect))


@overload
def key_of(value: str) -> str: ...


@overload
def key_of(value: str | None) -> str | None: ...


def key_of(value: str | None) -> str | None:
    """A tag's value as it is indexed. One that is too long for an index is represented by its hash."""
    if value is None or len(value) <= limits.id_bytes_max // 4 or len(value.encode()) <= limits.id_bytes_max:
        return value
    return "sha256:" + sha256(value.encode()).hexdigest()


def promise_row(promise: Promise, watched: bool) -> Row:
    entries = promise.tags
    if not entries:
        return _promise_row(promise, watched, None, None)
    origin = _origin_key(promise.id, entries.get(tags.ORIGIN))
    return _promise_row(promise, watched, key_of(entries.get(tags.BRANCH)), origin)


def sqlite_promise_row(promise: Promise, watched: bool) -> Row:
    """The same for SQLite, which has no truth values. It has a branch only where the id does not say it: the
    others are found by a walk along the ids."""
    entries, is_watched = promise.tags, 1 if watched else 0
    if not entries:
        return _promise_row(promise, is_watched, None, None)
    branch, origin = entries.get(tags.BRANCH), entries.get(tags.ORIGIN)
    if branch is not None:
        if not _is_walked(promise.id, branch):
            branch = key_of(branch)
        elif origin == branch:  # as in most records: then the id says that, too
            branch = origin = None
        else:
            branch = None
    if origin is not None:
        origin = _origin_key(promise.id, origin)
    return _promise_row(promise, is_watched, branch, origin)


def _is_walked(promise_id: str, branch: str) -> bool:
    """Is it found by a walk along the ids of its branch? That passes over what has the id of a message's key,
    which none of ours has a branch for."""
    if promise_id == branch or not lies_directly_below(promise_id, branch):
        return False
    size = len(branch) + 1
    return promise_id[size : size + len(_keys)] != _keys


def _promise_row(promise: Promise, watched: int, branch: str | None, origin: str | None) -> Row:
    param, value, entries = promise.param, promise.value, promise.tags
    return (
        promise.id,
        promise.state,
        "{}" if param is NOTHING else _encode(param).decode(),
        "{}" if value is NOTHING else _encode(value).decode(),
        _encode(entries).decode() if entries else "{}",
        promise.timeout_at,
        promise.created_at,
        promise.settled_at,
        promise.ikc,
        promise.iku,
        branch,
        origin,
        watched,
    )


def is_alike(column: Sequence[object]) -> bool:
    """Do all rows of a save have the same there? Then it need be written only once."""
    return column.count(column[0]) == len(column)


PROMISE_CHANGES: Final = ("id", "state", "value", "settled_at", "iku", "watched")


def promise_changes(promise: Promise, watched: bool) -> Row:
    """All that can change of a promise, without the rest of its row."""
    value = "{}" if promise.value is NOTHING else _encode(promise.value).decode()
    return (promise.id, promise.state, value, promise.settled_at, promise.iku, watched)


def _origin_key(promise_id: str, origin: str | None) -> str | None:
    """What the id itself says needs no place in another index: that of origins holds the others."""
    return None if origin is None or lies_within(promise_id, origin) else key_of(origin)


def read_promise(row: Row) -> Promise:
    state, timeout_at, created_at, settled_at, ikc, iku = row[1], row[5], row[6], row[7], row[8], row[9]
    try:
        promise = Promise(
            row[0],
            state,
            _read_value(row[2]),
            _read_value(row[3]),
            {} if row[4] == "{}" else _decode_tags(row[4]),
            timeout_at,
            created_at,
            settled_at,
            ikc,
            iku,
        )
    except (msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise CorruptRecord("promise", row[0], str(error)) from error
    if (
        state not in _promise_states
        or (settled_at is not None if state == "pending" else type(settled_at) is not int)
        or type(timeout_at) is not int
        or type(created_at) is not int
        or (ikc is not None and type(ikc) is not str)
        or (iku is not None and type(iku) is not str)
    ):
        kept = (state, timeout_at, created_at, settled_at, ikc, iku)  # no payload: this goes to the log
        raise CorruptRecord("promise", row[0], f"stored with {kept!r}")
    if promise.tags and tags.LOCK in promise.tags:
        _check_lock(promise)
    return promise


def _check_lock(promise: Promise) -> None:
    try:
        lock = read_lock(promise)
    except ValueError as error:
        raise CorruptRecord("lock", promise.id, str(error)) from error
    if lock_id(lock.name) != promise.id or lock.free < 0:
        raise CorruptRecord("lock", promise.id, f"stored as {promise.value.data!r}")


def task_row(task: Task, listing: Listing) -> Row:
    target, job = task.target, task.job
    plain = astuple(task)[:_place_at]
    groups = poll_group(target), claim_group(target)
    found_by = key_of(listing.name), listing.outcome, listing.code
    if job is not None:
        return (*plain, None, _encode(job).decode(), *groups, job.key, job.unique, None, *found_by)
    if (place := task.place) is not None:
        encoded = _encode(place).decode()
        return (*plain, encoded, None, *groups, place.key, None, place.entered_at, *found_by)
    return (*plain, None, None, *groups, None, None, None, *found_by)


def changed_task_rows(ws: WorkingSet) -> dict[str, Row]:
    """The rows of all tasks that a working set has changed, by id."""
    return {
        key: task_row(task, listing_of(task, ws.promises.get(key)))
        for key in ws.changed_tasks
        if (task := ws.tasks[key]) is not None
    }


def read_task(row: Row) -> Task:
    try:
        task = msgspec.convert(row[:_place_at], Task, strict=False)
        if row[_job_at] is not None:
            task = replace(task, job=_decode_job(row[_job_at]))
        elif row[_place_at] is not None:
            task = replace(task, place=_decode_place(row[_place_at]))
        if task.waits is not None:
            read_waits(task.waits)
        if task.lost is not None:
            read_lost_claims(task.lost)
        if task.progress is not None:
            read_reported(task.progress)
        parse_address(task.target)
    except ValueError as error:  # of msgspec too
        raise CorruptRecord("task", row[0], str(error)) from error
    is_timed = task.state in ("pending", "acquired")
    # A job that rests halted may still expire.
    if (is_timed != (task.due_at is not None) and not (task.state == "halted" and task.job is not None)) or (
        task.state == "acquired"
    ) != (task.pid is not None):
        raise CorruptRecord("task", task.id, f"{task.state}, due at {task.due_at!r}, held by {task.pid!r}")
    return task


def queue_row(queue: QueueRecord) -> Row:
    return (queue.name, queue.is_gated, _encode(queue).decode())


def read_queue(row: Row) -> QueueRecord:
    try:
        return _decode_queue(row[2])
    except msgspec.DecodeError as error:
        raise CorruptRecord("queue", row[0], str(error)) from error


def streams_row(streams: Streams) -> Row:
    return (streams.id, _encode(streams).decode())


def read_streams(row: Row) -> Streams:
    try:
        streams = _decode_streams(row[1])
    except msgspec.DecodeError as error:
        raise CorruptRecord("record of the streams of", row[0], str(error)) from error
    if (
        streams.id != row[0]
        or streams.read > streams.count(MAILBOX)
        or streams.read_bytes > streams.sent_bytes
    ):
        raise CorruptRecord("record of the streams of", row[0], f"stored as {row[1]!r}")
    return streams


def schedule_row(entry: ScheduleEntry) -> Row:
    fields = [getattr(entry.schedule, name) for name in Schedule.__struct_fields__]
    return tuple(
        _encode(field).decode() if isinstance(field, (dict, Value)) else field
        for field in (*fields, entry.dialect)
    )


def read_schedule(row: Row) -> ScheduleEntry:
    try:
        fields = dict(zip(Schedule.__struct_encode_fields__, row, strict=False))
        fields["promiseParam"] = _decode_value(fields["promiseParam"])
        fields["promiseTags"] = _decode_tags(fields["promiseTags"])
        entry = ScheduleEntry(msgspec.convert(fields, Schedule), _read_dialect(row[-1]))
        check_cron(entry.schedule.cron)
    except (TypeError, ValueError) as error:
        raise CorruptRecord("schedule", row[0], str(error)) from error
    return entry


def read_listener(row: Row) -> Listener:
    promise_id, _, address, dialect = row
    try:
        parse_address(address)
        return Listener(address, _read_dialect(dialect))
    except (TypeError, ValueError) as error:
        raise CorruptRecord("promise", promise_id, f"it has a listener that cannot be: {error}") from error


def _read_dialect(text: Any) -> Dialect:
    if text not in _dialects:
        raise ValueError(f"there is no dialect {text!r}")
    return cast("Dialect", text)


def _read_value(text: str) -> Value:
    return NOTHING if text == "{}" else _decode_value(text)
