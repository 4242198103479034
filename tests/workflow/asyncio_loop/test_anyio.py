"""anyio finds asyncio's loop in a workflow, and works on it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import holdfast as hf
from holdfast.testing import World
from tests.workflow.asyncio_loop.test_behaviour import double, ran, slow


def test_a_task_group_and_streams_of_anyio_carry_durable_results() -> None:
    async def code() -> Any:
        send, receive = anyio.create_memory_object_stream[int](2)
        found: list[int] = []

        async def produce() -> None:
            async with send:
                for number in range(4):
                    await send.send(await hf.run(double, number))

        async with anyio.create_task_group() as group:
            group.start_soon(produce)
            async with receive:
                found.extend([item async for item in receive])
        return found

    assert ran(code) == [0, 2, 4, 6]


def test_a_cancel_scope_of_anyio_calls_a_step_off_in_time() -> None:
    async def code() -> Any:
        with anyio.move_on_after(3) as scope:
            await hf.run(slow, 60)
        with pytest.raises(TimeoutError):
            with anyio.fail_after(2):
                await anyio.sleep_forever()
        return [scope.cancelled_caught, anyio.current_time()]

    assert ran(code) == [True, 5.0]


def test_a_shielded_scope_of_anyio_does_durable_cleanup() -> None:
    async def code() -> Any:
        seen: list[Any] = []

        async def child() -> None:
            try:
                await anyio.sleep(60)
            finally:
                with anyio.CancelScope(shield=True):
                    seen.append(await hf.run(slow, 2))

        async with anyio.create_task_group() as group:
            group.start_soon(child)
            await anyio.sleep(1)
            group.cancel_scope.cancel()
        return seen

    assert ran(code) == [2]


def test_locks_events_and_limiters_of_anyio() -> None:
    async def code() -> Any:
        event, lock, limiter = anyio.Event(), anyio.Lock(), anyio.CapacityLimiter(1)
        order: list[int] = []

        async def child(number: int) -> None:
            await event.wait()
            async with lock, limiter:
                order.append(await hf.run(double, number))

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(child, number)
            await anyio.sleep(1)
            event.set()
        return order

    assert ran(code) == [0, 2, 4]


def test_a_cancelled_execution_unwinds_through_anyio() -> None:
    app = hf.App("memory:")
    seen: list[str] = []

    @app.workflow(loop="asyncio")
    async def waiting() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            try:
                await hf.promise()
            finally:
                seen.append("unwound")

    with World(app) as world:
        handle = app.start(waiting, id="w")
        world.elapse(1)
        handle.cancel()
        world.elapse(1)
        assert world.store.promises["w"].state == "rejected_canceled"
    assert seen
