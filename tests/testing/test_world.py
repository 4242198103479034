"""Virtual time: an app's own methods, a clock that jumps, and workers that can be killed."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

import holdfast as hf
from holdfast.testing import CrashFailure, Ledger, Stuck, World, crash_everywhere
from holdfast.testing.world import EPOCH

Open = Callable[[hf.App], World]

app = hf.App()
slips: list[int] = []


def shout(text: str) -> str:
    return text.upper()


async def slow(text: str) -> str:
    await asyncio.sleep(3600)
    return text


@app.workflow
async def month(text: str) -> str:
    await hf.sleep("30d")
    return await hf.run(shout, text)


@app.workflow
async def patient(text: str) -> str:
    return await hf.run(slow, text)


@app.workflow
async def approval() -> str:
    return await hf.promise(str, timeout="2d")


@app.workflow
async def unsteady() -> int:
    slips.append(0)
    return await hf.run(len, "x" * len(slips), name="length")


@app.workflow
async def tells_others() -> str:
    hf.start(month, "later")
    return "done"


@app.workflow
async def cancels_last(victim: str) -> None:
    await hf.cancel(victim)


def test_a_sleep_of_thirty_days_takes_no_time(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    assert app.start(month, "hello").result() == "HELLO"
    assert world.now - EPOCH == timedelta(days=30)


def test_a_slow_step_keeps_its_lease_for_an_hour(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    assert app.start(patient, "hello").result() == "hello"
    assert len(world.performed) == 1


def test_time_passes_only_when_told(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    handle = app.start(approval, id="a")
    world.elapse("1d")
    app.resolve("a:1", "yes")
    assert handle.result() == "yes"
    assert world.now - EPOCH == timedelta(days=1)


def test_an_error_from_outside_is_raised_in_the_workflow(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    handle = app.start(approval, id="a")
    world.elapse("1s")
    app.reject("a:1", ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        handle.result()


def test_a_promise_times_out(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    with pytest.raises(hf.TimedOut):
        app.start(approval).result()
    assert world.now - EPOCH == timedelta(days=2)


def test_a_killed_worker_is_replaced(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    handle = app.start(patient, "hello")
    world.elapse(10)
    world.kill()
    assert handle.result() == "hello"
    assert len(world.performed) == 2
    assert world.now - EPOCH == timedelta(seconds=3610)


def test_async_code_runs_in_the_worlds_time(holdfast_world: Open) -> None:
    world = holdfast_world(app)

    async def main() -> str:
        return await app.start(month, "hello")

    assert world.run(main()) == "HELLO"


def test_waiting_for_what_cannot_come_is_an_error(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    with pytest.raises(Stuck):
        world.run(_forever())


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_the_app_is_its_own_again_afterwards() -> None:
    with World(app):
        app.start(month, "x")
    with World(app) as world:
        assert not world.store.promises


def test_what_is_started_last_and_not_awaited_is_started(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    handle = app.start(tells_others, id="t")
    assert handle.result() == "done"
    assert app.handle("t:1").result() == "LATER"
    assert world.is_over("t:1")


def test_a_cancellation_asked_for_last_is_carried_out(holdfast_world: Open) -> None:
    world = holdfast_world(app)
    victim = app.start(approval, id="victim")
    app.start(cancels_last, "victim").result()
    with pytest.raises(hf.errors.ExecutionCancelled):
        victim.result()
    assert world.is_over("victim")


def test_code_that_is_not_the_same_every_time_is_found() -> None:
    slips.clear()
    with pytest.raises(CrashFailure, match="does not do the same twice"):
        crash_everywhere(unsteady, app=app)


def test_a_failure_says_how_to_repeat_it() -> None:
    outcomes = iter("abcdefghij")

    @app.workflow(name="fickle")
    async def fickle() -> str:
        return await hf.run(lambda: next(outcomes), name="fickle")

    with pytest.raises(CrashFailure, match="HOLDFAST_CRASH_AT=before:1 in the environment"):
        crash_everywhere(fickle, app=app)


def test_a_workflow_that_fails_without_a_crash_proves_nothing_unless_it_is_meant() -> None:
    @app.workflow(name="hopeless")
    async def hopeless() -> None:
        await hf.sleep("1s")
        raise KeyError("nobody wrote this one down")

    with pytest.raises(CrashFailure, match="hopeless failed without any crash: KeyError"):
        crash_everywhere(hopeless, app=app)
    assert isinstance(crash_everywhere(hopeless, app=app, raises=KeyError).result, KeyError)
    with pytest.raises(CrashFailure, match="was meant to fail and ended with"):
        crash_everywhere(month, "x", app=app, raises=KeyError)


def test_a_crash_point_can_be_repeated() -> None:
    assert crash_everywhere(month, "x", app=app, at="after:3").crashes == 1
    with pytest.raises(ValueError, match="not a crash point"):
        crash_everywhere(month, "x", app=app, at="sometimes")


def test_a_ledger_belongs_in_steps(holdfast_ledger: Ledger) -> None:
    with pytest.raises(hf.errors.NotInFiber):
        holdfast_ledger.enter("x")
