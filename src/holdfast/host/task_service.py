"""Background tasks of a host: stores what the app declares (queues, schedules), then serves its queues.

1. No task is claimed before the limits of its queue are stored.
2. A node that cannot be reached, or cannot tell, is asked again until it has answered: a worker that starts
   while its node is away waits for it. What a node refuses at the start is a mistake, and raises.
3. A schedule that is wrong in itself (its arguments do not fit) raises at the start. One that is declared
   later is logged and left out: whoever declared it is gone, and what else is declared must not wait for it.
4. Each declaration is stored once: what an operator changed since then is left alone.
5. Orphans, the schedules that this app declared once, are deleted at the start if the app says so.
6. What is declared while the app is open takes effect at once: tasks, queues, schedules.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import Final

from holdfast.client.caller import Caller, busy_statuses, busy_tries_max, expect
from holdfast.client.errors import (
    ClientError,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.interface import Client
from holdfast.host.host import Host
from holdfast.host.slots import SlotGroup, TaskSettings, queue_slots, renew
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.runner import JobRunner
from holdfast.jobs.schedule_handles import schedule_pages
from holdfast.jobs.schedules import Recurrence, as_update, is_same
from holdfast.node.end_tasks import end_tasks
from holdfast.payloads.errors import WorkerError
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.jobs import queue_of
from holdfast.protocol.replies import Empty, QueueReply, Reply, ScheduleReply
from holdfast.protocol.requests import (
    EventSubscribe,
    RequestData,
    ScheduleCreate,
    ScheduleDelete,
    ScheduleGet,
)
from holdfast.steps.providers import Providers

log = logging.getLogger("holdfast.tasks")

rest_s: Final = 2.0


class TaskService:
    def __init__(
        self,
        host: Host,
        client: Client,
        tasks: TaskRegistry,
        payloads: Payloads,
        providers: Providers,
        group: str,
        settings: TaskSettings,
        make_runner: Callable[[], JobRunner],
        chance: Random | None = None,
        *,
        removes_orphans: bool = False,
        subscriptions: Callable[[], Sequence[EventSubscribe]] = tuple,
    ) -> None:
        self._tasks = tasks
        self._subscriptions = subscriptions
        self._payloads = payloads
        self._providers = providers
        self._group = group
        self._caller = Caller(client, tries_max=busy_tries_max)
        self._stored: set[tuple[str, str]] = set()  # declarations that are stored already
        self._host = host
        self._settings = settings
        self._make_runner = make_runner
        self._chance = chance
        self._removes_orphans = removes_orphans
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
        return await self._store_now(is_late=False)

    def start(self, *, is_stored: bool) -> None:
        """Serve the queues, once what is declared about them is stored."""
        if is_stored:
            self._serve()
        self._declaring = asyncio.create_task(self._declare_more(is_stored=is_stored))

    async def stop(self) -> None:
        """Declare nothing more."""
        if self._note in self._tasks.watchers:
            self._tasks.watchers.remove(self._note)
        await end_tasks([self._declaring])

    def _note(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._more.set)

    async def _declare_more(self, *, is_stored: bool) -> None:
        while True:
            if is_stored:
                await self._more.wait()
                self._more.clear()
            else:
                await asyncio.sleep(rest_s)
            try:
                is_stored = await self._store_now(is_late=True)
            except HoldfastError as error:  # what is refused today may be allowed tomorrow
                log.error("the node refused the declared queues and schedules: %s", error)
                is_stored = False
            if is_stored:
                self._serve()

    def _serve(self) -> None:
        """Claim the tasks of every queue, and receive the messages about them."""
        if self.runner is None:
            if not self._tasks and not self._settings.queues and not self._tasks.limits:
                return
            self.runner = self._make_runner()
        wanted = queue_slots(self._tasks, self._settings, self.runner.left_behind, self._chance)
        self._slots = renew(self._slots, wanted)
        for slots in self._slots:
            for group in slots.groups:
                self._host.listen_in(group)
            self._host.serve(slots, self.runner)

    # --- storing declarations --------------------------------------------------------------------------

    async def _store_now(self, *, is_late: bool) -> bool:
        """Store all of it; False if nobody could be asked. Raises what the node refuses."""
        try:
            await self._store(is_late=is_late)
        except ClientError as error:
            if not _is_passing(error):
                raise
            log.warning("the declared queues and schedules could not be stored yet; trying again: %s", error)
            return False
        return True

    async def store_subscriptions(self) -> None:
        events = {("event", f"{each.name} {each.id}"): each for each in self._subscriptions()}
        new = [events[key] for key in events if key not in self._stored]
        if new:
            await self._caller.ask_all(new, Empty)
            self._stored.update(events)

    async def _store(self, *, is_late: bool) -> None:
        """Store all of it that is not stored yet."""
        limits = [each for each in [*self._tasks.limits.values()] if ("queue", each.name) not in self._stored]
        await self._caller.ask_all([each.request() for each in limits], QueueReply)
        self._stored.update(("queue", each.name) for each in limits)
        await self.store_subscriptions()
        declared = [*self._tasks.recurrences.values()]
        new = [each for each in declared if ("schedule", each.id) not in self._stored]
        wanted = [request for each in new if (request := self._request(each, is_late=is_late)) is not None]
        found = await self._caller.replies([ScheduleGet(each.id) for each in wanted])
        changes = [_changes(schedule, reply) for schedule, reply in zip(wanted, found, strict=True)]
        answers = await asyncio.gather(*map(self._caller.replies, changes))
        for change, reply in zip(chain(*changes), chain(*answers), strict=True):
            # Another worker may have deleted it in the same moment, as an orphan.
            if isinstance(change, ScheduleCreate) or reply.status != 404:
                expect(reply, ScheduleReply)
        self._stored.update(("schedule", each.id) for each in new)
        if self._removes_orphans:
            await self._remove_orphans()
            self._removes_orphans = False

    async def _remove_orphans(self) -> None:
        """Delete what this app declared once and does not declare any more."""
        async for page in schedule_pages(self._caller, tags={tags.DECLARED_BY: self._group}):
            for schedule in page:
                if schedule.id not in self._tasks.recurrences:
                    [reply] = await self._caller.replies([ScheduleDelete(schedule.id)])
                    if reply.status != 404:
                        expect(reply, Empty)
                    log.info("the schedule %s was deleted: the code no longer declares it", schedule.id)

    def _request(self, declared: Recurrence, *, is_late: bool) -> ScheduleCreate | None:
        priority = self._tasks.priority_of(declared.queue or "")
        try:
            return declared.request(self._payloads, self._group, priority, self._providers)
        except WorkerError as error:
            if not is_late:
                raise
            log.error("the schedule %s was skipped: %s", declared.id, error)
            return None


def _is_passing(error: ClientError) -> bool:
    if isinstance(error, Refused):
        return error.status in busy_statuses
    return isinstance(error, Unreachable | RequestTimedOut | OutcomeUnknown | TooManyWaiting)


def _changes(wanted: ScheduleCreate, found: Reply) -> Sequence[RequestData]:
    """There is no instant at which it is not there."""
    if found.status == 404:
        return [wanted]
    stored = expect(found, ScheduleReply).schedule
    return [] if is_same(wanted, stored) else [as_update(wanted)]
