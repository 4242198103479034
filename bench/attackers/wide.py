"""Attacks by requests that name one thing and read or write very many: events, locks, back-fills.

Each is a few bytes; what it touches was prepared before, within the limits of each record.
"""

from collections.abc import Sequence

from bench.attackers.size import far_ms, in_arrays
from bench.attackers.victim import Attack, Victim, encode, envelope

target = {"resonate:target": "poll://any@far"}
long_ago_ms = 1_700_000_000_000


async def a_large_event_for_many_waits(server: Victim, waits: int = 256) -> None:
    """Its value is written for each of them."""
    names = await _acquired(server, waits)
    asked = [
        _fenced(name, "event.await", {"id": f"{name}:1", "name": "e", "timeoutAt": far_ms}) for name in names
    ]
    await in_arrays(server, asked, 128)
    event = envelope("event.send", {"name": "e", "value": {"data": "x" * 963_000}})
    _, answer = await server.post(encode(event))
    assert b'"number":1' in answer, answer[:500]


async def waits_that_look_back(server: Victim) -> None:
    events = [envelope("event.send", {"name": "e", "match": {"a": "1"}}) for _ in range(1_000)]
    await in_arrays(server, events, 500)
    [name] = await _acquired(server, 1)
    wait = {"name": "e", "timeoutAt": far_ms, "match": {"a": "2"}, "lookBack": 86_400_000}
    asked = [_fenced(name, "event.await", {"id": f"{name}:{n}"} | wait) for n in range(1_000)]
    for _ in range(10):
        await server.post(encode(asked))


async def events_with_subscriptions(server: Victim) -> None:
    tags = target | {"note": "x" * 4_000, "more": "x" * 4_000}
    for number in range(16):
        data = {"name": "e", "id": f"s{number}", "workflow": "w", "promiseTimeout": 1_000}
        await server.post(encode(envelope("event.subscribe", data | {"promiseTags": tags})))
    events = [envelope("event.send", {"name": "e"}) for _ in range(1_000)]
    for _ in range(10):
        await server.post(encode(events))


async def releases_of_a_crowded_lock(server: Victim) -> None:
    names = await _acquired(server, 130)
    holding = ["x" * 1_000] * 16
    asked = [
        _fenced(
            name, "lock.acquire", {"id": f"{name}:1", "name": "l", "timeoutAt": far_ms, "holding": holding}
        )
        for name in names
    ]
    await in_arrays(server, asked, 1)
    release = [envelope("lock.release", {"name": "l", "id": name, "reason": "why"}) for name in names]
    await server.post(encode(release))
    await server.post(encode([envelope("lock.get", {"name": "l"})] * 1_000))


async def back_fills(server: Victim) -> None:
    data = {"id": "s", "cron": "* * * * * *", "promiseId": "{{.id}}-{{.timestamp}}", "promiseTimeout": 60_000}
    await server.post(encode(envelope("schedule.create", data)))
    for part in range(10):
        starts = [long_ago_ms + (part * 100 + number) * 100_000 for number in range(100)]
        asked = [
            envelope("schedule.backfill", {"id": "s", "since": start, "until": start + 99_000})
            for start in starts
        ]
        await server.post(encode(asked))


async def _acquired(server: Victim, count: int) -> list[str]:
    names = [f"e{number}" for number in range(count)]
    made = [envelope("promise.create", {"id": each, "timeoutAt": far_ms, "tags": target}) for each in names]
    claim = {"version": 0, "pid": "p", "ttl": 3_600_000}
    await in_arrays(server, made, 500)
    await in_arrays(server, [envelope("task.acquire", {"id": each} | claim) for each in names], 500)
    return names


def _fenced(name: str, kind: str, data: object) -> dict[str, object]:
    return envelope(
        "task.fence", {"id": name, "version": 1, "action": {"kind": kind, "head": {}, "data": data}}
    )


MEMORY: Sequence[Attack] = (a_large_event_for_many_waits, releases_of_a_crowded_lock)
STALLS: Sequence[Attack] = (
    a_large_event_for_many_waits,
    waits_that_look_back,
    events_with_subscriptions,
    releases_of_a_crowded_lock,
    back_fills,
)
