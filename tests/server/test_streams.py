"""Event streams: what makes real workers happy."""

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.wire import encode_message
from holdfast.server import Settings, running, streams
from tests.server.http import Stream, call, connected, create, envelope, get, post, streaming, until

memory = Settings(port=0, store="memory:")


async def test_the_head_of_a_stream_is_sent_at_once() -> None:
    async with running(memory) as server, streaming(server.url, "g", "w") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"


async def test_an_execute_goes_straight_to_a_connected_worker() -> None:
    async with running(memory) as server, streaming(server.url, "g", "w") as stream:
        await call(server.url, "promise.create", create("p", "poll://any@g"))
        assert await stream.message() == {
            "kind": "execute",
            "head": {"serverUrl": server.url},
            "data": {"task": {"id": "p", "version": 0}},
        }


async def test_the_other_dialect_is_invited_in_its_own_words() -> None:
    async with running(memory) as server, streaming(server.url, "g", "w") as stream:
        await call(server.url, "promise.create", create("p", "poll://any@g"), "2025-01-15")
        assert await stream.message() == {
            "kind": "invoke",
            "head": {"serverUrl": server.url},
            "data": {"task": {"id": "p", "version": 0}},
        }


async def test_names_in_the_path_are_percent_decoded() -> None:
    async with running(memory) as server, streaming(server.url, "My group/ü", "a b") as stream:
        await call(server.url, "promise.create", create("p", "poll://any@My group/ü"))
        await call(server.url, "promise.create", create("q", "poll://uni@My group/a b"))
        # `My group/ü` as an address is the group `My group` with the member `ü`: nobody here.
        async with streaming(server.url, "My group", "a b") as other:
            assert {await other.task(), await other.task()} == {("p", 0), ("q", 0)}
        assert stream.status == 200


async def test_paths_that_are_no_stream_are_refused_in_json() -> None:
    async with running(memory) as server:
        for path in (
            "/poll",
            "/poll/g",
            "/poll/g/w/x",
            "/poll/g/%ff",
            "/poll/g/%00",
            "/poll/g/" + "x" * 2_000,
        ):
            answer = await get(server.url, path)
            assert (answer.status, answer.json["code"]) == (400, "HF3009"), path


async def test_what_nobody_could_take_is_handed_over_when_a_worker_connects() -> None:
    async with running(memory) as server:
        for number in range(3):
            await call(server.url, "promise.create", create(f"p{number}", "poll://any@g"))
        async with streaming(server.url, "g", "w") as stream:
            assert [await stream.task() for _ in range(3)] == [("p0", 0), ("p1", 0), ("p2", 0)]


async def test_pending_tasks_are_offered_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path}/h.db")
    async with running(settings) as server:
        for number in range(5):
            await call(server.url, "promise.create", create(f"p{number}", "poll://any@g"))
        await call(server.url, "task.acquire", {"id": "p3", "version": 0, "pid": "x", "ttl": 60_000})
        await call(server.url, "promise.create", create("other", "poll://any@elsewhere"))
    async with running(settings) as server, streaming(server.url, "g", "w") as stream:
        tasks = {await stream.task() for _ in range(4)}
        assert tasks == {("p0", 0), ("p1", 0), ("p2", 0), ("p4", 0)}


async def test_after_a_restart_each_hears_its_own_words(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path}/h.db")
    old = "2025-01-15"
    async with running(settings) as server:
        for name in ("new", "woken"):
            await call(server.url, "promise.create", create(name, "poll://any@g"), old)
        await call(server.url, "promise.create", create("dep"), old)
        await call(server.url, "task.acquire", {"id": "woken", "version": 0, "pid": "x", "ttl": 60_000}, old)
        wait = {"awaited": "dep", "awaiter": "woken"}
        action = {"kind": "promise.register_callback", "head": {"corrId": "1", "version": old}, "data": wait}
        suspend = {"id": "woken", "version": 1, "actions": [action]}
        await call(server.url, "task.suspend", suspend, old)
        await call(server.url, "promise.settle", {"id": "dep", "state": "resolved"}, old)
    async with running(settings) as server, streaming(server.url, "g", "w") as stream:
        heard = [await stream.message() for _ in range(2)]
        assert {(one["kind"], one["data"]["task"]["id"]) for one in heard} == {
            ("invoke", "new"),
            ("resume", "woken"),
        }


async def test_a_message_that_cannot_be_put_into_words_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def encode(message: Message, url: str | None = None) -> bytes:
        if isinstance(message, Execute) and message.task.id == "bad":
            raise TypeError("no words")
        return encode_message(message, url)

    monkeypatch.setattr(streams, "encode_message", encode)
    async with running(memory) as server:
        for name in ("bad", "good"):
            await call(server.url, "promise.create", create(name, "poll://any@g"))
        async with streaming(server.url, "g", "w") as stream:
            assert await stream.task() == ("good", 0)


async def test_a_backlog_larger_than_every_buffer_is_pumped_while_the_worker_reads(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path}/h.db", stream_buffer_messages=10)
    count = 1_500
    async with running(settings) as server:
        for start in range(0, count, 500):
            batch = [
                envelope("promise.create", create(f"p{number}", "poll://any@g"))
                for number in range(start, start + 500)
            ]
            await post(server.url, batch)
    async with running(settings) as server, streaming(server.url, "g", "w") as stream:
        seen: set[str] = set()
        while len(seen) < count:
            seen.add((await stream.task())[0])


