"""`timeout=` and `grace=`: at its deadline the code is told, may clean up, and is then ended."""

import asyncio
from datetime import timedelta

import pytest

import holdfast as hf
from holdfast.protocol.operations import TIMED_OUT
from holdfast.testing import Ledger, World, crash_everywhere

app = hf.App("memory:")
ledger = Ledger()


@pytest.fixture(autouse=True)
def fresh_ledger() -> None:
    ledger.clear()


def note(what: str) -> None:
    ledger.enter(what)


@app.workflow
async def trip(cleans_up_for: str = "1s") -> str:
    await hf.run(note, "booked")
    try:
        await hf.sleep("2d")
        return "went"
    except hf.Cancelled as cancelled:
        await hf.run(note, f"told: {cancelled.reason}")
        await hf.sleep(cleans_up_for)
        await hf.run(note, "gave back")
        raise


@app.workflow
async def stubborn() -> str:
    try:
        await hf.sleep("2d")
    except hf.Cancelled:
        await hf.sleep("10s")
    return "a little late"


async def drive() -> None:
    await asyncio.sleep(3600)


@app.workflow
async def driver() -> None:
    try:
        await hf.run(drive)
    except hf.Cancelled as cancelled:
        await hf.run(note, f"told: {cancelled.reason}")
        raise


@app.workflow
async def parent(grace: float) -> str:
    try:
        return str(await hf.call(trip.with_options(timeout="1h", grace=grace)))
    except hf.TimedOut as error:
        return f"{type(error).__name__} after an hour"


def test_at_its_deadline_the_code_is_told_why_and_cleans_up() -> None:
    with World(app) as world:
        before = world.now
        handle = trip.with_options(timeout="1h").start()
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert ledger.entries == ["booked", "told: timeout", "gave back"]
        assert world.now - before == timedelta(hours=1, seconds=1)
        info = handle.info()
        assert info.state == "timed_out"
        assert info.deadline is not None
        assert info.deadline - before == timedelta(hours=1)
        assert [each.id for each in app.find(status="timed_out")] == [handle.id]


def test_who_does_not_end_within_the_grace_is_ended() -> None:
    with World(app) as world:
        before = world.now
        handle = trip.with_options(timeout="1h", grace="20s").start("5m")
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert ledger.entries == ["booked", "told: timeout"]
        assert world.now - before == timedelta(hours=1, seconds=20)
        assert handle.info().state == "timed_out"


def test_without_a_grace_it_is_ended_at_its_deadline_and_sees_nothing() -> None:
    with World(app) as world:
        before = world.now
        handle = trip.with_options(timeout="1h", grace=0).start()
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert ledger.entries == ["booked"]
        assert world.now - before == timedelta(hours=1)


def test_what_the_code_returns_within_the_grace_is_its_result() -> None:
    with World(app):
        assert stubborn.with_options(timeout="1h").start().result() == "a little late"


def test_a_step_under_way_is_told_at_the_deadline() -> None:
    with World(app) as world:
        before = world.now
        handle = driver.with_options(timeout="60s").start()
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert ledger.entries == ["told: timeout"]
        assert world.now - before < timedelta(seconds=65)


def test_who_cancels_before_the_deadline_is_the_reason() -> None:
    with World(app) as world:
        handle = trip.with_options(timeout="1h").start()
        world.elapse("30m")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert ledger.entries == ["booked", "told: cancelled", "gave back"]
        assert handle.info().state == "cancelled"
        world.elapse("2h")
        assert handle.info().state == "cancelled"


@pytest.mark.parametrize("grace", [0, 30])
def test_a_caller_sees_that_what_it_called_has_timed_out(grace: float) -> None:
    with World(app):
        assert parent.start(grace).result() == "TimedOut after an hour"


def test_a_call_is_not_given_more_time_than_its_caller_has() -> None:
    @app.workflow(name="parent without grace")
    async def brief() -> None:
        await hf.call(trip.with_options(timeout="1h", grace="30s"))

    with World(app) as world:
        before = world.now
        with pytest.raises(hf.TimedOut):
            brief.with_options(timeout="2h", grace=0).start().result()
        assert world.now - before == timedelta(hours=1, seconds=1), "it ended by its own deadline"
        ledger.clear()
        before = world.now
        with pytest.raises(hf.TimedOut):
            brief.with_options(timeout="30m", grace=0).start().result()
        assert world.now - before == timedelta(minutes=30)
        assert ledger.entries == ["booked"], "it was not told before its time"


def test_a_retry_has_a_deadline_and_a_grace_again() -> None:
    with World(app) as world:
        handle = trip.with_options(timeout="1h", grace="20s").start("5m")
        with pytest.raises(hf.TimedOut):
            handle.result()
        ledger.clear()
        before = world.now
        handle.retry(timeout="10m")
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert world.now - before == timedelta(minutes=10, seconds=20)


def test_a_started_workflow_keeps_its_deadline_over_generations() -> None:
    @app.workflow(name="again and again")
    async def again(number: int) -> None:
        try:
            await hf.sleep("10m")
        except hf.Cancelled as cancelled:
            await hf.run(note, f"{number}: {cancelled.reason}")
            raise
        hf.continue_as_new(number + 1)

    with World(app):
        handle = again.with_options(timeout="25m").start(1)
        with pytest.raises(hf.TimedOut):
            handle.result()
        assert ledger.entries == ["3: timeout"]


def test_a_worker_may_die_at_every_write_and_the_code_is_told_once() -> None:
    @app.workflow(name="told once")
    async def told_once() -> str:
        try:
            return str(await hf.call(trip.with_options(timeout="1h", grace="10m")))
        except hf.TimedOut:
            return "timed out"

    crash_everywhere(told_once, app=app, ledger=ledger)


@pytest.mark.parametrize("grace", ["2d", -1, "soon"])
def test_a_grace_that_makes_no_sense_is_refused(grace: object) -> None:
    with pytest.raises(hf.HoldfastError):
        trip.with_options(timeout="1h", grace=grace)  # type: ignore[arg-type]


def test_the_code_of_a_timeout_is_the_same_in_records_and_for_people() -> None:
    assert hf.TimedOut.code == TIMED_OUT
