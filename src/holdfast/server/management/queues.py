"""`/v1/queues`: depth and limits, paused and resumed."""

from typing import TypeVar

import msgspec

from holdfast.protocol.jobs import Rate, queue_group, queue_of
from holdfast.protocol.requests import QueueGet, QueuePause, QueueSearch, QueueSet
from holdfast.server.management.call import Call, Json
from holdfast.server.management.workers import serving

T = TypeVar("T")


async def find(call: Call) -> Json:
    search = QueueSearch(call.text("prefix"), call.integer("limit"), call.text("cursor"))
    page = await call.ask(search)
    return {"queues": await with_ages(call, page["queues"]), "cursor": page.get("cursor")}


async def with_ages(call: Call, found: list[Json]) -> list[Json]:
    """Each with the instant at which the oldest that may begin was created."""
    waiting = {queue_of(each.group): each.oldest_at for each in (await call.node.backlog()).groups}
    return [
        queue | ({"oldestAt": waiting[queue["name"]]} if queue["name"] in waiting else {}) for queue in found
    ]


async def get(call: Call) -> Json:
    """With what of its limits is used, in all and by key; and whether somebody works for it."""
    queue = await call.ask_for("queue", QueueGet(call.id))
    use: Json = msgspec.to_builtins(await call.node.queue_use(call.id))
    about = {"oldestAt": use.pop("oldestAt")} if "oldestAt" in use else {}
    workers, has_others = await serving(call, queue_group(call.id))
    about["served"] = bool(workers) or has_others
    return queue | about | {"keys": use.pop("keys", []), "moreKeys": use.pop("moreKeys", False), "used": use}


async def set_limits(call: Call) -> Json:
    """All limits; one that is left out is lifted."""
    request = QueueSet(
        call.id,
        call.field("concurrency", int),
        call.field("keyConcurrency", int),
        _shaped(call, "rate", Rate),
        _shaped(call, "keyRate", Rate),
        call.field("fair", bool, False),
        _shaped(call, "weights", dict[str, int]),
        call.field("running", int),
    )
    return await call.ask_for("queue", request)


def _shaped(call: Call, name: str, shape: type[T]) -> T | None:
    given = call.field(name, dict)
    return None if given is None else msgspec.convert(given, shape)


async def pause(call: Call) -> Json:
    return await call.ask_for("queue", QueuePause(call.id, True))


async def resume(call: Call) -> Json:
    return await call.ask_for("queue", QueuePause(call.id, False))
