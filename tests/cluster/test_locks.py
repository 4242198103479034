"""A lock that executions on several nodes share: one at a time, in turn, also when processes are killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from random import Random

import pytest

from holdfast.node import Node
from holdfast.protocol.replies import FenceReply, LockReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    AcquireAction,
    LockAcquire,
    LockGet,
    LockRelease,
    PromiseGet,
    ReleaseAction,
    TaskFence,
)
from tests.cluster.clients import told_s
from tests.cluster.lock_worker import OUTSIDE, make_app
from tests.counts import count_of
from tests.postgres import PostgresServer, execute
from tests.processes import eventually
from tests.requests import FAR, acquire, ask, create
from tests.seeds import chosen_seed

KILLS = count_of("HOLDFAST_LOCK_KILLS", quick=2, full=8)
EXECUTIONS, TURNS = 6, count_of("HOLDFAST_LOCK_TURNS", quick=2, full=8)
HOLDERS, ROUNDS = 9, 5
SEED = chosen_seed()


def inner(reply: Reply) -> Reply:
    assert isinstance(reply.data, FenceReply), reply
    found = reply.data.action
    return Reply(found.head.status, found.data)


async def test_three_nodes_grant_a_lock_to_one_at_a_time_and_in_the_order_of_asking(
    nodes: list[Node],
) -> None:
    """Each request goes to another node than the one before it."""
    print(f"HOLDFAST_SEED={SEED}")
    inside: list[str] = []
    tokens: list[int] = []
    for number in range(HOLDERS):
        target = create(f"h{number}", target="poll://any@nobody")
        await nodes[number % 3].request([target])
        [reply] = await nodes[number % 3].request([acquire(f"h{number}", ttl=86_400_000)])
        assert reply.status == 200

    async def hold(number: int) -> None:
        chance, name = Random(f"{SEED} {number}"), f"h{number}"
        for turn in range(ROUNDS):
            ticket = f"{name}:{turn}"
            asked = TaskFence(name, 1, AcquireAction(LockAcquire(ticket, "printer", FAR)))
            [reply] = await chance.choice(nodes).request([ask(asked)])
            data = inner(reply).data
            while isinstance(data, PromiseReply) and data.promise.state == "pending":
                await asyncio.sleep(0.005)
                [reply] = await chance.choice(nodes).request([ask(PromiseGet(ticket))])
                data = reply.data
            assert isinstance(data, PromiseReply), data
            inside.append(name)
            assert inside == [name], f"{inside} hold the lock at once"
            tokens.append(int((data.promise.value.headers or {})["holdfast:token"]))
            await asyncio.sleep(0)
            assert inside == [name], f"{inside} hold the lock at once"
            inside.clear()
            let_go = TaskFence(name, 1, ReleaseAction(LockRelease("printer", ticket)))
            [reply] = await chance.choice(nodes).request([ask(let_go)])
            assert inner(reply).status == 200

    await asyncio.wait_for(asyncio.gather(*[hold(number) for number in range(HOLDERS)]), told_s * 4)
    assert len(tokens) == HOLDERS * ROUNDS
    assert tokens == sorted(set(tokens)), "whoever came later had a larger token"
    [reply] = await nodes[0].request([ask(LockGet("printer"))])
    assert isinstance(reply.data, LockReply)
    assert reply.data.lock.is_idle


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True).create()
    yield server
    server.remove()


def start_worker(url: str, outside: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.cluster.lock_worker", url, outside]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.slow
async def test_whoever_is_killed_inside_a_lock_is_followed_by_itself_and_by_nobody_else(
    server: PostgresServer,
) -> None:
    """Two nodes with their workers, killed in turn. The token of a hold is that of the ticket, so whoever
    takes an execution over comes with the same one. Nobody who is dead writes, so nobody may be refused."""
    url = server.url()
    execute(url, OUTSIDE)
    outside = server.url(search_path="outside")
    workers = [await asyncio.to_thread(start_worker, url, outside) for _ in range(2)]
    chance = Random(SEED)
    try:
        app, share = make_app(url)
        async with app:
            handles = [app.start(share, TURNS, id=f"e{number}") for number in range(EXECUTIONS)]
            for handle in handles:
                await handle.started()
            for number in range(KILLS):
                wanted = (number + 1) * EXECUTIONS * TURNS // (KILLS + 2)
                await asyncio.to_thread(wait_for_marks, url, wanted)
                victim = chance.randrange(2)
                await asyncio.to_thread(kill, workers[victim])
                workers[victim] = await asyncio.to_thread(start_worker, url, outside)
            results = await asyncio.gather(*handles)
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                await asyncio.to_thread(kill, worker)
    listed = execute(url, "SELECT token || ' ' || execution || ' ' || mark FROM outside.marks ORDER BY n")
    marks = [line.split() for line in listed.splitlines()]
    assert execute(url, "SELECT count(*) FROM outside.refused") == "0"
    holds = [(token, [each[2] for each in found]) for token, found in groupby(marks, lambda each: each[0])]
    assert len(holds) == len({token for token, _ in holds}), "a holder came back after the next one was in"
    assert all(found[-1] == "out" for _, found in holds), holds
    assert sorted(int(token) for token, _ in holds) == sorted(token for own in results for token in own)
    assert all(own == sorted(own) for own in results)


def wait_for_marks(url: str, count: int) -> None:
    """Until so many holds have begun."""
    eventually(lambda: int(execute(url, "SELECT count(DISTINCT token) FROM outside.marks")) >= count, 300)
