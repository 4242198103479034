"""stream.*: elements are appended to the numbered rows below an execution, awaited and read.

1. The numbers of a stream are given inside the commit, from 1 on, one after the other. An element is a
   settled promise under its number. A number under which somebody else has written is passed over.
2. Under one key a stream has one element, however often it is asked for.
3. Nothing is appended to an execution that is over. Anybody may append to `in`; to the other streams only
   whoever holds the claim of the execution, or of a task that it called.
4. At most one element of a stream is awaited: the promise of the next number, pending. The append settles
   it.
5. Open answers and awaited elements are dependents: they end with their execution (`transitions.py`).
"""

from msgspec.structs import replace

from holdfast.engine.kept_versions import find_created, put_record
from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.transitions import settle
from holdfast.engine.view import is_live, is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import (
    ExecutionOver,
    InvalidField,
    KeyConflict,
    NoSuchExecution,
    NotAsExpected,
    NotItsStream,
    StreamFull,
    TooManyAnswers,
    TooManyStreams,
)
from holdfast.protocol.records import NOTHING, Millis, Promise, Task, Value
from holdfast.protocol.replies import Reply, StreamAppendReply, StreamReply, StreamsReply
from holdfast.protocol.requests import Request, StreamAnswer, StreamAppend, StreamList, StreamNext, StreamRead
from holdfast.protocol.sizes import message_value_bytes, whole_promise_bytes
from holdfast.protocol.streams import (
    ANSWER_HEADER,
    KEY_HEADER,
    MAILBOX,
    NUMBER_HEADER,
    Streams,
    answer_id,
    element_id,
    key_id,
)
from holdfast.protocol.text import check_text

_read_at_once = 32  # nobody knows how large elements are before they are read


def append_request(request: Request, data: StreamAppend, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, append(data, None, ws, now))


def append(data: StreamAppend, fence: Task | None, ws: WorkingSet, now: Millis) -> StreamAppendReply:
    """`fence`: the task whose claim it is done under. Whatever refuses does so before anything is written."""
    execution, task = _find_execution(data.id, ws)
    if data.stream != MAILBOX and not _owns(fence, data.id, ws):
        raise NotItsStream(f"The stream {data.stream!r} of {data.id!r} is its own")
    for name, wanted in (data.expect or {}).items():
        if execution.tags.get(name) != wanted:
            raise NotAsExpected(f"The execution {data.id!r} does not have the tag {name} = {wanted!r}")
    if data.key is not None and (first := _appended_before(data, data.key, ws, now)) is not None:
        return first
    if not is_open(task, now):
        raise ExecutionOver(data.id)
    streams = _streams_of(execution, ws)
    number, awaited = _next_place(streams, data.stream, ws, now)
    element = element_id(data.id, data.stream, number)
    asked = None if data.answer is None else _check_answer(data.answer, streams, element, ws)
    value = _with_answer(data.value, asked)
    if awaited is not None and data.key is not None:  # its promise was created before there was a key
        value = Value({**(value.headers or {}), KEY_HEADER: data.key}, value.data)
    size = message_value_bytes(value)
    _check_room(streams, data.stream, number, size)
    counts = {**streams.counts, data.stream: number}
    total = None
    if data.stream == MAILBOX:
        sent_bytes = streams.sent_bytes + size
        total = str(sent_bytes)
        ws.put_streams(replace(streams, counts=counts, sent_bytes=sent_bytes))
    else:
        ws.put_streams(replace(streams, counts=counts))
    lineage = _lineage(execution, data.stream)
    if awaited is not None:
        appended = settle(awaited, "resolved", value, now, total, ws, now)
    else:
        deadline = execution.timeout_at
        appended = Promise(element, "resolved", NOTHING, value, lineage, deadline, now, now, data.key, total)
        ws.put_promise(appended)
    answer = None
    if data.answer is not None and asked is not None:
        answer = _open_answer(execution, data.answer, asked, element, ws, now)
    if data.key is not None:
        headers = {NUMBER_HEADER: str(number)} | ({} if asked is None else {ANSWER_HEADER: asked})
        record = key_id(data.id, data.stream, data.key)
        ws.put_promise(
            Promise(record, "resolved", NOTHING, Value(headers), lineage, execution.timeout_at, now, now)
        )
    return StreamAppendReply(appended, number, answer)


def next_request(request: Request, data: StreamNext, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, find_next(data, None, ws, now))


