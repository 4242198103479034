"""A valid request of every kind, and the world in which each of them succeeds."""

from __future__ import annotations

from tests.conformance.wire import CLIENT, T0, WORKERS, Json, Wire, creation, schedule_of, sub, suspension

EVERY_KIND: dict[str, Json] = {
    "promise.get": {"id": "p"},
    "promise.create": creation("new"),
    "promise.settle": {"id": "p", "state": "resolved"},
    "promise.register": {"awaited": "p", "awaiter": "t"},
    "promise.register_callback": {"awaited": "p", "awaiter": "t"},
    "promise.subscribe": {"awaited": "p", "address": CLIENT},
    "promise.register_listener": {"awaited": "p", "address": CLIENT},
    "promise.search": {},
    "task.get": {"id": "t"},
    "task.create": {"pid": "p", "ttl": 1, "action": sub("promise.create", creation("new", target=WORKERS))},
    "task.acquire": {"id": "u", "version": 0, "pid": "p", "ttl": 1},
    "task.claim": {"groups": ["workers"], "count": 5, "pid": "p", "ttl": 1},
    "task.start": {"id": "t", "version": 1},
    "task.release": {"id": "t", "version": 1},
    "task.fulfill": {
        "id": "t",
        "version": 1,
        "action": sub("promise.settle", {"id": "t", "state": "resolved"}),
    },
    "task.suspend": suspension("t", "p"),
    "task.fence": {"id": "t", "version": 1, "action": sub("promise.create", creation("new"))},
    "task.restart": {"id": "t", "version": 1, "param": {"data": "MQ=="}, "forget": ["t:1"]},
    "task.heartbeat": {"pid": "p", "tasks": [{"id": "t", "version": 1}]},
    "task.halt": {"id": "t"},
    "task.continue": {"id": "h"},
    "task.search": {},
    "stream.append": {"id": "t", "stream": "in", "key": "k", "answer": {"timeoutAt": T0 + 1}},
    "stream.next": {"id": "t", "stream": "in", "number": 1},
    "stream.read": {"id": "t", "stream": "in"},
    "stream.list": {"id": "t"},
    "event.send": {"name": "e", "id": "k", "match": {"user": "ada"}},
    "event.search": {"name": "e"},
    "event.subscribe": {
        "name": "e",
        "id": "s",
        "workflow": "w",
        "promiseTags": {"resonate:target": WORKERS},
        "promiseTimeout": 1,
    },
    "event.unsubscribe": {"name": "e", "id": "s"},
    "lock.get": {"name": "l"},
    "lock.search": {},
    "lock.release": {"name": "l", "id": "t:l", "reason": "stuck"},
    "schedule.get": {"id": "s"},
    "schedule.create": schedule_of("new"),
    "schedule.delete": {"id": "s"},
    "schedule.search": {},
    "schedule.update": {"id": "s", "cron": "0 * * * *"},
    "schedule.pause": {"id": "s", "paused": True},
    "schedule.trigger": {"id": "s"},
    "schedule.backfill": {"id": "s", "since": T0 - 60_000, "until": T0},
    "debug.start": {},
    "debug.reset": {},
    "debug.snap": {},
    "debug.tick": {"time": T0},
}


def furnish(wire: Wire) -> None:
    wire.create("p")
    wire.acquired("t")
    wire.create("u", target=WORKERS)
    wire.create("h", target=WORKERS)
    wire.halt("h")
    wire.schedule("s")
    wire.fence("t", "lock.acquire", {"id": "t:l", "name": "l", "timeoutAt": T0 + 1})
