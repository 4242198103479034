"""Spans of time for people: the two largest units that matter."""

from holdfast.protocol.durations import UNITS
from holdfast.protocol.records import Millis


def format_duration(span: Millis) -> str:
    """The two largest units that matter, days at most."""
    if span < 0:
        return f"-{format_duration(-span)}"
    if span < 1_000:
        return f"{span}ms"
    if span < 60_000:
        return f"{span / 1000:.3g}s"
    parts: list[str] = []
    rest = span
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return "".join(parts)
