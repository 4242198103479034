"""Async generators inside workflows that are left half-way."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere

app = hf.App("memory:")
said: list[str] = []


async def give(number: int) -> int:
    return number


async def numbers() -> AsyncGenerator[int]:
    try:
        for number in range(5):
            yield await hf.run(give, number)
    finally:
        try:
            await hf.run(give, 99)
            said.append("cleaned up")
        except hf.errors.NotInFiber:
            said.append("too late")


@app.workflow
async def closing() -> int:
    number = 0
    async with aclosing(numbers()) as each:
        async for number in each:
            if number == 2:
                break
    await hf.sleep("1h")
    return number


@app.workflow
async def dropping() -> int:
    number = 0
    async for number in numbers():
        if number == 2:
            break
    gc.collect()
    await hf.sleep("1h")
    return number


@pytest.fixture(autouse=True)
def _clear() -> None:
    said.clear()


def test_one_that_is_closed_cleans_up_durably_after_every_crash() -> None:
    assert crash_everywhere(closing, app=app).result == 2
    assert {*said} == {"cleaned up"}


def test_one_that_is_dropped_is_cleaned_up_outside_and_records_nothing_there() -> None:
    complaints: list[Any] = []
    with World(app) as world:
        world.loop.set_exception_handler(lambda loop, context: complaints.append(context))
        assert app.start(dropping, id="x").result() == 2
        world.run(asyncio.sleep(0))
        assert [promise.id for promise in world.journal("x")] == ["x:1", "x:2", "x:3", "x:4"]
    assert said == ["too late"]
    assert complaints == []


@pytest.mark.slow
def test_a_workflow_that_drops_one_takes_the_same_path_after_every_crash() -> None:
    assert crash_everywhere(dropping, app=app).result == 2
