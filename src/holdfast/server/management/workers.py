"""`/v1/workers`: who listens at this node, and what each holds. Other nodes know of others."""

from typing import Final

from holdfast.protocol.jobs import queue_of
from holdfast.protocol.requests import TaskSearch
from holdfast.server.management.call import Call, Json

workers_max: Final = 50  # on one page
held_max: Final = 100  # that are named, of one worker


async def find(call: Call) -> Json:
    """By id. `held` are the executions and background tasks that it has claimed, the first hundred."""
    groups: dict[str, list[str]] = {}
    for worker in call.workers():
        if call.grant.covers(queue_of(worker.group) or worker.group):
            groups.setdefault(worker.id, []).append(worker.group)
    after = call.text("cursor") or ""
    ids = [each for each in sorted(groups) if each > after]
    page = ids[:workers_max]
    if not page:
        return {"workers": [], "cursor": None}
    found = await call.ask_all([TaskSearch(pid=each, limit=held_max) for each in page])
    workers = [
        {
            "id": worker,
            "groups": sorted(groups[worker]),
            "held": [task["id"] for task in held["tasks"]],
            "more": "cursor" in held,
        }
        for worker, held in zip(page, found, strict=True)
    ]
    return {"workers": workers, "cursor": page[-1] if len(ids) > len(page) else None}
