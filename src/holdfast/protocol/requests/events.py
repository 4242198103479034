"""event.*, and the actions that carry them inside task.fence."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.records import Value
from holdfast.protocol.requests.checks import RequestData, check_tags, check_value
from holdfast.protocol.text import check_integer, check_text

_of_tasks = (tags.TARGET, tags.INVOKE, tags.DELAY, tags.JOB)


def check_event(name: str) -> None:
    check_text("name", name, limits.event_name_bytes_max)


def check_match(match: dict[str, str], most: int) -> None:
    check_integer("the number of attributes in match", len(match), 0, most)
    for name, text in match.items():
        check_text("a name in match", name, limits.event_name_bytes_max)
        check_text("match", text, limits.event_attribute_bytes_max, empty=True)


class EventSend(RequestData, frozen=True):
    """`match`: attributes, as texts, by which waits are compared. Under one `id` an event is sent once."""

    name: str
    id: str | None = None
    value: Value = field(default_factory=Value)
    match: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_event(self.name)
        if self.id is not None:
            check_text("id", self.id, limits.event_name_bytes_max)
        check_value("value", self.value)
        check_match(self.match, limits.event_attributes_max)


class EventAwait(RequestData, frozen=True):
    """`id`: of the promise that the event resolves. `look_back`: events of so many milliseconds count."""

    id: str
    name: str
    timeout_at: int
    match: dict[str, str] = field(default_factory=dict[str, str])
    look_back: int | None = None
    param: Value = field(default_factory=Value)
    tags: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_event(self.name)
        check_integer("timeoutAt", self.timeout_at, 0)
        check_match(self.match, limits.event_match_max)
        if self.look_back is not None:
            check_integer("lookBack", self.look_back, 0)
        check_value("param", self.param)
        check_tags(self.tags)
        if any(name in self.tags for name in _of_tasks):
            raise ValueError("a wait is ended by an event, so it has no target")


class EventSubscribe(RequestData, frozen=True):
    """From now on each event of this name starts an execution of `workflow`."""

    name: str
    id: str
    workflow: str
    promise_tags: dict[str, str]
    promise_timeout: int

    def __post_init__(self) -> None:
        check_event(self.name)
        check_text("id", self.id, limits.event_name_bytes_max)
        check_text("workflow", self.workflow)
        check_integer("promiseTimeout", self.promise_timeout, 0)
        check_tags(self.promise_tags)
        if tags.TARGET not in self.promise_tags or tags.JOB in self.promise_tags:
            raise ValueError("promiseTags need the resonate:target of a workflow")
        if tags.DELAY in self.promise_tags:
            raise ValueError("an event starts its workflow at once: promiseTags take no resonate:delay")
        texts = (self.id, self.workflow, *self.promise_tags, *self.promise_tags.values())
        check_integer("the size of the subscription", sum(map(len, texts)), 0, limits.subscription_bytes_max)


class EventUnsubscribe(RequestData, frozen=True):
    name: str
    id: str

    def __post_init__(self) -> None:
        check_event(self.name)
        check_text("id", self.id, limits.event_name_bytes_max)


class EventSearch(RequestData, frozen=True):
    """The events of one name, newest first; `before`: only those with smaller numbers."""

    name: str
    before: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        check_event(self.name)
        if self.before is not None:
            check_integer("before", self.before, 0)
        if self.limit is not None:
            check_integer("limit", self.limit, 1, limits.stream_page_size_max)


class SendAction(Struct, frozen=True, tag_field="kind", tag="event.send"):
    data: EventSend
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class AwaitAction(Struct, frozen=True, tag_field="kind", tag="event.await"):
    data: EventAwait
    head: dict[str, Any] = field(default_factory=dict[str, Any])
