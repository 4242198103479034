"""Durations as people write them: `90`, `1.5`, `"1h30m"`, `timedelta(days=2)`. Seconds come out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TypeAlias

from holdfast.payloads.errors import BadDuration
from holdfast.protocol.durations import read_duration
from holdfast.protocol.records import Millis

Duration: TypeAlias = float | str | timedelta


def duration_s(duration: Duration) -> float:
    """The number of seconds. Parts of a text add up, from the largest unit to the smallest: "1d12h".

    >>> duration_s("1h30m")
    5400.0
    """
    seconds = _read(duration)
    if seconds < 0:
        raise BadDuration(f"{duration!r} is not a duration: it is negative")
    return seconds


def pause_s(duration: Duration) -> float:
    """The same for a pause: one whose end has passed already takes no time.

    >>> pause_s(-3)
    0.0
    """
    return max(0.0, _read(duration))


def seconds(name: str, duration: Duration | None) -> float | None:
    """The same for an option that may be left out, whose name is told."""
    try:
        return None if duration is None else duration_s(duration)
    except BadDuration as error:
        raise BadDuration(f"{name}: {error.what}") from None


def instant_ms(given: datetime) -> int:
    """An instant in milliseconds since the epoch; ValueError for what is none."""
    if not isinstance(given, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"Expected a datetime, got {type(given).__name__}")
    if given.tzinfo is None or given.utcoffset() is None:
        raise ValueError("it has no time zone: write datetime.now(timezone.utc) + ..., or give it a tzinfo")
    return max(0, round(given.timestamp() * 1000))


def datetime_of(instant: Millis) -> datetime:
    """An instant of the protocol as a datetime in UTC."""
    return datetime.fromtimestamp(instant / 1000, UTC)


def datetime_or_none(instant: Millis | None) -> datetime | None:
    return None if instant is None else datetime_of(instant)


def _read(duration: Duration) -> float:
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        seconds = _parse_text(duration)
    elif isinstance(duration, bool) or not isinstance(duration, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadDuration(f"{duration!r} is not a duration")
    else:
        seconds = _as_float(duration)
    if not isfinite(seconds):
        raise BadDuration(f"{duration!r} is not a duration: it is not finite")
    return seconds


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise BadDuration(f"A number of {len(str(number))} digits is too large for a duration") from None


def _parse_text(text: str) -> float:
    try:
        return read_duration(text) / 1000
    except ValueError as error:
        raise BadDuration(f"{text!r} is not a duration: {error}") from None
