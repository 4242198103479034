"""Spans of time as people write them, read in one place: `1h30m`, `1d 12h`, `100ms`.

Parts add up, from the largest unit to the smallest, each once. All errors are ValueErrors with a sentence.
"""

import re
from typing import Final

from holdfast.protocol.records import Millis

UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_part: Final = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(ms|[wdhms])")


def read_duration(text: str) -> float:
    """Milliseconds, which need not be whole. A ValueError says what is wrong, without the text."""
    total, position, previous = 0.0, 0, float("inf")
    trimmed = text.rstrip()
    while position < len(trimmed):
        part = _part.match(trimmed, position)
        if part is None:
            raise ValueError(f"cannot read {trimmed[position:].strip()!r}")
        unit = UNITS[part[2]]
        if unit >= previous:
            raise ValueError("units go from large to small, each once")
        total, position, previous = total + float(part[1]) * unit, part.end(), unit
    if position == 0:
        raise ValueError("it is empty")
    return total


def duration_ms(text: str) -> Millis:
    """Whole milliseconds, or a ValueError for whoever typed it."""
    try:
        return round(read_duration(text))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a duration: {error}; write it like 1h30m, 45s, 100ms or 2d"
        ) from None
