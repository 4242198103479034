"""Steps are performed outside the fibers: in threads and tasks, with retries, limits and signals."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from holdfast.payloads.errors import StepCalledOff, StepExited, StepsClosed, StepTimedOut
from holdfast.runtime import Signal, Step, named, step_signal
from holdfast.steps.retry import GiveUp, Retry, RetryAfter
from holdfast.steps.runner import Mode, StepCall, StepOutcome, StepRunner, current_attempt
from holdfast.steps.step_run import CANCEL_GRACE_S
from holdfast.testing.loop import JumpingLoop, run_jumping
from tests.workflow.waiting import until

TINY = Retry(attempts=3, delay=0.001, jitter=0)


def step(function: Callable[..., Any], *args: Any, above: Signal | None = None) -> Step:
    return Step(getattr(function, "__name__", "step"), function, args, {}, above or Signal())


def start(runner: StepRunner, what: Step, **options: Any) -> asyncio.Future[StepOutcome]:
    outcome: asyncio.Future[StepOutcome] = runner.loop.create_future()
    runner.start(StepCall(what, **options), outcome.set_result)
    assert not outcome.done(), "done is never called inside start"
    return outcome


@pytest.fixture
async def runner() -> AsyncIterator[StepRunner]:
    runner = StepRunner(threads_max=4)
    yield runner
    await until(lambda: not runner.left_behind)
    await runner.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("holdfast-step")]


def jumping(main: Callable[[StepRunner], Awaitable[Any]]) -> Any:
    """Run with virtual time: for tasks and inline steps, which need no other thread."""
    loop = JumpingLoop()

    async def body() -> Any:
        runner = StepRunner(random=lambda: 0.0)
        try:
            return await main(runner)
        finally:
            await runner.close()

    return run_jumping(body(), loop)


def where() -> str:
    return threading.current_thread().name


async def where_async() -> str:
    return threading.current_thread().name


async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def fail() -> None:
    raise KeyError("gone")


# -- where functions run


async def test_a_sync_function_runs_in_a_thread(runner: StepRunner) -> None:
    assert (await start(runner, step(where))).value.startswith("holdfast-step")


async def test_an_async_function_runs_on_the_loop(runner: StepRunner) -> None:
    assert (await start(runner, step(where_async))).value == threading.current_thread().name
    assert (await start(runner, step(add, 1, 2))).value == 3


async def test_an_inline_function_runs_on_the_loops_thread(runner: StepRunner) -> None:
    assert (await start(runner, step(where), mode="inline")).value == threading.current_thread().name


async def test_a_sync_function_may_be_asked_onto_the_loop(runner: StepRunner) -> None:
    assert (await start(runner, step(where), mode="async")).value == threading.current_thread().name


class Callable_:  # noqa: N801
    async def __call__(self) -> str:
        return where()

    async def method(self) -> str:
        return where()


@pytest.mark.parametrize(
    "function", [partial(where_async), named("x", where_async), Callable_(), Callable_().method]
)
async def test_an_async_function_is_recognised_in_disguise(
    runner: StepRunner, function: Callable[..., Any]
) -> None:
    assert (await start(runner, step(function))).value == threading.current_thread().name


@pytest.mark.parametrize("mode", ["thread", "inline"])
async def test_a_coroutine_that_a_plain_function_returns_is_awaited(runner: StepRunner, mode: Mode) -> None:
    assert (await start(runner, step(lambda: add(1, 2)), mode=mode)).value == 3


async def test_an_outcome_tells_attempts_and_duration(runner: StepRunner) -> None:
    began_s = time.monotonic()
    outcome = await start(runner, step(add, 1, 2))
    assert (outcome.error, outcome.attempts, outcome.result()) == (None, 1, 3)
    assert 0 <= outcome.duration_s <= time.monotonic() - began_s


async def test_threads_are_bounded(runner: StepRunner) -> None:
    together, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        threading.Event().wait(0.005)
        with lock:
            together -= 1

    await asyncio.gather(*(start(runner, step(work)) for _ in range(20)))
    assert most == 4


async def test_steps_run_at_the_same_time_and_each_is_told_once(runner: StepRunner) -> None:
    told: list[Any] = []
    for number in range(200):
        runner.start(StepCall(step(partial(int, number))), lambda outcome: told.append(outcome.value))
        runner.start(StepCall(step(add, number, 1000)), lambda outcome: told.append(outcome.value))
    assert await runner.drain(10)
    assert sorted(told) == [*range(200), *range(1000, 1200)]


request: ContextVar[str] = ContextVar("request", default="none")


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
async def test_a_step_runs_in_a_copy_of_its_context(runner: StepRunner, mode: Mode) -> None:
    def read() -> str:
        seen = request.get()
        request.set("spoiled")
        return f"{seen} {current_attempt()}"

    request.set("seventeen")
    what = step(read)
    request.set("other")
    assert (await start(runner, what, mode=mode)).value == "seventeen 1"
    assert what.context[request] == "seventeen"
    assert request.get() == "other"


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
async def test_done_is_called_on_the_loops_thread_outside_the_steps_context(
    runner: StepRunner, mode: Mode
) -> None:
    seen: asyncio.Future[tuple[int, str]] = runner.loop.create_future()
    request.set("inside")
    what = step(where)
    request.set("outside")
    runner.start(StepCall(what, mode=mode), lambda _: seen.set_result((threading.get_ident(), request.get())))
    thread, value = await seen
    assert thread == threading.get_ident()
    assert value != "inside"


async def test_no_user_code_runs_inside_start(runner: StepRunner) -> None:
    ran: list[str] = []

    async def note() -> None:
        ran.append("async")

    outcomes = [
        start(runner, step(note)),
        start(runner, step(ran.append, "inline"), mode="inline"),
        start(runner, step(ran.append, "sync on the loop"), mode="async"),
    ]
    assert ran == []
    await asyncio.gather(*outcomes)
    assert len(ran) == 3


# -- tasks of async steps


async def test_steps_that_never_wait_share_a_task(runner: StepRunner) -> None:
    async def me() -> asyncio.Task[Any] | None:
        return asyncio.current_task()

    first, second = await asyncio.gather(*(start(runner, step(me)) for _ in range(2)))
    assert first.value is second.value is not asyncio.current_task()


async def test_a_step_that_waits_keeps_its_task_and_holds_up_nobody(runner: StepRunner) -> None:
    go = asyncio.Event()

    async def wait() -> bool:
        before = asyncio.current_task()
        await go.wait()
        return before is asyncio.current_task()

    async def open_the_way() -> None:
        go.set()

    outcomes = [start(runner, step(each)) for each in (wait, wait, open_the_way)]
    assert [outcome.value for outcome in await asyncio.gather(*outcomes)] == [True, True, None]


async def test_timeouts_and_task_groups_work_inside_a_step(runner: StepRunner) -> None:
    async def timed() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "not at all"

    async def grouped() -> int:
        async with asyncio.TaskGroup() as group:
            members = [group.create_task(add(number, number)) for number in range(3)]
        return sum(member.result() for member in members)

    async def group_fails() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(fail))
            await asyncio.Event().wait()

    outcomes = [start(runner, step(each)) for each in (timed, grouped, group_fails, where_async)]
    timed_out, total, failed, plain = await asyncio.gather(*outcomes)
    assert (timed_out.value, total.value) == ("timed out", 6)
    assert isinstance(failed.error, ExceptionGroup)
    assert plain.value == threading.current_thread().name


async def test_a_step_that_cancels_its_own_task_harms_no_other(runner: StepRunner) -> None:
    async def strike() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "struck"

    outcomes = [start(runner, step(strike)), start(runner, step(add, 1, 2))]
    assert [outcome.value for outcome in await asyncio.gather(*outcomes)] == ["struck", 3]


async def test_the_context_of_a_step_holds_across_its_waits(runner: StepRunner) -> None:
    async def read() -> list[str]:
        seen = [request.get()]
        request.set("changed")
        await asyncio.sleep(0)
        seen.append(request.get())
        seen.append(await asyncio.create_task(inherit()))
        return seen

    async def inherit() -> str:
        return request.get()

    request.set("mine")
    outcomes = [start(runner, step(read)), start(runner, step(read))]
    assert [outcome.value for outcome in await asyncio.gather(*outcomes)] == [
        ["mine", "changed", "changed"]
    ] * 2
    assert request.get() == "mine"


# -- failing


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
async def test_what_a_function_raises_is_the_outcome(runner: StepRunner, mode: Mode) -> None:
    outcome = await start(runner, step(fail), mode=mode)
    assert isinstance(outcome.error, KeyError)
    assert [frame.name for frame in traceback.extract_tb(outcome.error.__traceback__)] == ["fail"]
    with pytest.raises(KeyError):
        outcome.result()


async def test_arguments_that_do_not_fit_fail_the_step(runner: StepRunner) -> None:
    assert isinstance((await start(runner, step(fail, 1, 2))).error, TypeError)
    assert isinstance((await start(runner, step(add, 1))).error, TypeError)


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_an_exit_fails_the_step_and_nothing_else(
    runner: StepRunner, mode: Mode, error: BaseException
) -> None:
    def exits() -> None:
        raise error

    outcome = await start(runner, step(exits), mode=mode, retry=TINY)
    assert isinstance(outcome.error, StepExited)
    assert outcome.attempts == 1
    assert (await start(runner, step(where), mode=mode)).error is None


async def test_a_receiver_that_fails_is_reported_and_harms_no_other(runner: StepRunner) -> None:
    reported: list[Any] = []
    runner.loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def receive(outcome: StepOutcome) -> None:
        raise ValueError("receiver")

    for mode in ("thread", "async", "inline"):
        runner.start(StepCall(step(where), mode=mode), receive)
    assert (await start(runner, step(where))).error is None
    await runner.drain(5)
    assert [repr(error) for error in reported] == ["ValueError('receiver')"] * 3


# -- trying again


def failing(times: int, error: Exception | None = None) -> Callable[[], int]:
    def flaky() -> int:
        if current_attempt() <= times:
            raise error or OSError(f"attempt {current_attempt()}")
        return current_attempt()

    return flaky


@pytest.mark.parametrize("mode", ["thread", "async", "inline"])
async def test_a_step_is_tried_again_until_it_succeeds(runner: StepRunner, mode: Mode) -> None:
    outcome = await start(runner, step(failing(2)), mode=mode, retry=TINY)
    assert (outcome.value, outcome.error, outcome.attempts) == (3, None, 3)


async def test_the_last_error_is_the_outcome(runner: StepRunner) -> None:
    outcome = await start(runner, step(failing(9)), retry=TINY)
    assert (str(outcome.error), outcome.attempts) == ("attempt 3", 3)


def test_the_waits_between_attempts_are_the_policys() -> None:
    async def main(runner: StepRunner) -> float:
        policy = Retry(attempts=4, delay="1d", factor=2, delay_max="3d", jitter=0)
        outcome = await start(runner, step(failing(3)), mode="inline", retry=policy)
        assert outcome.value == 4
        return outcome.duration_s

    assert jumping(main) == pytest.approx((1 + 2 + 3) * 86400)


def test_an_error_chooses_the_wait() -> None:
    async def main(runner: StepRunner) -> float:
        return (
            await start(runner, step(failing(1, RetryAfter("1h"))), mode="inline", retry=Retry())
        ).duration_s

    assert jumping(main) == pytest.approx(3600)


def test_giving_up_is_at_once() -> None:
    async def main(runner: StepRunner) -> StepOutcome:
        return await start(runner, step(failing(1, GiveUp("no"))), mode="inline", retry=Retry())

    assert jumping(main).attempts == 1


def test_the_time_limit_of_a_policy_is_for_all_attempts() -> None:
    async def main(runner: StepRunner) -> StepOutcome:
        policy = Retry(attempts=None, delay=60, factor=1, jitter=0, time_limit="10m")
        return await start(runner, step(failing(10**6)), mode="inline", retry=policy)

    outcome: StepOutcome = jumping(main)
    assert outcome.attempts == 11
    assert outcome.duration_s == pytest.approx(600)


# -- time limits


def test_an_async_attempt_that_takes_too_long_is_cancelled() -> None:
    cleaned: list[bool] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append(step_signal().is_set)

    async def main(runner: StepRunner) -> StepOutcome:
        return await start(runner, step(slow), time_limit_s=60)

    outcome: StepOutcome = jumping(main)
    assert isinstance(outcome.error, StepTimedOut)
    assert "Attempt 1 of the step slow took longer than 60 s" in str(outcome.error)
    assert outcome.duration_s == pytest.approx(60)
    assert cleaned == [True]


def test_the_limit_is_for_each_attempt_and_the_next_has_a_fresh_signal() -> None:
    async def slow_at_first() -> tuple[int, bool]:
        if current_attempt() < 3:
            await asyncio.sleep(3600)
        return current_attempt(), step_signal().is_set

    async def main(runner: StepRunner) -> StepOutcome:
        return await start(runner, step(slow_at_first), time_limit_s=60, retry=TINY)

    outcome: StepOutcome = jumping(main)
    assert outcome.value == (3, False)
    assert outcome.duration_s == pytest.approx(120, abs=1)


def test_a_task_that_swallows_its_cancellation_is_left_after_a_grace() -> None:
    async def stubborn() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def main(runner: StepRunner) -> StepOutcome:
        outcome = await start(runner, step(stubborn), time_limit_s=60)
        assert runner.left_behind == 1
        await asyncio.sleep(8000)
        assert runner.left_behind == 0
        return outcome

    outcome: StepOutcome = jumping(main)
    assert isinstance(outcome.error, StepTimedOut)
    assert outcome.duration_s == pytest.approx(60 + CANCEL_GRACE_S)


async def test_a_thread_that_takes_too_long_is_told_and_left_behind(runner: StepRunner) -> None:
    told, go = threading.Event(), threading.Event()

    def slow() -> None:
        step_signal().on_set(told.set)
        assert go.wait(60)

    outcome = await start(runner, step(slow), time_limit_s=0.02)
    assert isinstance(outcome.error, StepTimedOut)
    assert told.is_set()
    assert runner.left_behind == 1
    go.set()
    await until(lambda: not runner.left_behind)
    assert (await start(runner, step(where))).error is None


async def test_the_late_value_of_a_thread_left_behind_is_not_the_outcome(runner: StepRunner) -> None:
    go = threading.Event()

    def slow_at_first() -> int:
        if current_attempt() == 1:
            go.wait(60)
        else:
            go.set()
            threading.Event().wait(0.02)
        return current_attempt()

    outcome = await start(runner, step(slow_at_first), time_limit_s=0.5, retry=TINY)
    assert (outcome.value, outcome.attempts) == (2, 2)


async def test_the_time_in_the_queue_does_not_count() -> None:
    """Its time limit passes while other steps have all threads: by the loop's clock, which is put forward."""
    loop, gate, later_s = asyncio.get_running_loop(), threading.Event(), 0.0
    real = loop.time
    loop.time = lambda: real() + later_s  # type: ignore[method-assign]
    runner = StepRunner(threads_max=2)
    busy = [asyncio.ensure_future(start(runner, step(gate.wait))) for _ in range(2)]
    queued = asyncio.ensure_future(start(runner, step(where), time_limit_s=60))
    await until(lambda: len(runner.running()) == 3)
    for _ in range(3):
        later_s += 100
        await asyncio.sleep(0.001)  # whatever is due by that clock happens
    assert not queued.done()
    gate.set()
    outcomes = await asyncio.gather(*busy, queued)
    assert [outcome.error for outcome in outcomes] == [None] * 3
    await runner.close()


