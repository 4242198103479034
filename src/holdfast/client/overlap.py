"""When to send a second array of requests before the first one is answered.

Every array costs the node a commit. Two instead of one are worth that if this process has work to do
meanwhile: while the node is busy with one half of the executions, it goes on with the other. If it mostly
waits, for a node that has too little of a processor or of a disk, or is far away, one is better.
"""

import time
from typing import Final

requests_min: Final = 8
busy_min: Final = 0.35  # one that takes as long for its part as the node takes for its own: 0.5
_weight: Final = 0.2  # of the latest answer


class Overlap:
    """Watches how much of the time this thread is busy. With `busy_min` 0 it does not look."""

    def __init__(self, requests_min: int = requests_min, busy_min: float = busy_min) -> None:
        self.requests_min = requests_min
        self._busy_min = busy_min
        self._busy = 0.0
        self._at_s = self._worked_s = 0.0

    @property
    def pays(self) -> bool:
        return self._busy >= self._busy_min

    def answered(self, now_s: float) -> None:
        if self._busy_min:
            worked_s = time.thread_time()
            share = (worked_s - self._worked_s) / max(now_s - self._at_s, 1e-6)
            self._busy += (min(share, 1.0) - self._busy) * _weight
            self._at_s, self._worked_s = now_s, worked_s


def always() -> Overlap:
    """As soon as there is anything to send, whatever the machine's clock says: for tests and simulations."""
    return Overlap(requests_min=1, busy_min=0.0)
