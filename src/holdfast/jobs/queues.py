"""Queues as an app declares them: a default priority, and limits that hold across all workers.

The limits are stored when a worker of the app starts, and replace those that were there. A queue that nobody
declared has none.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import Struct

from holdfast.jobs.errors import BadOption
from holdfast.jobs.findings import read_options
from holdfast.jobs.options import check_priority, check_queue_name
from holdfast.payloads.durations import duration_s
from holdfast.payloads.errors import BadDuration
from holdfast.protocol import limits
from holdfast.protocol.jobs import Rate
from holdfast.protocol.requests import QueueSet

_rate: Final = re.compile(r"\s*([0-9]+)\s*/\s*(.+)", re.ASCII)


class QueueLimits(Struct, frozen=True, kw_only=True):
    """What is declared about one queue."""

    name: str
    priority: int = 0
    concurrency: int | None = None
    per_key: int | None = None
    rate: Rate | None = None
    per_key_rate: Rate | None = None

    def request(self) -> QueueSet:
        return QueueSet(self.name, self.concurrency, self.per_key, self.rate, self.per_key_rate)


def declare_queue(
    name: str,
    priority: int,
    concurrency: int | None,
    per_key: int | None,
    rate: str | None,
    per_key_rate: str | None,
) -> QueueLimits:
    given = {
        "name": name,
        "priority": priority,
        "concurrency": concurrency,
        "per_key": per_key,
        "rate": rate,
        "per_key_rate": per_key_rate,
    }
    read: dict[str, Any] = {"name": str(name)} | read_options("a queue", given, _readers)
    return QueueLimits(**read)


def parse_rate(name: str, text: Any) -> Rate | None:
    """`10/s`, `100/m`, `5/10s`: so many in any stretch of that length."""
    if text is None:
        return None
    match = _rate.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadOption(f'{name}={text!r} is not a rate: write "10/s", "100/m" or "5/10s"')
    span = match[2] if match[2][:1].isdigit() else f"1{match[2]}"
    try:
        return Rate(int(match[1]), round(duration_s(span) * 1000))
    except (BadDuration, ValueError) as error:
        what = error.what if isinstance(error, BadDuration) else str(error)
        raise BadOption(f"{name}={text!r} is not a rate: {what}") from None


def _count(name: str, count: Any) -> int | None:
    if count is None:
        return None
    most = limits.concurrency_max
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise BadOption(f"{name} is a whole number from 1 to {most}, not {count!r}")
    return count


_readers: Final[dict[str, Callable[[Any], Any]]] = {
    "name": check_queue_name,
    "priority": check_priority,
    "concurrency": partial(_count, "concurrency"),
    "per_key": partial(_count, "per_key"),
    "rate": partial(parse_rate, "rate"),
    "per_key_rate": partial(parse_rate, "per_key_rate"),
}
