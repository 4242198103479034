"""Large arguments and results over HTTP: together they are more than a server takes at once."""

import asyncio

import pytest

import holdfast as hf
from holdfast.client.connection import reply_bytes_max
from holdfast.protocol import limits
from holdfast.server import Settings, running


async def test_results_that_are_told_together_and_are_too_large_together_are_kept() -> None:
    ended = asyncio.Event()
    begun = 0
    async with running(Settings(port=0, store="memory:")) as server:
        app = hf.App(server.url)

        @app.task
        async def report(number: int) -> str:
            nonlocal begun
            begun += 1
            if begun == 100:
                ended.set()
            await ended.wait()
            return "x" * 60_000

        async with app:
            sent = await report.send_many_async([(number,) for number in range(100)])
            results = await asyncio.gather(*(each.get_async(timeout=60) for each in sent))
        assert [len(result.ok_value) for result in results] == [60_000] * 100


async def test_a_worker_with_many_slots_gets_large_tasks_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It asked for all of them, refused the answer as too large, gave them back, and asked again."""
    monkeypatch.setattr("holdfast.client.connection.reply_bytes_max", 24_000_000)
    async with running(Settings(port=0, store="memory:")) as server:
        app = hf.App(server.url, concurrency=500)

        @app.task
        async def measure(text: str) -> int:
            return len(text)

        async with hf.App(server.url, worker=False) as sender:

            @sender.task(name=measure.name)
            async def sent(text: str) -> int:
                raise NotImplementedError

            handles = [(await sent.send_async("x" * 680_000)) for _ in range(20)]
            async with app:
                results = await asyncio.gather(*(each.get_async(timeout=60) for each in handles))
        assert [result.ok_value for result in results] == [680_000] * 20


def test_what_one_array_of_claims_is_answered_is_read_by_our_client() -> None:
    """A lane asks for four claims at a time at most, and each answer shows its promises twice."""
    assert 4 * 2 * (limits.claim_bytes_max + limits.data_bytes_max) < reply_bytes_max


async def test_orders_that_are_sent_together_and_are_too_large_together_are_taken() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        app = hf.App(server.url, worker=False)

        @app.task
        async def measure(text: str) -> int:
            return len(text)

        async with app:
            sent = await measure.try_send_many_async([("x" * 5_000,)] * 1_000)
        assert [each for each in sent if each.is_err] == []
