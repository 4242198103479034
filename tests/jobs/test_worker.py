"""Workers of plain tasks on a real node: what they run, what becomes of it, and how they stop."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.client.errors import OutcomeUnknown
from holdfast.client.interface import Client
from holdfast.host.host import Host
from holdfast.host.slots import SlotGroup, TaskSettings
from holdfast.jobs.info import TaskStatus
from holdfast.jobs.runner import JobRunner
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, TaskClaim
from holdfast.steps.runner import StepRunner

soon_s = 25.0  # below every fallback: the next offer is 30 s away


def app_on(path: Path, lease: str = "20s", **settings: Any) -> hf.App:
    app = hf.App(f"sqlite:///{path}/tasks.db", lease=lease)
    app.settings = replace(app.settings, tasks=TaskSettings(**settings))
    return app


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    """Until it is so, however long that takes within reason."""
    async with asyncio.timeout(soon_s):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_status(handle: Any, status: TaskStatus) -> Any:
    async def is_there() -> bool:
        return bool((await handle.info_async()).status is status)

    await until(is_there)
    return await handle.info_async()


async def code_of(handle: Any) -> str:
    async with asyncio.timeout(soon_s):
        result = await handle
    assert result.is_err, result
    return str(result.err_value.error_code)


@dataclass
class Point:
    x: int
    y: int


# --- results ---------------------------------------------------------------------------------------------


async def test_a_value_comes_back_as_its_annotation_says(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    @app.task
    async def mirror(point: Point) -> Point:
        return Point(point.y, point.x)

    async with app:
        result = await (await mirror.send_async(Point(1, 2)))
        assert result.ok_value == Point(2, 1)


async def test_a_result_that_is_ok_or_err_is_told_as_it_is(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    @app.task
    def divide(a: int, b: int) -> hf.TaskResult[int, hf.TaskError]:
        if b == 0:
            return hf.TaskResult(err=hf.TaskError("BY_ZERO", "no", {"a": a}))
        return hf.TaskResult(ok=a // b)

    async with app:
        good, bad = await divide.send_many_async([(6, 2), (6, 0)])
        assert (await good).ok_value == 3
        error = (await bad).err_value
        assert (error.error_code, error.message, error.data) == ("BY_ZERO", "no", {"a": 6})
        assert (await bad.info_async()).status is TaskStatus.FAILED


async def test_plain_functions_run_in_threads_and_async_ones_on_the_loop(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    @app.task
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    @app.task
    async def on_loop() -> bool:
        return threading.current_thread() is threading.main_thread()

    async with app:
        assert (await (await plain.send_async())).ok_value is False
        assert (await (await on_loop.send_async())).ok_value is True


async def test_inside_a_task_current_tells_where_it_is(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    @app.task(name="look around", retry=hf.Retry.fixed([0.01], jitter=0))
    def look() -> list[Any]:
        here = hf.current()
        if here.attempt == 1:
            raise ValueError("once more")
        return [here.id, here.workflow, here.attempt, here.token, here.signal.is_set, here.deadline is None]

    async with app:
        handle = await look.send_async()
        seen = (await handle).ok_value
        assert seen == [handle.id, "look around", 2, 2, False, True]


# --- codes -----------------------------------------------------------------------------------------------


class Declined(Exception):
    pass


class DeclinedByBank(Declined):
    pass


async def test_a_raised_exception_fails_under_the_code_that_is_documented(tmp_path: Path) -> None:
    """What is produced without a mapping is UNHANDLED_EXCEPTION, and a policy that names it retries."""
    app = app_on(tmp_path)

    @app.task(retry=hf.Retry.fixed([0.01], retry_for=["UNHANDLED_EXCEPTION"], jitter=0))
    def fail() -> None:
        raise ValueError("bad")

    async with app:
        handle = await fail.send_async()
        result = await handle
        assert result.err_value.error_code == "UNHANDLED_EXCEPTION"
        assert isinstance(result.err_value.exception, ValueError)
        info = await handle.info_async()
        assert [(each.number, each.error_code, each.will_retry) for each in info.attempts] == [
            (1, "UNHANDLED_EXCEPTION", True),
            (2, "UNHANDLED_EXCEPTION", False),
        ]


async def test_exceptions_are_mapped_by_class_and_retried_by_code(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    tries: Counter[str] = Counter()

    @app.task(
        exception_codes={Declined: "DECLINED"},
        retry=hf.Retry.fixed([0.01, 0.01], retry_for=["DECLINED"], jitter=0),
    )
    async def pay(how: str) -> str:
        tries[how] += 1
        raise DeclinedByBank(how) if how == "bank" else ValueError(how)

    async with app:
        bank, other = await pay.send_many_async([("bank",), ("other",)])
        assert await code_of(bank) == "DECLINED"
        assert await code_of(other) == "UNHANDLED_EXCEPTION"
        assert tries == {"bank": 3, "other": 1}


async def test_a_task_may_choose_when_it_is_tried_again_or_that_it_is_not(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    begun: list[float] = []

    @app.task(retry=hf.Retry.fixed([3600], jitter=0))
    async def later() -> str:
        begun.append(time.monotonic())
        if len(begun) == 1:
            raise hf.RetryAfter("200ms")
        return "done"

    @app.task(retry=hf.Retry.fixed([0.01], jitter=0))
    async def never() -> None:
        raise hf.GiveUp("no such card")

    async with app:
        async with asyncio.timeout(soon_s):
            assert (await (await later.send_async())).ok_value == "done"
        assert begun[1] - begun[0] >= 0.2
        handle = await never.send_async()
        assert await code_of(handle) == "UNHANDLED_EXCEPTION"
        assert len((await handle.info_async()).attempts) == 1


@pytest.mark.parametrize(
    ("value", "code"),
    [("text", "RETURN_TYPE_MISMATCH"), (object(), "WORKER_SERIALIZATION_ERROR")],
)
async def test_a_value_that_breaks_the_promise_fails(tmp_path: Path, value: Any, code: str) -> None:
    app = app_on(tmp_path)

    @app.task
    def give() -> int:
        return value  # type: ignore[no-any-return]

    async with app:
        assert await code_of(await give.send_async()) == code


async def test_a_result_too_large_to_be_stored_fails_and_says_so(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    @app.task
    def give() -> str:
        return "x" * 3_000_000

    async with app:
        handle = await give.send_async()
        assert await code_of(handle) == "WORKER_SERIALIZATION_ERROR"
        assert "3,000,002 bytes as JSON; the limit is 786,432" in ((await handle).err_value.message or "")


async def test_arguments_that_no_longer_fit_fail(tmp_path: Path) -> None:
    old, new = app_on(tmp_path), app_on(tmp_path)
    old.settings = replace(old.settings, worker=False)

    @old.task(name="greet")
    def greet(name: str) -> str:
        return name

    @new.task(name="greet")
    def greet_by_number(number: int) -> int:
        return number

    async with old:
        handle = await greet.send_async("Ada")
    async with new:
        assert await code_of(new.task_handle(handle.id)) == "ARGUMENT_TYPE_MISMATCH"


async def test_a_task_that_is_not_known_here_is_given_back_uncounted(tmp_path: Path) -> None:
    sender, stranger, knower = app_on(tmp_path), app_on(tmp_path), app_on(tmp_path)
    sender.settings = replace(sender.settings, worker=False)

    @sender.task(name="new")
    async def new() -> str:
        return "here"

    @stranger.task(name="other")
    async def other() -> None: ...

    @knower.task(name="new")
    async def known() -> str:
        return "there"

    async with sender:
        handle = await new.send_async()
    async with stranger:
        seen = stranger.task_handle(handle.id)
        assert (await seen.get_async(timeout=0.5)).err_value.error_code == "WAIT_TIMEOUT"
        info = await seen.info_async()
        assert (info.status, list(info.attempts)) == (TaskStatus.PENDING, [])
    async with knower:
        async with asyncio.timeout(soon_s):
            assert (await knower.task_handle(handle.id)).ok_value == "there"
        info = await knower.task_handle(handle.id).info_async()
        assert len(info.attempts) == 1


# --- stopping a run --------------------------------------------------------------------------------------


async def test_a_task_over_its_time_limit_is_stopped_and_fails(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    told: list[str] = []

    @app.task(time_limit="100ms")
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    @app.task(time_limit="100ms")
    def slow_thread() -> None:
        signal = hf.current().signal
        while not signal.is_set:
            time.sleep(0.005)
        told.append("signalled")

    async with app:
        for task in (slow, slow_thread):
            assert await code_of(await task.send_async()) == "TIME_LIMIT_EXCEEDED"

        async def both() -> bool:
            return sorted(told) == ["cancelled", "signalled"]

        await until(both)


async def test_a_forced_cancel_stops_what_runs_at_once(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    told: list[str] = []

    @app.task
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    @app.task
    def slow_thread() -> None:
        signal = hf.current().signal
        while not signal.is_set:
            time.sleep(0.005)
        told.append(type(signal.reason).__name__)

    async with app:
        for task in (slow, slow_thread):
            handle = await task.send_async()
            await until_status(handle, TaskStatus.RUNNING)
            with pytest.raises(hf.errors.CannotCancel):
                await handle.cancel_async()
            await handle.cancel_async(force=True)
            assert await code_of(handle) == "TASK_CANCELLED"

        async def both() -> bool:
            return sorted(told) == ["TaskLost", "cancelled"]

        await until(both)


# --- slots -----------------------------------------------------------------------------------------------


async def test_no_more_run_at_once_than_there_are_slots_and_slots_are_refilled_one_by_one(
    tmp_path: Path,
) -> None:
    app = app_on(tmp_path, concurrency=3)
    running, most, ends = 0, 0, asyncio.Event()

    @app.task
    async def work(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if number == 0:
            await ends.wait()  # one slow task must not hold up the others
        await asyncio.sleep(0.001)
        running -= 1

    async with app:
        sent = await work.send_many_async([(number,) for number in range(30)])
        async with asyncio.timeout(soon_s):
            for each in sent[1:]:
                assert (await each).is_ok
        ends.set()
        assert (await sent[0]).is_ok
    assert most == 3


async def test_prefetch_claims_ahead_and_starts_when_a_slot_is_free(tmp_path: Path) -> None:
    app = app_on(tmp_path, concurrency=1, prefetch=2)
    ends = asyncio.Event()

    @app.task
    async def work(number: int) -> int:
        await ends.wait()
        return number

    async with app:
        handles = await work.send_many_async([(n,) for n in range(4)])

        async def spread() -> bool:
            seen = Counter([(await handle.info_async()).status.value for handle in handles])
            return seen == {"RUNNING": 1, "CLAIMED": 2, "PENDING": 1}

        await until(spread)
        ends.set()
        async with asyncio.timeout(soon_s):
            assert [(await handle).ok_value for handle in handles] == [0, 1, 2, 3]


async def test_a_task_whose_good_until_passes_while_it_waits_in_the_prefetch_expires(
    tmp_path: Path,
) -> None:
    app = app_on(tmp_path, concurrency=1, prefetch=1)
    ends, ran = asyncio.Event(), list[int]()

    @app.task
    async def work(number: int) -> None:
        ran.append(number)
        await ends.wait()

    async with app:
        first = await work.send_async(1)
        await until_status(first, TaskStatus.RUNNING)
        soon = datetime.now(UTC) + timedelta(seconds=0.4)
        second = await work.with_options(good_until=soon).send_async(2)
        assert await code_of(second) == "TASK_EXPIRED"
        ends.set()
        assert (await first).is_ok
    assert ran == [1]


# --- stopping the worker ---------------------------------------------------------------------------------


async def test_a_worker_that_stops_gives_back_what_has_not_started_and_waits_for_what_runs(
    tmp_path: Path,
) -> None:
    app, second = app_on(tmp_path, concurrency=1, prefetch=3), app_on(tmp_path)
    begun, ends = asyncio.Event(), asyncio.Event()

    for each in (app, second):

        @each.task(name="work")
        async def work(number: int) -> int:
            begun.set()
            await ends.wait()
            return number

    async with app:
        task: Any = app.tasks.find("work")
        handles: list[Any] = await task.send_many_async([(n,) for n in range(4)])
        await begun.wait()
        asyncio.get_running_loop().call_later(0.2, ends.set)
    looking = app_on(tmp_path)
    looking.settings = replace(looking.settings, worker=False)
    async with looking:
        seen = Counter([(await looking.task_handle(each.id).info_async()).status.value for each in handles])
        assert seen == {"COMPLETED": 1, "PENDING": 3}
    async with second:
        for handle in handles:
            async with asyncio.timeout(soon_s):
                assert (await second.task_handle(handle.id)).is_ok
        for handle in handles:
            assert len((await second.task_handle(handle.id).info_async()).attempts) == 1


async def test_what_outlasts_the_drain_is_given_back_without_counting(tmp_path: Path) -> None:
    app, second = app_on(tmp_path, drain_s=0.1), app_on(tmp_path)

    @app.task(name="work")
    async def forever() -> str:
        await asyncio.sleep(600)
        return "never"

    @second.task(name="work")
    async def quick() -> str:
        return "quick"

    async with app:
        handle = await forever.send_async()
        await until_status(handle, TaskStatus.RUNNING)
    async with second:
        async with asyncio.timeout(soon_s):
            assert (await second.task_handle(handle.id)).ok_value == "quick"
        info = await second.task_handle(handle.id).info_async()
        assert [(each.number, each.error_code) for each in info.attempts] == [(1, None)]


# --- lost replies ----------------------------------------------------------------------------------------


class Losing:
    """A real client whose line breaks once, after a claim was carried out and before its reply arrives."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.has_lost = False

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        replies = await self._client.request(requests)
        if not self.has_lost and any(isinstance(each.data, TaskClaim) for each in requests):
            self.has_lost = True
            raise OutcomeUnknown("The connection broke")
        return replies

    def messages(self, group: str, member: str) -> Any:
        return self._client.messages(group, member)

    async def close(self) -> None:
        await self._client.close()


async def test_tasks_of_a_claim_whose_reply_was_lost_are_given_back_and_run_without_waiting_for_the_lease(
    tmp_path: Path,
) -> None:
    app = app_on(tmp_path)
    app.settings = replace(app.settings, worker=False)
    ran: list[int] = []

    @app.task
    async def work(number: int) -> int:
        ran.append(number)
        return number

    async with app:
        line = Losing(app.session.task_client.caller.client)
        handles = await work.send_many_async([(n,) for n in range(3)])
        worker = Host(line, pid="w1", lease_s=600, now=app.session.now)
        runner = JobRunner(app.payloads, app.tasks, StepRunner(), pid="w1")
        worker.serve(SlotGroup(["queue.default"], 100), runner)
        async with asyncio.timeout(soon_s):
            assert [(await handle).ok_value for handle in handles] == [0, 1, 2]
        assert line.has_lost
        assert sorted(ran) == [0, 1, 2]
        for handle in handles:
            [attempt] = (await handle.info_async()).attempts
            assert (attempt.number, attempt.token, attempt.error_code) == (1, 2, None)
        await worker.stop()
