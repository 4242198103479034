"""However large or split up requests are, small ones pass between them."""

import asyncio
import json
from contextlib import suppress

import pytest

from holdfast.server import Settings, running
from holdfast.server.exchange import chunks_max
from holdfast.server.turns import Turns, small_bytes, turn_bytes_max
from tests.counts import rest_slow
from tests.server.http import connected, create, envelope, get
from tests.server.process import server_process
from tests.server.test_attacks import LOST, MEGABYTE, cpu_s, head, is_well


async def test_a_turn_of_the_loop_decodes_so_many_bytes_of_large_requests() -> None:
    turns = Turns()
    now = 0
    begun: list[int] = []

    async def decode(count: int) -> None:
        await turns.take(count)
        begun.append(now)

    waiting = [asyncio.ensure_future(decode(turn_bytes_max * 4)) for _ in range(5)]
    waiting += [asyncio.ensure_future(decode(turn_bytes_max // 4)) for _ in range(8)]
    while not all(each.done() for each in waiting):
        now += 1
        await asyncio.sleep(0)
    alike = [begun.count(each) for each in sorted(set(begun))]
    assert alike == [1, 1, 1, 1, 1, 4, 4]
    small = turns.take(small_bytes)
    with pytest.raises(StopIteration):  # at once
        small.send(None)


async def test_whoever_gives_up_its_turn_holds_up_nobody() -> None:
    turns = Turns()
    first, second = (asyncio.ensure_future(turns.take(turn_bytes_max)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second


async def test_a_small_request_passes_large_ones_that_wait_for_their_turn() -> None:
    large = json.dumps([envelope("promise.get", {"id": "x" * 900})] * 1_000).encode()
    small = json.dumps(envelope("promise.create", create("p"))).encode()
    settings = Settings(port=0, store="memory:")
    async with running(settings) as server:
        order: list[str] = []

        async def ask(name: str, body: bytes) -> None:
            await server.app.answer([], body)
            order.append(name)

        await asyncio.gather(*(ask("large", large) for _ in range(20)), ask("small", small))
        assert order.index("small") < 10


async def test_a_body_in_very_many_chunks_is_refused_before_they_are_parsed() -> None:
    piece = b"1\r\n \r\n" * 40_000
    async with server_process(store="memory:") as server:
        before = cpu_s(server.pid)
        for _ in range(10):
            async with connected(server.url) as connection:
                with suppress(*LOST):
                    await connection.send(head(None))
                    for _ in range(16):
                        await connection.send(piece)
        assert cpu_s(server.pid) - before < 1.0
        assert await is_well(server)


async def test_a_body_may_come_in_many_chunks_that_hold_something() -> None:
    body = json.dumps(envelope("promise.create", create("p", param={"data": "x" * 900_000}))).encode()
    async with running(Settings(port=0, store="memory:")) as server:
        for size in (512, len(body) // (chunks_max - 10)):
            parts = [body[at : at + size] for at in range(0, len(body), size)]
            async with connected(server.url) as connection:
                sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
                await connection.send(head(None) + sent + b"0\r\n\r\n")
                assert (await connection.answer()).status == 200
        async with connected(server.url) as connection:
            await connection.send(head(None) + b"1\r\n \r\n" * 4_000)
            answer = await connection.answer()
            assert (answer.status, answer.json["code"]) == (400, "HF3008")
        assert (await get(server.url, "/health")).status == 200


@pytest.mark.parametrize("item", rest_slow([b"0", b"{}", b"[]", b'{"kind":"","head":{}}'], quick=1))
async def test_an_array_of_very_many_items_is_refused_without_being_read_whole(item: bytes) -> None:
    body = b"[" + b",".join([item] * (3_900_000 // (len(item) + 1))) + b"]"
    async with server_process(store="memory:") as server:
        before, began = server.peak_bytes, cpu_s(server.pid)
        for _ in range(20):
            async with connected(server.url) as connection:
                answer = await connection.request("POST", "/", body)
            assert answer.status == 400
            assert "1 to 1000 envelopes" in answer.json["data"]
        assert server.peak_bytes - before < 40 * MEGABYTE
        assert cpu_s(server.pid) - began < 1.5


@pytest.mark.parametrize("size", [10, 1_000])
async def test_a_large_array_is_answered_item_by_item(size: int) -> None:
    good = [
        envelope("promise.create", create(f"p{number}", param={"data": "x" * size})) for number in range(500)
    ]
    mixed = [each for number, pair in enumerate(good) for each in (pair, number, {"kind": "promise.get"})][
        :1_000
    ]
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        answer = await connection.request("POST", "/", json.dumps(mixed).encode())
        statuses = [reply["head"]["status"] for reply in answer.json]
        assert statuses == ([200, 400, 400] * 334)[:1_000]
        assert (await connection.request("POST", "/", b"[" + b" " * 70_000 + b"]")).status == 400
