"""Background tasks on three nodes and one PostgreSQL: each handed out once, limits exact, keys held once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.node import Node
from holdfast.protocol.jobs import Rate
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseSettle,
    QueuePause,
    QueueSet,
    Request,
    TaskClaim,
    TaskFulfill,
    TaskGet,
)
from holdfast.protocol.requests.promises import SettleAction
from holdfast.store import postgres_statements as sql
from tests.postgres import execute
from tests.requests import ask
from tests.seeds import seed_for_test

FAR = 9_000_000_000_000


def job(name: str, **spec: Any) -> Request:
    tags = {"resonate:target": "poll://any@queue.q", "holdfast:job": json.dumps(spec)}
    return ask(PromiseCreate(name, FAR, Value(), tags))


async def fill(node: Node, count: int, keys: int = 0) -> None:
    replies = await node.request(
        [job(f"j{n}", **({"key": f"k{n % keys}"} if keys else {})) for n in range(count)]
    )
    assert {reply.status for reply in replies} == {200}


async def claim(node: Node, count: int, pid: str, ttl: int = 60_000) -> list[Any]:
    [reply] = await node.request([ask(TaskClaim(["queue.q"], count, pid, ttl, start=True))])
    assert reply.status == 200, reply
    return list(reply.data.tasks)  # type: ignore[union-attr]


async def finish(node: Node, task_id: str, version: int) -> int:
    action = SettleAction(PromiseSettle(task_id, "resolved"))
    [reply] = await node.request([ask(TaskFulfill(task_id, version, action))])
    return reply.status


class Crew:
    """Workers on all nodes that take, hold for a moment and finish, and count what they hold together."""

    def __init__(self, nodes: list[Node], seed: int) -> None:
        self._nodes = nodes
        self._chance = random.Random(seed)
        self.finished: Counter[str] = Counter()
        self.held: Counter[str | None] = Counter()
        self.most = 0
        self.most_of_a_key = 0

    async def work(self, total: int, workers: int = 4) -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(
                    self._work(node, f"{position}.{number}", total)
                    for position, node in enumerate(self._nodes)
                    for number in range(workers)
                )
            )

    async def _work(self, node: Node, pid: str, total: int) -> None:
        while self.finished.total() < total:
            taken = await claim(node, self._chance.randint(1, 4), pid)
            for item in taken:
                self.held[item.task.job.key] += 1
            self.most = max(self.most, self.held.total())
            self.most_of_a_key = max(
                self.most_of_a_key, *(number for key, number in self.held.items() if key), 0
            )
            await asyncio.sleep(self._chance.uniform(0, 0.004))
            for item in taken:
                self.held[item.task.job.key] -= 1  # before it is given up, so never too many are counted
                assert await finish(node, item.task.id, item.task.version) == 200
                self.finished[item.task.id] += 1


async def test_each_task_is_handed_out_exactly_once(nodes: list[Node]) -> None:
    await fill(nodes[0], 400)
    crew = Crew(nodes, seed_for_test())
    await crew.work(400)
    assert len(crew.finished) == 400
    assert set(crew.finished.values()) == {1}


async def test_limits_hold_exactly_however_many_claim_at_once(nodes: list[Node], url: str) -> None:
    await nodes[1].request([ask(QueueSet("q", 6, 2))])
    await fill(nodes[0], 150, keys=10)
    crew = Crew(nodes, seed_for_test())
    seen = await asyncio.gather(crew.work(150), look_at_what_is_held(url, crew, 150))
    assert crew.most <= 6
    assert crew.most_of_a_key <= 2
    assert set(crew.finished.values()) == {1}
    assert crew.most >= 4, "the limit is used"
    assert seen[1] <= (6, 2)


async def look_at_what_is_held(url: str, crew: Crew, total: int) -> tuple[int, int]:
    """The most that was held at any instant the database showed, of the queue and of one key."""
    most = most_of_a_key = 0
    driver: Any = asyncpg
    connection = await driver.connect(url)
    try:
        while crew.finished.total() < total:
            found = await connection.fetch(
                "SELECT job_key, count(*) FROM tasks WHERE state = 'acquired' GROUP BY job_key"
            )
            most = max(most, sum(row[1] for row in found))
            most_of_a_key = max([most_of_a_key, *(row[1] for row in found)])
    finally:
        await connection.close()
    return most, most_of_a_key


async def test_without_the_lock_of_the_queue_the_limit_is_broken(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the test before this one can fail."""
    monkeypatch.setattr(sql, "LOCK_GATES", sql.LOCK_GATES.replace(" FOR UPDATE", ""))
    await nodes[1].request([ask(QueueSet("q", 2))])
    for wave in range(20):
        await nodes[0].request([job(f"w{wave}-{number}") for number in range(12)])
        taken = await asyncio.gather(*(claim(node, 2, "p") for node in nodes))
        held = [item for items in taken for item in items]
        for item in held:
            assert await finish(nodes[0], item.task.id, item.task.version) == 200
        if len(held) > 2:
            return
    raise AssertionError("three nodes claimed at once twenty times and never got in each other's way")


