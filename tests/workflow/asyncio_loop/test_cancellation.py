"""A cancelled execution sees CancelledError in its main task, may clean up, and ends as its code ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import Ledger, World, crash_everywhere
from holdfast.workflow.errors import ExecutionCancelled


async def slow() -> str:
    await asyncio.sleep(3600)
    return "done"


def test_the_main_task_is_cancelled_with_the_reason_and_may_clean_up_durably() -> None:
    app = hf.App("memory:")
    ledger = Ledger()
    seen: list[Any] = []

    def refund() -> None:
        ledger.enter("refund")

    @app.workflow(loop="asyncio")
    async def order() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(7200))
                await hf.run(slow)
        except asyncio.CancelledError as cancelled:
            seen.append(cancelled.args[0])
            await hf.run(refund)
            raise
        return "shipped"

    async def outside() -> None:
        await asyncio.sleep(60)
        await app.handle("crash-test").cancel()

    crash_everywhere(order, app=app, outside=outside, ledger=ledger, raises=ExecutionCancelled)
    assert seen
    assert all(isinstance(each, hf.Cancelled) for each in seen)
    assert ledger.entries == ["refund"]


def test_an_execution_that_lets_the_cancellation_through_ends_as_cancelled() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def waiting() -> None:
        await asyncio.gather(hf.run(slow), asyncio.Event().wait(), hf.promise(str))

    with World(app) as world:
        handle = app.start(waiting, id="w")
        world.elapse(5)
        handle.cancel()
        with pytest.raises(ExecutionCancelled):
            handle.result()
        assert world.store.promises["w"].state == "rejected_canceled"


def test_an_execution_that_catches_it_ends_as_it_ends() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            await hf.promise()
        await asyncio.sleep(10)
        return "anyway"

    with World(app) as world:
        handle = app.start(stubborn)
        world.elapse(5)
        handle.cancel()
        assert handle.result() == "anyway"


def test_a_cancellation_is_not_an_exception_of_the_program() -> None:
    """`except Exception` in a library must not swallow it, as it must not elsewhere."""
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def library() -> None:
        while True:
            with suppress(Exception):
                await hf.sleep("1h")

    with World(app) as world:
        handle = app.start(library, id="w")
        world.elapse(5)
        handle.cancel()
        world.elapse(5)
        assert world.store.promises["w"].state == "rejected_canceled"


def test_other_tasks_are_left_alone_until_the_main_task_ends() -> None:
    app = hf.App("memory:")
    performed: list[str] = []

    @app.workflow(loop="asyncio")
    async def two() -> list[str]:
        async def side() -> str:
            await asyncio.sleep(20)
            await hf.run(performed.append, "side")
            return "side"

        task = asyncio.create_task(side())
        try:
            await hf.promise()
        except asyncio.CancelledError:
            await task
        return performed

    with World(app) as world:
        handle = app.start(two)
        world.elapse(5)
        handle.cancel()
        assert handle.result() == ["side"]


def test_a_cancelled_main_task_that_nobody_asked_for_is_a_failure_with_a_code() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def suicidal() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await hf.sleep(1)

    with World(app), pytest.raises(Exception, match="HF5110"):
        app.start(suicidal).result()


def test_cleanup_of_a_worker_that_lets_go_records_nothing() -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    def effect() -> None:
        seen.append("effect")

    @app.workflow(loop="asyncio")
    async def waiting() -> str:
        async def child() -> None:
            try:
                await hf.promise()
            finally:
                seen.append("cleaned")
                await hf.run(effect)

        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await hf.promise()
        return "never"

    with World(app) as world:
        app.start(waiting)
        world.elapse(5)
    assert seen == ["cleaned"]
