"""A queue from outside: pause it, let it go on, look at it."""

from holdfast.jobs.queues import QueueLimits
from holdfast.jobs.task_app import TaskApp
from holdfast.protocol.jobs import QueueView


class TaskQueue:
    """One queue, from outside."""

    def __init__(self, task_app: TaskApp, limits: QueueLimits) -> None:
        self._task_app = task_app
        self.limits = limits

    @property
    def name(self) -> str:
        return self.limits.name

    def pause(self) -> None:
        """Hand out nothing more; what runs goes on, and what is sent waits. Deadlines still pass."""
        self._task_app.block(self._set(paused=True))

    def resume(self) -> None:
        self._task_app.block(self._set(paused=False))

    async def pause_async(self) -> None:
        await self._task_app.bridge(self._set(paused=True))

    async def resume_async(self) -> None:
        await self._task_app.bridge(self._set(paused=False))

    def info(self) -> QueueView:
        """Its limits as they are stored, and how many tasks wait and run."""
        return self._task_app.block(self._get())

    async def info_async(self) -> QueueView:
        return await self._task_app.bridge(self._get())

    async def _set(self, *, paused: bool) -> None:
        await self._task_app.task_client.pause(self.name, paused=paused)

    async def _get(self) -> QueueView:
        return (await self._task_app.task_client.queue(self.name)).queue

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
