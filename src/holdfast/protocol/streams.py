"""Streams: numbered rows of promises below an execution, and the record that counts them.

Names and numbers; the rules are in `engine/streams.py`. Ids below the execution `order-17` (below one that
was called, `order-17:3`, a full stop stands in place of the colon):

| id | what it is |
|---|---|
| `order-17:in.7` | the seventh element of the stream `in` |
| `order-17:in~evt-9` | which element was appended under the key `evt-9` |
| `order-17:in.7.answer` | the answer to the question in that element, unless whoever asked chose another id |
"""

import re
from hashlib import blake2b
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.protocol import limits, tags
from holdfast.protocol.ids import below

MAILBOX: Final = "in"  # the one stream that anybody may append to
KEY_HEADER: Final = "holdfast:key"  # in an element that was awaited: under which key it was appended
NUMBER_HEADER: Final = "holdfast:number"  # in the record of a key: which element it stands for
ANSWER_HEADER: Final = tags.ANSWER  # there, and in a question: the id of the answer
STEP_HEADER: Final = "holdfast:step"  # in what a step emitted: its id
ATTEMPT_HEADER: Final = "holdfast:attempt"  # `2.1`: under which claim, and which attempt there
ASIDE: Final = ".aside"  # after the id of a message: the record that it could not be read, and why

_name: Final = re.compile(r"in|(?:out|value)\.[A-Za-z0-9_-]{1,100}")

Total = Annotated[int, Meta(ge=0)]


class Streams(Struct, frozen=True, rename="camel", gc=False):
    """The streams of one execution. It has the id of its promise.

    `counts` has the last number that was given in each stream; 0 where somebody waits for the first element.
    The rest is about the mailbox `in`: its reader has seen everything up to `read`; `sent_bytes` and
    `read_bytes` are running totals, so what is unread is their difference, however far the reader lags.
    `trimmed` has the number up to which the elements of a stream were deleted, by an execution that has
    continued; before the instant `trim_at` there is nothing more to delete.
    `created_at` repeats that of the promise: the record of an execution that was deleted says nothing about
    a later one with the same id.
    """

    id: str
    created_at: int
    counts: dict[str, Total] = {}
    read: Total = 0
    sent_bytes: Total = 0
    read_bytes: Total = 0
    open_answers: Total = 0
    trimmed: dict[str, Total] = {}
    trim_at: Total = 0

    def count(self, stream: str) -> int:
        return self.counts.get(stream, 0)


def is_stream(name: str) -> bool:
    return _name.fullmatch(name) is not None


def check_stream(name: str) -> None:
    if not is_stream(name):
        raise ValueError(
            "stream must be in, out.NAME or value.NAME, with a NAME of 1 to 100 letters, digits, _ and -"
        )


def element_id(execution: str, stream: str, number: int) -> str:
    return f"{below(execution)}{stream}.{number}"


def number_of(element: str) -> int:
    return int(element.rpartition(".")[2])


def key_id(execution: str, stream: str, key: str) -> str:
    return f"{below(execution)}{stream}~{key}"


def aside_id(element: str) -> str:
    """The record that a message could not be read, and why."""
    return f"{element}{ASIDE}"


def answer_id(element: str) -> str:
    return f"{element}.answer"


def key_of(promise_id: str) -> str:
    """Under which an operation appends once: its id, or a digest of one that is too long."""
    if len(promise_id.encode()) <= limits.stream_key_bytes_max:
        return promise_id
    return blake2b(promise_id.encode(), digest_size=16).hexdigest()


def is_published(stream: str) -> bool:
    """Does it hold the values that are published under one name?"""
    return stream.startswith("value.")