def find_next(data: StreamNext, fence: Task | None, ws: WorkingSet, now: Millis) -> StreamReply:
    """Elements from a number on. For the first that does not exist yet, its promise, pending."""
    execution, task = _find_execution(data.id, ws)
    streams = _streams_of(execution, ws)
    count = streams.count(data.stream)
    if data.number > count + 1:
        raise InvalidField(f"number must be from 1 to {count + 1}: the stream has {count} elements")
    is_over = not is_open(task, now)
    awaited: Promise | None = None
    if data.number > count and not data.peek:
        if is_over:
            raise ExecutionOver(data.id)
        place, awaited = _next_place(streams, data.stream, ws, now)
        _check_room(streams, data.stream, place, 0)
        streams = replace(streams, counts={**streams.counts, data.stream: place - 1})
        if awaited is None and place == data.number:
            awaited = _await_element(execution, data.stream, place, ws, now)
        elif place > data.number:
            awaited = None  # somebody else has written what is asked for
    if data.stream == MAILBOX and fence is not None and fence.id == data.id:
        streams = note_read(streams, data.number - 1, ws)
    if streams != _streams_of(execution, ws):
        ws.put_streams(streams)
    if awaited is not None:
        return StreamReply([awaited], data.number, streams.count(data.stream), is_over)
    first = max(data.number, streams.trimmed.get(data.stream, 0) + 1)
    found = _elements(data.id, data.stream, first, streams.count(data.stream), ws, now)
    return StreamReply(found, first, streams.count(data.stream), is_over)


def read(request: Request, data: StreamRead, ws: WorkingSet, now: Millis) -> Reply:
    execution, task = _view_execution(data.id, ws)
    streams = _streams_of(execution, ws)
    count = streams.count(data.stream)
    first = max(count, 1) if data.last else max(data.after or 0, streams.trimmed.get(data.stream, 0)) + 1
    found = _elements(
        data.id, data.stream, first, count, ws, now, limit=data.limit or limits.stream_page_size
    )
    return Reply(200, StreamReply(found, first, count, not is_open(task, now)))


def list_streams(request: Request, data: StreamList, ws: WorkingSet, now: Millis) -> Reply:
    execution, task = _view_execution(data.id, ws)
    streams = _streams_of(execution, ws)
    return Reply(
        200, StreamsReply(dict(sorted(streams.counts.items())), streams.read, not is_open(task, now))
    )


# --- the execution and its record ------------------------------------------------------------------------


def _find_execution(execution_id: str, ws: WorkingSet) -> tuple[Promise, Task]:
    promise, task = ws.promise(execution_id), ws.task(execution_id)
    if promise is None or task is None:
        raise NoSuchExecution(execution_id)
    return promise, task


def _view_execution(execution_id: str, ws: WorkingSet) -> tuple[Promise, Task]:
    """The same, where nothing is changed: it need not be held."""
    if execution_id not in ws.promises or execution_id not in ws.streams:
        raise Missing(Footprint(views={execution_id}, stream_views={execution_id}))
    return _find_execution(execution_id, ws)


def _streams_of(execution: Promise, ws: WorkingSet) -> Streams:
    found = ws.streams_of(execution.id)
    if found is None or found.created_at != execution.created_at:
        return Streams(execution.id, execution.created_at)
    return found


def _owns(fence: Task | None, execution_id: str, ws: WorkingSet) -> bool:
    """Is it done by whoever drives the execution, or a task that it called?"""
    if fence is None:
        return False
    if fence.id == execution_id:
        return True
    promise = ws.promise(fence.id)
    return promise is not None and promise.tags.get(tags.PARENT) == execution_id


def _lineage(execution: Promise, stream: str) -> dict[str, str]:
    """No branch: a claim preloads none of this, however long a stream is."""
    origin = execution.tags.get(tags.ORIGIN, execution.id)
    return {tags.ORIGIN: origin, tags.PARENT: execution.id, tags.STREAM: stream}


def _checked_id(name: str) -> str:
    try:
        check_text("the id of an element", name)
    except ValueError as error:
        raise InvalidField(str(error)) from None
    return name


# --- appending -------------------------------------------------------------------------------------------


def _appended_before(data: StreamAppend, key: str, ws: WorkingSet, now: Millis) -> StreamAppendReply | None:
    record = ws.promise(_checked_id(key_id(data.id, data.stream, key)))
    if record is None:
        return None
    headers = record.value.headers or {}
    number = headers.get(NUMBER_HEADER, "")
    element = ws.promise(element_id(data.id, data.stream, int(number))) if number.isdecimal() else None
    if element is None:
        raise KeyConflict(f"The promise {record.id!r} is not the record of a key")
    answer_to = headers.get(ANSWER_HEADER)
    answer = None if answer_to is None else ws.promise(answer_to)
    return StreamAppendReply(element, int(number), None if answer is None else see_promise(answer, ws, now))


def _next_place(streams: Streams, stream: str, ws: WorkingSet, now: Millis) -> tuple[int, Promise | None]:
    """The number of the next element, whose id is checked; and its promise, if it is awaited already."""
    first = streams.count(stream) + 1
    for number in range(first, first + limits.stream_skips_max + 1):
        promise = ws.promise(_checked_id(element_id(streams.id, stream, number)))
        if promise is None or is_live(promise, now):
            return number, promise
    raise StreamFull(f"Somebody else has written the next numbers of the stream {stream!r} of {streams.id!r}")


