"""When another group is started beside those in progress, where a store takes several at once.

A few large groups cost less than many small ones. So another is begun only when many requests wait, or when
they have waited for a while. That the while is over is a flag, set by the timer itself: to compare the
timer's instant with the loop's time may fail by a rounding, and then nobody would look again.
"""

import asyncio
from collections.abc import Callable
from typing import Final

crowd_requests: Final = 128
patience_s: Final = 0.004


class Patience:
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def is_over(self, waiting: int) -> bool:
        """May a group be begun beside others? If not yet, `wake` is called when it may."""
        if waiting >= crowd_requests or self._is_over:
            return True
        if waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(patience_s, self._end)
        return False

    def renew(self) -> None:
        """A group was taken: whoever still waits, waits from now on."""
        self._is_over = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        self._is_over = True
        self._wake()
