"""Lengths of time as people write them: `90`, `1.5`, `"1h30m"`, `timedelta(days=2)`. Seconds come out."""

from __future__ import annotations

import re
from datetime import timedelta
from math import isfinite
from typing import Final, TypeAlias

from holdfast.worker.errors import BadDuration

Duration: TypeAlias = float | str | timedelta

UNIT_SECONDS: Final = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[wdhms])", re.ASCII)


def parse_duration(duration: Duration) -> float:
    """The number of seconds. Parts of a text add up, from the largest unit to the smallest: "1d12h".

    >>> parse_duration("1h30m")
    5400.0
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        seconds = _parse_text(duration)
    elif isinstance(duration, bool) or not isinstance(duration, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadDuration(f"{duration!r} is not a length of time")
    else:
        seconds = _as_float(duration)
    if not isfinite(seconds) or seconds < 0:
        raise BadDuration(f"{duration!r} is not a length of time: it must be finite and not negative")
    return seconds


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise BadDuration(f"A number of {len(str(number))} digits is too long a time") from None


def _parse_text(text: str) -> float:
    seconds, position, previous = 0.0, 0, float("inf")
    trimmed = text.rstrip()
    while position < len(trimmed):
        part = _PART.match(trimmed, position)
        if part is None:
            raise BadDuration(f"{text!r} is not a length of time: cannot read {trimmed[position:].strip()!r}")
        unit = UNIT_SECONDS[part[2]]
        if unit >= previous:
            raise BadDuration(f"{text!r} is not a length of time: units go from large to small, each once")
        seconds, position, previous = seconds + float(part[1]) * unit, part.end(), unit
    if position == 0:
        raise BadDuration(f"{text!r} is not a length of time: it is empty")
    return seconds
