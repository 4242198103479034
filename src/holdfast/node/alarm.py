"""The instant at which something is due next, as far as a node knows, and the timer that rings then."""

import asyncio
from collections.abc import Callable

from holdfast.protocol.records import Millis


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
