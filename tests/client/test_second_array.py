"""When many executions write, a second array is sent behind the first, and nothing gets out of order."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from holdfast.client import ask, expect
from holdfast.client.errors import BadReply, ClientClosed, OutcomeUnknown
from holdfast.client.http import HttpClient
from holdfast.client.overlap import Overlap
from holdfast.protocol.records import Value
from holdfast.protocol.replies import AcquireReply, FenceReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    CreateAction,
    PromiseCreate,
    PromiseGet,
    PromiseSettle,
    RequestData,
    SettleAction,
    TaskAcquire,
    TaskFence,
    TaskFulfill,
)
from tests.client.weather import refusal, reply

late = 2**53 - 1
target = {"resonate:target": "poll://any@group"}
done = 409  # any answer that is final


def fence(task_id: str, number: int = 1) -> TaskFence:
    return TaskFence(task_id, 1, CreateAction(PromiseCreate(f"{task_id}:{number}", late)))


def fulfil(task_id: str) -> TaskFulfill:
    return TaskFulfill(task_id, 1, SettleAction(PromiseSettle(task_id, "resolved")))


class Script:
    """A node that says what it is told to, when it is told to."""

    def __init__(self) -> None:
        self.url = ""
        self.arrays: list[list[str]] = []  # the ids in each that came, over all connections
        self._came = asyncio.Condition()
        self._writer: asyncio.StreamWriter | None = None
        self._unanswered: list[list[dict[str, Any]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer, self._unanswered = writer, []
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line.split()[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")
                )
                envelopes = json.loads(await reader.readexactly(size))
                async with self._came:
                    self._unanswered.append(envelopes)
                    self.arrays.append([envelope["data"]["id"] for envelope in envelopes])
                    self._came.notify_all()
        writer.close()

    async def received(self, count: int) -> None:
        """Wait until so many arrays have come."""
        async with asyncio.timeout(60), self._came:
            await self._came.wait_for(lambda: len(self.arrays) >= count)

    def answer(self, status: int = done, sentence: str = "no") -> None:
        """To the first array that was not answered."""
        replies = [
            {
                "kind": envelope["kind"],
                "head": {"corrId": envelope["head"]["corrId"], "status": status, "version": "2026-04-01"},
                "data": sentence,
            }
            for envelope in self._unanswered.pop(0)
        ]
        self.say(reply(200, json.dumps(replies).encode()))

    def refuse_as_too_large(self) -> None:
        """The first array that was not answered."""
        del self._unanswered[0]
        self.say(reply(413, refusal(413, "too large [HF3004]")))

    def say(self, response: bytes) -> None:
        assert self._writer is not None
        self._writer.write(response)

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.transport.abort()


@asynccontextmanager
async def scripted() -> AsyncGenerator[tuple[Script, HttpClient]]:
    script = Script()
    listener = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with HttpClient([script.url], overlap=lambda: Overlap(requests_min=4, busy_min=0.0)) as client:
        yield script, client
    listener.close()


def issued(client: HttpClient, *requests: RequestData) -> "list[asyncio.Task[list[Reply]]]":
    return [asyncio.create_task(client.request([ask(request)])) for request in requests]


tasks = [f"t{number}" for number in range(8)]


async def test_many_writes_go_out_in_two_arrays_before_either_is_answered() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        assert script.arrays == [tasks[:4], tasks[4:]]
        script.answer()
        script.answer()
        assert [found.status for [found] in await asyncio.gather(*calls)] == [done] * 8


async def test_whoever_was_answered_first_need_not_wait_for_the_others() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        script.answer()
        await asyncio.gather(*calls[:4])
        assert not any(call.done() for call in calls[4:])
        more = issued(client, *(fence(task, 2) for task in tasks[:4]))
        await script.received(3)
        assert script.arrays[2] == tasks[:4]
        script.answer()
        script.answer()
        await asyncio.gather(*calls, *more)


async def test_a_few_writes_go_together() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks[:7]))
        await script.received(1)
        script.answer()
        await asyncio.gather(*calls)
        assert script.arrays == [tasks[:7]]


async def test_a_claim_with_a_write_under_way_and_whatever_came_after_it_wait() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks[:2]))
        await script.received(1)
        calls += issued(client, fence("t5"), fence("t0", 2), *map(fence, tasks[2:5]))
        await script.received(2)
        assert script.arrays == [["t0", "t1"], ["t5"]]
        script.answer()
        script.answer()
        await script.received(3)
        assert script.arrays[2] == ["t0", *tasks[2:5]]
        script.answer()
        await asyncio.gather(*calls)


async def test_other_requests_wait_for_the_answer() -> None:
    async with scripted() as (script, client):
        calls = issued(client, fence("t0"))
        await script.received(1)
        calls += issued(client, *(PromiseGet(f"p{number}") for number in range(8)), *map(fence, tasks[1:]))
        for _ in range(50):  # turns of the loop, on which the node is too
            await asyncio.sleep(0)
        assert len(script.arrays) == 1
        script.answer()
        await calls[0]
        await script.received(3)
        assert [identity for array in script.arrays[1:] for identity in array] == [
            *(f"p{number}" for number in range(8)),
            *tasks[1:],
        ]
        script.answer()
        script.answer()
        await asyncio.gather(*calls)


async def test_what_was_turned_away_comes_again_and_what_was_taken_does_not() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        script.answer(429, "full [HF1429]")
        script.answer()
        await asyncio.gather(*calls[4:])
        await script.received(3)
        assert script.arrays[2] == tasks[:4]
        script.answer()
        await asyncio.gather(*calls)


async def test_two_arrays_that_were_turned_away_come_again_in_their_order() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        script.answer(429, "full")
        script.answer(429, "full")
        await script.received(4)
        assert script.arrays[2] + script.arrays[3] == tasks
        script.answer()
        script.answer()
        await asyncio.gather(*calls)


async def test_an_array_that_was_too_large_comes_again_in_smaller_ones_and_what_was_taken_does_not() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        script.refuse_as_too_large()
        script.answer()
        await asyncio.gather(*calls[4:])
        for number in (2, 3):
            await script.received(number + 1)
            script.answer()
        assert script.arrays[2:] == [tasks[:2], tasks[2:4]]
        assert [found.status for [found] in await asyncio.gather(*calls)] == [done] * 8


async def test_nothing_overtakes_the_rest_of_what_was_too_large_for_one_array() -> None:
    async with scripted() as (script, client):
        large = [ask(PromiseCreate(f"p{number}", late, Value(None, "x" * 900_000))) for number in range(3)]
        calls = [asyncio.create_task(client.request(large)), *issued(client, *map(fence, tasks))]
        await script.received(1)
        script.answer()
        await script.received(3)
        assert script.arrays == [["p0", "p1"], ["p2"], tasks]
        script.answer()
        script.answer()
        await asyncio.gather(*calls)


async def test_a_connection_that_breaks_under_two_arrays_loses_neither() -> None:
    async with scripted() as (script, client):
        writes = [*map(fence, tasks[:3]), fulfil("t3"), *map(fence, tasks[4:7]), fulfil("t7")]
        calls = issued(client, *writes)
        await script.received(2)
        script.hang_up()
        for ended in (calls[3], calls[7]):
            with pytest.raises(OutcomeUnknown, match=r"task.fulfill.*HF4003"):
                await ended
        await script.received(3)
        assert script.arrays[2] == [*tasks[:3], *tasks[4:7]]
        script.answer()
        await asyncio.gather(*calls[:3], *calls[4:7])


async def test_an_answer_that_cannot_be_read_costs_only_those_it_was_for() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        script.say(reply(200, refusal(200, "what?")))
        for call in calls[:4]:
            with pytest.raises(BadReply, match="HF4005"):
                await call
        await script.received(3)
        assert script.arrays[2] == tasks[4:]
        script.answer()
        await asyncio.gather(*calls[4:])


async def test_closing_ends_both() -> None:
    async with scripted() as (script, client):
        calls = issued(client, *map(fence, tasks))
        await script.received(2)
        await client.close()
        for call in calls:
            with pytest.raises(ClientClosed, match="HF4004"):
                await call


async def test_a_node_takes_two_arrays_one_after_the_other(url: str) -> None:
    """A real one, on which every write builds on the one before it."""
    async with HttpClient([url], overlap=lambda: Overlap(busy_min=0.0)) as client:
        ids = [f"task{number}" for number in range(40)]
        await client.request([ask(PromiseCreate(each, late, tags=target)) for each in ids])
        acquired = await client.request([ask(TaskAcquire(each, 0, "me", 60_000)) for each in ids])
        assert {expect(found, AcquireReply).task.version for found in acquired} == {1}
        for number in range(20):
            calls = [client.request([ask(fence(each, number))]) for each in ids]
            replies = [found for [found] in await asyncio.gather(*calls)]
            assert {expect(found, FenceReply).action.head.status for found in replies} == {200}
        ended = await asyncio.gather(*(client.request([ask(fulfil(each))]) for each in ids))
        assert {found.status for [found] in ended} == {200}
        [found] = await client.request([ask(PromiseGet("task39:19"))])
        assert expect(found, PromiseReply).promise.state == "pending"
