"""Three nodes on one PostgreSQL: what they do together is what one would have done."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import App
from holdfast.client.http import HttpClient
from holdfast.engine import WorkingSet, tasks
from holdfast.host import slots
from holdfast.node import Node, cluster
from holdfast.node.message_router import WorkerMailbox
from holdfast.protocol.errors import ClaimLost, TaskMissing
from holdfast.protocol.messages import Execute, Message, Unblock
from holdfast.protocol.records import Task
from holdfast.protocol.requests import Request, ScheduleCreate, ScheduleDelete, TaskClaim
from holdfast.server import Settings, running
from holdfast.store import postgres_statements as sql
from holdfast.store.migrations import migrations
from holdfast.store.postgres import PostgresStore
from tests.cluster.clients import Asked, play, told_s
from tests.cluster.linearizability import Operation, check
from tests.cluster.raw_client import RawClient
from tests.counts import count_of, rest_slow
from tests.postgres import PostgresServer, execute
from tests.requests import acquire, ask, ask_before_due, create, listen, promise_of, settle
from tests.seeds import chosen_seed
from tests.server.http import Connection
from tests.server.process import start_process

ROUNDS = count_of("HOLDFAST_HISTORY_ROUNDS", quick=3, full=17)  # of three promises each
EACH = int(os.environ.get("HOLDFAST_HISTORY_EACH", "133"))  # a caller's operations in a round
SHORT_ROUNDS = max(ROUNDS, 25)
LATEST = migrations("postgres")[-1][0]
SEED = chosen_seed()


def results_of(histories: dict[str, list[Operation]]) -> Counter[str]:
    return Counter(check(history) for history in histories.values())


@pytest.mark.sized
async def test_what_nine_callers_see_through_three_nodes_is_linearizable(nodes: list[Node]) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    histories = await play(nodes, SEED, rounds=ROUNDS, each=EACH)
    seen = Counter(
        (operation.kind, operation.result[0] if operation.result else 503)
        for history in histories.values()
        for operation in history
    )
    assert results_of(histories) == {"linearizable": len(histories)}, f"seed {SEED}"
    assert sum(map(len, histories.values())) == ROUNDS * 9 * EACH
    for cell in [("acquire", 200), ("acquire", 409), ("release", 200), ("release", 409), ("fulfil", 200)]:
        assert seen[cell] >= ROUNDS // 5, f"{cell} was hardly seen: {seen}"


async def test_three_kinds_of_clients_on_three_nodes_agree(url: str) -> None:
    """An embedded node, our client over HTTP, and plain JSON over HTTP; the servers are processes."""
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(Node(PostgresStore(url)))
        servers = [await start_process(store=url) for _ in range(2)]
        try:
            client = await stack.enter_async_context(HttpClient([servers[0].url]))
            raw = [RawClient(await Connection.open(servers[1].url)) for _ in range(2)]
            for each in raw:
                stack.push_async_callback(each.close)
            everybody: list[Asked] = [embedded, embedded, client, client, *raw]
            histories = await play(everybody, SEED, rounds=SHORT_ROUNDS, callers=1)
        finally:
            for server in servers:
                await server.stop()
    assert results_of(histories) == {"linearizable": len(histories)}, f"seed {SEED}"


def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCK", "LOCK_AT_ONCE", "LOCK_AWAITING", "LOCK_AWAITING_AT_ONCE"):
        statement = getattr(sql, name).replace(" FOR UPDATE NOWAIT", "").replace(" FOR UPDATE", "")
        monkeypatch.setattr(sql, name, statement)


def without_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def held_task(task_id: str, version: int, ws: WorkingSet, now: int) -> Task:
        task = ws.task(task_id)
        if task is None:
            raise TaskMissing(task_id)
        if task.state != "acquired":
            raise ClaimLost("not acquired")
        return task

    monkeypatch.setattr(tasks, "held_task", held_task)


@pytest.mark.parametrize("plant", rest_slow([without_locks, without_versions], quick=1))
async def test_a_planted_fault_is_refuted(
    nodes: list[Node],
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    plant(monkeypatch)
    histories = await play(nodes, 5, rounds=SHORT_ROUNDS)
    assert results_of(histories)["refuted"] > 0


async def test_a_promise_created_by_everybody_at_once_is_created_once(nodes: list[Node]) -> None:
    for number in range(20):
        replies = await asyncio.gather(
            *(node.request([create(f"p{number}", data=f"{index}")]) for index, node in enumerate(nodes))
        )
        assert len({promise_of(reply).param.data for [reply] in replies}) == 1


async def test_groups_that_create_the_same_ids_in_other_orders_all_succeed(nodes: list[Node]) -> None:
    chance = random.Random(1)
    for number in range(10):
        names = [f"x{number}-{index}" for index in range(30)]
        asked = [node.request([create(name) for name in chance.sample(names, 30)]) for node in nodes * 3]
        for replies in await asyncio.gather(*asked):
            assert {reply.status for reply in replies} == {200}


async def test_a_task_is_claimed_by_one_node_only(nodes: list[Node]) -> None:
    await nodes[0].request([create(f"t{index}", target="poll://any@g") for index in range(300)])
    claimed: list[str] = []

    async def worker(node: Node, pid: str) -> None:
        while True:
            [reply] = await node.request([ask(TaskClaim(["g"], 7, pid, 60_000))])
            if not reply.data.tasks:  # type: ignore[union-attr]
                return
            claimed.extend(each.task.id for each in reply.data.tasks)  # type: ignore[union-attr]

    await asyncio.gather(*(worker(node, f"w{i}{j}") for i, node in enumerate(nodes) for j in range(3)))
    assert sorted(claimed) == sorted(f"t{index}" for index in range(300))


async def test_a_worker_at_another_node_hears_of_work_from_the_node_that_has_it(nodes: list[Node]) -> None:
    here, there, _ = nodes
    mailbox = there.connect("g", "w")
    for index in range(20):
        await here.request([create(f"t{index}", target="poll://any@g")])
        heard: set[str] = set()
        async with asyncio.timeout(told_s):
            while f"t{index}" not in heard:  # those before it may be offered again: nobody takes them
                heard |= {
                    message.task.id for message in await mailbox.receive() if isinstance(message, Execute)
                }
        assert heard <= {f"t{number}" for number in range(index + 1)}


async def test_a_worker_at_another_node_is_told_in_its_own_words(nodes: list[Node]) -> None:
    here, there, _ = nodes
    mailbox = there.connect("g", "w")
    old = [replace(request, dialect="B") for request in (create("t", target="poll://any@g"), create("p"))]
    await here.request([*old, replace(listen("p", "poll://any@g"), dialect="B")])
    await here.request([settle("p")])
    heard: list[Message] = []
    async with asyncio.timeout(60):
        while len(heard) < 2:
            heard += await mailbox.receive()
    assert {(type(message), message.dialect) for message in heard} == {(Execute, "B"), (Unblock, "B")}


async def test_a_listener_at_another_node_is_told_once(nodes: list[Node]) -> None:
    here, there, third = nodes
    mailbox = there.connect("me", "1")
    other = third.connect("me", "2")
    await here.request([create("p"), listen("p", "poll://uni@me/1")])
    await here.request([settle("p", "x" * 50_000)])
    [message] = await asyncio.wait_for(mailbox.receive(), told_s)
    assert isinstance(message, Unblock)
    assert message.promise.value.data == "x" * 50_000
    assert not len(other)


async def test_a_listener_that_connects_late_is_told_by_the_node_that_knows(nodes: list[Node]) -> None:
    here, there, _ = nodes
    await here.request([create("p"), listen("p", "poll://uni@me/1")])
    await here.request([settle("p", "x")])
    mailbox = there.connect("me", "1")
    # It may come twice: the call by which `here` told everybody may arrive after the listener has connected,
    # and again because of that. Whoever awaits a promise is told what it is, however often (`call doubled` in
    # the simulator).
    messages = await asyncio.wait_for(mailbox.receive(), told_s)
    assert {message.promise.id for message in messages if isinstance(message, Unblock)} == {"p"}


async def test_a_timer_is_fired_once_whoever_fires_it(nodes: list[Node]) -> None:
    mailboxes = [node.connect("me", "1") for node in nodes]

    def fifty(mark: str, due: int) -> list[Request]:
        names = [f"{mark}{index}" for index in range(50)]
        made = [create(name, due, timer="true") for name in names]
        return made + [listen(name, "poll://any@me") for name in names]

    mark = await ask_before_due(nodes[0], fifty)
    heard: list[str] = []
    async with asyncio.timeout(60):
        while len(heard) < 50:
            await asyncio.sleep(0.05)
            heard += [message.promise.id for mailbox in mailboxes for message in mailbox.take()]  # type: ignore[union-attr]
    await asyncio.sleep(0.3)
    heard += [message.promise.id for mailbox in mailboxes for message in mailbox.take()]  # type: ignore[union-attr]
    assert sorted(heard) == sorted(f"{mark}{index}" for index in range(50))


async def test_what_a_dead_node_left_is_swept_by_another_at_its_instant(url: str) -> None:
    """The node that made the timer is gone; another was told of it and looks then."""
    async with Node(PostgresStore(url)) as survivor:
        mailbox = survivor.connect("me", "1")
        doomed = Node(PostgresStore(url))
        await doomed.start()

        def a_timer(mark: str, due: int) -> list[Request]:
            name = f"{mark}timer"
            return [create(name, due, timer="true"), listen(name, "poll://any@me")]

        await ask_before_due(doomed, a_timer)
        await asyncio.sleep(0.1)
        await doomed.stop()
        [message] = await asyncio.wait_for(mailbox.receive(), told_s)
        assert isinstance(message, Unblock)


async def test_a_lease_of_a_dead_node_is_taken_over_at_its_end(url: str) -> None:
    async with Node(PostgresStore(url)) as survivor:
        mailbox = survivor.connect("g", "w")
        doomed = Node(PostgresStore(url))
        await doomed.start()
        await doomed.request([create("t", target="poll://any@g")])
        await asyncio.wait_for(mailbox.receive(), told_s)
        [reply] = await doomed.request([acquire("t", ttl=800)])
        await asyncio.sleep(0.1)
        await doomed.stop()
        [message] = await asyncio.wait_for(mailbox.receive(), told_s)
        assert reply.status == 200
        assert isinstance(message, Execute)


class Swallowing:
    """A bus behind a pooler: whatever is said is lost."""

    text_bytes_max = 8_000

    async def start(self, hear: Any, missed: Any) -> None: ...

    async def say(self, texts: Any) -> None: ...

    def reconnect(self) -> None: ...

    async def stop(self) -> None: ...


async def test_nodes_that_cannot_hear_each_other_look_often(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "look_deaf_s", 0.1)
    stores = [PostgresStore(url), PostgresStore(url)]
    for store in stores:
        store.bus = Swallowing()
    async with Node(stores[0]) as here, Node(stores[1]) as there:
        mailbox = there.connect("g", "w")
        [reply] = await here.request([create("t", target="poll://any@g")])
        [message] = await asyncio.wait_for(mailbox.receive(), told_s)
        assert isinstance(message, Execute)
        due = promise_of(reply).created_at + 300
        await here.request([create("timer", due, timer="true"), listen("timer", "poll://any@h")])
        await here.stop()
        other = there.connect("h", "w")
        [message] = await asyncio.wait_for(other.receive(), told_s)
        assert isinstance(message, Unblock)


async def test_skewed_node_clocks_change_nothing(url: str) -> None:
    def skewed(by_ms: int) -> Node:
        return Node(PostgresStore(url), clock=lambda: time.time_ns() // 1_000_000 + by_ms)

    async with skewed(-3_600_000) as behind, skewed(3_600_000) as ahead:
        mailbox = ahead.connect("me", "1")
        instants = [time.time_ns() // 1_000_000]
        for index in range(10):
            [reply] = await (behind, ahead)[index % 2].request([create(f"p{index}")])
            instants.append(promise_of(reply).created_at)
        instants.append(time.time_ns() // 1_000_000)
        assert instants == sorted(instants)
        assert abs(ahead.now() - behind.now()) < 60_000, "what workers beside them go by"
        due = instants[-1] + 500
        await ahead.request([create("t", due, timer="true"), listen("t", "poll://any@me")])
        await asyncio.wait_for(mailbox.receive(), told_s)
        assert time.time_ns() // 1_000_000 >= due


async def test_setting_the_clock_of_a_node_shows_nobody_another_time(url: str) -> None:
    off_ms = 0
    async with Node(PostgresStore(url), clock=lambda: time.time_ns() // 1_000_000 + off_ms) as node:
        for off_ms in (3_600_000, -3_600_000):
            assert abs(node.now() - time.time_ns() // 1_000_000) < 60_000, (
                "what the sleep of a workflow counts from"
            )
            await node.request([create(f"p{off_ms}")])


@pytest.mark.slow
async def test_each_occurrence_of_a_schedule_is_one_promise_whichever_nodes_are_there(
    url: str, nodes: list[Node]
) -> None:
    """All three nodes are due at the same instants; one of them leaves on the way."""
    mailboxes = [node.connect("g", f"w{index}") for index, node in enumerate(nodes)]
    tags = {"resonate:target": "poll://any@g"}
    every = ScheduleCreate("s", "@every 1s", "{{.id}}-{{.timestamp}}", 60_000, promise_tags=tags)
    [reply] = await nodes[0].request([ask(every)])
    assert reply.status == 200
    heard: set[str] = set()  # an invitation may reach several workers

    async def listen_for(count: int, listening: Sequence[WorkerMailbox]) -> None:
        async with asyncio.timeout(60):
            while len(heard) < count:
                await asyncio.sleep(0.02)
                heard.update(
                    message.task.id
                    for mailbox in listening
                    for message in mailbox.take()
                    if isinstance(message, Execute)
                )

    await listen_for(3, mailboxes)
    await nodes[0].stop()
    await listen_for(6, mailboxes[1:])
    await nodes[1].request([ask(ScheduleDelete("s"))])
    stored = execute(url, "SELECT id FROM promises ORDER BY id").split()
    instants = [int(name.removeprefix("s-")) for name in stored]
    assert [after - before for before, after in pairwise(instants)] == [1_000] * (len(stored) - 1)
    assert heard <= set(stored)


async def test_nodes_that_start_at_once_make_one_schema(url: str) -> None:
    async with AsyncExitStack() as stack:
        nodes = await asyncio.gather(*(stack.enter_async_context(Node(PostgresStore(url))) for _ in range(6)))
        await nodes[3].request([create("a")])
    assert execute(url, "SELECT version FROM schema_version; SELECT count(*) FROM clock") == f"{LATEST}\n1"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["workflows", "tasks", "limited tasks"])
async def test_an_idle_cluster_asks_the_database_next_to_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nodes and ten workers that have been idle for a while, twenty times as fast as usual."""
    monkeypatch.setattr(cluster, "look_s", cluster.look_s / 20)
    monkeypatch.setattr(slots, "poll_idle_s", slots.poll_idle_s / 20)
    monkeypatch.setattr(slots, "poll_s", slots.poll_idle_s)
    server = PostgresServer(log_statement="all").create()
    try:
        async with AsyncExitStack() as stack:
            settings = Settings(port=0, store=server.url())
            nodes = [await stack.enter_async_context(running(settings)) for _ in range(3)]
            for index in range(10):
                await stack.enter_async_context(idle_worker(nodes[index % 3].url, kind))
            await asyncio.sleep(1)
            before = server.log.read_text()
            await asyncio.sleep(9)
            asked = len(re.findall("LOG:  (?:statement|execute)", server.log.read_text()[len(before) :]))
    finally:
        server.remove()
    in_a_minute = asked / (9 * 20) * 60
    print(f"{in_a_minute:.0f} statements a minute")
    assert 3 < in_a_minute < 60


def idle_worker(url: str, kind: str) -> App:
    app = App(url)

    async def work() -> None: ...

    if kind == "workflows":
        app.workflow(work)
    else:
        app.task(work)
    if kind == "limited tasks":
        app.queue("default", concurrency=10)
    return app
