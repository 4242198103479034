"""Storing what an app declares (limits of queues, schedules) when a worker starts, before it claims."""

from collections.abc import Sequence

from holdfast.client.asking import ask, expect
from holdfast.client.interface import Client
from holdfast.protocol.replies import Empty, QueueReply, Reply, ScheduleReply
from holdfast.protocol.requests import RequestData, ScheduleCreate, ScheduleDelete, ScheduleGet
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.schedules import is_same
from holdfast.worker.payload import Payloads


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
    changes: list[RequestData] = []
    for schedule, reply in zip(wanted, stored, strict=True):
        changes += _changes(schedule, reply)
    for change, reply in zip(changes, await _ask(client, changes), strict=True):
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
