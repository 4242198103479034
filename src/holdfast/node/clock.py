"""The wall clock in milliseconds, which never goes backwards."""

import time
from collections.abc import Callable

from holdfast.protocol.records import Millis

Clock = Callable[[], Millis]


def wall_clock() -> Millis:
    return time.time_ns() // 1_000_000


class SteadyClock:
    """A clock held to its own past: an instant once used in a commit is never undercut."""

    def __init__(self, read: Clock, floor: Millis) -> None:
        self._read = read
        self._latest = floor

    def now(self) -> Millis:
        self._latest = max(self._latest, self._read())
        return self._latest
