"""What a node keeps for people beside its work: changes, workers, counts, durations."""

import time
from collections import deque

from holdfast.node.changes import ChangeFeed
from holdfast.node.documents import Documents
from holdfast.node.health import samples_max
from holdfast.node.message_router import MessageRouter
from holdfast.node.rates import Rates
from holdfast.node.workers import Workers
from holdfast.store.interface import Store


class Observed:
    def __init__(self, store: Store, router: MessageRouter) -> None:
        self.feed = ChangeFeed()
        self.documents = Documents(store)
        self.workers = Workers(self.documents, router, self.feed)
        self.rates = Rates(self.documents)
        self.commit_times: deque[tuple[float, int]] = deque(maxlen=samples_max)
        self.started_at_s = time.time()

    async def stop(self) -> None:
        """When the last commit is over."""
        self.feed.stop()
        await self.rates.stop()
        await self.documents.stop()
