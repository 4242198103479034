"""Cron expressions: checked here, stepped through here. The parsing itself is cronsim's.

POSIX rules in UTC or an IANA time zone; a leading sixth field counts seconds. `@every 90s` (units s, m, h, d,
also `1h30m`) means all multiples of that interval since the epoch, so it never drifts.

Anybody can send an expression, so what it costs is bounded: a search takes at most 600 steps
(`cron_walk.py`), and what was refused once is remembered.
"""

import re
from collections import deque
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSimError

from holdfast.protocol import limits
from holdfast.protocol.cron_walk import CronWalk

timezone_name_max: Final = 100  # the longest there is has 38 characters
_probe_start = datetime(2024, 1, 1, tzinfo=UTC)  # a leap year: every date that exists occurs soon after
_epoch = datetime(1970, 1, 1, tzinfo=UTC)
_unit_ms = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_calendar_end = 250_000_000_000_000  # about the year 9892: nothing recurs beyond it


def check_cron(expression: str) -> None:
    """ValueError with a sentence unless the expression is valid and matches some day."""
    fault = _fault_in(expression)
    if fault is not None:
        raise ValueError(fault)


@lru_cache(maxsize=4096)
def _fault_in(expression: str) -> str | None:
    if interval_of(expression) is not None:
        return None
    try:
        walk = _walk(expression, _probe_start)
        if walk.can_match and next(walk):
            return None
    except CronSimError as error:
        return f"cron expression {expression!r} is not valid: {error}"
    except StopIteration:
        pass
    except (AssertionError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        return f"cron expression {expression!r} is not valid"
    return f"cron expression {expression!r} never matches a date"


@lru_cache(maxsize=1024)
def interval_of(expression: str) -> int | None:
    """The milliseconds of `@every ...`; None for anything else, ValueError when it is not valid."""
    if not expression.startswith("@every"):
        return None
    text = expression[len("@every") :].strip()
    if not expression.startswith("@every ") or not re.fullmatch(r"([0-9]{1,12}[smhd])+", text):
        raise ValueError(f"interval {expression!r} is not of the form @every 90s, @every 15m or @every 1h30m")
    parts = re.findall(r"([0-9]+)([smhd])", text)
    interval = sum(int(count) * _unit_ms[unit] for count, unit in parts)
    if not limits.every_ms_min <= interval <= _calendar_end:
        raise ValueError(f"interval {expression!r} must be at least {limits.every_ms_min} ms")
    return interval


def check_timezone(name: str) -> tzinfo:
    zone = _find_timezone(name) if len(name) <= timezone_name_max else None
    if zone is None:
        raise ValueError(f"timezone {name[:80]!r} is not a known IANA time zone")
    return zone


@lru_cache(maxsize=4096)
def _find_timezone(name: str) -> tzinfo | None:
    try:
        return None if _is_of_this_machine(name) else ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


def _is_of_this_machine(name: str) -> bool:
    """Such files lie among the zones, and mean something else, or nothing, on the next machine."""
    return name in ("localtime", "posixrules", "Factory") or name.startswith(("right/", "posix/"))


def next_occurrence(expression: str, timezone: str | None, after: int) -> int:
    """The first occurrence strictly after an instant, in milliseconds."""
    interval = interval_of(expression)
    if interval is not None:
        return min((after // interval + 1) * interval, limits.instant_ms_max)
    if after >= _calendar_end:
        return limits.instant_ms_max
    occurrences = map(_to_millis, _walk(expression, _to_datetime(after, timezone)))
    # In an hour that a clock goes through twice, cronsim begins with the first time, which may have passed.
    return next((instant for instant in occurrences if instant > after), limits.instant_ms_max)


def due_occurrences(expression: str, timezone: str | None, since: int, until: int, most: int) -> list[int]:
    """The newest `most` occurrences from `since` to `until`, both included, oldest first.

    A year of missed minutes is not walked through: stepping back from `until` finds where to begin. The
    walk itself goes forward, as `next_occurrence` does, so that both agree on days that change the clock.
    """
    interval = interval_of(expression)
    if interval is not None:
        first = max(-(-since // interval), until // interval - most + 1)
        return [interval * count for count in range(first, until // interval + 1)]
    begin = since
    back = _walk(expression, _to_datetime(min(until, _calendar_end), timezone), reverse=True)
    for steps, date in enumerate(back):
        if steps == most or _to_millis(date) <= since:
            begin = max(since, _to_millis(date))
            break
    newest: deque[int] = deque(maxlen=most)
    instant = next_occurrence(expression, timezone, begin - 1)
    while instant <= min(until, _calendar_end):
        newest.append(instant)
        instant = next_occurrence(expression, timezone, instant)
    return list(newest)


def _walk(expression: str, start: datetime, *, reverse: bool = False) -> CronWalk:
    week_to_its_end = re.sub(
        r"-SUN\b", "-7", expression, flags=re.IGNORECASE
    )  # cronsim's week ends on Saturday
    return CronWalk(week_to_its_end, start, reverse=reverse)


def _to_datetime(instant: int, timezone: str | None) -> datetime:
    date = _epoch + timedelta(milliseconds=instant)
    return date if timezone is None else date.astimezone(check_timezone(timezone))


def _to_millis(date: datetime) -> int:
    return (date.astimezone(UTC) - _epoch) // timedelta(milliseconds=1)
