"""The wall clock in milliseconds: never backwards, never still. And the alarm for what is due next."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from holdfast.protocol.records import Millis

Clock = Callable[[], Millis]

creep_pace: Final = 0.5  # of real time, while the clock we read has yet to catch up with what it once said


def wall_clock() -> Millis:
    return time.time_ns() // 1_000_000


def ticks() -> Millis:
    """Milliseconds since some instant, which no one can set."""
    return time.monotonic_ns() // 1_000_000


class SteadyClock:
    """A clock held to its own past: an instant once used in a commit is never undercut.

    When the clock it reads is set back, it creeps on by `beat` (seconds that only ever grow) until that one
    has caught up. Leases last longer meanwhile, but they end.
    """

    def __init__(self, read: Clock, floor: Millis, beat: Callable[[], float] = time.monotonic) -> None:
        self.read = read
        self._latest = floor
        self._ahead: Millis = 0  # how far the clock we follow is ahead of the one we read
        self._beat = beat
        self._counted_at = beat()  # the beat up to which `_latest` has counted
        self.is_following = False  # has another clock been read?

    def now(self) -> Millis:
        reading = self.read() + self._ahead
        if reading >= self._latest:
            self._latest = reading
            self._counted_at = self._beat()
        else:
            crept = int((self._beat() - self._counted_at) * 1000 * creep_pace)
            if crept > 0:
                self._latest += crept
                self._counted_at += crept / (1000 * creep_pace)
        return self._latest

    def peek(self) -> Millis:
        """The same without remembering it; for any thread."""
        reading = self.read() + self._ahead
        return reading if reading > self._latest else self._latest

    def follow(self, instant: Millis, asked_at: Millis) -> None:
        """The clock that counts showed `instant` at some moment since our own showed `asked_at`.

        So it is ahead by something between two bounds; we believe what we did before as far as they allow.
        """
        self.is_following = True
        most = instant - asked_at
        least = instant - self.read()
        self._ahead = min(max(self._ahead, least), most)
        self._latest = min(self._latest, max(instant, self.read() + self._ahead))


def far_clock(guess: Clock = wall_clock, count: Clock = ticks) -> SteadyClock:
    """The clock of a node far away: a guess until it is followed for the first time, and then it counts."""
    clock = SteadyClock(count, 0)
    clock.follow(guess(), count())
    clock.is_following = False
    return clock


class Alarm:
    """`ring` is called at the instant, by `now`; the timer is set anew at least every `sleep_s_max`."""

    def __init__(self, now: Callable[[], Millis], ring: Callable[[], None], sleep_s_max: float) -> None:
        self._now = now
        self._ring = ring
        self._next: Millis | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.sleep_s_max = sleep_s_max

    def is_sooner(self, instant: Millis) -> bool:
        """Than what it waits for?"""
        return self._next is None or instant < self._next

    def note(self, instant: Millis) -> None:
        if self.is_sooner(instant):
            self._next = instant
            self._set_timer()

    def forget(self) -> None:
        """Whoever looks now will say what is next."""
        self._next = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.stop()
        if self._next is not None:
            ahead_s = max(0.0, (self._next - self._now()) / 1000)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(ahead_s, self.sleep_s_max), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._next is not None and self._now() < self._next:
            self._set_timer()
        else:
            self._ring()