def test_a_fast_step_leaves_no_timer() -> None:
    async def main(runner: StepRunner) -> float:
        await start(runner, step(add, 1, 2), time_limit_s=60)
        await start(runner, step(where), time_limit_s=60, mode="inline")
        return runner.loop.time()

    assert jumping(main) < 60


# -- being called off


def test_a_task_is_cancelled_and_its_cleanup_awaited() -> None:
    trace: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            trace.append("cleaned")

    async def main(runner: StepRunner) -> StepOutcome:
        above = Signal()
        outcome = start(runner, step(slow, above=above))
        await asyncio.sleep(0)
        above.set(ValueError("lost the race"))
        return await outcome

    outcome: StepOutcome = jumping(main)
    assert isinstance(outcome.error, StepCalledOff)
    assert repr(outcome.error.__cause__) == "ValueError('lost the race')"
    assert outcome.duration_s == pytest.approx(1)
    assert trace == ["cleaned"]


def test_a_task_that_was_called_off_before_it_began_never_does() -> None:
    async def main(runner: StepRunner) -> StepOutcome:
        above = Signal()
        outcome = start(runner, step(fail_async, above=above))
        above.set(ValueError())
        return await outcome

    async def fail_async() -> None:
        raise AssertionError

    assert isinstance(jumping(main).error, StepCalledOff)
    gc.collect()  # would complain of a coroutine that was never awaited


