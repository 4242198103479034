"""What needs somebody's attention, for the overview: each with its kind, what it is about, and since when.

| kind | what |
|---|---|
| `halted` | an execution rests until it is resumed |
| `stuck` | the same, because its worker died again and again |
| `crashing` | an open execution was lost by its worker, and has recorded nothing new since |
| `unserved` | work waits in a queue or group of workers, and nobody serves it |
| `paused` | work waits in a queue that is paused |
| `orphan` | a schedule starts what no worker that runs has declared |

One that was lost once and is held by another worker is no problem: that is what a deployment does.
It is told by what is stored and by what workers say of themselves; nothing is decided here. The cost is that
of a few pages. A kind that has more than are shown says so with `more`.
"""

from typing import Final

from holdfast.protocol import tags
from holdfast.protocol.errors import StuckExecution
from holdfast.protocol.executions import ExecutionStatus
from holdfast.protocol.jobs import queue_group, queue_of
from holdfast.protocol.requests import ExecutionSearch
from holdfast.server.management.call import Call, Json
from holdfast.server.management.workers import declared_now, groups_served

shown_max: Final = 5  # of one kind
looked_at_max: Final = 100  # executions that may be crashing
unserved_ms: Final = 15_000  # a worker that is started again is away for so long
_OPEN: Final[list[ExecutionStatus]] = ["pending", "waiting", "running"]


async def find(call: Call, now: int, queues: list[Json], schedules: list[Json]) -> list[Json]:
    """`queues` and `schedules`: a page of them, as the overview has it."""
    kinds = [
        *await _executions(call),
        await _unserved(call, now, queues),
        [_about_queue("paused", each) for each in queues if each["paused"] and each["pending"]],
        await _orphans(call, schedules),
    ]
    return [each for kind in kinds for each in _bounded(kind)]


def _bounded(kind: list[Json]) -> list[Json]:
    some = kind[:shown_max]
    return some if len(some) == len(kind) else [*some[:-1], some[-1] | {"more": True}]


async def _executions(call: Call) -> list[list[Json]]:
    halted, open_ones = await call.ask_all(
        [
            ExecutionSearch("execution", ["halted"], limit=2 * shown_max),
            ExecutionSearch("execution", _OPEN, limit=looked_at_max),
        ]
    )
    found = halted["executions"]
    stuck = [each for each in found if each.get("code") == StuckExecution.code]
    return [
        [_about(each, "stuck") for each in stuck],
        [_about(each, "halted") for each in found if each not in stuck],
        [_about(each, "crashing") for each in open_ones["executions"] if _is_crashing(each)],
    ]


def _is_crashing(execution: Json) -> bool:
    return bool(execution.get("crashes", 0) > (execution["status"] == "running"))


def _about(execution: Json, kind: str) -> Json:
    names = ("id", "name", "since", "error", "code", "crashes", "dueAt")
    return {"kind": kind} | {name: execution[name] for name in names if name in execution}


def _about_queue(kind: str, queue: Json) -> Json:
    shown: Json = {"kind": kind, "queue": queue["name"], "pending": queue["pending"]}
    return shown | ({"since": queue["oldestAt"]} if "oldestAt" in queue else {})


async def _unserved(call: Call, now: int, queues: list[Json]) -> list[Json]:
    served = await groups_served(call, now)
    paused = {queue_group(each["name"]) for each in queues if each["paused"]}
    found: list[Json] = []
    for each in (await call.node.backlog()).groups:
        queue = queue_of(each.group)
        if each.group in served or each.group in paused or now - each.oldest_at < unserved_ms:
            continue
        if call.grant.covers(queue or each.group):
            where = {"group": each.group} if queue is None else {"queue": queue}
            found.append({"kind": "unserved", **where, "pending": each.pending, "since": each.oldest_at})
    return found


async def _orphans(call: Call, schedules: list[Json]) -> list[Json]:
    """Where no worker tells what it declares, nobody can know."""
    declared = await declared_now(call)
    if not declared:
        return []
    found: list[Json] = []
    for each in schedules:
        kind = "workflow" if tags.WORKFLOW in each["tags"] else "task"
        name = each["tags"].get(tags.WORKFLOW) or each["tags"].get(tags.TASK)
        if name is not None and (kind, name) not in declared:
            found.append({"kind": "orphan", "schedule": each["id"], "name": name, "dueAt": each["nextRunAt"]})
    return found
