"""execution.fork: a new execution that has the records of another one up to an operation.

The new one is replayed like any other: it finds the results of what its code asks for before that operation,
and goes on from there by itself. The old one stays as it is.

1. What has a number below that of the operation is copied, if it is over: results of steps always; what
   completed outside, if the execution had seen it, or it was over before the operation began.
2. The order in which completions were seen is copied as far as it is whole: up to the first completion that
   is not copied. A result behind that loses its place, and may be seen at any point.
3. What it called is copied as a plain result, so nothing is called twice and nobody works on it. What it
   only started is not started again.
4. Its messages are copied up to the instant at which the operation began, and the last of each published
   value. Questions among them are messages: the old execution answers.
5. The new execution has tags that name the old one and the operation. Asking for the same fork again gives
   the same one; another fork under its id is refused.
"""

from msgspec.structs import replace

from holdfast.engine.deadlines import with_grace
from holdfast.engine.overlap import make_place
from holdfast.engine.promises import new_promise
from holdfast.engine.transitions import offer
from holdfast.engine.trees import (
    Record,
    check_first_generation,
    check_whole,
    find_execution,
    records_of,
    unreleased_lock,
)
from holdfast.engine.view import see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import (
    AlreadyExists,
    InvalidField,
    NoSuchOperation,
    TooManyRecords,
    WentOn,
)
from holdfast.protocol.ids import below
from holdfast.protocol.operations import OBSERVED, PLACE, Ran
from holdfast.protocol.records import NOTHING, Millis, Promise, Value
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import ExecutionFork, Request
from holdfast.protocol.sizes import message_value_bytes
from holdfast.protocol.streams import ANSWER_HEADER, MAILBOX, Streams, element_id

_NOT_INHERITED = (
    tags.DELAY,
    tags.SCHEDULE,
    tags.SENDING,
    tags.RERUN_OF,
    tags.PREFIX,
    tags.RUN,
)
_KEPT = (tags.SCOPE, tags.TASK, tags.WORKFLOW)  # of the tags of a record


def fork(request: Request, data: ExecutionFork, ws: WorkingSet, now: Millis) -> Reply:
    source, task = find_execution(data.id, ws)
    existing = ws.promise(data.new_id)
    if existing is not None:
        if not _is_same_fork(existing, data, source):
            raise AlreadyExists(data.new_id)
        return Reply(200, PromiseReply(see_promise(existing, ws, now)))
    check_whole(source, ws)
    deadline = _deadline(data, source, now)
    check_first_generation(source)
    records = records_of(data.id, ws)
    cut = _find_cut(data, records)
    copied = _copied(records, cut, ws, now)
    names = {record.id for record in copied}
    if (held := unreleased_lock([each for each in records if each.promise.id in names])) is not None:
        raise WentOn(data.id, f"it held the lock {held!r} there, which a fork does not")
    messages, published = _elements(source, cut.began_at, ws)
    if len(copied) + len(messages) > limits.mended_records_max:
        raise TooManyRecords(f"More than {limits.mended_records_max} records lie before that operation")
    lineage = {tags.ORIGIN: data.new_id, tags.BRANCH: data.new_id, tags.PARENT: data.new_id}
    copies = [_copy(record, data, lineage, deadline, now) for record in copied]
    _check_free(data.new_id, copies, messages, published, ws)
    entries = {name: text for name, text in source.tags.items() if name not in _NOT_INHERITED}
    entries = {**entries, **lineage, tags.SCOPE: "global"}
    entries |= {tags.FORK_OF: data.id, tags.FORK_BEFORE: data.before}
    make_place(entries, task.target, request.scope, ws, now)
    param = source.param if data.param is None else data.param
    promise, born = new_promise(
        data.new_id, param, entries, deadline, None, task.target, request.dialect, ws, now, now
    )
    assert born is not None
    for record in copies:
        ws.put_promise(record)
    _copy_streams(data, messages, published, lineage, deadline, ws, now)
    offer(born, ws, now)
    return Reply(200, PromiseReply(promise))