async def test_a_stream_is_ended_by_the_server_and_coming_back_loses_nothing(tmp_path: Path) -> None:
    settings = Settings(port=0, store="memory:", stream_s=0.3)
    total = 400
    seen: set[str] = set()
    ended = asked = 0
    async with running(settings) as server:

        async def produce() -> None:
            for number in range(total):
                await call(server.url, "promise.create", create(f"p{number}", "poll://any@g"))

        producing = asyncio.create_task(produce())
        async with asyncio.timeout(60):
            while len(seen) < total:
                async with streaming(server.url, "g", "w") as stream:
                    while (message := await stream.message()) is not None:
                        task = message["data"]["task"]
                        asked += 1  # one that is sent again under the same id is the same claim
                        claim = task | {"pid": "w", "ttl": 60_000}
                        answer = await post(server.url, envelope("task.acquire", claim, corr_id=f"a{asked}"))
                        assert answer.status in (200, 409)  # an offer may come twice; a claim may not
                        if answer.status == 200:
                            assert task["id"] not in seen
                            seen.add(task["id"])
                ended += 1
        await producing
    assert ended >= 1


async def test_what_a_broken_connection_swallowed_is_offered_to_the_next() -> None:
    async with running(memory) as server:
        async with streaming(server.url, "g", "w") as stream:
            await call(server.url, "promise.create", create("p", "poll://any@g"))
            await stream.task()  # and dies before it can acquire
        async with streaming(server.url, "g", "w2") as stream:
            assert await stream.task() == ("p", 0)


async def test_a_worker_that_does_not_read_is_dropped_and_others_get_its_messages() -> None:
    settings = Settings(port=0, store="memory:", stream_write_timeout_s=0.3, stream_buffer_messages=50)
    data = "x" * 500_000
    async with running(settings) as server:
        stuck = await Stream.open(server.url, limit=1_000)
        assert isinstance(stuck, Stream)
        await stuck.start("g", "stuck")
        for number in range(40):
            promise = create(f"p{number}", param={"data": data})
            await call(server.url, "promise.create", promise)
            await call(
                server.url, "promise.register_listener", {"awaited": f"p{number}", "address": "poll://any@g"}
            )
        for number in range(40):
            await call(server.url, "promise.settle", {"id": f"p{number}", "state": "resolved"})
        await until(lambda: server.app.metrics.slow_readers > 0)
        async with streaming(server.url, "g", "awake", limit=2**21) as stream:
            first = await stream.message()
            assert first["kind"] == "unblock"
        stuck.close()


async def test_a_quiet_stream_is_kept_alive_by_comments() -> None:
    settings = Settings(port=0, store="memory:", stream_keep_alive_s=0.05)
    async with running(settings) as server, connected(server.url) as connection:
        await connection.send(f"GET /poll/g/w HTTP/1.1\r\nhost: {connection.host}\r\n\r\n".encode())
        await connection.head()
        async with asyncio.timeout(60):
            assert await connection.reader.readuntil(b":\n\n") == b"3\r\n:\n\n"


async def test_unicast_reaches_its_worker_alone_and_any_prefers_the_one_named() -> None:
    async with (
        running(memory) as server,
        streaming(server.url, "g", "a") as a,
        streaming(server.url, "g", "b") as b,
    ):
        await call(server.url, "promise.create", create("u", "poll://uni@g/b"))
        await call(server.url, "promise.create", create("v", "poll://any@g/a"))
        assert await b.task() == ("u", 0)
        assert await a.task() == ("v", 0)
        await call(server.url, "promise.create", create("w", "poll://uni@g/c"))
        await call(server.url, "promise.create", create("x", "poll://any@g/a"))
        assert await a.task() == ("x", 0)
        async with streaming(server.url, "g", "c") as c:
            assert await c.task() == ("w", 0)


async def test_a_listener_is_told_when_its_promise_settles() -> None:
    async with running(memory) as server, streaming(server.url, "g", "w") as stream:
        await call(server.url, "promise.create", create("p"))
        await call(server.url, "promise.register_listener", {"awaited": "p", "address": "poll://uni@g/w"})
        value = {"data": "dmFs"}
        await call(server.url, "promise.settle", {"id": "p", "state": "resolved", "value": value})
        message = await stream.message()
    assert (message["kind"], message["head"]) == ("unblock", {})
    assert message["data"]["promise"]["value"] == value


async def test_a_task_that_is_released_at_once_again_and_again_is_offered_ever_more_slowly() -> None:
    async with running(memory) as server, streaming(server.url, "g", "w") as stream:
        await call(server.url, "promise.create", create("p", "poll://any@g"))
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(4):  # the third return costs 100 ms, the fourth 200 ms
            task_id, version = await stream.task()
            await call(
                server.url, "task.acquire", {"id": task_id, "version": version, "pid": "w", "ttl": 60_000}
            )
            await call(server.url, "task.release", {"id": task_id, "version": version + 1})
        await stream.task()
        assert loop.time() - started >= 0.25


async def test_a_worker_that_joins_a_busy_group_disturbs_nobody() -> None:
    async with running(memory) as server, streaming(server.url, "g", "a") as a:
        await call(server.url, "promise.create", create("p", "poll://any@g"))
        task_id, version = await a.task()
        await call(server.url, "task.acquire", {"id": task_id, "version": version, "pid": "a", "ttl": 60_000})
        async with streaming(server.url, "g", "b") as b:
            await call(server.url, "promise.create", create("q", "poll://uni@g/b"))
            assert await b.task() == ("q", 0)  # and not p, which is taken


async def test_too_many_streams_are_refused_with_429() -> None:
    settings = Settings(port=0, store="memory:", streams_max=2)
    async with (
        running(settings) as server,
        streaming(server.url, "g", "a"),
        streaming(server.url, "g", "b"),
        connected(server.url) as third,
    ):
        answer = await third.request("GET", "/poll/g/c")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert json.loads(answer.body)["code"] == "HF3007"
