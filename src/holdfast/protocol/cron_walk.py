"""Finds the days on which a cron expression matches, a month at a step.

cronsim looks at every day, 18,000 times for an expression that never matches. Here the days of a month that
match are one integer, a bit for each. There are 28 kinds of months: four lengths, seven weekdays to begin
with. All of them occur within 50 years, so an expression that matches in none of them never does, and a
search takes 600 steps at most.
"""

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from typing import Final

from cronsim import CronSim

_every_seventh: Final = sum(1 << 7 * week for week in range(5))
_lengths: Final = {month: (monthrange(2023, month)[1],) for month in range(1, 13)} | {2: (28, 29)}


class CronWalk(CronSim):
    """As its parent, in fewer steps."""

    def __init__(self, expression: str, start: datetime, reverse: bool = False) -> None:
        super().__init__(expression, start, reverse)
        self._matching: dict[tuple[int, int], int] = {}

    @property
    def can_match(self) -> bool:
        kinds = {(first, length) for month in self.months for length in _lengths[month] for first in range(7)}
        return any(self._days_of(first, length) for first, length in kinds)

    def advance_day(self) -> bool:
        today = self.dt.date()
        days = self._days_in(today) >> today.day  # today is the lowest bit
        if days & 1:
            return False
        if days:
            found = today.replace(day=today.day + _lowest(days))
        else:
            found = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        self.dt = datetime.combine(found, time(), tzinfo=self.dt.tzinfo)
        return True

    def reverse_day(self) -> bool:
        today = self.dt.date()
        days = self._days_in(today) & ((2 << today.day) - 1)  # today is the highest bit
        if days >> today.day:
            return False
        found = today.replace(day=days.bit_length() - 1) if days else today.replace(day=1) - timedelta(days=1)
        self.dt = datetime.combine(found, time(23, 59, 59), tzinfo=self.dt.tzinfo)
        return True

    def _days_in(self, day: date) -> int:
        return self._days_of(*monthrange(day.year, day.month))

    def _days_of(self, first_weekday: int, length: int) -> int:
        """The days that match in a month of this length that begins on this weekday (0 is Monday)."""
        kind = (first_weekday, length)
        days = self._matching.get(kind)
        if days is None:
            by_date, by_weekday = self._by_date(*kind), self._by_weekday(*kind)
            days = by_date & by_weekday if self.day_and else by_date | by_weekday
            self._matching[kind] = days & (2 << length) - 2
        return self._matching[kind]

    def _by_date(self, first_weekday: int, length: int) -> int:
        days = 0
        for day in self.days:
            if day == self.LAST:
                days |= 1 << length
            elif day == self.LAST_WEEKDAY:
                days |= 1 << length - max(0, (first_weekday + length - 1) % 7 - 4)
            else:
                days |= 1 << day
        return days

    def _by_weekday(self, first_weekday: int, length: int) -> int:
        days = 0
        for item in self.weekdays:
            weekday, which = item if isinstance(item, tuple) else (item, None)  # 0 and 7 are Sunday
            first = 1 + (weekday - 1 - first_weekday) % 7
            if which is None:
                days |= _every_seventh << first
            elif which == self.LAST:
                days |= 1 << first + (length - first) // 7 * 7
            else:
                days |= 1 << first + (which - 1) * 7
        return days


def _lowest(days: int) -> int:
    return (days & -days).bit_length() - 1
