"""How many records there are of a kind, as a PostgreSQL database counts them."""

from typing import Any

from holdfast.protocol.jobs import queue_group
from holdfast.protocol.records import Millis
from holdfast.store import postgres_statements as sql
from holdfast.store.interface import Backlog, GroupBacklog


async def count_queue(connection: Any, name: str, limit: int) -> tuple[str, int, int, int, int]:
    counts = await connection.fetchrow(sql.COUNT_QUEUE, *[queue_group(name), limit] * 4)
    offered, parked, claimed, running = counts
    return name, min(offered + parked, limit), parked, claimed, running


async def count_backlog(connection: Any, now: Millis, groups_max: int) -> Backlog:
    found = await connection.fetch(sql.BACKLOG_GROUPS, groups_max)
    totals = await connection.fetchrow(sql.BACKLOG_TOTALS, now)
    offered, leases, timed, suspended, halted, due = totals
    groups = [GroupBacklog(*row) for row in found]
    return Backlog(groups, leases, timed - offered - leases, due, suspended, halted)
