"""asyncio does nothing in the code of a workflow, and says so at the line where it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.workflow.errors import NoAsyncioHere

performed: list[str] = []


async def step() -> str:
    await asyncio.sleep(0)
    return "done"


async def under_a_timeout() -> Any:
    async with asyncio.timeout(60):
        return await hf.run(step)


async def in_a_task() -> Any:
    work = step()
    try:
        await asyncio.create_task(work)
    finally:
        work.close()


async def in_a_thread() -> Any:
    await asyncio.to_thread(performed.append, "in a thread")


async def on_an_event() -> Any:
    await asyncio.Event().wait()


async def asleep() -> Any:
    await asyncio.sleep(1)


@pytest.mark.parametrize("code", [under_a_timeout, in_a_task, in_a_thread, on_an_event, asleep])
def test_asyncio_in_a_workflow_is_an_error_at_that_line(code: Callable[[], Awaitable[Any]]) -> None:
    app = hf.App("memory:")
    seen: list[str] = []
    performed.clear()

    @app.workflow
    async def careless() -> Any:
        try:
            return await code()
        except NoAsyncioHere as error:
            seen.append(str(error))
            return await hf.run(step)

    with World(app):
        assert app.start(careless).result() == "done"
    assert performed == []
    [sentence] = seen
    assert "hf.timeout" in sentence
    assert "HF5112" in sentence


def test_a_step_has_its_event_loop() -> None:
    app = hf.App("memory:")

    async def timed() -> str:
        async with asyncio.timeout(60):
            return await asyncio.create_task(step())

    @app.workflow
    async def careful() -> str:
        async with hf.timeout("5s"):
            return await hf.run(timed)

    with World(app):
        assert app.start(careful).result() == "done"


def test_the_cleanup_of_a_workflow_that_is_taken_down_has_no_loop_either() -> None:
    app = hf.App("memory:")
    seen: list[type[BaseException]] = []

    @app.workflow
    async def waiting() -> None:
        try:
            await hf.promise()
        finally:
            try:
                asyncio.get_running_loop().call_soon(print)
            except NoAsyncioHere as error:
                seen.append(type(error))

    with World(app) as world:
        app.start(waiting)
        world.settle_down()
    assert set(seen) == {NoAsyncioHere}


@pytest.mark.parametrize("how", ["start", "resolve", "result", "send"])
def test_the_app_itself_is_not_for_the_code_of_a_workflow(how: str) -> None:
    app = hf.App("memory:")

    @app.task
    def chore() -> None: ...

    @app.workflow
    async def careless() -> str:
        uses: dict[str, Callable[[], Any]] = {
            "start": lambda: app.start("careless"),
            "resolve": lambda: app.resolve("x"),
            "result": lambda: app.handle("x").result(),
            "send": chore.send,
        }
        try:
            uses[how]()
        except NoAsyncioHere as error:
            return str(error)
        return "nothing was said"

    with World(app):
        assert "hf.start, hf.call" in app.start(careless).result()
