"""Spans of time as people write them: `1h30m`, `100ms`, `2d`. Inside everything is milliseconds."""

import re
from typing import Final

from holdfast.protocol.records import Millis

UNITS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}

_part: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ms|[wdhms])")


def parse_duration(text: str) -> Millis:
    """ValueError with a sentence when it is none."""
    total = 0.0
    position = 0
    for match in _part.finditer(text):
        if match.start() != position:
            break
        total += float(match[1]) * UNITS[match[2]]
        position = match.end()
    if not text or position != len(text):
        raise ValueError(f"{text!r} is not a duration; write it like 1h30m, 45s, 100ms or 2d")
    return round(total)
