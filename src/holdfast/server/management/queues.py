"""`/v1/queues`: depth and limits, paused and resumed."""

import msgspec

from holdfast.protocol.jobs import Rate
from holdfast.protocol.requests import QueueGet, QueuePause, QueueSearch, QueueSet
from holdfast.server.management.call import Call, Json


async def find(call: Call) -> Json:
    search = QueueSearch(call.text("prefix"), call.integer("limit"), call.text("cursor"))
    page = await call.ask(search)
    return {"queues": page["queues"], "cursor": page.get("cursor")}


async def get(call: Call) -> Json:
    request = QueueGet(call.id)
    return await call.ask_for("queue", request)


async def set_limits(call: Call) -> Json:
    """All limits; one that is left out is lifted."""
    request = QueueSet(
        call.id,
        call.field("concurrency", int),
        call.field("keyConcurrency", int),
        *(_rate(call, name) for name in ("rate", "keyRate")),
    )
    return await call.ask_for("queue", request)


def _rate(call: Call, name: str) -> Rate | None:
    given = call.field(name, dict)
    return None if given is None else msgspec.convert(given, Rate)


async def pause(call: Call) -> Json:
    return await call.ask_for("queue", QueuePause(call.id, True))


async def resume(call: Call) -> Json:
    return await call.ask_for("queue", QueuePause(call.id, False))
