"""One tenant does the most expensive things there are; what counts is how long the others wait meanwhile."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from bench.attackers.victim import Attack, Victim, encode, envelope

T = TypeVar("T")

far_ms = 4_102_444_800_000
tags_many = {f"tag-{number}": f"value-{number}" for number in range(64)}
array_max = 500


async def searches_by_64_tags(server: Victim) -> None:
    """All of them nearly found: the last tag differs."""
    await _create(server, ({"id": f"tall-{n}", "tags": tags_many} for n in range(12_000)))
    wanted = tags_many | {"tag-63": "another"}
    search = encode(envelope("promise.search", {"tags": wanted, "limit": 1_000}))
    await _all_at_once(server, [search] * 8)
    await _all_at_once(server, [encode([envelope("promise.search", {"tags": wanted})] * 100)] * 8)


async def searches_of_a_tree(server: Victim) -> None:
    members = ({"id": f"tree:{n}", "tags": {"resonate:origin": "tree"}} for n in range(40_000))
    await _create(server, members)
    wanted = {"resonate:origin": "tree", "colour": "none"}
    await _all_at_once(server, [encode(envelope("promise.search", {"tags": wanted}))] * 100)


async def pauses_of_a_long_queue(server: Victim) -> None:
    await _fill_queue(server, 50_000)
    pause = envelope("queue.pause", {"name": "long", "paused": True})
    await _all_at_once(server, [encode([pause] * 1_000)])
    await _all_at_once(server, [encode(pause)] * 1_000)
    limits = envelope("queue.set", {"name": "long", "concurrency": 10})
    await _all_at_once(server, [encode(limits)] * 1_000)


async def acquires_of_a_long_branch(server: Victim) -> None:
    root = {"id": "long", "tags": {"resonate:target": "poll://any@far", "resonate:branch": "long"}}
    await _create(server, [root])
    members = ({"id": f"long:{n}", "tags": {"resonate:branch": "long"}} for n in range(40_000))
    await _create(server, members)
    acquire = envelope("task.acquire", {"id": "long", "version": 0, "pid": "p", "ttl": 60_000}, "the same")
    await _all_at_once(server, [encode([acquire] * 1_000)])
    await _all_at_once(server, [encode(acquire)] * 1_000)


async def deadlines_at_one_instant(server: Victim) -> None:
    """150,000 of them, each watched, so that the node must write every one down."""
    due_ms = int(time.time() * 1000) + 60_000
    entries = {"resonate:external": "true"}
    promises = ({"id": f"due-{n}", "timeoutAt": due_ms, "tags": entries} for n in range(150_000))
    await _create(server, promises)
    await asyncio.sleep(max(0.0, due_ms / 1000 - time.time()) + 20)


async def schedules_of_one_second(server: Victim) -> None:
    for numbers in _parts(range(5_000)):
        schedules = [
            {
                "id": f"s-{n}",
                "cron": "* * * * * *",
                "promiseId": "{{.id}}-{{.timestamp}}",
                "promiseTimeout": 60_000,
            }
            for n in numbers
        ]
        await server.post(encode([envelope("schedule.create", each) for each in schedules]))
    await asyncio.sleep(20)


async def _fill_queue(server: Victim, count: int) -> None:
    tags = {"resonate:target": "poll://any@queue.long", "holdfast:job": "{}"}
    await _create(server, ({"id": f"job-{n}", "tags": tags} for n in range(count)))


async def _create(server: Victim, promises: Iterable[Mapping[str, object]]) -> None:
    for part in _parts(promises):
        creates = [envelope("promise.create", {"timeoutAt": far_ms, **each}) for each in part]
        status, answer = await server.post(encode(creates))
        assert status == 200, answer
        assert b'"status":200' in answer.replace(b" ", b""), answer[:500]


def _parts(things: Iterable[T]) -> Iterator[list[T]]:
    part: list[T] = []
    for each in things:
        part.append(each)
        if len(part) == array_max:
            yield part
            part = []
    if part:
        yield part


async def _all_at_once(server: Victim, bodies: list[bytes]) -> None:
    """At most 100 connections at a time, and 30 seconds."""
    room = asyncio.Semaphore(100)

    async def post(body: bytes) -> None:
        async with room:
            await server.post(body)

    posts = [asyncio.create_task(post(body)) for body in bodies]
    _, pending = await asyncio.wait(posts, timeout=30)
    for each in pending:
        each.cancel()
    await asyncio.gather(*posts, return_exceptions=True)


STALLS: list[Attack] = [
    searches_by_64_tags,
    searches_of_a_tree,
    pauses_of_a_long_queue,
    acquires_of_a_long_branch,
]
DEADLINES: list[Attack] = [deadlines_at_one_instant, schedules_of_one_second]