def _check_room(streams: Streams, stream: str, number: int, size: int) -> None:
    if stream not in streams.counts and len(streams.counts) >= limits.streams_max:
        raise TooManyStreams(
            f"The execution {streams.id!r} has {limits.streams_max} streams, which is the limit"
        )
    if number - streams.trimmed.get(stream, 0) > limits.stream_elements_max:
        raise StreamFull(f"The stream {stream!r} of {streams.id!r} has {limits.stream_elements_max} elements")
    if stream == MAILBOX and size:
        if number - streams.read > limits.unread_messages_max:
            raise StreamFull(f"{limits.unread_messages_max} messages to {streams.id!r} are unread")
        if streams.sent_bytes - streams.read_bytes + size > limits.unread_bytes_max:
            raise StreamFull(f"{limits.unread_bytes_max} bytes of messages to {streams.id!r} are unread")


def _check_answer(answer: StreamAnswer, streams: Streams, element: str, ws: WorkingSet) -> str:
    """The id of the promise of an answer that can be asked for."""
    if streams.open_answers >= limits.open_answers_max:
        raise TooManyAnswers(f"{limits.open_answers_max} questions to {streams.id!r} wait for an answer")
    name = answer.id or _checked_id(answer_id(element))
    if find_created(name, ws) is not None or name == element:
        raise KeyConflict(f"The promise {name!r} exists already, so it cannot be created for an answer")
    return name


def _with_answer(value: Value, answer: str | None) -> Value:
    """A question says where its answer is wanted. Nobody else can say so: its reader settles that promise."""
    if answer is None and not value.headers:
        return value
    headers = {name: text for name, text in (value.headers or {}).items() if name != ANSWER_HEADER}
    if answer is not None:
        headers[ANSWER_HEADER] = answer
    return value if headers == (value.headers or {}) else Value(headers or None, value.data)


def _open_answer(
    execution: Promise, asked: StreamAnswer, name: str, element: str, ws: WorkingSet, now: Millis
) -> Promise:
    lineage = {tags.ORIGIN: execution.tags.get(tags.ORIGIN, execution.id), tags.PARENT: execution.id}
    entries = {**(asked.tags or lineage), tags.DEPENDENT: execution.id, tags.ANSWER: element}
    if asked.timeout_at <= now:
        deadline = asked.timeout_at
        answer = Promise(
            name, "rejected_timedout", asked.param, NOTHING, entries, deadline, deadline, deadline
        )
        return put_record(answer, ws)
    answer = put_record(Promise(name, "pending", asked.param, NOTHING, entries, asked.timeout_at, now), ws)
    ws.add_callback(execution.id, name)
    streams = _streams_of(execution, ws)
    ws.put_streams(replace(streams, open_answers=streams.open_answers + 1))
    return answer


# --- reading ---------------------------------------------------------------------------------------------


def _await_element(execution: Promise, stream: str, number: int, ws: WorkingSet, now: Millis) -> Promise:
    entries = {**_lineage(execution, stream), tags.DEPENDENT: execution.id}
    name = element_id(execution.id, stream, number)
    promise = Promise(name, "pending", NOTHING, NOTHING, entries, execution.timeout_at, now)
    ws.put_promise(promise)
    ws.add_callback(execution.id, name)
    return promise


def note_read(streams: Streams, number: int, ws: WorkingSet) -> Streams:
    """Everything up to this number was read. Each message says how many bytes were sent up to it."""
    if number <= streams.read:
        return streams
    if number == streams.count(MAILBOX):
        return replace(streams, read=number, read_bytes=streams.sent_bytes)
    for each in range(number, max(streams.read, number - limits.stream_skips_max - 1), -1):
        name = element_id(streams.id, MAILBOX, each)
        if name not in ws.promises:
            raise Missing(Footprint(views={name}))
        total = _sent_up_to(ws.promises[name])
        if streams.read_bytes <= total <= streams.sent_bytes:
            return replace(streams, read=number, read_bytes=total)
    return replace(streams, read=number)


def _sent_up_to(message: Promise | None) -> int:
    """Of what somebody else has written nothing is known."""
    text = "" if message is None else message.iku or ""
    return int(text) if text.isdecimal() and len(text) < 20 else -1


def _elements(
    execution_id: str,
    stream: str,
    first: int,
    count: int,
    ws: WorkingSet,
    now: Millis,
    limit: int = limits.stream_page_size_max,
) -> list[Promise]:
    """As many as fit into one answer, from the first on."""
    found: list[Promise] = []
    size = 0
    last = min(count, first + limit - 1)
    for start in range(first, last + 1, _read_at_once):
        names = [
            element_id(execution_id, stream, n) for n in range(start, min(start + _read_at_once, last + 1))
        ]
        unknown = {name for name in names if name not in ws.promises}
        if unknown:
            raise Missing(Footprint(views=unknown))
        for name in names:
            promise = ws.promises[name]
            if promise is None:
                continue
            size += whole_promise_bytes(promise)
            if found and size > limits.stream_page_bytes_max:
                return found
            found.append(see_promise(promise, ws, now))
    return found
