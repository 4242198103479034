"""event.*: events are sent, awaited and found by their name, and start executions.

1. The events of a name are numbered in the order of their commits. Under one id there is one event.
2. A wait is resolved by the first event of its name that has all attributes of its match and was sent after
   it, or within the time that it looks back. It looks at the newest `event_look_back_max` events of its name,
   up to `event_look_back_bytes_max` of them.
3. An event wakes all that wait for it: up to `event_buckets_max` buckets in its own commit, the others by
   sweeps, as many in each. Of a large event each commit writes only so many values. While there are some
   left, its promise is pending and due.
4. Each subscription of a name starts one execution for each event, in its commit.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.engine.event_waits import join, take_buckets, wake_some
from holdfast.engine.kept_versions import find_created, put_record
from holdfast.engine.needed import Footprint, Missing
from holdfast.engine.promises import new_promise
from holdfast.engine.transitions import offer, settle
from holdfast.engine.view import is_open, see_promise
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import InvalidField, KeyConflict, TooManyShapes, TooManySubscriptions
from holdfast.protocol.events import (
    EVENT_HEADER,
    NUMBER_HEADER,
    ON_HEADER,
    Event,
    Subscription,
    Topic,
    Undelivered,
    event_id,
    event_key_id,
    read_topic,
    read_undelivered,
    record_value,
    started_id,
    topic_id,
    wait_list_id,
)
from holdfast.protocol.records import NOTHING, Millis, Promise, Task, Value
from holdfast.protocol.replies import EMPTY, EventReply, EventsReply, Reply
from holdfast.protocol.requests import (
    EventAwait,
    EventSearch,
    EventSend,
    EventSubscribe,
    EventUnsubscribe,
    Request,
)
from holdfast.protocol.sizes import whole_promise_bytes

_first_read = 4  # nobody knows how large they are before they are read
_read_at_once = 32


def send_request(request: Request, data: EventSend, ws: WorkingSet, now: Millis) -> Reply:
    return Reply(200, send(request, data, ws, now))


def send(request: Request, data: EventSend, ws: WorkingSet, now: Millis) -> EventReply:
    anchor, topic = _find_topic(data.name, ws, now)
    if data.id is not None and (known := _sent_before(data.name, data.id, ws)) is not None:
        return EventReply(known)
    number = topic.number + 1
    name, end = event_id(data.name, number), data.id or str(number)
    ws.need([name, *(started_id(subscription, end) for subscription in topic.subscriptions)])
    if ws.promise(name) is not None:
        raise KeyConflict(f"The promise {name!r} exists, and is not the next event")
    _put_topic(anchor, replace(topic, number=number), ws)
    attributes = {tags.ATTRIBUTE + key: text for key, text in data.match.items()}
    entries = {**attributes, tags.EVENT: data.name, tags.TIMER: "true"}
    deadline = min(now + 1, limits.instant_ms_max)
    event = Promise(name, "pending", data.value, NOTHING, entries, deadline, now, ikc=data.id)
    if data.id is not None:
        record = event_key_id(data.name, data.id)
        found, of_event = Value({NUMBER_HEADER: str(number)}), {tags.EVENT: data.name}
        last = limits.instant_ms_max
        ws.put_promise(Promise(record, "resolved", NOTHING, found, of_event, last, now, now))
    left = [bucket for key in _keys(data.name, topic, data.match) for bucket in take_buckets(key, ws, now)]
    _wake(event, left, ws, now)
    for subscription in topic.subscriptions.values():
        _start(request, subscription, event, ws, now)
    return EventReply(show_event(event))


def is_undelivered(promise: Promise) -> bool:
    """Is it an event that some have yet to hear of? Waits, and what events have started, are none."""
    return tags.EVENT in promise.tags and tags.is_record(promise.tags)


def deliver_more(event: Promise, ws: WorkingSet, now: Millis) -> None:
    """A sweep goes on where the commit of the event, or another sweep, has ended."""
    _wake(event, read_undelivered(event).left if event.value.data else [], ws, now)


def _wake(event: Promise, buckets: list[str], ws: WorkingSet, now: Millis) -> None:
    headers = {**(event.param.headers or {}), EVENT_HEADER: event.id}
    left = wake_some(buckets, Value(headers, event.param.data), ws, now, settle)
    if left:
        ws.put_promise(replace(event, value=record_value(Undelivered(left))))
    else:
        settled_at = min(now, event.timeout_at)
        ws.put_promise(replace(event, state="resolved", value=NOTHING, settled_at=settled_at))


def wait(data: EventAwait, fence: Task, ws: WorkingSet, now: Millis) -> Promise:
    """The promise of the wait; resolved if an event that counts was sent before."""
    existing = find_created(data.id, ws)
    if existing is not None:
        if tags.EVENT not in existing.tags:
            raise KeyConflict(f"The promise {data.id!r} exists, and waits for no event")
        return see_promise(existing, ws, now)
    anchor, topic = _find_topic(data.name, ws, now)
    deadline = min(data.timeout_at, fence.timeout_at)
    entries = {**data.tags, tags.EVENT: data.name}
    if deadline <= now:
        param = data.param
        late = Promise(data.id, "rejected_timedout", param, NOTHING, entries, deadline, deadline, deadline)
        return put_record(late, ws)
    early = _look_back(data, topic, ws, now)
    if early is not None:
        value = Value({**(early.param.headers or {}), EVENT_HEADER: early.id}, early.param.data)
        found = Promise(data.id, "resolved", data.param, value, entries, deadline, now, now)
        return put_record(found, ws)
    shape = sorted(data.match)
    if shape not in topic.shapes:
        if len(topic.shapes) >= limits.event_shapes_max:
            raise TooManyShapes(
                f"Events {data.name!r} are awaited by {limits.event_shapes_max} sets of attributes already"
            )
        topic = replace(topic, shapes=[*topic.shapes, shape])
    _put_topic(anchor, topic, ws)
    asked = {**entries, tags.DEPENDENT: fence.id}
    promise = Promise(data.id, "pending", data.param, NOTHING, asked, deadline, now)
    promise = join(wait_list_id(data.name, data.match), promise, ws, now)
    ws.add_callback(fence.id, data.id)
    return promise


def subscribe(request: Request, data: EventSubscribe, ws: WorkingSet, now: Millis) -> Reply:
    anchor, topic = _find_topic(data.name, ws, now)
    made = Subscription(data.id, data.workflow, data.promise_tags, data.promise_timeout)
    if data.id not in topic.subscriptions and len(topic.subscriptions) >= limits.event_subscriptions_max:
        raise TooManySubscriptions(
            f"Events {data.name!r} start {limits.event_subscriptions_max} workflows, which is the limit"
        )
    _put_topic(anchor, replace(topic, subscriptions={**topic.subscriptions, data.id: made}), ws)
    return Reply(200, EMPTY)


def unsubscribe(request: Request, data: EventUnsubscribe, ws: WorkingSet, now: Millis) -> Reply:
    anchor, topic = _find_topic(data.name, ws, now)
    left = {key: each for key, each in topic.subscriptions.items() if key != data.id}
    if len(left) < len(topic.subscriptions):
        _put_topic(anchor, replace(topic, subscriptions=left), ws)
    return Reply(200, EMPTY)


def search(request: Request, data: EventSearch, ws: WorkingSet, now: Millis) -> Reply:
    anchor = ws.promise(topic_id(data.name))
    if anchor is None or tags.TOPIC not in anchor.tags:
        return Reply(200, EventsReply([], 0))
    topic = read_topic(anchor)
    last = topic.number if data.before is None else min(topic.number, data.before - 1)
    found: list[Event] = []
    size = 0
    for event in _newest(data.name, last, ws):
        size += whole_promise_bytes(event)
        if found and size > limits.stream_page_bytes_max:
            break
        found.append(show_event(event))
        if len(found) == (data.limit or limits.stream_page_size):
            break
    return Reply(200, EventsReply(found, topic.number))


def show_event(promise: Promise) -> Event:
    match = {
        key.removeprefix(tags.ATTRIBUTE): text
        for key, text in promise.tags.items()
        if key.startswith(tags.ATTRIBUTE)
    }
    number = int(promise.id.rpartition("@")[2])
    return Event(promise.tags[tags.EVENT], number, promise.created_at, promise.param, match, promise.ikc)


def _find_topic(name: str, ws: WorkingSet, now: Millis) -> tuple[Promise, Topic]:
    promise = ws.promise(topic_id(name))
    if promise is None:
        entries, last = {tags.TOPIC: name}, limits.instant_ms_max
        return Promise(topic_id(name), "pending", NOTHING, NOTHING, entries, last, now), Topic(name)
    if tags.TOPIC not in promise.tags:
        raise KeyConflict(f"The promise {promise.id!r} is not the record of events")
    return promise, read_topic(promise)


def _put_topic(promise: Promise, topic: Topic, ws: WorkingSet) -> None:
    value = record_value(topic)
    ws.note_bytes(2 * len(value.data or ""))  # it was read, too
    ws.put_promise(replace(promise, value=value))


def _sent_before(name: str, key: str, ws: WorkingSet) -> Event | None:
    record = ws.promise(event_key_id(name, key))
    if record is None:
        return None
    number = (record.value.headers or {}).get(NUMBER_HEADER, "")
    if tags.EVENT not in record.tags or not number.isdecimal():
        raise KeyConflict(f"The promise {record.id!r} is not the record of an event")
    event = ws.promise(event_id(name, int(number)))
    if event is None:  # deleted, a little before the record of its id
        return Event(name, int(number), record.created_at, NOTHING, {}, key)
    return show_event(event)


def _keys(name: str, topic: Topic, match: dict[str, str]) -> list[str]:
    """The lists of those whose match the event has."""
    shapes = [shape for shape in topic.shapes if all(key in match for key in shape)]
    return [wait_list_id(name, {key: match[key] for key in shape}) for shape in shapes]


def _look_back(data: EventAwait, topic: Topic, ws: WorkingSet, now: Millis) -> Promise | None:
    """The first event that counts, of those that were sent before."""
    if not data.look_back:
        return None
    first: Promise | None = None
    size = 0
    for looked, event in enumerate(_newest(data.name, topic.number, ws)):
        size += whole_promise_bytes(event)
        ws.handled += 1  # it was loaded once, and is compared for each wait
        is_too_far = looked >= limits.event_look_back_max or event.created_at < now - data.look_back
        if is_too_far or (looked and size > limits.event_look_back_bytes_max):
            break
        if all(event.tags.get(tags.ATTRIBUTE + key) == text for key, text in data.match.items()):
            first = event
    return first


def _newest(name: str, last: int, ws: WorkingSet) -> Iterator[Promise]:
    """From a number downwards, until one was deleted."""
    end, count = last, _first_read
    while end > 0:
        ids = [event_id(name, number) for number in range(end, max(0, end - count), -1)]
        end, count = end - count, min(2 * count, _read_at_once)
        if unknown := {each for each in ids if each not in ws.promises}:
            raise Missing(Footprint(views=unknown))
        for each in ids:
            event = ws.promises[each]
            if event is None or tags.EVENT not in event.tags:
                return
            yield event


def _start(request: Request, subscription: Subscription, event: Promise, ws: WorkingSet, now: Millis) -> None:
    """Once by the id of the event, which is part of that of the execution."""
    name = started_id(subscription.id, event.ikc or event.id.rpartition("@")[2])
    if len(name.encode()) > limits.id_bytes_max:
        raise InvalidField("the id of the execution that the event starts would be too long")
    if ws.promise(name) is not None:
        return
    lineage = dict.fromkeys(tags.LINEAGE, name)
    headers = {**(event.param.headers or {}), ON_HEADER: subscription.workflow}
    timeout_at = min(now + subscription.promise_timeout, limits.instant_ms_max)
    entries = {**lineage, **subscription.promise_tags, tags.EVENT: event.tags[tags.EVENT]}
    param = Value(headers, event.param.data)
    target = subscription.promise_tags[tags.TARGET]
    _, task = new_promise(name, param, entries, timeout_at, None, target, "A", ws, now, now)
    if task is not None and is_open(task, now):
        offer(task, ws, now)
