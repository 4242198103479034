"""How much waits at the node of an app, and for how long: for whoever asks from any thread and cannot await.

Instruments of OpenTelemetry are read by a thread of its SDK, by a web server's, or on an event loop.

1. Nobody opens an app by asking: of one that is not open there are no figures, nor of a node elsewhere.
2. A thread waits for the figures, at most `wait_s_max`. An event loop does not: it gets those that were read
   last, and has them read again for the next time.
"""

import concurrent.futures
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.host.tracked_calls import has_running_loop

if TYPE_CHECKING:
    from holdfast.host.bridge import AppBridge
    from holdfast.host.session import Session

wait_s_max: Final = 5.0


class QueueFigure(Struct, frozen=True):
    """Pending tasks of one group: `default`, or `queue.NAME` for background tasks of the queue NAME."""

    group: str
    pending: int
    oldest_s: float


async def read_queues(session: "Session") -> list[QueueFigure]:
    """Of the node in this process. None, if it is elsewhere."""
    node = session.own_node
    if node is None:
        return []
    groups = (await node.backlog()).groups
    now = session.now()
    return [QueueFigure(each.group, each.pending, max(0, now - each.oldest_at) / 1000) for each in groups]


class QueueFigures:
    def __init__(self, bridge: "AppBridge") -> None:
        self._bridge = bridge
        self._latest: list[QueueFigure] = []
        self._reading: concurrent.futures.Future[list[QueueFigure]] | None = None

    def read(self) -> list[QueueFigure]:
        """On any thread."""
        if self._reading is not None and not self._reading.done():
            return self._latest
        reading = self._reading = self._bridge.ask_if_open(read_queues)
        if reading is None:
            self._latest = []
            return []
        if has_running_loop():
            reading.add_done_callback(self._keep)
            return self._latest
        concurrent.futures.wait([reading], wait_s_max)
        if not reading.done():
            reading.cancel()
        self._keep(reading)
        return self._latest

    def _keep(self, reading: "concurrent.futures.Future[list[QueueFigure]]") -> None:
        """What could not be read is left out."""
        is_read = not reading.cancelled() and reading.exception() is None
        self._latest = reading.result() if is_read else []
