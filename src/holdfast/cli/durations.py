"""Spans of time for people: the two largest units that matter."""

from holdfast.protocol.durations import UNITS


def format_duration(span: float) -> str:
    """Milliseconds, as the two largest units that matter, days at most."""
    if span < 0:
        return f"-{format_duration(-span)}"
    if span < 10:
        return f"{span:.2g}ms"  # steps may be short
    if span < 1_000:
        return f"{round(span)}ms"
    if span < 60_000:
        return f"{span / 1000:.3g}s"
    parts: list[str] = []
    rest = round(span)
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return "".join(parts)
