"""Background tasks of a host: what is declared about them is stored, and their queues are served.

1. No task is claimed before what is declared about its queue is stored.
2. What is declared while the app is open takes effect at once: tasks, queues, schedules.
"""

import asyncio
import logging
from collections.abc import Callable
from random import Random

from holdfast.host.host import Host
from holdfast.host.slots import SlotGroup, TaskSettings, queue_slots, renew
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.runner import JobRunner
from holdfast.jobs.storing import Declarations
from holdfast.node.end_tasks import end_tasks
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.jobs import queue_of

log = logging.getLogger("holdfast.app")


class TaskService:
    def __init__(
        self,
        host: Host,
        tasks: TaskRegistry,
        declarations: Declarations,
        settings: TaskSettings,
        make_runner: Callable[[], JobRunner],
        chance: Random | None = None,
    ) -> None:
        self._host = host
        self._tasks = tasks
        self._declarations = declarations
        self._settings = settings
        self._make_runner = make_runner
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()
        self._declaring: asyncio.Task[None] | None = None
        self._slots: list[SlotGroup] = []
        self.runner: JobRunner | None = None

    @property
    def queues(self) -> list[str]:
        """Those whose tasks are run here."""
        return [queue for slots in self._slots for queue in map(queue_of, slots.groups) if queue is not None]

    async def declare(self) -> bool:
        """Store what is declared. False: nobody could be asked yet. Raises what the node refuses."""
        self._tasks.watchers.append(self._note)
        return await self._declarations.store_now()

    def start(self, *, is_declared: bool) -> None:
        if is_declared:
            self._serve()
        self._declaring = asyncio.create_task(self._declare_more(is_declared=is_declared))

    async def stop(self) -> None:
        """Declare nothing more."""
        if self._note in self._tasks.watchers:
            self._tasks.watchers.remove(self._note)
        await end_tasks([self._declaring])

    def _note(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._more.set)

    async def _declare_more(self, *, is_declared: bool) -> None:
        while True:
            if not is_declared:
                await self._declarations.store_in_time()
                self._serve()
            await self._more.wait()
            self._more.clear()
            try:
                is_declared = await self._declarations.store_now(is_late=True)
            except HoldfastError as error:
                log.error("queues and schedules were refused: %s", error)
                is_declared = False
            if is_declared:
                self._serve()

    def _serve(self) -> None:
        """Run the tasks of every queue, and hear of them."""
        if self.runner is None:
            if not self._tasks and not self._settings.queues:
                return
            self.runner = self._make_runner()
        wanted = queue_slots(self._tasks, self._settings, self.runner.left_behind, self._chance)
        self._slots = renew(self._slots, wanted)
        for slots in self._slots:
            for group in slots.groups:
                self._host.hear_in(group)
            self._host.serve(slots, self.runner)
