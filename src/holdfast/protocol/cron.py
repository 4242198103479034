"""Cron expressions: checked here, stepped through here. The parsing itself is cronsim's.

POSIX rules in UTC or an IANA time zone; a leading sixth field counts seconds.
"""

from collections import deque
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.protocol import limits

_probe_start = datetime(2024, 1, 1, tzinfo=UTC)  # a leap year: every date that exists occurs soon after
_epoch = datetime(1970, 1, 1, tzinfo=UTC)
_calendar_end = 250_000_000_000_000  # about the year 9892: nothing recurs beyond it


@lru_cache(maxsize=1024)
def check_cron(expression: str) -> None:
    """ValueError with a sentence unless the expression is valid and matches some day."""
    try:
        next(CronSim(expression, _probe_start))
    except CronSimError as error:
        raise ValueError(f"cron expression {expression!r} is not valid: {error}") from None
    except StopIteration:
        raise ValueError(f"cron expression {expression!r} never matches a date") from None
    except (AssertionError, IndexError, KeyError, OverflowError, TypeError, ValueError):
        raise ValueError(f"cron expression {expression!r} is not valid") from None


@lru_cache(maxsize=1024)
def check_timezone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError, IsADirectoryError):
        raise ValueError(f"timezone {name[:80]!r} is not a known IANA time zone") from None


def next_occurrence(expression: str, timezone: str | None, after: int) -> int:
    """The first occurrence strictly after an instant, in milliseconds."""
    if after >= _calendar_end:
        return limits.instant_ms_max
    return _to_millis(next(CronSim(expression, _to_datetime(after, timezone))))


def due_occurrences(expression: str, timezone: str | None, since: int, until: int, most: int) -> list[int]:
    """The newest `most` occurrences from `since` to `until`, both included, oldest first.

    A year of missed minutes is not walked through: stepping back from `until` finds where to begin. The
    walk itself goes forward, as `next_occurrence` does, so that both agree on days that change the clock.
    """
    begin = since
    back = CronSim(expression, _to_datetime(min(until, _calendar_end), timezone), reverse=True)
    for steps, moment in enumerate(back):
        if steps == most or _to_millis(moment) <= since:
            begin = max(since, _to_millis(moment))
            break
    newest: deque[int] = deque(maxlen=most)
    instant = next_occurrence(expression, timezone, begin - 1)
    while instant <= until:
        newest.append(instant)
        instant = next_occurrence(expression, timezone, instant)
    return list(newest)


def _to_datetime(instant: int, timezone: str | None) -> datetime:
    moment = _epoch + timedelta(milliseconds=instant)
    return moment if timezone is None else moment.astimezone(check_timezone(timezone))


def _to_millis(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _epoch) // timedelta(milliseconds=1)
