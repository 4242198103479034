"""Others who write into the same SQLite file: another process with a node of its own, or a program that sends
tasks inside its own transactions.

Nobody tells a node when they commit. So it looks whether the file was changed by somebody else, which costs
next to nothing: often for a while after it was, or after it was told to expect something, else now and then.
If it was, it looks for what is due, offers to its workers what waits for them, and lets everybody here who
waits for a promise look at it: the message that it has settled is with the node that settled it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol, runtime_checkable

from holdfast.node.end_tasks import end_tasks
from holdfast.node.message_router import MessageRouter
from holdfast.protocol.messages import Execute

log = logging.getLogger("holdfast.node")

look_s: Final = 0.25
lively_s: Final = 0.02  # after a look that found something
expectant_s: Final = 0.005
growth: Final = 1.5
share: Final = 0.1  # of the time, at most, goes into looks that found something
offers_max: Final = 100


class WatcherNode(Protocol):
    router: MessageRouter

    def want_sweep(self) -> None: ...

    async def offers(self, group: str, limit: int) -> list[Execute]: ...


@runtime_checkable
class Watched(Protocol):
    """A store whose file others may write to."""

    def foreign_version(self) -> Awaitable[int]:
        """A number that is another one after somebody else has committed."""
        ...


class ForeignWriteWatcher:
    def __init__(self, node: WatcherNode, store: Watched) -> None:
        self._node = node
        self._store = store
        self._expecting = asyncio.Event()
        self._rest_s = look_s
        self._watching: asyncio.Task[None] | None = None
        self.watchers: list[Callable[[], Awaitable[None]]] = []  # called when somebody else has committed

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        known = await self._store.foreign_version()
        self._watching = self._loop.create_task(self._watch(known))

    async def stop(self) -> None:
        await end_tasks([self._watching])

    def expect(self) -> None:
        """Somebody is about to commit: look often."""
        self._rest_s = expectant_s
        self._expecting.set()

    async def _watch(self, known: int) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._expecting.wait(), self._rest_s)
            if self._expecting.is_set():
                self._expecting.clear()
            self._rest_s = min(self._rest_s * growth, look_s)
            try:
                version = await self._store.foreign_version()
                if version != known:
                    await self._look()
                    known = version
            except Exception:
                log.warning("polling the SQLite file for writes of other processes failed", exc_info=True)

    async def _look(self) -> None:
        began_s = self._loop.time()
        self._node.want_sweep()
        router = self._node.router
        for group in router.groups:
            if router.has_room(group):
                left = router.hand_over(await self._node.offers(group, offers_max))
                for message in left:
                    router.hold(message)
        for look in self.watchers:
            await look()
        self._rest_s = max(lively_s, (self._loop.time() - began_s) / share)
