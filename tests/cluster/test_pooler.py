"""Nodes behind a transaction pooler: each transaction in whichever session is free, nothing left in it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import App, run
from holdfast.node import Node, cluster
from holdfast.protocol.messages import Execute, Unblock
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres_connection import PoolerInTheWay
from tests.backends import AwaitedStore, DirectBackend
from tests.cluster.clients import play, told_s
from tests.cluster.linearizability import check
from tests.model import differential
from tests.pooler import kinds_of_pooler, new_role, pooler_of
from tests.postgres import shared_server
from tests.requests import acquire, create, listen, promise_of, settle
from tests.seeds import chosen_seed

SEED = chosen_seed()
asyncpg: Any = importlib.import_module("asyncpg")  # it has no types
COUNT = int(os.environ.get("HOLDFAST_POOLED_OPERATIONS", "300"))
SESSIONS = 2


class Pooled:
    """The URLs of one database: through the pooler, and the server itself."""

    def __init__(self, pooler: str, role: str) -> None:
        self.plain = pooler
        self.direct = shared_server().url().replace("holdfast@", f"{role}@")
        self.deaf = f"{pooler}&prepared=off"
        self.url = f"{self.deaf}&listen={quote(self.direct, safe='')}"


@pytest.fixture(params=kinds_of_pooler())
def pooled(request: pytest.FixtureRequest) -> Iterator[Pooled]:
    role = new_role()
    with pooler_of(request.param, role, SESSIONS) as url:
        yield Pooled(url, role)


@pytest.fixture
async def url(pooled: Pooled) -> str:
    return pooled.url


async def connect(url: str) -> Any:
    return await asyncpg.connect(url, statement_cache_size=0)


async def test_our_pooler_forgives_nothing() -> None:
    """What one client leaves in a session, another finds; and the next transaction is in another session."""
    role = new_role()
    with pooler_of("ours", role, SESSIONS) as url:
        first, second = await connect(url), await connect(url)
        for _ in range(SESSIONS):
            await first.execute("SET lock_timeout = '7s'")
        await second.execute("BEGIN")
        assert await second.fetchval("SHOW lock_timeout") == "7s"
        await second.execute("ROLLBACK")
        await first.execute("PREPARE mine AS SELECT 1")
        with pytest.raises(asyncpg.PostgresError, match="does not exist"):
            await first.execute("EXECUTE mine")
        await first.close()
        await second.close()


@pytest.mark.slow
def test_the_rules_hold_through_a_pooler(pooled: Pooled) -> None:
    """The differential test: the oracle and a node's work behind the pooler, reply by reply."""
    print(f"HOLDFAST_SEED={SEED}")
    backend = DirectBackend("memory")
    backend._store = AwaitedStore(PostgresStore(pooled.url))  # pyright: ignore[reportPrivateUsage]
    backend._store.open()  # pyright: ignore[reportPrivateUsage]
    report = differential.run(count=COUNT, seed=SEED, backends={"pooled": backend}, snap_every=5)
    assert report.count >= COUNT
    backend.close()


async def test_three_nodes_that_share_two_sessions_are_linearizable(nodes: list[Node]) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    histories = await play(nodes, SEED, rounds=6)
    results = Counter(check(history) for history in histories.values())
    assert results == {"linearizable": len(histories)}, f"seed {SEED}"


async def test_a_worker_at_another_node_hears_of_work_and_listeners_are_told(nodes: list[Node]) -> None:
    here, there, _ = nodes
    mailbox = there.connect("g", "w")
    await here.request([create("t", target="poll://any@g")])
    [message] = await asyncio.wait_for(mailbox.receive(), told_s)
    assert isinstance(message, Execute)
    await here.request([create("p"), listen("p", "poll://any@g")])
    await here.request([settle("p", "x")])
    [told] = await asyncio.wait_for(mailbox.receive(), told_s)
    assert isinstance(told, Unblock)


def cluster_of(node: Node) -> cluster.Cluster:
    found: cluster.Cluster = vars(node)["_cluster"]
    return found


async def test_nodes_without_a_way_to_listen_look_often(
    pooled: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "look_deaf_s", 0.1)
    here, there = Node(PostgresStore(pooled.deaf)), Node(PostgresStore(pooled.deaf))
    async with there:
        await here.start()
        mailbox = there.connect("g", "w")
        [reply] = await here.request([create("t", target="poll://any@g")])
        [message] = await asyncio.wait_for(mailbox.receive(), told_s)
        assert isinstance(message, Execute)
        assert cluster_of(there).is_deaf
        due = promise_of(reply).created_at + 300
        await here.request([create("timer", due, timer="true"), listen("timer", "poll://any@h")])
        await here.stop()
        other = there.connect("h", "w")
        [told] = await asyncio.wait_for(other.receive(), told_s)
        assert isinstance(told, Unblock)


@pytest.mark.parametrize("can_listen", [True, False])
async def test_nothing_is_left_in_any_session(can_listen: bool, pooled: Pooled) -> None:
    url = pooled.url if can_listen else pooled.deaf
    async with Node(PostgresStore(url)) as one, Node(PostgresStore(url)) as two:
        for number in range(12):
            names = [f"{number}.{index}" for index in range(4)]
            await asyncio.gather(
                *(node.request([create(name, target="poll://any@g"), acquire(name)]) for name in names
                  for node in (one, two))
            )  # fmt: skip
        clients = [await connect(pooled.plain) for _ in range(SESSIONS)]
        for client in clients:  # each in a session of its own, because all are open at once
            await client.execute("BEGIN")
        found = [await client.fetchrow(_STATE) for client in clients]
        for client in clients:
            await client.execute("ROLLBACK")
            await client.close()
    assert len({row["pid"] for row in found}) == SESSIONS
    assert {tuple(row)[1:] for row in found} == {("on", "on", "0", "0", 0, 0)}


_STATE = """
    SELECT pg_backend_pid() AS pid, current_setting('synchronous_commit'), current_setting('enable_seqscan'),
           current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
           (SELECT count(*) FROM pg_prepared_statements WHERE name <> ''),
           (SELECT count(*) FROM pg_listening_channels())
"""


async def test_a_url_that_hides_the_pooler_is_refused_with_what_to_do(pooled: Pooled) -> None:
    with pytest.raises(PoolerInTheWay, match=r"prepared=off.*HF2009"):
        await PostgresStore(pooled.plain).open()


async def test_an_app_works_behind_a_pooler(pooled: Pooled) -> None:
    app = App(pooled.url)

    @app.workflow
    async def add_up(numbers: list[int]) -> int:
        total = 0
        for number in numbers:
            total = await run(plus, total, number)
        return total

    async with app:
        handles = [app.start(add_up, [1, 2, index], id=f"sum-{index}") for index in range(10)]
        assert [await handle for handle in handles] == [3 + index for index in range(10)]


def plus(total: int, number: int) -> int:
    return total + number
