"""An async step may begin at once, on the caller's stack; it is in a task of its own all the same."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.payloads.errors import StepCalledOff, StepExited, StepTimedOut
from holdfast.runtime import Signal, Step
from holdfast.steps.retry import Retry
from holdfast.steps.runner import StepCall, StepOutcome, StepRunner, current_attempt

request: ContextVar[str] = ContextVar("request", default="nobody's")


@pytest.fixture
async def runner() -> AsyncIterator[StepRunner]:
    """One that has a task to spare."""
    runner = StepRunner()
    await spare_task(runner)
    yield runner
    await runner.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("holdfast-step")]


async def spare_task(runner: StepRunner) -> None:
    """The first step that is to begin at once finds none, and leaves one for the next."""
    await start(runner, nothing)
    await asyncio.sleep(0)


async def nothing() -> None:
    pass


def test_a_loop_that_is_dropped_tells_nothing_of_the_spare_task(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        await spare_task(StepRunner())

    loop.run_until_complete(leave())
    loop.close()
    gc.collect()
    assert "destroyed" not in caplog.text


def start(
    runner: StepRunner, function: Callable[[], Any], above: Signal | None = None, **options: Any
) -> asyncio.Future[StepOutcome]:
    outcome: asyncio.Future[StepOutcome] = runner.loop.create_future()
    step = Step(function.__name__, function, (), {}, above or Signal())
    runner.start(StepCall(step, **options, at_once=True), outcome.set_result)
    return outcome


async def test_a_step_that_never_waits_is_over_when_start_returns(runner: StepRunner) -> None:
    async def answer() -> int:
        return 42

    for _ in range(3):
        outcome = start(runner, answer)
        assert outcome.done()
        assert outcome.result().value == 42
    assert not runner.running()


async def test_it_is_in_a_task_that_is_not_the_callers(runner: StepRunner) -> None:
    async def me() -> Any:
        return asyncio.current_task()

    caller = asyncio.current_task()
    assert start(runner, me).result().value not in (None, caller)
    assert asyncio.current_task() is caller


async def test_a_step_that_waits_keeps_its_task_and_the_next_one_has_another(runner: StepRunner) -> None:
    go = asyncio.Event()

    async def wait() -> Any:
        before = asyncio.current_task()
        await go.wait()
        assert asyncio.current_task() is before
        return before

    first = start(runner, wait)
    assert not first.done()
    second = start(runner, wait)
    go.set()
    tasks = [(await outcome).value for outcome in (first, second)]
    assert len({*tasks, asyncio.current_task()}) == 3


async def test_what_it_raises_is_the_outcome_also_after_a_wait(runner: StepRunner) -> None:
    async def fail() -> None:
        raise KeyError("gone")

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise KeyError("gone")

    async def leave() -> None:
        raise SystemExit(3)

    assert isinstance(start(runner, fail).result().error, KeyError)
    assert isinstance(start(runner, leave).result().error, StepExited)
    assert isinstance((await start(runner, fail_later)).error, KeyError)


async def test_timeouts_and_task_groups_work_in_it(runner: StepRunner) -> None:
    async def timed() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not at all"

    async def grouped() -> int:
        async with asyncio.TaskGroup() as group:
            members = [group.create_task(asyncio.sleep(0, number)) for number in range(3)]
        return sum(member.result() for member in members)

    assert (await start(runner, timed)).value == "timed out"
    await spare_task(runner)
    assert (await start(runner, grouped)).value == 3


async def test_one_that_cancels_its_own_task_feels_it_where_it_waits_and_no_other_does(
    runner: StepRunner,
) -> None:
    inner: list[asyncio.Task[None]] = []

    async def forever() -> None:
        await asyncio.Event().wait()

    async def strike(awaits: Callable[[], Any]) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await awaits()
        except asyncio.CancelledError:
            task.uncancel()
            return "felt"
        return "not felt"

    async def at_a_task() -> str:
        inner.append(asyncio.create_task(forever()))
        return await strike(lambda: inner[-1])

    async def at_a_task_later() -> str:
        await asyncio.sleep(0)
        return await at_a_task()

    async def at_an_event() -> str:
        return await strike(lambda: asyncio.Event().wait())

    async def at_a_turn() -> str:
        return await strike(lambda: asyncio.sleep(0))

    async def not_at_all() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "struck"

    for function, expected in (
        (at_an_event, "felt"),
        (at_a_turn, "felt"),
        (at_a_task, "felt"),
        (at_a_task_later, "felt"),
        (not_at_all, "struck"),
        (at_an_event, "felt"),
    ):
        assert (await start(runner, function)).value == expected
        await spare_task(runner)
    assert [task.cancelled() for task in inner] == [True, True]


async def test_one_that_is_called_off_while_it_waits_is_cancelled_there(runner: StepRunner) -> None:
    felt: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            felt.append("here")
            raise

    above = Signal()
    outcome = start(runner, wait, above)
    above.set(KeyError("no longer wanted"))
    assert isinstance((await outcome).error, StepCalledOff)
    assert felt == ["here"]


async def test_its_time_limit_and_its_retries_hold(runner: StepRunner) -> None:
    async def late() -> None:
        await asyncio.Event().wait()

    async def second_time() -> int:
        if current_attempt() == 1:
            raise KeyError("not yet")
        return current_attempt()

    assert isinstance((await start(runner, late, time_limit_s=0.001)).error, StepTimedOut)
    await spare_task(runner)
    retry = Retry(attempts=3, delay=0.001, jitter=0)
    assert (await start(runner, second_time, retry=retry, time_limit_s=60)).value == 2


async def test_its_context_is_its_own(runner: StepRunner) -> None:
    async def change() -> list[str]:
        seen = [request.get()]
        request.set("the step's")
        await asyncio.sleep(0)
        return [*seen, request.get()]

    request.set("mine")
    assert (await start(runner, change)).value == ["mine", "the step's"]
    assert request.get() == "mine"
