# mypy: disable-error-code="no-any-return"
"""Guards: mistakes raise a helpful error at their own line, catchable, and the scheduler lives on."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    ForeignAwait,
    Future,
    Local,
    NotInFiber,
    current,
    current_fiber,
    delegate,
    gather,
    operation,
    run,
    sleep,
    spawn,
)
from holdfast.runtime.testing import Hand, promise


def caught_in(work: Any) -> str:
    async def root() -> str:
        try:
            await delegate(work())
        except ForeignAwait as error:
            return str(error)
        return "not caught"

    result: str = Hand(root).result()
    return result


def test_a_bare_yield_raises_in_place() -> None:
    def body() -> Generator[Any, Any, None]:
        yield

    assert "bare `yield`" in caught_in(body)


def test_yielding_a_value_raises_in_place() -> None:
    def body() -> Generator[Any, Any, None]:
        yield 42

    assert "something of builtins.int" in caught_in(body)


def test_yielding_an_operation_instead_of_delegating_raises_in_place() -> None:
    @operation
    async def other() -> None:
        return None

    def body() -> Generator[Any, Any, None]:
        yield other()

    assert "Write `yield from`" in caught_in(body)


def test_asyncio_sleep_zero_raises_in_place() -> None:
    async def body() -> None:
        await asyncio.sleep(0)

    assert "asyncio.sleep(0)" in caught_in(body)


async def test_an_asyncio_future_raises_in_place_even_under_a_running_loop() -> None:
    async def body() -> None:
        await asyncio.get_running_loop().create_future()

    message = caught_in(body)
    assert "_asyncio.Future" in message
    assert "await run(function" in message


async def test_asyncio_sleep_raises_in_place_under_a_running_loop() -> None:
    async def body() -> None:
        await asyncio.sleep(1)

    assert "_asyncio.Future" in caught_in(body)


def test_the_error_points_at_the_line_of_the_wait() -> None:
    def body() -> Generator[Any, Any, None]:
        yield "this line"

    async def root() -> list[str]:
        try:
            await delegate(body())
        except ForeignAwait as error:
            return [frame.line or "" for frame in traceback.extract_tb(error.__traceback__)]
        return []

    assert Hand(root).result()[-1] == 'yield "this line"'


def test_an_uncaught_foreign_wait_fails_its_fiber_and_no_other() -> None:
    async def bad() -> None:
        await asyncio.sleep(0)

    async def good() -> str:
        return await promise("a")

    async def root() -> Any:
        failing, working = spawn(bad), spawn(good)
        try:
            await failing
        except ForeignAwait:
            return await working

    hand = Hand(root)
    hand.resolve("a", "still alive")
    assert hand.result() == "still alive"


def test_a_fiber_goes_on_after_catching_one() -> None:
    async def root() -> str:
        for _ in range(3):
            try:
                await asyncio.sleep(0)
            except ForeignAwait:
                continue
        return await promise("a")

    hand = Hand(root)
    hand.resolve("a", "fine")
    assert hand.result() == "fine"


def test_the_message_names_the_fiber() -> None:
    async def bad() -> None:
        await asyncio.sleep(0)

    async def root() -> str:
        try:
            await spawn(bad(), name="culprit")
        except ForeignAwait as error:
            return str(error)
        return ""

    assert "Fiber culprit#2" in Hand(root).result()


def test_a_yielded_future_is_a_wait_like_any_other() -> None:
    def root() -> Generator[Any, Any, Any]:
        value = yield promise("a")
        return value

    hand = Hand(root)
    hand.resolve("a", 1)
    assert hand.result() == 1


def test_an_async_generator_cannot_be_the_root() -> None:
    async def many() -> AsyncGenerator[int, None]:
        yield 1

    with pytest.raises(TypeError, match="async generator"):
        Hand(many)


def test_an_async_generator_in_a_combinator_raises_at_that_line_and_can_be_caught() -> None:
    async def many() -> AsyncGenerator[int, None]:
        yield 1

    async def root() -> str:
        try:
            gather([many()])  # type: ignore[arg-type]
        except TypeError as error:
            return str(error)
        return "accepted"

    assert "Loop over it" in Hand(root).result()


def test_an_async_generator_that_awaits_our_futures_can_be_looped_over() -> None:
    async def many() -> AsyncGenerator[Any, None]:
        yield await promise("a")
        yield await promise("b")

    async def root() -> list[Any]:
        return [value async for value in many()]

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.resolve("b", 2)
    assert hand.result() == [1, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: spawn(print),  # type: ignore[call-overload]
        lambda: run(print),
        lambda: sleep(1),
        lambda: gather(list[Future[int]]()),
        lambda: Channel[int]().send(1),
        lambda: Local(1).get(),
        lambda: Local(1).set(2),
        current,
        current_fiber,
    ],
)
def test_a_free_function_outside_a_fiber_says_so(call: Any) -> None:
    with pytest.raises(NotInFiber, match="only in the code of a workflow"):
        call()


def test_a_free_function_inside_a_step_says_so() -> None:
    def step() -> None:
        sleep(1)

    async def root() -> None:
        await run(step)

    hand = Hand(root)
    hand.perform("step")
    with pytest.raises(NotInFiber):
        hand.result()


def test_a_free_function_after_the_drain_says_so() -> None:
    async def root() -> None:
        await promise("a")

    Hand(root)
    with pytest.raises(NotInFiber):
        current()


async def test_an_asyncio_task_started_during_a_drain_is_not_mistaken_for_a_fiber() -> None:
    async def outside() -> str:
        try:
            current()
        except NotInFiber:
            return "outside"
        return "inside"

    tasks: list[asyncio.Task[str]] = []

    async def root() -> None:
        tasks.append(asyncio.get_running_loop().create_task(outside()))
        await promise("a")

    Hand(root)
    assert await tasks[0] == "outside"


def test_too_deep_a_delegation_fails_the_fiber_and_not_the_scheduler() -> None:
    def deep(levels: int) -> Generator[Any, Any, int]:
        if levels:
            return (yield from deep(levels - 1))
        return (yield from promise("bottom"))

    async def root() -> str:
        try:
            await spawn(deep, 100_000)
        except RecursionError:
            return await promise("a")
        return "no limit"

    hand = Hand(root)
    hand.resolve("a", "alive")
    assert hand.result() == "alive"


def test_five_levels_of_helpers_cost_one_wait() -> None:
    def level(depth: int) -> Generator[Any, Any, str]:
        if depth == 5:
            value: str = yield from promise("leaf")
            return value
        return (yield from level(depth + 1)) + f"/{depth}"

    hand = Hand(level, 1)
    assert hand.waiting == ("leaf",)
    hand.resolve("leaf", "v")
    assert hand.result() == "v/4/3/2/1"
