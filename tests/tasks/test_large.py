"""Large arguments and results over HTTP: together they are more than a server takes at once."""

import asyncio

import holdfast as hf
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
            results = await asyncio.gather(*(each.ok_value.get_async(timeout=30) for each in sent))
        assert [len(result.ok_value) for result in results] == [60_000] * 100


async def test_orders_that_are_sent_together_and_are_too_large_together_are_taken() -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        app = hf.App(server.url, worker=False)

        @app.task
        async def measure(text: str) -> int:
            return len(text)

        async with app:
            sent = await measure.send_many_async([("x" * 5_000,)] * 1_000)
        assert [each for each in sent if each.is_err] == []
