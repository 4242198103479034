"""What asyncio documents of its functions holds in a workflow, durably."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere
from holdfast.testing.crashes import run_once

who: ContextVar[str] = ContextVar("who", default="nobody")


def double(number: int) -> int:
    return 2 * number


def broken(number: int) -> int:
    raise ValueError(number)


async def slow(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


def ran(code: Callable[[], Awaitable[Any]]) -> Any:
    """The result of the code as a workflow; and its record leads there again."""
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def workflow() -> Any:
        return await code()

    outcome = run_once(app, workflow, (), execution="one").outcome
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def test_gather_gives_results_in_the_order_of_its_arguments() -> None:
    async def code() -> Any:
        return await asyncio.gather(hf.run(slow, 3), asyncio.sleep(1, "slept"), hf.run(double, 4))

    assert ran(code) == [3, "slept", 8]


def test_gather_raises_the_first_failure_and_the_others_run_on() -> None:
    async def code() -> Any:
        other = asyncio.create_task(asyncio.sleep(5, "done"))
        with pytest.raises(ValueError, match="1"):
            await asyncio.gather(hf.run(broken, 1), other)
        return await other

    assert ran(code) == "done"


def test_gather_returns_exceptions_where_they_are_asked_for() -> None:
    async def code() -> Any:
        found = await asyncio.gather(hf.run(broken, 1), hf.run(double, 2), return_exceptions=True)
        return [type(each).__name__ for each in found]

    assert ran(code) == ["ValueError", "int"]


def test_wait_tells_the_first_from_the_rest() -> None:
    async def code() -> Any:
        late: Any = hf.run(slow, 9)
        early: Any = hf.run(slow, 1)
        done, pending = await asyncio.wait([late, early], return_when=asyncio.FIRST_COMPLETED)
        return [early in done, late in pending, len(done), len(pending)]

    assert ran(code) == [True, True, 1, 1]


def test_wait_gives_up_after_its_timeout_and_cancels_nothing() -> None:
    async def code() -> Any:
        task = asyncio.create_task(asyncio.sleep(10, "done"))
        done, pending = await asyncio.wait([task], timeout=2)
        return [len(done), len(pending), await task]

    assert ran(code) == [0, 1, "done"]


def test_sets_of_tasks_have_one_order_in_every_run() -> None:
    """By address they would come out in another order in another process, and sooner or later in this one."""

    async def code() -> Any:
        tasks = {asyncio.create_task(asyncio.sleep(1, number)) for number in range(40)}
        done, _ = await asyncio.wait(tasks)
        found = [task.result() for task in done]
        completed = [await each for each in asyncio.as_completed([asyncio.sleep(1, n) for n in range(40)])]
        return [found, completed, [task.get_name() for task in asyncio.all_tasks()]]

    first = ran(code)
    keep = [object() for _ in range(1000)]  # other addresses
    assert ran(code) == first
    assert first[1] == list(range(40))
    assert keep


def test_as_completed_gives_what_ends_first_first() -> None:
    async def code() -> Any:
        work: list[Any] = [hf.run(slow, 3), hf.run(slow, 1), asyncio.sleep(2, 2)]
        return [await each for each in asyncio.as_completed(work)]

    assert ran(code) == [1, 2, 3]


def test_a_shielded_step_goes_on_when_its_waiter_times_out() -> None:
    async def code() -> Any:
        step = hf.run(slow, 5)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(step), 1)
        return await step

    assert ran(code) == 5


def test_a_timeout_calls_the_step_off() -> None:
    told: list[bool] = []

    async def patient() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            told.append(hf.step_signal().is_set)

    async def code() -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await hf.run(patient)
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert ran(code) == 3.0
    assert told[0]


def test_a_timeout_asks_what_was_called_to_cancel_itself() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def child() -> None:
        await hf.sleep("1h")

    @app.workflow(loop="asyncio")
    async def parent() -> str:
        try:
            await asyncio.wait_for(hf.call(child), 5)
        except TimeoutError:
            return "late"
        return "never"

    with World(app) as world:
        assert app.start(parent, id="p").result() == "late"
        world.settle_down()
        assert world.store.promises["p:1"].state == "rejected_canceled"


def test_a_promise_can_be_awaited_again_after_a_timeout() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def ask() -> list[str]:
        answer = hf.promise(str)
        reminders: list[str] = []
        while True:
            try:
                async with asyncio.timeout(60):
                    return [*reminders, await answer]
            except TimeoutError:
                reminders.append("reminded")

    async def outside() -> None:
        await asyncio.sleep(150)
        await app.resolve("crash-test:1", "yes")

    proof = crash_everywhere(ask, app=app, outside=outside)
    assert proof.result == ["reminded", "reminded", "yes"]


def test_cancelling_a_durable_future_is_for_good() -> None:
    async def code() -> Any:
        step: Any = hf.run(slow, 60)
        seen: list[bool] = []

        def done(future: Any) -> None:
            seen.append(future.cancelled())

        step.add_done_callback(done)
        assert step.cancel()
        assert not step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        return [seen, step.done(), step.cancelled()]

    assert ran(code) == [[True], True, True]


def test_time_is_that_of_the_last_completion() -> None:
    async def code() -> Any:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await asyncio.sleep(5)
        times.append(loop.time())
        await hf.run(slow, 2)
        times.append(loop.time())
        return times

    assert ran(code) == [0.0, 5.0, 7.0]


def test_a_timer_that_is_not_waited_for_is_not_written_down() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def hasty() -> int:
        queue: asyncio.Queue[int] = asyncio.Queue()
        for number in range(10):
            async with asyncio.timeout(60):
                await queue.put(number)
        return queue.qsize()

    with World(app) as world:
        assert app.start(hasty, id="h").result() == 10
        assert world.journal("h") == []


def test_timers_that_became_due_while_nobody_was_there_run_in_their_order() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def two() -> list[int]:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        for seconds in (9, 3, 6):
            loop.call_later(seconds, seen.append, seconds)
        await asyncio.sleep(20)
        return seen

    with World(app) as world:
        handle = app.start(two)
        world.elapse(1)
        world.kill()
        world.elapse(30)
        assert handle.result() == [3, 6, 9]


def test_each_task_has_its_own_context() -> None:
    async def code() -> Any:
        async def named(name: str) -> str:
            who.set(name)
            await hf.run(double, 1)
            return who.get()

        return [await asyncio.gather(named("ada"), named("bob")), who.get()]

    assert ran(code) == [["ada", "bob"], "nobody"]


def test_current_task_and_all_tasks_know_the_tasks_of_the_workflow_only() -> None:
    async def code() -> Any:
        other = asyncio.create_task(asyncio.sleep(3), name="other")
        names = [task.get_name() for task in asyncio.all_tasks()]
        current = asyncio.current_task()
        await other
        return [names, current is not None and current.get_name()]

    assert ran(code) == [["Task-1", "other"], "Task-1"]


def test_a_generator_that_is_left_early_is_closed_as_asyncio_closes_it() -> None:
    async def code() -> Any:
        seen: list[str] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                for number in range(10):
                    yield await hf.run(double, number)
            finally:
                seen.append(f"closed {await hf.run(double, 50)}")

        async for number in numbers():
            seen.append(str(number))
            if number == 4:
                break
        await asyncio.sleep(1)
        return seen

    assert ran(code) == ["0", "2", "4", "closed 100"]


def test_tasks_that_are_left_at_the_end_are_cancelled_and_may_clean_up() -> None:
    app = hf.App("memory:")
    ledger: list[int] = []

    @app.workflow(loop="asyncio")
    async def leaves() -> str:
        async def background() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await hf.run(ledger.append, 1)

        asyncio.create_task(background())  # noqa: RUF006
        await asyncio.sleep(1)
        return "done"

    with World(app):
        assert app.start(leaves).result() == "done"
    assert ledger == [1]


def test_what_can_never_go_on_is_a_deadlock_that_names_the_lines() -> None:
    async def code() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(Exception, match=r"can never go on[\s\S]*test_behaviour.py[\s\S]*in Event.wait"):
        ran(code)


@pytest.mark.slow
def test_a_loop_that_never_waits_is_ended() -> None:
    async def code() -> Any:
        step = hf.run(double, 1)
        while not step.settled:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Exception, match="HF5114"):
        ran(code)


def test_a_task_that_failed_and_was_not_awaited_is_told() -> None:
    import logging

    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    async def code() -> Any:
        async def fails() -> None:
            raise ValueError("nobody looks")

        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    ear = Ear()
    logging.getLogger("holdfast").addHandler(ear)
    try:
        ran(code)
    finally:
        logging.getLogger("holdfast").removeHandler(ear)
    assert any("nobody looks" in line for line in heard)


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="since Python 3.12")
def test_eager_tasks_begin_at_once() -> None:
    async def code() -> Any:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        seen: list[str] = []

        async def child() -> int:
            seen.append("begun")
            return await hf.run(double, 4)

        task = asyncio.create_task(child())
        seen.append("created")
        return [seen, await task]

    assert ran(code) == [["begun", "created"], 8]
