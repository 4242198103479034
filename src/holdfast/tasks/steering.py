"""A queue from outside: pause it, let it go on, look at it."""

from holdfast.protocol.jobs import QueueView
from holdfast.tasks.home import Home
from holdfast.tasks.queues import QueueLimits


class TaskQueue:
    """One queue, from outside."""

    def __init__(self, home: Home, limits: QueueLimits) -> None:
        self._home = home
        self.limits = limits

    @property
    def name(self) -> str:
        return self.limits.name

    def pause(self) -> None:
        """Hand out nothing more; what runs goes on, and what is sent waits. Deadlines still pass."""
        self._home.block(self._set(paused=True))

    def resume(self) -> None:
        self._home.block(self._set(paused=False))

    async def pause_async(self) -> None:
        await self._home.bridge(self._set(paused=True))

    async def resume_async(self) -> None:
        await self._home.bridge(self._set(paused=False))

    def info(self) -> QueueView:
        """Its limits as they are stored, and how many tasks wait and run."""
        return self._home.block(self._get())

    async def info_async(self) -> QueueView:
        return await self._home.bridge(self._get())

    async def _set(self, *, paused: bool) -> None:
        await self._home.desk.pause(self.name, paused=paused)

    async def _get(self) -> QueueView:
        return (await self._home.desk.queue(self.name)).queue

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
