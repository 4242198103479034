"""`holdfast serve --processes N`: several nodes behind one port, and a supervisor that keeps them there."""

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from holdfast.server import Settings, serve
from holdfast.server.errors import NeedsPostgres
from tests.postgres import database_url
from tests.processes import holdfast
from tests.server.http import Connection, connected, create, envelope, get, streaming, until
from tests.server.process import ServerProcess, server_process

patience_s = 60.0


@asynccontextmanager
async def several(count: int = 3) -> AsyncGenerator[ServerProcess]:
    async with server_process(store=database_url(), processes=count, log_level="info") as server:
        yield server


def children(server: ServerProcess) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()}


async def process_of(connection: Connection) -> str:
    """Which process answers on this connection."""
    answer = await connection.request("GET", "/metrics")
    found = re.search(r'holdfast_http_connections\{process="(\d+)"\}', answer.body.decode())
    assert found, answer.body
    return found[1]


async def until_there_are(server: ServerProcess, count: int, without: set[int]) -> set[int]:
    """Wait until as many processes run, none of these among them."""
    await until(lambda: len(children(server)) == count and not children(server) & without)
    return children(server)


async def create_on(url: str, promise_id: str) -> int:
    """As a client that comes once, and again if the connection is closed before it is answered."""
    body = json.dumps(envelope("promise.create", create(promise_id))).encode()
    async with asyncio.timeout(patience_s):
        while True:
            try:
                async with connected(url) as connection:
                    return (await connection.request("POST", "/", body)).status
            except (OSError, EOFError, AssertionError):
                await asyncio.sleep(0.02)


async def test_connections_are_spread_evenly_over_the_processes() -> None:
    async with several() as server, AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(server.url)) for _ in range(9)]
        answered_by = Counter([await process_of(connection) for connection in connections])
    assert answered_by == {"1": 3, "2": 3, "3": 3}


async def test_what_one_process_was_told_the_others_know() -> None:
    async with several() as server, AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(server.url)) for _ in range(3)]
        body = json.dumps(envelope("promise.create", create("p"))).encode()
        assert (await connections[0].request("POST", "/", body)).status == 200
        asked = json.dumps(envelope("promise.get", {"id": "p"})).encode()
        for connection in connections:
            assert (await connection.request("POST", "/", asked)).status == 200


@pytest.mark.slow
async def test_a_killed_process_is_started_again_and_nothing_answered_is_lost() -> None:
    async with several() as server:
        answered: list[str] = []
        stop = asyncio.Event()

        async def write(name: str) -> None:
            number = 0
            while not stop.is_set():
                promise_id = f"{name}-{number}"
                assert await create_on(server.url, promise_id) == 200
                answered.append(promise_id)
                number += 1

        writers = [asyncio.create_task(write(f"w{number}")) for number in range(6)]
        before = children(server)
        assert len(before) == 3
        for victim in sorted(before)[:2]:
            wanted = len(answered) + 50
            os.kill(victim, signal.SIGKILL)
            await until_there_are(server, 3, {victim})
            async with asyncio.timeout(patience_s):
                while len(answered) < wanted:  # noqa: ASYNC110  # the writers go on
                    await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*writers)
        async with connected(server.url) as connection:
            for promise_id in answered:
                body = json.dumps(envelope("promise.get", {"id": promise_id})).encode()
                assert (await connection.request("POST", "/", body)).status == 200
        code, log = await server.stop()
    assert code == 0
    told = [json.loads(line) for line in log.splitlines()]
    deaths = [line for line in told if line["message"] == "a node process has ended and is started again"]
    assert [line["pid"] for line in deaths] == sorted(before)[:2]
    assert {(line["level"], line["reason"]) for line in deaths} == {("error", "SIGKILL")}


async def test_stopping_drains_one_process_after_the_other() -> None:
    async with several() as server:
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(streaming(server.url, "g", f"w{number}"))
                for number in range(3)
            ]
            stopping = asyncio.create_task(server.stop())
            for stream in streams:
                assert await stream.message() is None  # a clean end, so its worker connects elsewhere
        code, log = await stopping
    assert code == 0
    said = [
        (line["message"], line["node_process"])
        for line in map(json.loads, log.splitlines())
        if line["message"] in ("stopping a node process", "node process stopped")
    ]
    assert said == [
        (message, number)
        for number in (1, 2, 3)
        for message in ("stopping a node process", "node process stopped")
    ]


@pytest.mark.slow
async def test_sighup_replaces_every_process_while_requests_go_on() -> None:
    async with several(2) as server:
        before = children(server)
        server.process.send_signal(signal.SIGHUP)
        replaced = asyncio.create_task(until_there_are(server, 2, before))
        number = 0
        while not replaced.done():
            assert await create_on(server.url, f"p{number}") == 200
            number += 1
        assert not before & replaced.result()
        assert await create_on(server.url, "last") == 200
        code, log = await server.stop()
    assert code == 0
    assert "has ended and is started again" not in log  # they were asked to


@pytest.mark.slow
async def test_a_process_told_to_stop_by_somebody_else_ends_in_order_and_is_started_again() -> None:
    async with several(2) as server:
        async with streaming(server.url, "g", "w") as stream:
            before = children(server)
            for pid in before:
                os.kill(pid, signal.SIGTERM)
            assert await stream.message() is None
        await until_there_are(server, 2, before)
        assert await create_on(server.url, "p") == 200
        _, log = await server.stop()
    reasons = [
        line["reason"]
        for line in map(json.loads, log.splitlines())
        if line["message"] == "a node process has ended and is started again"
    ]
    assert reasons == ["exit status 0"] * 2


async def test_no_process_outlives_its_supervisor() -> None:
    async with several(2) as server:
        left = children(server)
        await server.kill()
        await until(lambda: not any(map(_runs, left)))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_a_ticket_of_one_process_is_good_at_the_others() -> None:
    """They sign with one key, though none was set."""
    token = {"authorization": "Bearer aaaaaaaaaaaa"}
    settings = {"store": database_url(), "processes": 3, "tokens": ["aaaaaaaaaaaa"]}
    async with server_process(**settings) as server, AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(server.url)) for _ in range(3)]
        body = json.dumps({"path": "/v1/changes"}).encode()
        made = await connections[0].request("POST", "/v1/tickets", body, token)
        ticket = json.loads(made.body)["ticket"]
        for connection in connections:
            await connection.send(
                f"GET /v1/changes?ticket={ticket} HTTP/1.1\r\nhost: {connection.host}\r\n"
                "accept: text/event-stream\r\n\r\n".encode()
            )
            status, _ = await connection.head()
            assert status == 200


@pytest.mark.parametrize("store", ["memory:", "sqlite:///holdfast.db"])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_store_of_one_node_is_refused_and_told_what_to_do_instead(store: str, processes: int) -> None:
    with pytest.raises(NeedsPostgres, match=r"Leave processes out, and run more workers .* or set store to"):
        serve(Settings(port=0, store=store, processes=processes))


def test_a_database_that_is_not_there_ends_the_command_with_a_reason(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    done = holdfast("serve", "--store", url, "--processes", "2", "--port", "0", cwd=tmp_path)
    assert done.code != 0
    assert "cannot be opened" in done.err
    assert "HF3206" in done.err
    assert "ready" not in done.out


async def test_zero_is_one_process_for_each_core() -> None:
    async with several(0) as server:
        assert len(children(server)) == len(os.sched_getaffinity(server.pid))
        assert (await get(server.url, "/health")).status == 200
