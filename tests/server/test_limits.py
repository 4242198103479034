"""Everything that can grow has a bound, and says so when it is reached."""

import asyncio
import json
from typing import Any

from holdfast.server import Settings, running
from tests.server.http import Connection, call, connected, create, envelope, get, post, until
from tests.server.stores import GatedStore


async def test_a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_413() -> None:
    settings = Settings(port=0, store="memory:", body_bytes_max=2_000)
    body = json.dumps(envelope("promise.create", create("p"))).encode()
    async with running(settings) as server:
        assert (await post(server.url, body.ljust(2_000))).status == 200
        answer = await post(server.url, body.ljust(2_001))
        assert (answer.status, answer.json["head"]["status"]) == (413, 413)
        assert "[HF3004]" in answer.json["data"]


async def test_a_body_without_end_is_cut_off() -> None:
    settings = Settings(port=0, store="memory:", body_bytes_max=10_000)
    async with running(settings) as server, connected(server.url) as connection:
        await connection.send(
            f"POST / HTTP/1.1\r\nhost: {connection.host}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        await connection.send(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        assert (await connection.answer()).status == 413
        await connection.rest()  # and hung up


async def test_a_head_past_the_limit_is_431_however_it_arrives() -> None:
    settings = Settings(port=0, store="memory:", header_bytes_max=4_096)
    async with running(settings) as server:
        async with connected(server.url) as connection:  # in one piece
            answer = await connection.request("GET", "/health", headers={"x-long": "y" * 5_000})
            assert (answer.status, answer.json["code"]) == (431, "HF3005")
        async with connected(server.url) as connection:  # in many, without end
            await connection.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n")
            for _ in range(50):
                await connection.send(b"x: " + b"y" * 97 + b"\r\n")
            assert (await connection.answer()).status == 431
        async with connected(server.url) as connection:
            answer = await connection.request("GET", "/" + "p" * 5_000)
            assert answer.status == 431
        assert (await get(server.url, "/health")).status == 200


async def test_a_client_that_dawdles_over_its_request_is_dropped() -> None:
    settings = Settings(port=0, store="memory:", read_timeout_s=0.2)
    async with running(settings) as server:
        silent, head, body, good = [await Connection.open(server.url) for _ in range(4)]
        await head.send(b"POST / HTTP/1.1\r\nhost: loc")
        await body.send(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        assert (await good.request("GET", "/health")).status == 200
        for connection in (silent, head, body):
            answer = await connection.answer()
            assert (answer.status, answer.json["code"]) == (408, "HF3006")
            await connection.rest()
        # A connection that is merely idle between requests is none of this.
        assert (await good.request("GET", "/health")).status == 200
        for connection in (silent, head, body, good):
            connection.close()


async def test_an_idle_connection_is_closed_after_a_while() -> None:
    settings = Settings(port=0, store="memory:", idle_timeout_s=0.1)
    async with running(settings) as server, connected(server.url) as connection:
        assert (await connection.request("GET", "/health")).status == 200
        assert await connection.rest() == b""


async def test_past_the_connections_allowed_a_client_is_told_so() -> None:
    settings = Settings(port=0, store="memory:", connections_max=3)
    async with running(settings) as server:
        held = [await Connection.open(server.url) for _ in range(3)]
        for connection in held:
            assert (await connection.request("GET", "/health")).status == 200
        async with connected(server.url) as fourth:
            answer = await fourth.answer()
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        held.pop().close()
        await until(lambda: len(server.server_state.connections) <= 2)
        assert (await get(server.url, "/health")).status == 200
        for connection in held:
            connection.close()


async def test_four_times_too_much_is_answered_with_429_and_passes_at_once() -> None:
    store = GatedStore()
    settings = Settings(port=0, store="memory:", requests_max=50)
    async with running(settings, store) as server:
        store.gate.clear()
        asked = [
            asyncio.create_task(post(server.url, envelope("promise.create", create(f"p{number}"))))
            for number in range(200)
        ]
        refused: list[Any] = []
        async with asyncio.timeout(60):
            for done in asyncio.as_completed(asked):
                refused.append(await done)
                if len(refused) == 150:
                    break
        for answer in refused:
            assert (answer.status, answer.json["head"]["status"]) == (429, 429)
            assert answer.headers["retry-after"] == "1"
            assert answer.json["head"]["corrId"] == "c1"
        store.gate.set()
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status for answer in answers) == [200] * 50 + [429] * 150
        kept = {answer.json["data"]["promise"]["id"] for answer in answers if answer.status == 200}
        found = await call(server.url, "promise.search", {"limit": 1_000})
        assert {promise["id"] for promise in found["promises"]} == kept  # 429 changed nothing
        assert server.app.metrics.in_flight == 0


async def test_an_array_counts_by_its_envelopes_and_says_when_to_come_again() -> None:
    store = GatedStore()
    settings = Settings(port=0, store="memory:", requests_max=10)
    async with running(settings, store) as server:
        store.gate.clear()
        held = asyncio.create_task(post(server.url, envelope("promise.get", {"id": "x"})))
        await until(lambda: server.app.metrics.in_flight == 1)
        batch = [envelope("promise.get", {"id": "x"}, corr_id=str(number)) for number in range(10)]
        answer = await post(server.url, batch)
        assert [reply["head"]["status"] for reply in answer.json] == [429] * 10
        assert answer.headers["retry-after"] == "1"
        fits = asyncio.create_task(post(server.url, batch[:9]))
        await until(lambda: server.app.metrics.in_flight == 10)
        store.gate.set()
        answer = await fits
        assert [reply["head"]["status"] for reply in answer.json] == [404] * 9
        assert "retry-after" not in answer.headers
        await held


async def test_an_array_larger_than_the_bound_is_taken_when_nothing_else_is_in_flight() -> None:
    settings = Settings(port=0, store="memory:", requests_max=10)
    async with running(settings) as server:
        answer = await post(server.url, [envelope("promise.get", {"id": "x"})] * 11)
        assert [reply["head"]["status"] for reply in answer.json] == [404] * 11
        assert server.app.metrics.in_flight == 0