async def test_a_coroutine_from_a_plain_function_that_is_called_off_is_closed(runner: StepRunner) -> None:
    above, go = Signal(), threading.Event()

    def worker_context() -> Any:
        go.wait(60)
        return add(1, 2)

    outcome = start(runner, step(worker_context, above=above))
    above.set(ValueError())
    assert isinstance((await outcome).error, StepCalledOff)
    go.set()
    await until(lambda: not runner.left_behind)
    gc.collect()


@pytest.mark.parametrize("mode", ["thread", "async", "inline", "process"])
async def test_a_step_whose_signal_is_set_already_is_not_performed(runner: StepRunner, mode: Mode) -> None:
    above = Signal()
    above.set(ValueError())
    outcome = await start(runner, step(fail, above=above), mode=mode)
    assert isinstance(outcome.error, StepCalledOff)
    assert outcome.attempts == 0


def test_a_pending_retry_is_dropped() -> None:
    async def main(runner: StepRunner) -> StepOutcome:
        above = Signal()
        outcome = start(
            runner, step(fail, above=above), mode="inline", retry=Retry(delay="1d", delay_max="1d")
        )
        await asyncio.sleep(10)
        assert [each.state for each in runner.running()] == ["waiting to retry"]
        above.set(ValueError())
        return await outcome

    outcome: StepOutcome = jumping(main)
    assert isinstance(outcome.error, StepCalledOff)
    assert outcome.attempts == 1
    assert outcome.duration_s == pytest.approx(10)


