"""A step that waits long for its next attempt holds nothing: no slot, no lease; and nothing is forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere
from tests.counts import rest_slow

PATIENT = hf.Retry(attempts=4, delay="100h", factor=1, delay_max=None, jitter=0)
QUICK = hf.Retry(attempts=3, delay=1, factor=1, jitter=0)

app = hf.App()
calls: list[tuple[str, int]] = []


def flaky(name: str, failures: int = 2) -> str:
    attempt = hf.current().attempt
    calls.append((name, attempt))
    if attempt <= failures:
        raise ConnectionError(f"{name} is down, attempt {attempt}")
    return f"{name} up"


@hf.step(retry=PATIENT)
async def declared(name: str) -> str:
    return flaky(name)


@pytest.fixture(autouse=True)
def forget_calls() -> None:
    calls.clear()


@app.workflow
async def patient(name: str) -> str:
    return await hf.run(flaky, name, retry=PATIENT)


@app.workflow
async def with_declared(name: str) -> str:
    return await declared(name)


@app.workflow(loop="asyncio")
async def on_asyncio(name: str) -> str:
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(on_its_own(name))
        quick = group.create_task(on_its_own("quick", 0))
    return f"{await slow}, {await quick}"


async def on_its_own(name: str, failures: int = 2) -> str:
    return await hf.run(flaky, name, failures, retry=PATIENT)


@app.workflow
async def several() -> tuple[str, ...]:
    return await hf.gather(*(hf.run(flaky, name, retry=PATIENT) for name in ("a", "b", "c")))


@app.workflow
async def quick_one() -> str:
    return await hf.run(flaky, "other", 0)


@app.workflow
async def hopeless() -> str:
    try:
        return await hf.run(flaky, "never", 9, retry=PATIENT)
    except ConnectionError as error:
        return f"gave up: {error}"


@app.workflow
async def raced() -> str:
    slow = hf.spawn(waits_for_retry)
    timer = hf.spawn(sleeps_a_day)
    first = await hf.race(slow, timer, cancel_losers=True)
    await hf.sleep("1h")
    return first


async def waits_for_retry() -> str:
    return await hf.run(flaky, "slow", retry=PATIENT)


async def sleeps_a_day() -> str:
    await hf.sleep("1d")
    return "a day"


@app.workflow
async def bounded() -> str:
    try:
        async with hf.timeout("2h"):
            return await hf.run(flaky, "bounded", retry=PATIENT)
    except hf.TimedOut:
        return await hf.run(flaky, "instead", 0)


@app.workflow
async def cancellable() -> str:
    try:
        return await hf.run(flaky, "cancelled", retry=PATIENT)
    except hf.Cancelled:
        return await hf.run(flaky, "cleaned", 0)


@app.workflow
async def beside_a_promise() -> list[str]:
    step = hf.run(flaky, "beside", retry=PATIENT)  # it goes on though nobody waits for it yet
    answer = await hf.promise(str, timeout="365d")
    return [answer, await step]


def test_the_attempts_are_made_at_their_instants_and_the_execution_is_suspended_between_them() -> None:
    with World(app) as world:
        handle = app.start(patient, "mail", id="p")
        world.elapse("1h")
        info = handle.info()
        assert info.state == "suspended"
        [wait] = info.waits
        assert (wait.id, wait.what, wait.attempts) == ("p:1", "step flaky", 1)
        assert wait.error == "ConnectionError: mail is down, attempt 1"
        assert wait.resumes_at is not None
        assert (wait.resumes_at - world.now).total_seconds() == pytest.approx(99 * 3_600, abs=60)
        assert wait.function == "patient"
        world.elapse("100h")
        assert [attempt for _, attempt in calls] == [1, 2]
        assert handle.result() == "mail up"
    assert [attempt for _, attempt in calls] == [1, 2, 3]


def test_five_steps_that_wait_100_hours_leave_five_slots_to_others() -> None:
    narrow = hf.App(concurrency=5)

    @narrow.workflow
    async def waiting(name: str) -> str:
        return await hf.run(flaky, name, retry=PATIENT)

    @narrow.workflow
    async def quick(name: str) -> str:
        return await hf.run(flaky, name, 0)

    with World(narrow) as world:
        began = world.now
        patients = [narrow.start(waiting, f"slow {number}") for number in range(5)]
        world.elapse("1m")
        assert [each.info().state for each in patients] == ["suspended"] * 5
        others = [narrow.start(quick, f"quick {number}") for number in range(5)]
        assert [each.result() for each in others] == [f"quick {number} up" for number in range(5)]
        assert (world.now - began).total_seconds() < 3_600, "they did not wait for a slot"
        assert [each.result() for each in patients] == [f"slow {number} up" for number in range(5)]
        assert (world.now - began).total_seconds() == pytest.approx(200 * 3_600, abs=60)


def test_no_attempt_is_lost_or_repeated_when_the_worker_is_killed_between_them() -> None:
    with World(app) as world:
        handle = app.start(patient, "mail", id="p")
        for _ in range(3):
            world.kill()
            world.elapse("50h")
        assert handle.result() == "mail up"
    assert [attempt for _, attempt in calls] == [1, 2, 3]


def test_the_last_attempt_is_counted_across_crashes_and_its_error_is_what_the_code_sees() -> None:
    with World(app) as world:
        handle = app.start(hopeless, id="p")
        for _ in range(5):
            world.elapse("99h")
            world.kill()
        assert handle.result() == "gave up: never is down, attempt 4"
    assert [attempt for _, attempt in calls] == [1, 2, 3, 4]


def test_steps_that_wait_side_by_side_share_one_suspension() -> None:
    with World(app) as world:
        handle = app.start(several, id="p")
        world.elapse("1h")
        assert [(wait.id, wait.attempts) for wait in handle.info().waits] == [
            ("p:1", 1),
            ("p:2", 1),
            ("p:3", 1),
        ]
        assert [*handle.result()] == ["a up", "b up", "c up"]
    assert sorted(calls) == [(name, attempt) for name in "abc" for attempt in (1, 2, 3)]


@pytest.mark.parametrize("workflow", [with_declared, patient], ids=lambda each: each.name)
def test_a_declared_step_waits_in_the_same_way(workflow: Any) -> None:
    with World(app):
        assert app.start(workflow, "mail").result() == "mail up"
    assert [attempt for _, attempt in calls] == [1, 2, 3]


def test_steps_of_asyncio_code_wait_in_the_same_way() -> None:
    with World(app) as world:
        handle = app.start(on_asyncio, "mail", id="p")
        world.elapse("1h")
        assert handle.info().state == "suspended"
        world.kill()
        assert handle.result() == "mail up, quick up"
    assert [attempt for name, attempt in calls if name == "mail"] == [1, 2, 3]


def test_the_loser_of_a_race_is_not_tried_again() -> None:
    with World(app) as world:
        handle = app.start(raced, id="p")
        assert handle.result() == "a day"
        world.elapse("400h")
        [step] = [each for each in handle.steps() if each.kind == "step"]
        assert step.state == "failed"
    assert calls == [("slow", 1)]


def test_a_timeout_ends_a_step_that_waits() -> None:
    with World(app) as world:
        handle = app.start(bounded, id="p")
        world.elapse("1h")
        info = handle.info()
        assert (info.state, info.attempts) == ("suspended", 1)
        assert world.troubles == []
        assert handle.result() == "instead up"
        world.elapse("400h")
    assert calls == [("bounded", 1), ("instead", 1)]


def test_a_cancellation_reaches_a_step_that_waits() -> None:
    with World(app) as world:
        handle = app.start(cancellable, id="p")
        world.elapse("1h")
        handle.cancel()
        assert handle.result() == "cleaned up"
        world.elapse("400h")
    assert calls == [("cancelled", 1), ("cleaned", 1)]


def test_a_step_that_nobody_waits_for_yet_is_tried_again_in_time() -> None:
    with World(app) as world:
        handle = app.start(beside_a_promise, id="p")
        world.elapse("300h")
        assert [attempt for _, attempt in calls] == [1, 2, 3]
        app.resolve("p:2", "yes")
        assert handle.result() == ["yes", "beside up"]


def test_a_step_that_is_settled_by_hand_while_it_waits_is_not_tried_again() -> None:
    with World(app) as world:
        handle = app.start(patient, "mail", id="p")
        world.elapse("1h")
        app.resolve("p:1", "by hand")
        assert handle.result() == "by hand"
        world.elapse("400h")
    assert calls == [("mail", 1)]


def test_the_failures_of_a_step_are_kept_while_it_waits_and_after_it_has_succeeded() -> None:
    with World(app) as world:
        handle = app.start(patient, "mail", id="p")
        world.elapse("1h")
        [step] = handle.steps()
        assert (step.state, step.attempts, step.resumes_at is not None) == ("running", 1, True)
        [failure] = step.failures
        assert (failure.attempt, failure.code) == (1, "ConnectionError")
        assert failure.message == "mail is down, attempt 1"
        assert "in flaky" in failure.traceback
        handle.result()
        [step] = handle.steps()
        assert (step.state, step.attempts) == ("completed", 3)
        assert [failure.attempt for failure in step.failures] == [1, 2]


def test_failures_with_short_waits_are_kept_too() -> None:
    @app.workflow(name="impatient")
    async def impatient() -> str:
        return await hf.run(flaky, "brief", retry=QUICK)

    with World(app):
        handle = app.start(impatient, id="p")
        assert handle.result() == "brief up"
        [step] = handle.steps()
    assert [(failure.attempt, failure.message) for failure in step.failures] == [
        (1, "brief is down, attempt 1"),
        (2, "brief is down, attempt 2"),
    ]


def test_the_last_ten_failures_are_kept_and_each_is_cut() -> None:
    @app.workflow(name="verbose")
    async def verbose() -> str:
        retry = hf.Retry(attempts=16, delay="1h", factor=1, jitter=0)
        return await hf.run(talks_much, retry=retry)

    def talks_much() -> str:
        if hf.current().attempt < 16:
            raise ValueError("x" * 100_000)
        return "done"

    with World(app):
        handle = app.start(verbose, id="p")
        assert handle.result() == "done"
        [step] = handle.steps()
    assert [failure.attempt for failure in step.failures] == list(range(6, 16))
    assert all(len(failure.message) <= 1_000 for failure in step.failures)
    assert all(len(failure.traceback) <= 2_010 for failure in step.failures)


@pytest.mark.parametrize(
    "workflow", rest_slow([raced, several, bounded, hopeless], quick=1), ids=lambda each: each.name
)
def test_a_crash_at_any_write_leads_to_the_same_outcome(workflow: Any) -> None:
    proof = crash_everywhere(workflow, app=app)
    assert proof.crashes >= 8


def test_a_crash_of_asyncio_code_at_any_write_leads_to_the_same_outcome() -> None:
    assert crash_everywhere(on_asyncio, "mail", app=app).result == "mail up, quick up"
