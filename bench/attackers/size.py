"""Attacks with a token, by size: each asks in a few bytes for very many, or leaves very many behind.

What is stored is large but lawful: every payload is below the limit of its own.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from bench.attackers.victim import Attack, Victim, encode, envelope, token

large: Final = "x" * 963_000
count_max: Final = 160
far_ms: Final = 4_102_444_800_000


def creation(
    name: str,
    tags: dict[str, str] | None = None,
    *,
    timeout_at: int = far_ms,
    data: str = large,
    job: bool = False,
) -> dict[str, object]:
    entries = {f"resonate:{key}": value for key, value in (tags or {}).items()}
    if job:
        entries["holdfast:job"] = "{}"
    return envelope(
        "promise.create", {"id": name, "timeoutAt": timeout_at, "param": {"data": data}, "tags": entries}
    )


async def in_arrays(server: Victim, envelopes: Sequence[dict[str, object]], size: int = 3) -> None:
    """Three of the large ones are about what a body holds."""
    for start in range(0, len(envelopes), size):
        status, body = await server.post(encode(envelopes[start : start + size]))
        assert status == 200, body[:200]


async def large_tasks(server: Victim, count: int, tags: dict[str, str] | None = None) -> list[str]:
    names = [f"t{number:03}" for number in range(count)]
    entries = {"target": "poll://any@g"} | (tags or {})
    await in_arrays(server, [creation(name, entries) for name in names])
    return names


async def claims_of_large_tasks(server: Victim, count: int = count_max) -> None:
    await large_tasks(server, count)
    claim = {"groups": ["g"], "count": 500, "pid": "p", "ttl": 60_000}
    await in_arrays(server, [envelope("task.claim", claim) for _ in range(100)], 100)


async def searches_for_large_promises(server: Victim, count: int = count_max) -> None:
    await in_arrays(server, [creation(f"p{number:03}") for number in range(count)])
    searches = [envelope("promise.search", {"limit": 1_000}) for _ in range(8)]
    await asyncio.gather(*(_in_one_array(server, searches) for _ in range(4)))


async def arrays_that_name_large_promises(server: Victim, count: int = count_max) -> None:
    names = [f"p{number:03}" for number in range(count)]
    await in_arrays(server, [creation(name) for name in names])
    asked = [envelope("promise.get", {"id": name}) for name in names]
    again = [creation(name, data="") for name in names]
    await asyncio.gather(*(_in_one_array(server, each) for each in (asked, again, asked, again)))


async def _in_one_array(server: Victim, envelopes: Sequence[dict[str, object]]) -> None:
    """A server may drop who does not read fast enough what was asked for."""
    with suppress(OSError, asyncio.IncompleteReadError):
        await in_arrays(server, envelopes, len(envelopes))


async def preloads_of_a_large_branch(server: Victim, count: int = count_max) -> None:
    await in_arrays(server, [creation(f"b{number:03}", {"branch": "b"}) for number in range(count)])
    await large_tasks(server, 3, {"branch": "b"})
    acquires = [
        envelope("task.acquire", {"id": f"t00{number}", "version": 0, "pid": "p", "ttl": 60_000}, "c")
        for number in range(3)
    ]
    await in_arrays(server, acquires * 30, 90)


async def queues_that_are_set_in_an_array(server: Victim, count: int = count_max) -> None:
    creations = [
        creation(f"j{number:03}", {"target": f"poll://any@queue.q{number % 10}"}, job=True)
        for number in range(count)
    ]
    await in_arrays(server, creations)
    setting = [envelope("queue.set", {"name": f"q{number % 10}"}) for number in range(500)]
    await in_arrays(server, setting, 500)


async def messages_that_nobody_reads(server: Victim, count: int = count_max) -> None:
    names = [f"p{number:03}" for number in range(count)]
    await in_arrays(server, [creation(name, data="") for name in names], 100)
    listening = [
        envelope("promise.register_listener", {"awaited": name, "address": f"poll://uni@gone/{name}"})
        for name in names
    ]
    await in_arrays(server, listening, 100)
    value = {"data": large}
    settling = [
        envelope("promise.settle", {"id": name, "state": "resolved", "value": value}) for name in names
    ]
    await in_arrays(server, settling)


async def awaiters_of_one_promise(server: Victim, count: int = count_max) -> None:
    names = await large_tasks(server, count)
    await in_arrays(server, [creation("awaited", data="")])
    registered = [
        envelope("promise.register_callback", {"awaited": "awaited", "awaiter": name}) for name in names
    ]
    await in_arrays(server, registered, 100)
    await server.post(encode(envelope("promise.settle", {"id": "awaited", "state": "resolved"})))


async def a_backlog_that_is_offered(server: Victim, count: int = count_max) -> None:
    await large_tasks(server, count)
    async with _stream(server, "g") as reader:
        heard = 0
        while heard < count:
            heard += (await reader.readline()).count(b'"execute"')


@asynccontextmanager
async def _stream(server: Victim, group: str) -> AsyncGenerator[asyncio.StreamReader]:
    async with server.connect() as (reader, writer):
        head = f"GET /poll/{group}/w HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
        yield reader


async def deadlines_of_large_promises(server: Victim, count: int = count_max) -> None:
    """All of them have passed by the time they are stored, and each has a task to be ended."""
    names = [f"d{number:03}" for number in range(count)]
    due = int(time.time() * 1_000) + 100 * count  # none before all of them are stored
    await in_arrays(server, [creation(name, {"target": "poll://any@g"}, timeout_at=due) for name in names])
    for name in (names[0], names[-1]):
        while True:
            _, body = await server.post(encode(envelope("promise.get", {"id": name})))
            if b'"rejected_timedout"' in body[:400]:
                break
            await asyncio.sleep(0.2)


ATTACKS: list[Attack] = [
    claims_of_large_tasks,
    searches_for_large_promises,
    arrays_that_name_large_promises,
    preloads_of_a_large_branch,
    queues_that_are_set_in_an_array,
    messages_that_nobody_reads,
    awaiters_of_one_promise,
    a_backlog_that_is_offered,
    deadlines_of_large_promises,
]
