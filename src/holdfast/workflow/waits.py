"""What a suspended execution waits for, and at which lines of its code: told to the node, for people.

Whoever looks at the execution later needs no worker for it. It is bounded: a few waits, each cut short.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.protocol import limits
from holdfast.protocol.executions import Wait, waits_text
from holdfast.runtime import Scheduler
from holdfast.runtime.waitgraph import place_of
from holdfast.workflow.operations import DurableOperation

text_chars_max: Final = 200


def describe_waits(
    waiting: Sequence[str], asked: Mapping[str, DurableOperation], scheduler: Scheduler
) -> list[Wait]:
    """The first of them, as many as there is room for."""
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
        size += len(waits_text([wait]) or "")
        if size * _bytes_per_char > limits.waits_bytes_max:
            break
        waits.append(wait)
    return waits


_bytes_per_char: Final = 4  # at the most, in UTF-8


def _short(text: str) -> str:
    return text if len(text) <= text_chars_max else f"{text[: text_chars_max - 3]}..."
