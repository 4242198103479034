"""Why an open execution or background task does not go on, beyond what it waits for itself.

| kind | what | with |
|---|---|---|
| `paused` | its queue is paused | `queue` |
| `unserved` | no worker serves its queue or group | `queue` or `group` |
| `undeclared` | none of the workers that serve its queue has declared the task | `queue`, `name`, `workers` |
| `limit` | a limit of its queue is used up | `queue`, `limit`, `used`, `most`; `key`, `perMs` |
| `drained` | all workers that serve it take no new work | `queue` or `group`, `workers` |
| `busy` | all workers that serve it had no free slot when they last reported | the same |
| `lost` | the worker that holds it is not heard of any more, or has stopped | `worker`, `state`, `seenAt` |

The first that holds is told. It is for people: the engine decides by itself, and no request depends on this.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.engine.queue_use import QueueUse
from holdfast.node.workers import KnownWorker
from holdfast.protocol import tags
from holdfast.protocol.requests import QueueGet
from holdfast.server.management.call import Call, Json
from holdfast.server.management.workers import serving

_LIMITS: Final = ("concurrency", "keyConcurrency", "rate", "keyRate", "runningLimit")


async def with_obstacle(call: Call, shown: Json) -> Json:
    """What is shown of one, with `obstacle` if there is one; and when the worker that holds it was last heard
    of."""
    if shown["status"] in ("pending", "waiting"):
        found = await _untaken(call, shown)
    elif shown["status"] in ("claimed", "running"):
        shown, found = await _held(call, shown)
    else:
        found = None
    return shown if found is None else shown | {"obstacle": found}


async def _held(call: Call, shown: Json) -> tuple[Json, Json | None]:
    worker = shown.get("worker")
    known = None if worker is None else await call.node.observed.workers.find(worker, call.now())
    if known is None or not call.grant.covers(known.report.group):
        return shown, None
    shown = shown | {"workerSeenAt": known.seen_at}
    if known.state not in ("lost", "stopped"):
        return shown, None
    return shown, {"kind": "lost", "worker": worker, "state": known.state, "seenAt": known.seen_at}


async def _untaken(call: Call, shown: Json) -> Json | None:
    group, queue = shown.get("group"), shown.get("queue")
    if group is None or not call.grant.covers(queue or group):  # None: it is pushed, and nobody polls for it
        return None
    where: Json = {"group": group} if queue is None else {"queue": queue}
    limits = None if queue is None else await call.ask_for("queue", QueueGet(queue))
    if limits is not None and limits["paused"]:
        return {"kind": "paused", **where}
    workers, has_others = await serving(call, group)
    if not workers and not has_others:
        return {"kind": "unserved", **where}
    if not has_others and shown["kind"] == "task" and not await _is_declared(call, workers, shown["name"]):
        return {"kind": "undeclared", **where, "name": shown["name"], "workers": len(workers)}
    if shown["status"] == "waiting":
        return None
    if limits is not None and any(name in limits for name in _LIMITS):
        use = await call.node.queue_use(limits["name"])
        if (full := next(_used_up(shown, limits, use), None)) is not None:
            return {"kind": "limit", **where, **full}
    return None if has_others else _without_room(workers, shown["kind"], where)


async def _is_declared(call: Call, workers: list[KnownWorker], name: str | None) -> bool:
    """Where a worker has not told what it knows to run, nobody can say that it does not know this."""
    declared = await call.node.observed.workers.declarations()
    found = [declared.get(each.declared_key) for each in workers]
    return any(some is None or any((d.kind, d.name) == ("task", name) for d in some) for some in found)


def _used_up(shown: Json, limits: Json, use: QueueUse) -> Iterator[Json]:
    """An execution that was claimed before counts already: only what is claimed at a time holds it up."""
    if (most := limits.get("runningLimit")) is not None and use.claimed >= most:
        yield {"limit": "running", "used": use.claimed, "most": most}
    if shown["kind"] == "execution" and shown.get("attempts"):
        return
    key = _key_of(shown)
    own = next((each for each in use.keys if each.key == key), None)
    counted, begun = (0, 0) if own is None else (own.counted, own.begun)
    if (most := limits.get("concurrency")) is not None and use.counted >= most:
        yield {"limit": "concurrency", "used": use.counted, "most": most}
    if key is not None and (most := limits.get("keyConcurrency")) is not None and counted >= most:
        yield {"limit": "keyConcurrency", "key": key, "used": counted, "most": most}
    yield from _rate("rate", limits.get("rate"), use.begun, {})
    if key is not None:
        yield from _rate("keyRate", limits.get("keyRate"), begun, {"key": key})


def _rate(name: str, rate: Json | None, begun: int, about: Json) -> Iterator[Json]:
    if rate is not None and begun >= rate["count"]:
        yield {"limit": name, **about, "used": begun, "most": rate["count"], "perMs": rate["perMs"]}


def _key_of(shown: Json) -> str | None:
    """What limits per key count it by."""
    entries = shown["tags"]
    spec = tags.job_of(entries) if shown["kind"] == "task" else tags.place_of(entries)
    return None if spec is None else spec.key


def _without_room(workers: list[KnownWorker], kind: str, where: Json) -> Json | None:
    about: Json = {**where, "workers": len(workers)}
    takers = [each for each in workers if each.state == "running"]
    if not takers:
        return {"kind": "drained", **about}
    kinds = ("workflows",) if kind == "execution" else ("tasks", "processes")
    slots = [each.report.slots.get(name) for each in takers for name in kinds]
    told = [each for each in slots if each is not None and each.size]
    return {"kind": "busy", **about} if told and all(each.used >= each.size for each in told) else None