def _is_same_fork(existing: Promise, data: ExecutionFork, source: Promise) -> bool:
    """Whoever gives a param compares it: a codec may write the same one differently each time."""
    return (
        existing.tags.get(tags.FORK_OF) == data.id
        and existing.tags.get(tags.FORK_BEFORE, data.before) == data.before
        and (data.param is not None or existing.param == source.param)
    )


def _check_free(
    new_id: str,
    copies: list[Promise],
    messages: list[Promise],
    published: dict[str, Promise],
    ws: WorkingSet,
) -> None:
    """Nobody else may have written under the ids below it."""
    ids = [
        *(copy.id for copy in copies),
        *(element_id(new_id, MAILBOX, number) for number in range(1, len(messages) + 1)),
        *(element_id(new_id, stream, 1) for stream in published),
    ]
    ws.need(ids)
    ws.streams_of(new_id)
    if any(ws.promise(key) is not None for key in ids):
        raise AlreadyExists(new_id)


def _deadline(data: ExecutionFork, source: Promise, now: Millis) -> Millis:
    if data.timeout_at is not None:
        if data.timeout_at <= now:
            raise InvalidField("timeoutAt must be in the future")
        return with_grace(data.timeout_at, source)
    if source.timeout_at >= limits.instant_ms_max:
        return limits.instant_ms_max
    return min(limits.instant_ms_max, now + max(1, source.timeout_at - source.created_at))


class _Cut:
    """The operation before which the new execution goes on."""

    def __init__(self, record: Record, records: list[Record]) -> None:
        assert record.number is not None
        self.number = record.number
        ran = Ran.of(record.promise)
        self.began_at = record.promise.created_at if ran is None else ran.began_at
        numbers = {each.promise.id: each.number for each in records}
        by_place: dict[int, int | None] = {}
        for each in records:
            if each.place is not None:
                by_place[each.place] = each.number if each.observed is None else numbers.get(each.observed)
        self.place = 1  # of the first completion that is not copied
        while self.place in by_place and _is_before(by_place[self.place], self.number):
            self.place += 1


def _is_before(number: int | None, cut: int) -> bool:
    """What is not counted, a message or a promise with a name, is seen where it was seen."""
    return number is None or number < cut


def _find_cut(data: ExecutionFork, records: list[Record]) -> _Cut:
    named = [
        record
        for record in records
        if record.number
        and record.label
        and data.before in (record.promise.id.rstrip("~"), record.label, record.label.partition(" ")[2])
    ]
    if not named:
        raise NoSuchOperation(data.id, data.before)
    return _Cut(min(named, key=lambda record: (record.number or 0, record.promise.id)), records)


def _copied(records: list[Record], cut: _Cut, ws: WorkingSet, now: Millis) -> list[Promise]:
    """Those that the new execution has, each as it is to be there."""
    seen = {each.observed for each in records if each.place is not None and each.place < cut.place}
    found: dict[str, Promise] = {}
    marks: list[Promise] = []
    for record in records:
        promise = see_promise(record.promise, ws, now)
        if record.label.startswith("start ") and promise.created_at <= cut.began_at:
            promise = replace(promise, state="resolved", value=NOTHING, settled_at=promise.created_at)
        if promise.state == "pending" or record.label == "cancel":
            continue
        if not _is_before(record.number, cut.number):
            continue
        if promise.id.endswith("~"):
            marks.append(promise)
        elif record.place is not None and record.place < cut.place:
            found[promise.id] = promise
        elif record.place is not None:
            if record.is_step and promise.state == "resolved":
                found[promise.id] = _without_header(promise, PLACE)
        elif record.label and (promise.id in seen or (promise.settled_at or 0) <= cut.began_at):
            found[promise.id] = promise
    return [*found.values(), *(mark for mark in marks if mark.id[:-1] in found)]


