"""The wall clock in milliseconds: never backwards, never still, and it may follow another clock."""

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
        return max(self.read() + self._ahead, self._latest)

    def follow(self, instant: Millis, asked_at: Millis) -> None:
        """Another clock, the judge, showed `instant` at some moment since our own showed `asked_at`.

        So it is ahead by something between two bounds; we believe what we did before as far as they allow.
        """
        self.is_following = True
        most = instant - asked_at
        least = instant - self.read()
        self._ahead = min(max(self._ahead, least), most)
        self._latest = min(self._latest, max(instant, self.read() + self._ahead))


def far_clock(guess: Clock = wall_clock, count: Clock = ticks) -> SteadyClock:
    """The clock of a judge far away: a guess until it is followed for the first time, and then it counts."""
    clock = SteadyClock(count, 0)
    clock.follow(guess(), count())
    clock.is_following = False
    return clock
