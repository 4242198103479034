"""A worker that is refused for a while, as when tokens are changed, hears again once it is let in."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.server import Settings, running
from tests.chaos.processes import free_port


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 (nothing tells us)
            await asyncio.sleep(0.01)


async def test_a_worker_whose_stream_was_refused_is_not_deaf_for_ever() -> None:
    settings = Settings(port=free_port(), store="memory:", tokens=("the-old-secret",))
    app = hf.App(f"http://127.0.0.1:{settings.port}", token="the-new-secret")

    @app.workflow
    async def greet() -> str:
        return "hello"

    async with running(settings) as strict:
        refused = strict.app.metrics.count_refused
        refusals: list[str] = []

        def count(code: str) -> None:
            refusals.append(code)
            refused(code)

        strict.app.metrics.count_refused = count  # type: ignore[method-assign]
        await app.__aenter__()
        await until(lambda: len(refusals) >= 2)
    changed = Settings(port=settings.port, store="memory:", tokens=("the-new-secret",))
    async with running(changed) as server:
        # The worker has found nothing to do and waits to be told.
        await until(lambda: server.node.stats.commits > 0 and server.node.router.mailbox_count > 0)
        async with asyncio.timeout(60):
            assert await app.start(greet) == "hello"
        await app.__aexit__(None, None, None)


async def test_one_refusal_of_the_stream_of_task_messages_does_not_end_listening(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(port=free_port(), store="memory:", tokens=("the-secret",))
    app = hf.App(f"http://127.0.0.1:{settings.port}", token="the-secret")

    @app.task(queue="mail")
    def greet() -> str:
        return "hello"

    def is_heard(server: Any) -> bool:
        return bool(server.node.router.mailbox_count >= 2)  # for workflows, and for the queue

    async with running(settings) as server:
        await app.__aenter__()
        await until(lambda: is_heard(server))
    changed = Settings(port=settings.port, store="memory:", tokens=("another-secret",))
    async with running(changed):
        refused = "the messages of group queue.mail cannot be received"
        await until(lambda: any(refused in record.getMessage() for record in caplog.records))
    told = next(record for record in caplog.records if refused in record.getMessage())
    assert told.levelname == "ERROR"
    assert "401" in told.getMessage()
    async with running(settings) as server:
        await until(lambda: is_heard(server))
        async with asyncio.timeout(60):
            handle = await greet.send_async()
            assert (await handle.get_async()).ok_value == "hello"
        await app.__aexit__(None, None, None)
