"""Messages, from a node in this process and from one behind HTTP."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from holdfast.client import Client, ask
from holdfast.client.embedded import EmbeddedClient
from holdfast.client.errors import ClientClosed, Refused
from holdfast.client.http import HttpClient
from holdfast.client.stream import events_of
from holdfast.node import Node
from holdfast.protocol.messages import Execute, Unblock
from holdfast.protocol.requests import PromiseCreate, PromiseRegisterListener, PromiseSettle
from holdfast.server import Settings, running
from holdfast.store.memory import MemoryStore
from tests.client.weather import Weather

late = 2**53 - 1


@pytest.fixture(params=["embedded", "http"])
async def any_client(request: pytest.FixtureRequest, url: str) -> AsyncGenerator[Client]:
    if request.param == "http":
        async with HttpClient([url]) as client:
            yield client
    else:
        async with Node(MemoryStore()) as node:
            yield EmbeddedClient(node)


async def offer(client: Client, task_id: str, group: str = "group") -> None:
    tags = {"resonate:target": f"poll://any@{group}"}
    await client.request([ask(PromiseCreate(task_id, late, tags=tags))])


async def test_tasks_and_settlements_arrive(any_client: Client) -> None:
    async with any_client.messages("a group", "me/1") as messages:
        await offer(any_client, "wf", "a group")
        execute = await anext(messages)
        assert isinstance(execute, Execute)
        assert (execute.task.id, execute.task.version) == ("wf", 0)
        await any_client.request(
            [
                ask(PromiseRegisterListener("wf", "poll://uni@a group/me/1")),
                ask(PromiseSettle("wf", "resolved")),
            ]
        )
        unblock = await anext(messages)
        assert isinstance(unblock, Unblock)
        assert (unblock.promise.id, unblock.promise.state) == ("wf", "resolved")


async def test_what_was_sent_before_anybody_listened_arrives(any_client: Client) -> None:
    for n in range(5):
        await offer(any_client, f"wf{n}")
    async with any_client.messages("group", "me") as messages:
        found = [await anext(messages) for _ in range(5)]
    assert {message.task.id for message in found if isinstance(message, Execute)} == {
        f"wf{n}" for n in range(5)
    }


async def test_what_was_not_read_goes_to_another() -> None:
    async with Node(MemoryStore()) as node:
        client = EmbeddedClient(node)
        async with client.messages("group", "me") as messages:
            await offer(client, "one")
            await offer(client, "two")
            await anext(messages)
        async with client.messages("group", "you") as messages:
            message = await anext(messages)
    assert isinstance(message, Execute)
    assert message.task.id == "two"


async def test_closing_the_client_ends_its_streams(any_client: Client) -> None:
    async with any_client.messages("group", "me") as messages:
        reading = asyncio.create_task(anext(messages, None))
        await asyncio.sleep(0.05)
        await any_client.close()
        assert await reading is None
    with pytest.raises(ClientClosed):
        async with any_client.messages("group", "me"):
            pass


async def test_a_reader_may_give_up_and_come_back(any_client: Client) -> None:
    async with any_client.messages("group", "me") as messages:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(messages)
        await offer(any_client, "wf")
        assert isinstance(await anext(messages), Execute)


async def test_a_stream_that_broke_goes_on(client: HttpClient, sky: Weather) -> None:
    async with client.messages("group", "me") as messages:
        await offer(client, "one")
        await anext(messages)
        sky.break_all()
        await offer(client, "two")
        message = await anext(messages)
        assert isinstance(message, Execute)
        assert message.task.id == "two"


async def test_a_stream_that_the_server_ends_goes_on() -> None:
    async with (
        running(Settings(port=0, store="memory:", stream_s=0.2)) as server,
        HttpClient([server.url]) as client,
        client.messages("group", "me") as messages,
    ):
        for n in range(5):
            await offer(client, f"wf{n}")
            found = ""
            while found != f"wf{n}":  # what was not acquired may be offered again
                message = await anext(messages)
                assert isinstance(message, Execute)
                found = message.task.id
            await asyncio.sleep(0.1)


async def test_a_stream_that_is_not_allowed_raises() -> None:
    async with (
        running(Settings(port=0, store="memory:", tokens=("open-sesame",))) as server,
        HttpClient([server.url]) as client,
        client.messages("group", "me") as messages,
    ):
        with pytest.raises(Refused) as refusal:
            await anext(messages)
        assert refusal.value.status == 401


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
async def test_events_are_found_wherever_the_bytes_are_cut(size: int) -> None:
    text = b": hello\n\ndata: one\n\nevent: x\ndata:two\ndata: lines\n\r\ndata: three\r\n\r\nid: 4\n\n"

    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    found = [event async for events in events_of(chunks()) for event in events]
    assert found == [b"one", b"two\nlines", b"three"]


async def test_a_message_that_cannot_be_read_does_not_make_the_client_deaf() -> None:
    good = b'{"kind":"execute","head":{},"data":{"task":{"id":"t","version":1}}}'
    events = [b'{"kind":"execu\xcfe"}', b"not json", good]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"

    served: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"data: " + events.pop(0) + b"\n\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        client = HttpClient([f"http://127.0.0.1:{port}"])
        async with client.messages("g", "me") as messages, asyncio.timeout(60):
            message = await anext(messages)
        await client.close()
        await asyncio.gather(*(task for task in served if task is not None))
    assert isinstance(message, Execute)
    assert message.task.id == "t"
