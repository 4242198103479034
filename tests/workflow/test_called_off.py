"""Whoever stops waiting stops what it called: interrupts, lost races, timeouts and failed scopes reach calls,
as a cancellation of the execution does. A shield keeps them out of reach."""

import asyncio
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import Ledger, World, crash_everywhere
from holdfast.workflow.journal import cancel_id
from tests.counts import rest_slow

app = hf.App("memory:")
ledger = Ledger()
signals: list[hf.types.Signal] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    ledger.clear()
    signals.clear()


def note(what: str) -> None:
    ledger.enter(what)


@app.workflow
async def trip(hours: float = 48) -> str:
    await hf.run(note, "set out")
    try:
        await hf.sleep(hours * 3600)
    except hf.Cancelled:
        await hf.run(note, "turned back")
        raise
    return "there"


@app.task(queue="rides")
async def ride() -> None:
    raise AssertionError("nobody serves this queue")


@app.workflow
async def leaves_a_timeout(shielded: bool = False) -> str:
    try:
        async with hf.timeout("1h"):
            await (hf.shield(hf.call(trip)) if shielded else hf.call(trip))
    except hf.TimedOut:
        await hf.run(note, "too late")
    await hf.sleep("1h")
    return "went on"


@app.workflow
async def loses_a_race() -> str:
    await hf.race(hf.call(trip), hf.sleep("1h"), cancel_losers=True)
    await hf.sleep("1h")
    return "went on"


@app.workflow
async def interrupts_a_task() -> str:
    async def traveller() -> None:
        await hf.call(trip)

    task = hf.spawn(traveller)
    await hf.sleep("1h")
    task.interrupt()
    with suppress(hf.errors.FiberInterrupted):
        await task
    await hf.sleep("1h")
    return "went on"


@app.workflow
async def fails_in_a_scope() -> str:
    async def traveller() -> None:
        await hf.call(trip)

    async def failing() -> None:
        await hf.sleep("1h")
        raise ValueError("no fuel")

    with suppress(ExceptionGroup):
        async with hf.scope() as tasks:
            tasks.spawn(traveller)
            tasks.spawn(failing)
            await hf.call(trip)
    await hf.sleep("1h")
    return "went on"


@app.workflow
def leaves_within_in_a_generator() -> Generator[Any, Any, str]:
    with suppress(hf.TimedOut):
        yield from hf.within("1h", hf.call(trip))
    yield from hf.sleep("1h")
    return "went on"


ways: list[Any] = [leaves_a_timeout, loses_a_race, interrupts_a_task, leaves_within_in_a_generator]


@pytest.mark.parametrize("way", ways, ids=lambda way: way.name)
def test_what_was_called_is_cancelled_when_its_caller_stops_waiting(way: Any) -> None:
    with World(app) as world:
        handle = app.start(way, id="x")
        world.elapse("59m")
        assert ledger.entries == ["set out"]
        world.elapse("2m")
        assert "turned back" in ledger.entries
        [called] = [key for key in world.store.tasks if key != "x"]
        assert world.store.promises[called].state == "rejected_canceled"
        assert world.store.promises[cancel_id(called)].state == "resolved"
        assert handle.result() == "went on"


@pytest.mark.parametrize("way", rest_slow([fails_in_a_scope, *ways], quick=1), ids=lambda way: way.name)
def test_what_was_called_is_cancelled_though_the_worker_dies_at_any_point(
    way: Any,
) -> None:
    proof = crash_everywhere(way, app=app, ledger=ledger)
    assert proof.result == "went on"
    assert ledger.entries.count("set out") == ledger.entries.count("turned back") >= 1


def test_a_task_that_was_called_is_cancelled_too() -> None:
    @app.workflow(name="leaves a task")
    async def leaves() -> str:
        with suppress(hf.TimedOut):
            async with hf.timeout("1m"):
                await hf.call(ride)
        await hf.sleep("1h")
        return "went on"

    with World(app) as world:
        handle = app.start(leaves, id="x")
        world.elapse("2m")
        assert handle.result() == "went on"


