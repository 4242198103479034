"""The wall clock in milliseconds, which never goes backwards and may follow another clock."""

import time
from collections.abc import Callable

from holdfast.protocol.records import Millis

Clock = Callable[[], Millis]


def wall_clock() -> Millis:
    return time.time_ns() // 1_000_000


class SteadyClock:
    """A clock held to its own past: an instant once used in a commit is never undercut."""

    def __init__(self, read: Clock, floor: Millis) -> None:
        self.read = read
        self._latest = floor
        self._ahead: Millis = 0  # how far the clock we follow is ahead of the one we read

    def now(self) -> Millis:
        self._latest = max(self._latest, self.read() + self._ahead)
        return self._latest

    def follow(self, instant: Millis, asked_at: Millis) -> None:
        """Another clock, the judge, showed `instant` at some moment since our own showed `asked_at`.

        So it is ahead by something between two bounds; we believe what we did before as far as they allow.
        """
        most = instant - asked_at
        least = instant - self.read()
        self._ahead = min(max(self._ahead, least), most)
        self._latest = min(self._latest, max(instant, self.read() + self._ahead))
