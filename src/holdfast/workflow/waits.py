"""What a suspended execution waits for, and at which lines of its code: told to the node, for people.

Whoever looks at the execution later needs no worker for it. It is bounded: a few waits, each cut short.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.payloads.schemas import cached_schema_of
from holdfast.protocol import limits
from holdfast.protocol.executions import Wait, waits_text
from holdfast.runtime import Scheduler
from holdfast.runtime.waitgraph import place_of
from holdfast.workflow.operations import DurableOperation

text_chars_max: Final = 200
schema_bytes_max: Final = 3_000


def describe_waits(
    waiting: Sequence[str],
    asked: Mapping[str, DurableOperation],
    scheduler: Scheduler,
    add_attempts: Callable[[Wait], Wait],
) -> list[Wait]:
    """The first of them, as many as there is room for. Of a step that is put off with its attempts."""
    waits: list[Wait] = []
    size = 0
    for promise_id in waiting[: limits.waits_max]:
        operation = asked.get(promise_id)
        what = "" if operation is None else operation.label
        place = place_of(scheduler, promise_id)
        wait = Wait(promise_id, _short(what))
        if place is not None:
            function, fiber = _short(place.function), _short(place.fiber)
            wait = Wait(promise_id, _short(what), place.file[-text_chars_max:], place.line, function, fiber)
        wait = add_attempts(wait)
        size += _bytes_of(wait)
        if size > limits.waits_bytes_max:
            break
        schema = _schema_of(operation)
        if schema is not None:
            told = replace(wait, schema=schema)
            more = _bytes_of(told) - _bytes_of(wait)
            if more <= schema_bytes_max and size + more <= limits.waits_bytes_max:
                wait, size = told, size + more
        waits.append(wait)
    return waits


def _bytes_of(wait: Wait) -> int:
    return len((waits_text([wait]) or "").encode())


def _schema_of(operation: DurableOperation | None) -> dict[str, Any] | None:
    """Of what somebody outside is to give, so that a form can be made for it."""
    expected = Any if operation is None else operation.expected()
    return None if expected is Any else cached_schema_of(expected) or None


def _short(text: str) -> str:
    return text if len(text) <= text_chars_max else f"{text[: text_chars_max - 3]}..."
