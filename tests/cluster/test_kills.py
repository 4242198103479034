"""kill -9 of nodes and of PostgreSQL itself, under load: nothing acknowledged is lost or half applied."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.node import Node
from holdfast.protocol.requests import Request
from holdfast.store.postgres import PostgresStore
from tests.cluster.clients import play
from tests.cluster.linearizability import check as check_history
from tests.crash.acknowledged import check_acknowledged
from tests.postgres import PostgresServer, execute
from tests.requests import create, get, settle
from tests.seeds import chosen_seed

NODE_KILLS = int(os.environ.get("HOLDFAST_KILLS", "8"))
SERVER_KILLS = int(os.environ.get("HOLDFAST_SERVER_KILLS", "2"))
SEED = chosen_seed()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True).create()
    yield server
    server.remove()


class Child:
    """A node in a process of its own, and what it acknowledged."""

    def __init__(self, url: str, run: str) -> None:
        command = [sys.executable, "-m", "tests.crash.committing_child", url, run, "--insist"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        self.heard: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.heard.append(line.strip())

    def hear(self, lines: int, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while len(self.heard) < lines:
            assert time.monotonic() < until, f"only {len(self.heard)} of {lines} lines"
            assert self._process.poll() is None, "the node ended by itself"
            time.sleep(0.005)

    def kill(self) -> list[str]:
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL, "the node ended by itself"
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self.heard


def check(url: str, acknowledged: list[str]) -> None:
    listed = execute(url, "SELECT id || ' ' || state FROM promises")
    promises = dict(line.split() for line in listed.splitlines())
    tasks = dict(line.split() for line in execute(url, "SELECT id || ' ' || state FROM tasks").splitlines())
    check_acknowledged(acknowledged, promises, tasks)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_nodes_are_killed(server: PostgresServer) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    acknowledged: list[str] = []
    for run in range(0, NODE_KILLS, 2):
        pair = [Child(server.url(), f"r{run + index}") for index in range(2)]
        for child in pair:
            child.hear(chance.randrange(20, 200))
            acknowledged += child.kill()
    check(server.url(), acknowledged)
    assert len(acknowledged) >= 20 * NODE_KILLS


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_postgresql_is_killed(server: PostgresServer) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    chance = random.Random(SEED)
    child = Child(server.url(), "r")
    killed = 0
    for _ in range(SERVER_KILLS):
        child.hear(len(child.heard) + chance.randrange(50, 400))
        killed += server.kill() > 3
        server.start()
        child.hear(len(child.heard) + 20)  # the node is connected again by itself
    acknowledged = child.kill()
    check(server.url(), acknowledged)
    assert killed == SERVER_KILLS, "the server was killed while it did nothing"


class CountingNode:
    """Knows how many requests it has not answered yet."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.in_flight = 0

    async def request(self, requests: Sequence[Request]) -> Sequence[Any]:
        self.in_flight += 1
        try:
            return await self._node.request(requests)
        finally:
            self.in_flight -= 1


@pytest.mark.slow
async def test_histories_stay_linearizable_while_postgresql_is_killed(server: PostgresServer) -> None:
    """Three nodes, nine callers. What a node could not know counts as open."""
    print(f"HOLDFAST_SEED={SEED}")
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(Node(PostgresStore(server.url()))) for _ in range(3)]
        asked, is_over = [CountingNode(node) for node in nodes], asyncio.Event()
        playing = asyncio.ensure_future(play(asked, SEED, rounds=30, until=is_over))
        kills: list[float] = []
        for _ in range(SERVER_KILLS):
            await asyncio.sleep(0.4)
            async with asyncio.timeout(60):
                while sum(node.in_flight for node in asked) < 3:  # noqa: ASYNC110 (nothing tells us)
                    await asyncio.sleep(0)
            kills.append(time.monotonic())
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        is_over.set()
        histories = await playing
    results = Counter(check_history(history) for history in histories.values())
    assert results == {"linearizable": len(histories)}, f"seed {SEED}"
    operations = [operation for history in histories.values() for operation in history]
    for kill in kills:
        hit = sum(operation.asked_at < kill < operation.answered_at for operation in operations)
        assert hit >= 3, "the server was killed while nobody asked for anything"


async def test_a_node_that_stands_still_in_a_transaction_does_not_stop_the_others(
    server: PostgresServer,
) -> None:
    """SIGSTOP in mid-commit: what it holds is taken from it after a while, and it finds out."""
    async with Node(PostgresStore(server.url())) as node:
        await node.request([create("a"), create("b")])
        command = [sys.executable, "-m", "tests.cluster.standing_child", server.url(), "a", "b"]
        child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert child.stdout is not None
        try:
            assert await child.stdout.readline() == b"held\n"
            [reply] = await node.request([settle("a")])
            assert reply.status == 200, "it waited, but not until it was refused"
            child.send_signal(signal.SIGCONT)
            found = await asyncio.wait_for(child.stdout.read(), 60)
            assert found == b"awake\nfound resolved\n"
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_primary_dies_and_its_standby_takes_over() -> None:
    primary = PostgresServer(durable=True, synchronous_standby_names="*", wal_level="replica").create()
    standby = PostgresServer(durable=True)
    try:
        primary.replicate_to(standby)
        both = f"{primary.folder},{standby.folder}"
        url = primary.url(host=both, port="5432,5432", target_session_attrs="read-write")
        child = Child(url, "r")
        child.hear(400)
        assert primary.kill() > 3
        standby.promote()
        child.hear(len(child.heard) + 50)  # it found the new primary by itself
        check(standby.url(), child.kill())
    finally:
        primary.remove()
        standby.remove()


@pytest.mark.slow
async def test_a_node_survives_a_restart_of_the_server_without_a_word_to_its_callers(
    server: PostgresServer,
) -> None:
    async with Node(PostgresStore(server.url())) as node:
        await node.request([create("a")])
        server.kill()
        await asyncio.to_thread(server.start)
        [reply] = await node.request([get("a")])
        assert reply.status == 200


@pytest.mark.slow
def test_the_tests_would_notice_a_lost_write(server: PostgresServer, tmp_path: Path) -> None:
    """A planted fault: an acknowledged row is taken out behind everybody's back."""
    child = Child(server.url(), "r")
    child.hear(50)
    acknowledged = child.kill()
    name = acknowledged[0].split()[1]
    execute(server.url(), f"DELETE FROM promises WHERE id = '{name}.a'")
    with pytest.raises(AssertionError, match="lost"):
        check(server.url(), acknowledged)
