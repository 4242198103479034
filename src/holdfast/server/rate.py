"""A rate limit per caller: one token bucket for each token, or for each address without one.

1. A bucket holds one second's worth, so a caller that was quiet may ask that much at once.
2. Buckets are bounded in number: the one that was used longest ago goes first, and comes back full.
3. What is refused takes nothing out of the bucket.
4. Every envelope counts: an array that is larger than a bucket leaves a debt, which must be paid off first.
"""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

buckets_max: Final = 10_000


class RateLimit:
    def __init__(self, per_second: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, as of when

    def wait_s(self, caller: str, count: int) -> float:
        """0: go on, and it is counted. Else so long until that much may be asked."""
        now = self._clock()
        full = max(self._per_second, 1.0)
        left, seen_at = self._buckets.pop(caller, (full, now))
        left = min(full, left + (now - seen_at) * self._per_second)
        wanted = min(float(count), full)  # more than a bucket holds may be asked of a full one,
        wait = 0.0 if left >= wanted else (wanted - left) / self._per_second
        self._buckets[caller] = (left if wait else left - count, now)  # and is then owed
        if len(self._buckets) > buckets_max:
            self._buckets.popitem(last=False)
        return wait
