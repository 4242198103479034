"""A server that is killed under load and comes back: the client goes on, and what it was told is true."""

import asyncio
from pathlib import Path

from holdfast.client import ask, expect
from holdfast.client.http import HttpClient
from holdfast.protocol.messages import Execute
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import PromiseCreate, PromiseGet
from tests.processes import Server

late = 2**53 - 1


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    progress = asyncio.Semaphore(0)
    stop = asyncio.Event()

    async def load(client: HttpClient, name: str) -> None:
        number = 0
        while not stop.is_set():
            promise_id = f"{name}-{number}"
            [reply] = await client.request([ask(PromiseCreate(promise_id, late))])
            assert expect(reply, PromiseReply).promise.id == promise_id
            acknowledged.append(promise_id)
            progress.release()
            number += 1

    with Server(tmp_path) as server:
        async with HttpClient([server.url]) as client:
            callers = [asyncio.create_task(load(client, f"caller{n}")) for n in range(16)]
            for _ in range(2):
                for _ in range(500):
                    await progress.acquire()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            for _ in range(500):
                await progress.acquire()
            stop.set()
            await asyncio.gather(*callers)
            replies = await client.request([ask(PromiseGet(promise_id)) for promise_id in acknowledged])
    assert {reply.status for reply in replies} == {200}


async def test_a_stream_finds_the_server_that_came_back(tmp_path: Path) -> None:
    tags = {"resonate:target": "poll://any@group"}
    with Server(tmp_path) as server:
        async with HttpClient([server.url]) as client, client.messages("group", "me") as messages:
            for name in ("before", "after"):
                await client.request([ask(PromiseCreate(name, late, tags=tags))])
                found = ""
                while found != name:
                    message = await anext(messages)
                    assert isinstance(message, Execute)
                    found = message.task.id
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