async def test_a_rate_holds_over_all_nodes(nodes: list[Node], url: str) -> None:
    count, per_ms = 8, 200
    await nodes[1].request([ask(QueueSet("q", rate=Rate(count, per_ms)))])
    await fill(nodes[0], 40)
    crew = Crew(nodes, seed_for_test())
    await crew.work(40, workers=2)
    instants = sorted(
        json.loads(row)["claimedAt"] for row in execute(url, "SELECT job FROM tasks").splitlines()
    )
    assert len(instants) == 40
    for first in instants:
        assert sum(first <= instant < first + per_ms for instant in instants) <= count


async def test_limits_never_leak_when_workers_die(nodes: list[Node]) -> None:
    """Half of what is taken is never finished: its lease lapses, and all is done in the end."""
    await nodes[1].request([ask(QueueSet("q", 4, 1))])
    names = [f"j{number}" for number in range(60)]
    retry = {"delays": [1], "retries": 100}
    await nodes[0].request([job(name, key=f"k{n % 7}", retry=retry) for n, name in enumerate(names)])
    chance = random.Random(seed_for_test())
    done: set[str] = set()

    async def work(node: Node, pid: str) -> None:
        while len(done) < len(names):
            taken = await claim(node, 2, pid, ttl=60)
            assert len(taken) <= 2
            for item in taken:
                if chance.random() < 0.5 and await finish(node, item.task.id, item.task.version) == 200:
                    done.add(item.task.id)
            await asyncio.sleep(0.002)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(node, f"{n}.{m}") for n, node in enumerate(nodes) for m in range(2)))
    replies = await nodes[2].request([ask(TaskGet(name)) for name in names])
    assert {reply.data.task.job.status for reply in replies} == {"COMPLETED"}  # type: ignore[union-attr]
    crashes = sum(reply.data.task.retries for reply in replies)  # type: ignore[union-attr]
    assert crashes > 5, "workers did die"


async def test_a_pause_is_seen_by_every_node_at_once(nodes: list[Node]) -> None:
    for wave in range(10):
        await fill_wave(nodes[0], wave)
        await nodes[wave % 3].request([ask(QueuePause("q", True))])
        assert [await claim(node, 5, "p") for node in nodes] == [[], [], []]
        await nodes[(wave + 1) % 3].request([ask(QueuePause("q", False))])
        taken = await claim(nodes[2], 5, "p")
        assert len(taken) == 2
        for item in taken:
            await finish(nodes[0], item.task.id, item.task.version)


async def fill_wave(node: Node, wave: int) -> None:
    await node.request([job(f"w{wave}-{number}") for number in range(2)])


@pytest.mark.parametrize("policy", ["existing", "reject", "replace", "debounce"])
async def test_a_unique_key_is_held_once_however_many_fight_for_it(
    nodes: list[Node], url: str, policy: str
) -> None:
    for wave in range(8):
        names = [f"w{wave}-{number}" for number in range(9)]
        asked = [
            nodes[number % 3].request([job(name, unique=f"u{wave}", onUnique=policy)])
            for number, name in enumerate(names)
        ]
        replies = [reply for [reply] in await asyncio.gather(*asked)]
        winners = [
            name
            for name, reply in zip(names, replies, strict=True)
            if reply.status == 200 and reply.data.promise.id == name  # type: ignore[union-attr]
        ]
        found = execute(url, f"SELECT id FROM tasks WHERE state <> 'fulfilled' AND id LIKE 'w{wave}-%'")
        open_ones = found.splitlines()
        assert len(open_ones) == 1
        if policy in ("existing", "reject"):
            assert winners == open_ones
            losers = {reply.status for reply in replies} - {200}
            assert losers == ({409} if policy == "reject" else set())
        else:
            assert {reply.status for reply in replies} == {200}
            assert len(winners) == 9


async def test_a_queue_is_set_and_paused_by_two_nodes_at_once_and_neither_is_lost(nodes: list[Node]) -> None:
    for wave in range(10):
        name = f"new{wave}"
        await asyncio.gather(
            nodes[0].request([ask(QueueSet(name, 3))]), nodes[1].request([ask(QueuePause(name, True))])
        )
        [reply] = await nodes[2].request([ask(QueuePause(name, True))])
        answer: Any = reply.data
        queue = answer.queue
        assert (queue.concurrency, queue.paused) == (3, True)
