"""Who waits for events: lists of buckets, each a promise that an event settles and that wakes those in it.

`transitions.settle` calls this, so `settle` is handed in where it is needed.

1. A wait is registered with its bucket and with its execution. It ends with whichever settles first.
2. A bucket has at most `event_bucket_max` waits. An event takes all buckets of a match in its commit, so
   whoever waits later is in another; it settles them a few in each commit.
"""

from msgspec.structs import replace

from holdfast.engine.kept_versions import put_record
from holdfast.engine.lock_queue import SettleCall
from holdfast.engine.view import is_live, lapse
from holdfast.engine.working_set import WorkingSet
from holdfast.protocol import limits, tags
from holdfast.protocol.events import (
    Bucket,
    WaitList,
    bucket_id,
    read_bucket,
    read_wait_list,
    record_value,
)
from holdfast.protocol.records import NOTHING, Millis, Promise, Value
from holdfast.protocol.sizes import value_bytes


def find_list(name: str, ws: WorkingSet, now: Millis) -> tuple[Promise, WaitList]:
    """The waits of one match; new if there are none."""
    promise = ws.promise(name)
    if promise is not None:
        return promise, read_wait_list(promise)
    made = Promise(name, "pending", NOTHING, NOTHING, {tags.WAITS: name}, limits.instant_ms_max, now)
    return made, WaitList()


def put_list(promise: Promise, waits: WaitList, ws: WorkingSet, now: Millis) -> None:
    idle_since = None if waits.open else now if waits.idle_since is None else waits.idle_since
    ws.put_promise(replace(promise, value=record_value(replace(waits, idle_since=idle_since))))


def join(list_name: str, wait: Promise, ws: WorkingSet, now: Millis) -> Promise:
    """Put a new wait into the last bucket, or the next one if that is full or gone."""
    promise, waits = find_list(list_name, ws, now)
    if waits.last not in waits.open or waits.count >= limits.event_bucket_max:
        waits = replace(waits, last=waits.last + 1, count=0, open=[*waits.open, waits.last + 1])
    name = bucket_id(list_name, waits.last)
    bucket = ws.promise(name)
    if bucket is None:
        entries = {tags.BUCKET: list_name}
        bucket = Promise(name, "pending", NOTHING, NOTHING, entries, limits.instant_ms_max, now)
    count = read_bucket(bucket).count + 1 if bucket.value.data else 1
    ws.put_promise(replace(bucket, value=record_value(Bucket(count))))
    put_list(promise, replace(waits, count=waits.count + 1), ws, now)
    kept = put_record(replace(wait, tags={**wait.tags, tags.WAIT: name}), ws)
    ws.add_callback(name, wait.id)
    return kept


def take_buckets(list_name: str, ws: WorkingSet, now: Millis) -> list[str]:
    """All that wait for this match, by their buckets: an event is theirs now."""
    promise = ws.promise(list_name)
    if promise is None or tags.WAITS not in promise.tags:
        return []
    waits = read_wait_list(promise)
    if waits.open:
        put_list(promise, replace(waits, open=[]), ws, now)
    return [bucket_id(list_name, number) for number in waits.open]


def wake_some(buckets: list[str], value: Value, ws: WorkingSet, now: Millis, settle: SettleCall) -> list[str]:
    """Resolve as many of these waits as one commit may write values for. Which buckets are left?

    A bucket that has more than that is not settled: its first waits are, one by one, and leave it.
    """
    woken, left = buckets[: limits.event_buckets_max], buckets[limits.event_buckets_max :]
    ws.need_obligations(woken)
    size = value_bytes(value)
    room = max(1, limits.event_wake_bytes_max // max(1, size))
    for number, name in enumerate(woken):
        bucket = ws.promise(name)
        if bucket is None or bucket.state != "pending":
            continue
        waits = ws.awaiters(name)[:room]
        ws.note_bytes(size * len(waits))
        if len(waits) == len(ws.awaiters(name)):
            settle(bucket, "resolved", value, now, None, ws, now)
        else:
            _resolve(waits, value, ws, now, settle)
        room -= len(waits)
        if room <= 0:
            return [*(woken[number:] if ws.awaiters(name) else woken[number + 1 :]), *left]
    return left


def _resolve(waits: list[str], value: Value, ws: WorkingSet, now: Millis, settle: SettleCall) -> None:
    """One whose own deadline has passed has ended by that."""
    ws.need_obligations(waits)
    for name in waits:
        wait = ws.promise(name)
        if wait is not None and is_live(wait, now):
            settle(wait, "resolved", value, now, None, ws, now)
        elif wait is not None and wait.state == "pending":
            lapsed = lapse(wait)
            settle(wait, lapsed.state, NOTHING, lapsed.timeout_at, None, ws, now)


def leave(wait: Promise, ws: WorkingSet, now: Millis, settle: SettleCall) -> None:
    """A wait has settled before its bucket. A bucket in which nobody waits any more goes."""
    bucket = ws.promise(wait.tags[tags.WAIT])
    if bucket is None or bucket.state != "pending" or tags.BUCKET not in bucket.tags:
        return
    ws.remove_callback(bucket.id, wait.id)
    count = read_bucket(bucket).count - 1
    if count > 0:
        ws.put_promise(replace(bucket, value=record_value(Bucket(count))))
        return
    promise = ws.promise(bucket.tags[tags.BUCKET])
    settle(bucket, "rejected_canceled", NOTHING, now, None, ws, now)
    if promise is not None and tags.WAITS in promise.tags:
        waits = read_wait_list(promise)
        number = int(bucket.id.rpartition("@")[2])
        if number in waits.open:
            put_list(promise, replace(waits, open=[each for each in waits.open if each != number]), ws, now)
