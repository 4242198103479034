"""stream.*, and the actions that carry them inside task.fence."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from holdfast.protocol import limits, tags
from holdfast.protocol.records import Value
from holdfast.protocol.requests.checks import RequestData, check_tags, check_value
from holdfast.protocol.streams import check_stream
from holdfast.protocol.text import check_entries, check_integer, check_text

_of_tasks = (tags.TARGET, tags.INVOKE, tags.DELAY, tags.JOB)


class StreamAnswer(Struct, frozen=True, rename="camel"):
    """That the element is a question: a pending promise for its answer is created with it.

    Its id is chosen by the node, below the element, unless one is given. `param` and `tags` are for whoever
    asks from inside an execution of his own, and keeps the promise among his records.
    """

    timeout_at: int
    id: str | None = None
    param: Value = field(default_factory=Value)
    tags: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        check_integer("answer.timeoutAt", self.timeout_at, 0)
        if self.id is not None:
            check_text("answer.id", self.id)
        check_value("answer.param", self.param)
        check_tags(self.tags)
        if any(name in self.tags for name in _of_tasks):
            raise ValueError("an answer is given by whoever reads the question, so it has no target")


class StreamAppend(RequestData, frozen=True):
    """`expect`: tags that the promise of the execution must have."""

    id: str
    stream: str
    value: Value = field(default_factory=Value)
    key: str | None = None
    answer: StreamAnswer | None = None
    expect: dict[str, str] | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_stream(self.stream)
        check_value("value", self.value)
        if self.key is not None:
            check_text("key", self.key, limits.stream_key_bytes_max)
        if self.expect is not None:
            check_entries("expect", self.expect)


class StreamNext(RequestData, frozen=True):
    """`peek`: only what is there; the promise of an element that is not is not created."""

    id: str
    stream: str
    number: int
    peek: bool | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_stream(self.stream)
        check_integer("number", self.number, 1, limits.stream_number_max)


class StreamRead(RequestData, frozen=True):
    """`last`: only the last element."""

    id: str
    stream: str
    after: int | None = None
    limit: int | None = None
    last: bool | None = None

    def __post_init__(self) -> None:
        check_text("id", self.id)
        check_stream(self.stream)
        if self.after is not None:
            check_integer("after", self.after, 0, limits.stream_number_max)
        if self.limit is not None:
            check_integer("limit", self.limit, 1, limits.stream_page_size_max)
        if self.last and self.after is not None:
            raise ValueError("last asks for the last element, so it cannot have an after")


class StreamList(RequestData, frozen=True):
    id: str

    def __post_init__(self) -> None:
        check_text("id", self.id)


class AppendAction(Struct, frozen=True, tag_field="kind", tag="stream.append"):
    data: StreamAppend
    head: dict[str, Any] = field(default_factory=dict[str, Any])


class NextAction(Struct, frozen=True, tag_field="kind", tag="stream.next"):
    data: StreamNext
    head: dict[str, Any] = field(default_factory=dict[str, Any])