async def test_a_thread_is_told_and_the_step_ends_at_once(runner: StepRunner) -> None:
    above, began, go = Signal(), threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        go.wait(60)

    outcome = start(runner, step(slow, above=above))
    await until(began.is_set)
    above.set(ValueError())
    assert isinstance((await outcome).error, StepCalledOff)
    assert runner.left_behind == 1
    go.set()


async def test_a_queued_step_that_is_called_off_is_not_performed(runner: StepRunner) -> None:
    above, go, ran = Signal(), threading.Event(), threading.Event()
    busy = [start(runner, step(go.wait, 10)) for _ in range(4)]
    queued = start(runner, step(ran.set, above=above))
    above.set(ValueError())
    assert isinstance((await queued).error, StepCalledOff)
    go.set()
    await asyncio.gather(*busy)
    assert (await start(runner, step(where))).error is None
    assert not ran.is_set()


async def test_a_signal_may_be_set_on_another_thread(runner: StepRunner) -> None:
    above = Signal()

    async def slow() -> None:
        await asyncio.sleep(3600)

    outcome = start(runner, step(slow, above=above))
    await asyncio.to_thread(above.set, ValueError())
    assert isinstance((await outcome).error, StepCalledOff)


# -- the runner


def test_running_steps_can_be_looked_at() -> None:
    async def slow() -> None:
        await asyncio.sleep(3600)

    async def main(runner: StepRunner) -> None:
        start(runner, step(slow))
        await asyncio.sleep(5)
        start(runner, step(fail), mode="inline", retry=Retry(delay="1h"))
        await asyncio.sleep(5)
        assert [(each.name, each.mode, each.attempt, each.state) for each in runner.running()] == [
            ("slow", "async", 1, "running"),
            ("fail", "inline", 1, "waiting to retry"),
        ]
        assert [each.running_s for each in runner.running()] == pytest.approx([10, 5])

    jumping(main)


