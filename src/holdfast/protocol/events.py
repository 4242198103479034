"""Events that executions wait for by name: the records, and where they are kept. Rules: `engine/events.py`.

| id | what it is |
|---|---|
| `topic@user.verified` | a promise that stays pending; its value is the `Topic` |
| `event@user%2Everified@17` | the seventeenth event of that name; its param is what was sent |
| `event@user%2Everified~evt-9` | which event was sent under the id `evt-9` |
| `waits@user%2Everified@1f3a...` | a promise that stays pending: who waits for one match, a `WaitList` |
| `waits@user%2Everified@1f3a...@2` | the second bucket of it: at most so many waits, woken together |

A wait is a promise among the records of the execution that waits.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.protocol import limits, tags
from holdfast.protocol.records import Millis, Promise, Value

NUMBER_HEADER: Final = "holdfast:number"  # in the record of an id: which event it stands for
EVENT_HEADER: Final = tags.EVENT  # in what a wait is resolved with: the id of the event's promise
ON_HEADER: Final = "holdfast:on"  # in the param of an execution that an event started: the workflow

Number = Annotated[int, Meta(ge=0)]


class Subscription(Struct, frozen=True, rename="camel", omit_defaults=True):
    """For each event an execution is started: `promise_tags` say of what, and who runs it."""

    id: str
    workflow: str
    promise_tags: dict[str, str]
    promise_timeout: int


class Topic(Struct, frozen=True, rename="camel", omit_defaults=True):
    """All events of one name. `shapes`: by which attributes anybody has waited."""

    name: str
    number: Number = 0
    shapes: list[list[str]] = []
    subscriptions: dict[str, Subscription] = {}


class WaitList(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of one match: the `last` bucket, how many came to it, and the buckets in which somebody waits."""

    last: Number = 0
    count: Number = 0
    open: list[int] = []
    idle_since: Millis | None = None


class Bucket(Struct, frozen=True, omit_defaults=True):
    count: Number = 0


class Undelivered(Struct, frozen=True):
    """The buckets that an event has yet to wake."""

    left: list[str]


class Event(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An event as it is shown."""

    name: str
    number: int
    at: Millis
    value: Value
    match: dict[str, str] = {}
    id: str | None = None


_encode: Final = msgspec.json.Encoder().encode


_scalars: Final = (str, int, float, bool, type(None))


def matchable(value: object) -> str | None:
    """An attribute as it is compared, by its JSON; None for one that cannot be: it is large, or no scalar."""
    if type(value) not in _scalars:
        return None
    text = _encode(value).decode()
    return text if len(text.encode()) <= limits.event_attribute_bytes_max else None


def topic_id(name: str) -> str:
    return f"topic@{name}"


def flat(name: str) -> str:
    """A name without what divides ids: each event is a tree of its own, and is deleted by itself."""
    return name.replace("%", "%25").replace(".", "%2E").replace(":", "%3A")


def event_id(name: str, number: int) -> str:
    return f"event@{flat(name)}@{number}"


def event_key_id(name: str, key: str) -> str:
    return f"event@{flat(name)}~{flat(key)}"


_divides: Final = str.maketrans(":.", "__")


def started_id(subscription: str, event: str) -> str:
    """The id of the execution that an event starts: a tree of its own too."""
    return f"{subscription}-{event}".translate(_divides)


def wait_list_id(name: str, match: Mapping[str, str]) -> str:
    text = _encode(sorted(match.items()))
    return f"waits@{flat(name)}@{blake2b(text, digest_size=16).hexdigest()}"


def bucket_id(wait_list: str, number: int) -> str:
    return f"{wait_list}@{number}"


def kept_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Those of a call that stay with it under other arguments: carried values, its trace. ON_HEADER does not:
    it says that the arguments are those of an event."""
    return {name: text for name, text in (headers or {}).items() if name != ON_HEADER}


def record_value(record: Topic | WaitList | Bucket | Undelivered) -> Value:
    return Value(None, _encode(record).decode())


def read_topic(promise: Promise) -> Topic:
    return msgspec.json.decode(promise.value.data or "", type=Topic)


def read_wait_list(promise: Promise) -> WaitList:
    return msgspec.json.decode(promise.value.data or "", type=WaitList)


def read_bucket(promise: Promise) -> Bucket:
    return msgspec.json.decode(promise.value.data or "", type=Bucket)


def read_undelivered(promise: Promise) -> Undelivered:
    return msgspec.json.decode(promise.value.data or "", type=Undelivered)
