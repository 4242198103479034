"""Storing what an app declares (limits of queues, schedules) when a worker starts, before it claims.

1. No task is claimed before the limits of its queue are stored.
2. A node that cannot be reached, or cannot tell, is asked again until it has answered: a worker that starts
   while its node is away waits for it. What a node refuses at the start is a mistake, and raises.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from holdfast.client.asking import ask, expect
from holdfast.client.errors import (
    ClientError,
    OutcomeUnknown,
    Refused,
    TimedOut,
    TooManyWaiting,
    Unreachable,
)
from holdfast.client.interface import Client
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.replies import Empty, QueueReply, Reply, ScheduleReply
from holdfast.protocol.requests import RequestData, ScheduleCreate, ScheduleDelete, ScheduleGet
from holdfast.tasks.desk import busy_statuses
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.schedules import is_same
from holdfast.worker.payload import Payloads

log = logging.getLogger("holdfast.tasks")

rest_s: Final = 2.0


class Declarations(Struct, frozen=True):
    tasks: TaskRegistry
    client: Client
    payloads: Payloads
    group: str

    async def store_now(self) -> bool:
        """Store all of it; False if nobody could be asked. Raises what the node refuses."""
        try:
            await store_declarations(self.tasks, self.client, self.payloads, self.group)
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
                if await self.store_now():
                    return
            except HoldfastError as error:
                log.error("queues and schedules were refused: %s", error)


def _is_passing(error: ClientError) -> bool:
    if isinstance(error, Refused):
        return error.status in busy_statuses
    return isinstance(error, Unreachable | TimedOut | OutcomeUnknown | TooManyWaiting)


async def store_declarations(tasks: TaskRegistry, client: Client, payloads: Payloads, group: str) -> None:
    """Store all of it. Doing so again changes nothing."""
    limits = [*tasks.limits.values()]
    for reply in await _ask(client, [each.request() for each in limits]):
        expect(reply, QueueReply)
    wanted = [
        each.request(payloads, group, tasks.priority_of(getattr(each.work, "queue", "")))
        for each in tasks.recurrences.values()
    ]
    stored = await _ask(client, [ScheduleGet(each.id) for each in wanted])
    changes = [_changes(schedule, reply) for schedule, reply in zip(wanted, stored, strict=True)]
    answers = await asyncio.gather(*(_ask(client, each) for each in changes))
    for change, reply in zip(chain(*changes), chain(*answers), strict=True):
        # Another worker may have deleted it in the same moment, to put the same in its place.
        if isinstance(change, ScheduleCreate):
            expect(reply, ScheduleReply)
        elif reply.status != 404:
            expect(reply, Empty)


def _changes(wanted: ScheduleCreate, found: Reply) -> list[RequestData]:
    """One commit replaces it: there is no instant at which it is not there."""
    if found.status == 404:
        return [wanted]
    stored = expect(found, ScheduleReply).schedule
    return [] if is_same(wanted, stored) else [ScheduleDelete(wanted.id), wanted]


async def _ask(client: Client, asked: Sequence[RequestData]) -> list[Reply]:
    return await client.request([ask(data) for data in asked]) if asked else []