def test_draining_waits_for_the_steps_under_way() -> None:
    async def main(runner: StepRunner) -> None:
        assert await runner.drain(0)
        outcome = start(runner, step(asyncio.sleep, 60))
        assert not await runner.drain(10)
        assert await runner.drain(60)
        assert outcome.done()
        assert runner.running() == []

    jumping(main)


def test_closing_calls_off_what_is_under_way() -> None:
    async def main(runner: StepRunner) -> StepOutcome:
        outcome = start(runner, step(asyncio.sleep, 3600))
        await runner.close()
        with pytest.raises(StepsClosed):
            start(runner, step(where))
        return await outcome

    outcome: StepOutcome = jumping(main)
    assert isinstance(outcome.error, StepCalledOff)
    assert isinstance(outcome.error.__cause__, StepsClosed)


async def test_closing_does_not_wait_for_a_thread_that_hangs() -> None:
    runner, go = StepRunner(), threading.Event()
    outcome = start(runner, step(go.wait, 60))
    await asyncio.sleep(0.01)
    await asyncio.wait_for(runner.close(), 60)
    assert isinstance((await outcome).error, StepCalledOff)
    go.set()


def test_a_thread_that_ends_after_its_loop_is_no_trouble() -> None:
    go = threading.Event()

    async def main() -> None:
        runner = StepRunner()
        start(runner, step(go.wait, 60))
        await asyncio.sleep(0.01)
        await runner.close()

    asyncio.run(main())
    go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("holdfast-step"):
            thread.join(60)
            assert not thread.is_alive()