def test_a_call_started_before_the_block_is_left_alone() -> None:
    @app.workflow(name="patient")
    async def patient() -> str:
        call = hf.call(trip, 2)
        with suppress(hf.TimedOut):
            async with hf.timeout("1h"):
                await call
        return await call

    with World(app):
        assert app.start(patient).result() == "there"


def test_a_call_given_to_within_is_waited_for_later_if_it_is_shielded() -> None:
    @app.workflow(name="patient too")
    async def patient() -> str:
        call = hf.call(trip, 2)
        with suppress(hf.TimedOut):
            await hf.within("1h", hf.shield(hf.gather(call)))
        return await call

    with World(app):
        assert app.start(patient).result() == "there"


def test_what_was_only_started_is_left_alone() -> None:
    @app.workflow(name="sends off")
    async def sends_off() -> str:
        with suppress(hf.TimedOut):
            async with hf.timeout("1h"):
                await hf.start(trip, 2)
                await hf.sleep("2h")
        return "went on"

    with World(app) as world:
        assert app.start(sends_off).result() == "went on"
        world.elapse("3h")
        assert ledger.entries == ["set out"]


def test_a_call_inside_a_shield_is_not_cancelled_by_a_timeout_around_it() -> None:
    with World(app):
        assert app.start(leaves_a_timeout, True).result() == "went on"
        assert "turned back" not in ledger.entries


async def commit(hours: float) -> str:
    signals.append(hf.step_signal())
    await asyncio.sleep(hours * 3600)
    ledger.enter("committed")
    return "committed"


async def commits() -> str:
    done = await hf.run(commit, 2)
    await hf.call(trip, 1)
    await hf.run(note, "called")
    return done


@app.workflow
async def careful(how: str) -> str:
    if how == "inline":
        await hf.shield(commits())
    elif how == "gather":
        await hf.shield(hf.gather(commits(), hf.sleep("1m")))
    else:
        await hf.shield(hf.run(commit, 2))
        await hf.shield(hf.call(trip, 1))
        await hf.shield(hf.run(note, "called"))
    await hf.run(note, "not reached")
    return "done"


async def cancel_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    await app.handle("crash-test").cancel()


@pytest.mark.parametrize("how", ["inline", "gather", "given"])
@pytest.mark.parametrize("after", [3600, 9000])
def test_a_cancellation_waits_for_the_steps_and_calls_inside_a_shield(how: str, after: float) -> None:
    with World(app) as world:
        handle = app.start(careful, how, id="x")
        world.elapse(after)
        handle.cancel()
        world.elapse("1m")
        assert "committed" in ledger.entries or not signals[0].is_set
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert ledger.entries == ["committed", "set out", "called"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inline", "gather", "given"])
def test_a_shield_holds_though_the_worker_dies_at_any_point(how: str) -> None:
    proof = crash_everywhere(
        careful,
        how,
        app=app,
        ledger=ledger,
        outside=lambda: cancel_after(9000),
        raises=hf.errors.ExecutionCancelled,
    )
    assert proof.crashes
    assert ledger.entries == ["committed", "set out", "called"]


def empty() -> None:
    next(iter(()))


def test_stop_iteration_of_a_step_says_what_it_is_also_after_a_replay() -> None:
    @app.workflow(name="stops")
    async def stops() -> str:
        try:
            await hf.run(empty)
        except hf.errors.StopIterationRaised as error:
            await hf.sleep("1h")
            return f"{type(error.__cause__).__name__}: {error}"
        return "nothing was raised"

    with World(app) as world:
        handle = app.start(stops, id="x")
        world.elapse("1m")
        world.kill()
        assert str(handle.result()).startswith("StopIteration: What was awaited failed with StopIteration")


def test_timed_out_names_the_operation_that_was_waited_for() -> None:
    @app.workflow(name="impatient")
    async def impatient() -> str:
        try:
            async with hf.timeout("1h"):
                await hf.call(trip)
        except hf.TimedOut as error:
            return str(error)
        return ""

    with World(app):
        assert "durable promise x:2 (call trip)" in str(app.start(impatient, id="x").result())
