"""Offers a group's pending tasks again, from the store: when a worker connects, and while it keeps reading.

Messages live in memory: a restart forgets them, a full waiting room drops them, a broken connection swallows
them. The tasks behind them are in the store. So when a worker connects, the tasks that its group could
claim are read and offered, a page at a time; the next page follows once the workers have read the last. Only
their tasks are read, and none twice: each page begins behind the last.
Offering a task twice is harmless (the second acquire is refused), leaving one unoffered would cost its
retry delay.
"""

import asyncio
import logging
from typing import Final

from holdfast.engine.scans import ClaimPlace
from holdfast.node.node import Node
from holdfast.protocol.messages import Execute, Message

log = logging.getLogger("holdfast.server")

page_tasks: Final = 100
offered_max: Final = 10_000


class _Round:
    """What one group has been offered since a worker of it connected last."""

    __slots__ = ("handed", "has_lost", "has_more", "known", "offered", "place", "restart", "task")

    def __init__(self) -> None:
        self.known: dict[str, int] = {}  # versions by task id, of what needs no offer in this round
        self.handed: dict[str, int] = {}  # the same, in the next
        self.place: ClaimPlace | None = None  # behind which the next page begins
        self.offered = 0
        self.has_more = True
        self.has_lost = False  # since it began messages were dropped
        self.restart = False
        self.task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self.known, self.handed = self.handed, {}
        self.place = None
        self.offered = 0
        self.has_more = True
        self.has_lost = self.restart = False


class Offers:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._rounds: dict[str, _Round] = {}
        self._dropped_seen = 0
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        for round_ in self._rounds.values():
            if round_.task is not None:
                round_.task.cancel()
        self._rounds.clear()

    def worker_connected(self, group: str, handed: list[Message]) -> None:
        """Offer everything anew, since messages may have been lost with the connection before; `handed` is
        what waited for the worker and needs no second offer."""
        round_ = self._rounds.setdefault(group, _Round())
        round_.restart = True
        for message in handed:
            if isinstance(message, Execute):
                round_.handed[message.task.id] = message.task.version
        self._advance(group, round_)

    def worker_read(self, group: str) -> None:
        """A worker has read all it had. Cheap when there is nothing more to offer."""
        round_ = self._rounds.get(group)
        dropped = self._node.router.dropped_count
        if dropped != self._dropped_seen:
            self._dropped_seen = dropped
            for other in self._rounds.values():
                other.has_lost = True
                if not other.has_more:
                    other.begin()
        if round_ is not None and round_.has_more:
            self._advance(group, round_)

    def worker_gone(self, group: str) -> None:
        round_ = self._rounds.get(group)
        if round_ is not None and round_.task is None and not self._node.router.has_workers(group):
            del self._rounds[group]

    def _advance(self, group: str, round_: _Round) -> None:
        if round_.task is None and not self._stopping:
            round_.task = asyncio.create_task(self._run(group, round_))

    async def _run(self, group: str, round_: _Round) -> None:
        try:
            again = True
            while again:
                again = False
                if round_.restart:
                    round_.begin()
                await self._offer_page(group, round_)
                again = round_.restart
        except Exception:
            # The tasks keep their retry instant: they are offered then.
            log.exception("tasks could not be offered again")
        finally:
            round_.task = None
            self.worker_gone(group)

    async def _offer_page(self, group: str, round_: _Round) -> None:
        found, round_.place = await self._node.offers_after(round_.place, group, page_tasks)
        fresh = [message for message in found if round_.known.get(message.task.id) != message.task.version]
        round_.offered += len(found)
        round_.has_more = round_.place is not None and round_.offered < offered_max
        if not round_.has_more and round_.has_lost:
            round_.begin()
        if self._node.router.has_workers(group):
            self._node.router.deliver(fresh)
