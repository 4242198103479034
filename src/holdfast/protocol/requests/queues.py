"""queue.*"""

from __future__ import annotations

from holdfast.protocol import limits
from holdfast.protocol.jobs import Rate, check_queue, check_weights
from holdfast.protocol.requests.checks import RequestData, check_page
from holdfast.protocol.text import check_integer


class QueueGet(RequestData, frozen=True):
    name: str

    def __post_init__(self) -> None:
        check_queue(self.name)


class QueueSet(RequestData, frozen=True):
    """All limits of a queue; one that is left out is lifted. `fair`: its keys take turns, by
    their weights."""

    name: str
    concurrency: int | None = None
    key_concurrency: int | None = None
    rate: Rate | None = None
    key_rate: Rate | None = None
    fair: bool = False
    weights: dict[str, int] | None = None
    running: int | None = None

    def __post_init__(self) -> None:
        check_queue(self.name)
        if self.weights is not None:
            if not self.fair:
                raise ValueError("weights are for a fair queue, and this queue is not fair")
            check_weights(self.weights)
        counts = {"concurrency": self.concurrency, "keyConcurrency": self.key_concurrency}
        for name, most in (counts | {"running": self.running}).items():
            if most is not None:
                check_integer(name, most, 1, limits.concurrency_max)


class QueuePause(RequestData, frozen=True):
    name: str
    paused: bool

    def __post_init__(self) -> None:
        check_queue(self.name)


class QueueSearch(RequestData, frozen=True):
    prefix: str | None = None
    limit: int | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_page(self.limit, self.cursor, self.prefix)
