"""Storing what an app declares (limits of queues, schedules) when a worker starts, before it claims; and what
is declared later, when it is.

1. No task is claimed before the limits of its queue are stored.
2. A node that cannot be reached, or cannot tell, is asked again until it has answered: a worker that starts
   while its node is away waits for it. What a node refuses at the start is a mistake, and raises.
3. A schedule that is wrong in itself (its arguments do not fit) raises at the start. One that is declared
   later is logged and left out: whoever declared it is gone, and what else is declared must not wait for it.
4. Each declaration is stored once: what an operator changed since then is left alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from holdfast.client.asking import expect
from holdfast.client.caller import Caller, busy_statuses, busy_tries_max
from holdfast.client.errors import (
    ClientError,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.interface import Client
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.schedules import Recurrence, is_same
from holdfast.payloads.errors import WorkerError
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.replies import Empty, QueueReply, Reply, ScheduleReply
from holdfast.protocol.requests import RequestData, ScheduleCreate, ScheduleDelete, ScheduleGet
from holdfast.steps.providers import Providers

log = logging.getLogger("holdfast.tasks")

rest_s: Final = 2.0


class Declarations(Struct, frozen=True):
    tasks: TaskRegistry
    client: Client
    payloads: Payloads
    group: str
    providers: Providers
    stored: set[tuple[str, str]]  # what is stored already

    async def store_now(self, *, is_late: bool = False) -> bool:
        """Store all of it; False if nobody could be asked. Raises what the node refuses."""
        try:
            await self._store(is_late=is_late)
        except ClientError as error:
            if not _is_passing(error):
                raise
            log.warning("queues and schedules could not be stored yet: %s", error)
            return False
        return True

    async def store_in_time(self) -> None:
        """Until they are stored: who is refused today may be let in tomorrow."""
        while True:
            await asyncio.sleep(rest_s)
            try:
                if await self.store_now(is_late=True):
                    return
            except HoldfastError as error:
                log.error("queues and schedules were refused: %s", error)

    async def _store(self, *, is_late: bool) -> None:
        """Store all of it that is not stored yet."""
        limits = [each for each in [*self.tasks.limits.values()] if ("queue", each.name) not in self.stored]
        for reply in await _ask(self.client, [each.request() for each in limits]):
            expect(reply, QueueReply)
        self.stored.update(("queue", each.name) for each in limits)
        new = [
            each for each in [*self.tasks.recurrences.values()] if ("schedule", each.id) not in self.stored
        ]
        wanted = [request for each in new if (request := self._request(each, is_late=is_late)) is not None]
        found = await _ask(self.client, [ScheduleGet(each.id) for each in wanted])
        changes = [_changes(schedule, reply) for schedule, reply in zip(wanted, found, strict=True)]
        answers = await asyncio.gather(*(_ask(self.client, each) for each in changes))
        for change, reply in zip(chain(*changes), chain(*answers), strict=True):
            # Another worker may have deleted it in the same moment, to put the same in its place.
            if isinstance(change, ScheduleCreate):
                expect(reply, ScheduleReply)
            elif reply.status != 404:
                expect(reply, Empty)
        self.stored.update(("schedule", each.id) for each in new)

    def _request(self, declared: Recurrence, *, is_late: bool) -> ScheduleCreate | None:
        priority = self.tasks.priority_of(getattr(declared.work, "queue", ""))
        try:
            return declared.request(self.payloads, self.group, priority, self.providers)
        except WorkerError as error:
            if not is_late:
                raise
            log.error("the schedule %s is left out: %s", declared.id, error)
            return None


def _is_passing(error: ClientError) -> bool:
    if isinstance(error, Refused):
        return error.status in busy_statuses
    return isinstance(error, Unreachable | RequestTimedOut | OutcomeUnknown | TooManyWaiting)


def _changes(wanted: ScheduleCreate, found: Reply) -> list[RequestData]:
    """One commit replaces it: there is no instant at which it is not there."""
    if found.status == 404:
        return [wanted]
    stored = expect(found, ScheduleReply).schedule
    return [] if is_same(wanted, stored) else [ScheduleDelete(wanted.id), wanted]


async def _ask(client: Client, asked: Sequence[RequestData]) -> list[Reply]:
    return await Caller(client, tries_max=busy_tries_max).replies(asked)
