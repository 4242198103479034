"""How large a record is in an answer, roughly, and how many of a list fit into one.

Characters are counted, not encoded bytes: nothing is encoded for it.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from holdfast.protocol.records import Promise, Schedule, Value

record_bytes: Final = 256  # the names of its fields, its instants, its state


def promise_bytes(promise: Promise) -> int:
    return _value_bytes(promise.param) + _value_bytes(promise.value) + _entry_bytes(promise.tags)


def schedule_bytes(schedule: Schedule) -> int:
    return _value_bytes(schedule.promise_param) + _entry_bytes(schedule.promise_tags)


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """How many fit, from the first one on."""
    count = 0
    for total in accumulate(sizes):
        if total > bytes_max:
            break
        count += 1
    return count


def _value_bytes(value: Value) -> int:
    return len(value.data or "") + _entry_bytes(value.headers)


def _entry_bytes(entries: dict[str, str] | None) -> int:
    return sum(map(len, entries)) + sum(map(len, entries.values())) if entries else 0
