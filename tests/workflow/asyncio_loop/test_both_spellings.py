"""asyncio's functions and ours in one workflow, and random programs of both, killed at every write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing.crashes import run_once
from holdfast.testing.mortal import CrashPoint
from tests.counts import count_of
from tests.seeds import chosen_seed
from tests.workflow.asyncio_loop.random_asyncio import Program
from tests.workflow.asyncio_loop.test_behaviour import broken, double, ran, slow

COUNT = count_of("HOLDFAST_PROGRAMS", quick=3, full=200)
FIRST = chosen_seed("0")

app = hf.App("memory:")


@app.workflow(loop="asyncio")
async def program(seed: int) -> list[str]:
    made = Program(seed)
    await made.run()
    return made.trace


@pytest.mark.sized
@pytest.mark.parametrize("number", range(COUNT))
def test_a_program_killed_at_any_write_goes_where_its_record_leads(number: int) -> None:
    seed = FIRST + number
    print(f"HOLDFAST_SEED={seed} HOLDFAST_PROGRAMS=1")
    calm = run_once(app, program, (seed,), execution=f"p{seed}")
    assert isinstance(calm.outcome, list), calm.outcome
    for write in range(1, len(calm.writes) + 1):
        for side in ("before", "after"):
            point = CrashPoint(write, side)
            try:
                run_once(app, program, (seed,), execution=f"p{seed}", points=[point])
            except Exception as error:
                raise AssertionError(f"seed {seed}, crash {point}: {error}") from error


def test_our_spawn_gives_a_task_that_both_sides_can_await() -> None:
    async def code() -> Any:
        fiber = hf.spawn(slow_in_workflow, 2)
        return [await hf.gather(fiber, hf.run(double, 1)), await asyncio.gather(fiber, asyncio.sleep(1, "a"))]

    assert ran(code) == [[2, 2], [2, "a"]]


async def slow_in_workflow(seconds: float) -> float:
    return await hf.run(slow, seconds)


def test_our_interrupt_is_a_cancellation_in_the_task() -> None:
    async def code() -> Any:
        seen: list[str] = []

        async def child() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        fiber = hf.spawn(child)
        await asyncio.sleep(1)
        fiber.interrupt(LookupError("enough"))
        with pytest.raises(LookupError, match="enough"):
            await fiber
        return seen

    assert ran(code) == ["cancelled"]


def test_our_scope_raises_failures_together_and_its_own_error_as_it_is() -> None:
    async def code() -> Any:
        seen: list[str] = []
        try:
            async with hf.scope() as scope:
                scope.spawn(fails)
                await asyncio.Event().wait()
        except ExceptionGroup as group:
            seen.append(str(group.exceptions[0]))
        try:
            async with hf.scope() as scope:
                scope.spawn(slow_in_workflow, 5)
                raise KeyError("own")
        except KeyError:
            seen.append("own")
        return seen

    assert ran(code) == ["7", "own"]


async def fails() -> None:
    await hf.run(broken, 7)


def test_our_map_over_is_bounded_and_raises_its_first_failure_alone() -> None:
    async def code() -> Any:
        found = await hf.map_over(slow_in_workflow, [3, 1, 2], limit=2)
        with pytest.raises(ValueError, match="1"):
            await hf.map_over(lambda number: hf.run(broken, number), [1, 2], limit=2)
        return found

    assert ran(code) == [3, 1, 2]


def test_our_timeout_raises_timed_out_and_can_be_nested_in_asyncios() -> None:
    async def code() -> Any:
        seen: list[str] = []
        try:
            async with asyncio.timeout(10):
                try:
                    async with hf.timeout(2):
                        await asyncio.Event().wait()
                except hf.TimedOut:
                    seen.append("inner")
                await hf.within(60, hf.run(slow, 30))
        except hf.TimedOut:
            seen.append("wrong")
        except TimeoutError:
            seen.append("outer")
        return seen

    assert ran(code) == ["inner", "outer"]


def test_our_shield_holds_a_cancellation_back_until_the_next_wait() -> None:
    async def code() -> Any:
        seen: list[Any] = []

        async def child() -> None:
            seen.append(await hf.shield(hf.run(slow, 10)))
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                seen.append("then")
                raise

        task = asyncio.create_task(child())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return [seen, task.cancelled(), asyncio.get_running_loop().time()]

    assert ran(code) == [[10, "then"], True, 10.0]


def test_an_item_given_to_a_task_that_is_cancelled_goes_back() -> None:
    async def code() -> Any:
        queue: hf.Queue[int] = hf.Queue()

        async def take() -> int:
            return await queue.get()

        task = asyncio.create_task(take())
        await asyncio.sleep(0)
        await queue.put(1)
        task.cancel()
        await asyncio.wait([task])
        return [task.cancelled(), await queue.get()]

    assert ran(code) == [True, 1]


def test_an_operation_a_generator_and_a_note_can_be_awaited_in_any_task() -> None:
    async def code() -> Any:
        def body() -> Any:
            return (yield from hf.run(double, 4))

        async def child() -> list[Any]:
            return [await hf.patched("new"), await hf.spawn(body), (await hf.uuid()).version]

        return await asyncio.create_task(child())

    assert ran(code) == [True, 8, 4]