def _without_header(promise: Promise, name: str) -> Promise:
    headers = {key: text for key, text in (promise.value.headers or {}).items() if key != name}
    return replace(promise, value=Value(headers or None, promise.value.data))


def _copy(
    record: Promise, data: ExecutionFork, lineage: dict[str, str], deadline: Millis, now: Millis
) -> Promise:
    old, new = below(data.id), below(data.new_id)
    value = record.value
    observed = (value.headers or {}).get(OBSERVED)
    if observed is not None and observed.startswith(old):
        headers = {**(value.headers or {}), OBSERVED: new + observed.removeprefix(old)}
        value = Value(headers, value.data)
    entries = {**lineage, **{name: record.tags[name] for name in _KEPT if name in record.tags}}
    name = new + record.id.removeprefix(old)
    if len(name.encode()) > limits.id_bytes_max:
        raise InvalidField("newId leaves no room for the ids of its records")
    if record.state == "rejected_timedout":
        deadline = now  # what has timed out has done so at its deadline
    return Promise(name, record.state, record.param, value, entries, deadline, now, now)


# --- streams -----------------------------------------------------------------------------------------------


def _elements(source: Promise, until: Millis, ws: WorkingSet) -> tuple[list[Promise], dict[str, Promise]]:
    """Its messages up to an instant, and what it had published last by then."""
    streams = ws.streams_of(source.id)
    if streams is None or streams.created_at != source.created_at:
        return [], {}
    if streams.count(MAILBOX) > limits.mended_records_max:
        raise TooManyRecords(f"The execution {source.id!r} was sent more messages than can be copied")
    ids = [element_id(source.id, MAILBOX, number + 1) for number in range(streams.count(MAILBOX))]
    ws.need(ids)
    messages: list[Promise] = []
    for key in ids:
        promise = ws.promise(key)
        if promise is None or promise.settled_at is None or promise.settled_at > until:
            break
        messages.append(promise)
    published: dict[str, Promise] = {}
    for name, count in sorted(streams.counts.items()):
        if name.startswith("value."):
            last = _last_published(source.id, name, count, until, ws)
            if last is not None:
                published[name] = last
    return messages, published


def _last_published(
    execution_id: str, stream: str, count: int, until: Millis, ws: WorkingSet
) -> Promise | None:
    """Of the newest so many: a fork may have to go without what was published long before."""
    newest = range(count, max(0, count - limits.stream_page_size_max), -1)
    ids = [element_id(execution_id, stream, number) for number in newest]
    ws.need(ids)
    for key in ids:
        promise = ws.promise(key)
        if promise is not None and promise.settled_at is not None and promise.settled_at <= until:
            return promise
    return None


def _copy_streams(
    data: ExecutionFork,
    messages: list[Promise],
    published: dict[str, Promise],
    lineage: dict[str, str],
    deadline: Millis,
    ws: WorkingSet,
    now: Millis,
) -> None:
    if not messages and not published:
        return
    sent_bytes = 0
    origin = {tags.ORIGIN: lineage[tags.ORIGIN], tags.PARENT: lineage[tags.PARENT]}
    for number, message in enumerate(messages, 1):
        value = _without_header(message, ANSWER_HEADER).value
        sent_bytes += message_value_bytes(value)
        name = element_id(data.new_id, MAILBOX, number)
        entries = {**origin, tags.STREAM: MAILBOX}
        ws.put_promise(
            Promise(name, "resolved", NOTHING, value, entries, deadline, now, now, None, str(sent_bytes))
        )
    counts = {MAILBOX: len(messages)} if messages else {}
    for stream, element in published.items():
        name = element_id(data.new_id, stream, 1)
        entries = {**origin, tags.STREAM: stream}
        ws.put_promise(Promise(name, "resolved", NOTHING, element.value, entries, deadline, now, now))
        counts[stream] = 1
    ws.put_streams(Streams(data.new_id, now, counts, sent_bytes=sent_bytes))
