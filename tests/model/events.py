"""The oracle's events, as protocol.md tells of them: names, numbers, buckets of waits, subscriptions.

Part of the oracle, so it shares nothing with the product.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tests.model import fields
from tests.model.fields import INSTANT_MAX, Json, Refused, bad
from tests.model.machine import LINEAGE, Machine, Promise, Task
from tests.model.streams import value_chars

if TYPE_CHECKING:
    from tests.model.oracle import Answer, Call

NOT_OF_A_WAIT = ("resonate:target", "resonate:invoke", "resonate:delay", "holdfast:job")
ATTRIBUTE = "holdfast:attribute:"


def flat(name: str) -> str:
    return name.replace("%", "%25").replace(".", "%2E").replace(":", "%3A")


def headers_of(payload: Json) -> dict[str, str]:
    found: dict[str, str] | None = payload.get("headers")
    return found or {}


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fitting(events: list[Promise], most: int) -> list[Promise]:
    """The first of them, and those after it that hold so much with it."""
    size = 0
    for number, event in enumerate(events):
        size += value_chars(event.param) + value_chars(event.value) + len(event.id) + 256
        size += sum(len(tag) + len(text) for tag, text in event.tags.items())
        if number and size > most:
            return events[:number]
    return events


class EventMachine(Machine):
    """The requests event.*, and the same as actions of a fence."""

    SHAPES_MAX, SUBSCRIPTIONS_MAX = 16, 16
    IN_BUCKET, BUCKETS_AT_ONCE, LOOK_BACK_MAX = 128, 2, 1_000
    EVENTS_CHARS, LOOK_BACK_CHARS, WAKE_CHARS = 1_048_576, 4 * 1_048_576, 4 * 1_048_576
    SUBSCRIPTION_CHARS = 8_192

    # ------------------------------------------------------------------------------------------ requests

    def event_send(self, data: Json, call: Call) -> Answer:
        return 200, self.send_event(data, call)

    def event_search(self, data: Json, call: Call) -> Answer:
        name = read_name(data)
        before = fields.optional_integer(data, "before")
        limit = fields.optional_integer(data, "limit", 1, 256) or 100
        anchor = self.promises.get(f"topic@{name}")
        if anchor is None or "holdfast:topic" not in anchor.tags:
            return 200, {"events": [], "count": 0}
        count = self.topic(anchor)["number"]
        last = count if before is None else min(count, before - 1)
        events = [self.promises[f"event@{flat(name)}@{n}"] for n in range(last, 0, -1)]
        found = [self.show_event(event) for event in fitting(events, self.EVENTS_CHARS)]
        return 200, {"events": found[:limit], "count": count}

    def event_subscribe(self, data: Json, call: Call) -> Answer:
        name, subscription = read_name(data), fields.check_text(data.get("id"), "id", 256)
        workflow = fields.identifier(data, "workflow")
        timeout = fields.integer(data, "promiseTimeout")
        if "promiseTags" not in data:
            raise bad("promiseTags are missing")
        tags = fields.tags(data, "promiseTags", "A")
        if not subscription or "resonate:target" not in tags or "holdfast:job" in tags:
            raise bad("an id and the target of a workflow are needed")
        if "resonate:delay" in tags:
            raise bad("an event starts its workflow at once")
        if len(subscription) + len(workflow) + sum(len(k) + len(v) for k, v in tags.items()) > (
            self.SUBSCRIPTION_CHARS
        ):
            raise bad("the subscription is too large")
        anchor = self.find_topic(name, call.now)
        topic = self.topic(anchor)
        if (
            subscription not in topic["subscriptions"]
            and len(topic["subscriptions"]) >= self.SUBSCRIPTIONS_MAX
        ):
            raise Refused(409, "too many subscriptions", "HF1602")
        topic["subscriptions"][subscription] = {
            "id": subscription,
            "workflow": workflow,
            "promiseTags": tags,
            "promiseTimeout": timeout,
        }
        self.write_topic(anchor, topic)
        return 200, {}

    def event_unsubscribe(self, data: Json, call: Call) -> Answer:
        name, subscription = read_name(data), fields.check_text(data.get("id"), "id", 256)
        if not subscription:
            raise bad("id is empty")
        anchor = self.find_topic(name, call.now)
        topic = self.topic(anchor)
        if topic["subscriptions"].pop(subscription, None) is not None:
            self.write_topic(anchor, topic)
        return 200, {}

    # -------------------------------------------------------------------------------------------- sending

    def send_event(self, data: Json, call: Call) -> Json:
        name, key, value, match = read_send(data)
        anchor = self.find_topic(name, call.now)
        topic = self.topic(anchor)
        record_id = f"event@{flat(name)}~{flat(key or '')}"
        record = self.promises.get(record_id) if key is not None else None
        if record is not None:
            number = headers_of(record.value).get("holdfast:number", "")
            if "holdfast:event" not in record.tags or not number.isdecimal():
                raise Refused(409, "the id is taken", "HF1202")
            return {"event": self.show_event(self.promises[f"event@{flat(name)}@{number}"])}
        number = topic["number"] + 1
        event_id = f"event@{flat(name)}@{number}"
        if event_id in self.promises:
            raise Refused(409, "the number is taken", "HF1202")
        topic["number"] = number
        self.write_topic(anchor, topic)
        tags = {ATTRIBUTE + attribute: text for attribute, text in match.items()}
        tags |= {"holdfast:event": name, "resonate:timer": "true"}
        event = Promise(event_id, value, tags, min(call.now + 1, INSTANT_MAX), call.now, ikc=key)
        self.promises[event_id] = event
        if key is not None:
            made = Promise(record_id, {}, {"holdfast:event": name}, INSTANT_MAX, call.now)
            made.state, made.settled_at = "resolved", call.now
            made.value = {"headers": {"holdfast:number": str(number)}}
            self.promises[record_id] = made
        buckets: list[str] = []
        for shape in topic["shapes"]:
            if all(attribute in match for attribute in shape):
                buckets += self.take_waits(list_id(name, {each: match[each] for each in shape}), call.now)
        self.wake_buckets(event, buckets, call.now)
        for subscription in topic["subscriptions"].values():
            self.start_subscribed(subscription, event, call.now)
        return {"event": self.show_event(event)}

    def take_waits(self, name: str, now: int) -> list[str]:
        found = self.promises.get(name)
        if found is None or "holdfast:waits" not in found.tags:
            return []
        waits = self.waits(found)
        taken = waits["open"]
        if taken:
            self.write_waits(found, waits | {"open": []}, now)
        return [f"{name}@{number}" for number in taken]

    def wake_buckets(self, event: Promise, buckets: list[str], now: int) -> None:
        headers = headers_of(event.param) | {"holdfast:event": event.id}
        value: Json = {"headers": headers}
        if event.param.get("data") is not None:
            value["data"] = event.param["data"]
        left = list(buckets)
        room = max(1, self.WAKE_CHARS // max(1, value_chars(value)))
        for name in buckets[: self.BUCKETS_AT_ONCE]:
            bucket = self.promises[name]
            waits = sorted(bucket.callbacks) if bucket.state == "pending" else []
            if len(waits) > room:
                for wait in waits[:room]:
                    self.end_wait(self.promises[wait], value, now)
                break
            left.remove(name)
            if bucket.state == "pending":
                self.settle(bucket, "resolved", value, now, now)
            room -= len(waits)
            if room <= 0:
                break
        if left:
            event.value = {"data": compact({"left": left})}
        else:
            event.state, event.value, event.settled_at = "resolved", {}, min(now, event.timeout_at)

    def end_wait(self, wait: Promise, value: Json, now: int) -> None:
        """One of a bucket that one commit cannot wake as a whole."""
        if self.live(wait.id, now):
            self.settle(wait, "resolved", value, now, now)
        elif wait.state == "pending":
            self.settle(wait, wait.state_at_timeout, {}, wait.timeout_at, now)

    def expire(self, promise: Promise, now: int) -> None:
        tags = promise.tags
        if "holdfast:event" in tags and not {"holdfast:dependent", "resonate:target"} & tags.keys():
            self.wake_buckets(promise, json.loads(promise.value["data"])["left"], now)
        else:
            super().expire(promise, now)

    def start_subscribed(self, subscription: Json, event: Promise, now: int) -> None:
        end = event.ikc or event.id.rpartition("@")[2]
        name = f"{subscription['id']}-{end}".replace(":", "_").replace(".", "_")
        if name in self.promises:
            return
        tags = dict.fromkeys(LINEAGE, name) | subscription["promiseTags"]
        tags |= {"holdfast:event": event.tags["holdfast:event"]}
        param: Json = {"headers": headers_of(event.param) | {"holdfast:on": subscription["workflow"]}}
        if event.param.get("data") is not None:
            param["data"] = event.param["data"]
        timeout_at = min(now + subscription["promiseTimeout"], INSTANT_MAX)
        self.add(Promise(name, param, tags, timeout_at, created_at=min(now, timeout_at)), "A", now)

    # -------------------------------------------------------------------------------------------- waiting

    def await_event(self, data: Json, task: Task, call: Call) -> Json:
        wait_id, name, timeout_at, match, look_back, param, tags = read_await(data)
        existing = self.created(wait_id)
        if existing is not None:
            if "holdfast:event" not in existing.tags:
                raise Refused(409, "the promise waits for no event", "HF1202")
            return {"promise": self.show_promise(existing, call.dialect, call.now)}
        anchor = self.find_topic(name, call.now)
        topic = self.topic(anchor)
        deadline = min(timeout_at, self.promises[task.id].timeout_at)
        tags = tags | {"holdfast:event": name}
        wait = Promise(wait_id, param, tags, deadline, min(call.now, deadline))
        if deadline <= call.now:
            wait.state, wait.settled_at = "rejected_timedout", deadline
        elif (early := self.early(name, topic["number"], match, look_back, call.now)) is not None:
            headers = headers_of(early.param) | {"holdfast:event": early.id}
            data_of = {} if early.param.get("data") is None else {"data": early.param["data"]}
            wait.state, wait.settled_at, wait.value = "resolved", call.now, {"headers": headers, **data_of}
        else:
            shape = sorted(match)
            if shape not in topic["shapes"] and len(topic["shapes"]) >= self.SHAPES_MAX:
                raise Refused(409, "too many sets of attributes", "HF1601")
            if shape not in topic["shapes"]:
                topic["shapes"].append(shape)
            self.write_topic(anchor, topic)
            bucket = self.bucket_for(list_id(name, match), call.now)
            wait.tags = tags | {"holdfast:dependent": task.id, "holdfast:wait": bucket.id}
            self.put_record(wait)
            bucket.callbacks.append(wait_id)
            self.promises[task.id].callbacks.append(wait_id)
            return {"promise": self.show_promise(wait, call.dialect, call.now)}
        self.put_record(wait)
        return {"promise": self.show_promise(wait, call.dialect, call.now)}

    def bucket_for(self, name: str, now: int) -> Promise:
        found = self.promises.get(name)
        if found is None:
            found = Promise(name, {}, {"holdfast:waits": name}, INSTANT_MAX, now)
            self.promises[name] = found
        waits = self.waits(found)
        if waits["last"] not in waits["open"] or waits["count"] >= self.IN_BUCKET:
            waits |= {"last": waits["last"] + 1, "count": 0, "open": [*waits["open"], waits["last"] + 1]}
        bucket_id = f"{name}@{waits['last']}"
        if bucket_id not in self.promises:
            self.promises[bucket_id] = Promise(bucket_id, {}, {"holdfast:bucket": name}, INSTANT_MAX, now)
        bucket = self.promises[bucket_id]
        count = json.loads(bucket.value["data"])["count"] if bucket.value else 0
        bucket.value = {"data": compact({"count": count + 1})}
        self.write_waits(found, waits | {"count": waits["count"] + 1}, now)
        return bucket

    def early(self, name: str, last: int, match: Json, look_back: int, now: int) -> Promise | None:
        if not look_back:
            return None
        newest = range(last, max(0, last - self.LOOK_BACK_MAX), -1)
        events = [self.promises[f"event@{flat(name)}@{number}"] for number in newest]
        recent: list[Promise] = []
        for event in fitting(events, self.LOOK_BACK_CHARS):
            if event.created_at < now - look_back:
                break
            recent.append(event)
        fits = [e for e in recent if all(e.tags.get(ATTRIBUTE + key) == text for key, text in match.items())]
        return fits[-1] if fits else None

    def leave_execution(self, promise: Promise) -> None:
        super().leave_execution(promise)
        bucket = self.promises.get(promise.tags.get("holdfast:wait", ""))
        if bucket is None or bucket.state != "pending":
            return
        if promise.id in bucket.callbacks:
            bucket.callbacks.remove(promise.id)
        count = json.loads(bucket.value["data"])["count"] - 1
        if count > 0:
            bucket.value = {"data": compact({"count": count})}
            return
        assert promise.settled_at is not None
        now: int = self.leaving_at
        self.settle(bucket, "rejected_canceled", {}, now, now)
        found = self.promises[bucket.tags["holdfast:bucket"]]
        waits, number = self.waits(found), int(bucket.id.rpartition("@")[2])
        if number in waits["open"]:
            self.write_waits(found, waits | {"open": [each for each in waits["open"] if each != number]}, now)

    def settle(self, promise: Promise, state: str, value: Json, settled_at: int, now: int) -> None:
        self.leaving_at = now
        super().settle(promise, state, value, settled_at, now)

    leaving_at = 0

    def end_dependent(self, promise: Promise, now: int, ended: str = "") -> None:
        if promise.tags.get("holdfast:wait") == ended and self.live(promise.id, now):
            self.settle(promise, "resolved", self.promises[ended].value, now, now)
        else:
            super().end_dependent(promise, now, ended)

    # ------------------------------------------------------------------------------------------- records

    def find_topic(self, name: str, now: int) -> Promise:
        """Not kept before something is written."""
        found = self.promises.get(f"topic@{name}")
        if found is None:
            return Promise(f"topic@{name}", {}, {"holdfast:topic": name}, INSTANT_MAX, now)
        if "holdfast:topic" not in found.tags:
            raise Refused(409, "the record of these events is another promise", "HF1202")
        return found

    def topic(self, promise: Promise) -> Json:
        empty: Json = {"number": 0, "shapes": [], "subscriptions": {}}
        return empty | (json.loads(promise.value["data"]) if promise.value else {})

    def write_topic(self, promise: Promise, topic: Json) -> None:
        shown: Json = {"name": promise.tags["holdfast:topic"]}
        shown |= {key: topic[key] for key in ("number", "shapes", "subscriptions") if topic[key]}
        promise.value = {"data": compact(shown)}
        self.promises[promise.id] = promise

    def waits(self, promise: Promise) -> Json:
        empty: Json = {"last": 0, "count": 0, "open": [], "idleSince": None}
        return empty | (json.loads(promise.value["data"]) if promise.value else {})

    def write_waits(self, promise: Promise, waits: Json, now: int) -> None:
        if waits["open"]:
            waits["idleSince"] = None
        elif waits["idleSince"] is None:
            waits["idleSince"] = now
        names = ("last", "count", "open", "idleSince")
        promise.value = {
            "data": compact({key: waits[key] for key in names if waits[key] not in (0, [], None)})
        }

    def show_event(self, event: Promise) -> Json:
        match = {k.removeprefix(ATTRIBUTE): text for k, text in event.tags.items() if k.startswith(ATTRIBUTE)}
        shown: Json = {
            "name": event.tags["holdfast:event"],
            "number": int(event.id.rpartition("@")[2]),
            "at": event.created_at,
            "value": event.param,
        }
        if match:
            shown["match"] = match
        if event.ikc is not None:
            shown["id"] = event.ikc
        return shown


def list_id(name: str, match: Json) -> str:
    text = compact([[key, match[key]] for key in sorted(match)])
    return f"waits@{flat(name)}@{blake2b(text.encode(), digest_size=16).hexdigest()}"


def read_name(data: Json) -> str:
    name = fields.check_text(data.get("name"), "name", 256)
    if not name:
        raise bad("name is empty")
    return name


def read_match(data: Json, most: int) -> dict[str, str]:
    match = fields.check_object(data.get("match", {}), "match")
    if len(match) > most:
        raise bad("too many attributes")
    for key, text in match.items():
        if not fields.check_text(key, "a name in match", 256):
            raise bad("a name in match is empty")
        fields.check_text(text, "match", 256)
    return match


def read_send(data: Json) -> tuple[str, str | None, Json, dict[str, str]]:
    key = fields.optional_text(data, "id", 256)
    if key == "":
        raise bad("id is empty")
    return read_name(data), key, fields.payload(data, "value"), read_match(data, 32)


def read_await(data: Json) -> tuple[str, str, int, dict[str, str], int, Json, dict[str, str]]:
    tags = fields.tags(data, "tags", "A")
    if any(tag in tags for tag in NOT_OF_A_WAIT):
        raise bad("a wait has no target")
    return (
        fields.identifier(data, "id"),
        read_name(data),
        fields.integer(data, "timeoutAt"),
        read_match(data, 8),
        fields.optional_integer(data, "lookBack") or 0,
        fields.payload(data, "param"),
        tags,
    )
