"""Cancellation that reaches the code: seen at an await, cleaned up after, the same on every replay."""

import asyncio
import logging
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import holdfast as hf
from holdfast.protocol.requests import PromiseGet, PromiseSettle
from holdfast.testing import Ledger, World, crash_everywhere
from holdfast.workflow.journal import cancel_id
from tests.counts import rest_slow
from tests.requests import ask, promise_of
from tests.seeds import chosen_seed

SEED = chosen_seed()

app = hf.App("memory:")
ledger = Ledger()
signals: list[hf.types.Signal] = []


def book(what: str) -> str:
    ledger.enter(f"booked {what}")
    return what


def give_back(what: str) -> None:
    ledger.enter(f"gave back {what}")


async def drive_there(hours: float) -> str:
    signals.append(hf.step_signal())
    await asyncio.sleep(hours * 3600)
    return "there"


@app.workflow
async def trip(hours: float = 0) -> str:
    car = await hf.run(book, "car")
    try:
        await (hf.run(drive_there, hours) if hours else hf.sleep("2d"))
        return f"went by {car}"
    except hf.Cancelled:
        await hf.run(give_back, car)
        await hf.sleep("1h")
        raise


@app.workflow
async def family(count: int, detached: int = 0) -> int:
    for _ in range(detached):
        await hf.start(trip)
    return len(await hf.gather(*(hf.call(trip) for _ in range(count))))


@app.task(queue="rides")
async def ride(hours: float) -> float:
    await asyncio.sleep(hours * 3600)
    ledger.enter("arrived")
    return hours


@app.workflow
async def passenger() -> float:
    return (await hf.call(ride, 2)).ok_value


@app.workflow
async def stubborn() -> str:
    with suppress(hf.Cancelled):
        await hf.sleep("1d")
    await hf.sleep("1h")
    return "done all the same"


@app.workflow
async def clumsy() -> str:
    try:
        await hf.sleep("1d")
    except hf.Cancelled as error:
        raise KeyError("lost the receipt") from error
    return ""


@app.workflow
async def killer(victim: str) -> str:
    await hf.cancel(victim, now=False)
    return "asked"


@pytest.fixture(autouse=True)
def _clear() -> None:
    ledger.clear()
    signals.clear()


def state(world: World, promise_id: str) -> str:
    return world.store.promises[promise_id].state


def test_a_suspended_execution_is_woken_and_cleans_up_before_it_is_cancelled() -> None:
    with World(app) as world:
        handle = app.start(trip, id="x")
        world.elapse("1d")
        before = world.now
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert (world.now - before).total_seconds() == 3600, "woken at once, slept an hour, ended"
        assert ledger.entries == ["booked car", "gave back car"]
        assert state(world, "x") == "rejected_canceled"
        assert world.store.tasks["x"].state == "fulfilled"


@pytest.mark.parametrize("warm", [True, False])
def test_a_suspended_execution_is_woken_by_another_worker_too(warm: bool) -> None:
    with World(app) as world:
        handle = app.start(trip, id="x")
        world.elapse("1d")
        if not warm:
            world.kill()
        handle.cancel()
        world.elapse("30m")
        world.kill()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert ledger.entries == ["booked car", "gave back car"]


def test_a_step_that_takes_long_is_told_at_once() -> None:
    with World(app) as world:
        handle = app.start(trip, 10, id="x")
        world.elapse("1h")
        handle.cancel()
        world.elapse("1s")
        assert signals[0].is_set
        assert isinstance(signals[0].reason, hf.Cancelled)
        assert ledger.entries == ["booked car", "gave back car"]
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()


def test_a_running_execution_hears_of_it_with_the_heartbeat_when_no_message_reaches_it() -> None:
    """Steps too short to be announced, one after another: nothing is awaited, nothing is listened to."""
    other = hf.App("memory:", lease="20s")

    async def short() -> None:
        await asyncio.sleep(1.5)

    @other.workflow
    async def busy() -> None:
        for _ in range(1_000):
            await hf.run(short)

    with World(other) as world:
        handle = other.start(busy, id="x")
        world.elapse("5s")
        before = world.now
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert (world.now - before).total_seconds() < 12, "half a lease, and the step under way"


def test_a_request_that_comes_while_a_short_step_runs_is_not_slept_over() -> None:
    """Nothing is listened to yet, and the timer that it suspends on is pending: the suspension must ask."""

    async def short() -> None:
        await asyncio.sleep(1.5)

    @app.workflow(name=f"naps {SEED}")
    async def naps() -> None:
        await hf.run(short)
        await hf.sleep("30d")

    with World(app) as world:
        before = world.now
        handle = app.start(naps, id="x")
        world.elapse("1s")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert (world.now - before).total_seconds() < 3


def test_an_execution_that_waits_for_a_worker_sees_it_at_its_first_await() -> None:
    absent = hf.App("memory:", group="nobody-yet")
    seen: list[str] = []

    async def step() -> None:
        seen.append("performed")

    @absent.workflow
    async def flow() -> None:
        seen.append("entered")
        await hf.run(step)

    with World(absent) as world:
        worker, world._worker = world._worker, None  # pyright: ignore[reportPrivateUsage]
        assert worker is not None
        world.run(worker.close())
        handle = absent.start(flow, id="x")
        handle.cancel()
        world.kill()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert seen == ["entered"]


def test_cancelling_now_settles_it_at_once_and_the_code_is_told_nothing() -> None:
    with World(app) as world:
        handle = app.start(trip, id="x")
        world.elapse("1d")
        handle.cancel(now=True)
        assert state(world, "x") == "rejected_canceled"
        world.elapse("3d")
        assert ledger.entries == ["booked car"]


def test_what_was_called_is_cancelled_too_and_what_was_started_is_not() -> None:
    with World(app) as world:
        handle = app.start(family, 2, detached=1, id="x")
        world.elapse("1h")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        world.elapse("2h")
        assert [state(world, f"x:{n}") for n in (1, 2, 3)] == ["pending", *["rejected_canceled"] * 2]
        assert ledger.entries.count("gave back car") == 2
        world.elapse("2d")
        assert state(world, "x:1") == "resolved"


def test_a_task_that_was_called_and_has_not_begun_is_cancelled_too() -> None:
    rides = app.queue("rides")
    with World(app) as world:
        rides.pause()
        handle = app.start(passenger, id="x")
        world.elapse("1h")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert app.task_handle("x:1").info().status is hf.TaskStatus.CANCELLED
        rides.resume()
        world.elapse("3h")
        assert ledger.entries == []
        assert not [key for key, promise in world.store.promises.items() if promise.state == "pending"]


def test_a_task_that_was_called_and_runs_may_finish() -> None:
    with World(app) as world:
        handle = app.start(passenger, id="x")
        world.elapse("1h")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert app.task_handle("x:1").info().status is hf.TaskStatus.RUNNING
        world.elapse("3h")
        assert app.task_handle("x:1").get(timeout=0).ok_value == 2
        assert ledger.entries == ["arrived"]
        assert state(world, "x") == "rejected_canceled"
        assert not [key for key, promise in world.store.promises.items() if promise.state == "pending"]


def test_code_that_goes_on_after_a_cancellation_ends_as_it_ends() -> None:
    with World(app) as world:
        handle = app.start(stubborn, id="x")
        other = app.start(clumsy, id="y")
        world.elapse("1m")
        handle.cancel()
        other.cancel()
        assert handle.result() == "done all the same"
        with pytest.raises(KeyError, match="receipt"):
            other.result()


def test_asking_twice_is_asking_once_and_asking_too_late_changes_nothing() -> None:
    with World(app) as world:
        handle = app.start(stubborn, id="x")
        world.elapse("1m")
        handle.cancel()
        world.elapse("1m")
        handle.cancel()
        assert handle.result() == "done all the same"
        stored = dict(world.store.promises)
        handle.cancel()
        assert world.store.promises == stored


def test_a_workflow_cancels_another_gently() -> None:
    with World(app) as world:
        victim = app.start(trip, id="v")
        world.elapse("1h")
        assert app.start(killer, "v").result() == "asked"
        with pytest.raises(hf.errors.ExecutionCancelled):
            victim.result()
        assert ledger.entries == ["booked car", "gave back car"]


def test_a_promise_is_cancelled_at_once() -> None:
    """There is no code to be told."""

    @app.workflow(name=f"asks {SEED}")
    async def asks() -> str:
        try:
            return await hf.promise(str)
        except hf.errors.ExecutionCancelled:
            return "nobody will answer"

    with World(app) as world:
        handle = app.start(asks, id="x")
        world.elapse("1m")
        app.handle("x:1").cancel()
        assert handle.result() == "nobody will answer"


def test_the_request_and_the_promise_to_listen_to_leave_nothing_pending() -> None:
    with World(app) as world:
        assert app.start(trip, 1, id="x").result() == "went by car"
        assert state(world, cancel_id("x")) == "rejected_canceled", "it listened while it drove"
        assert not [key for key, promise in world.store.promises.items() if promise.state == "pending"]


async def cancel_after(seconds: float, execution: str = "crash-test") -> None:
    await asyncio.sleep(seconds)
    await app.handle(execution).cancel()


@pytest.mark.parametrize("hours", rest_slow([0, 10], quick=1))
def test_a_cancellation_survives_crashes_at_every_point(hours: float) -> None:
    proof = crash_everywhere(
        trip,
        hours,
        app=app,
        ledger=ledger,
        outside=lambda: cancel_after(3600),
        raises=hf.errors.ExecutionCancelled,
    )
    assert ledger.entries == ["booked car", "gave back car"]
    assert proof.crashes >= 12


@pytest.mark.slow
def test_the_cancellation_of_a_family_survives_crashes_at_every_point() -> None:
    crash_everywhere(
        family,
        2,
        1,
        app=app,
        ledger=ledger,
        outside=lambda: cancel_after(3600),
        raises=hf.errors.ExecutionCancelled,
    )
    assert sorted(ledger.entries) == ["booked car"] * 3 + ["gave back car"] * 2


@app.workflow
async def wanderer(seed: int) -> list[str]:
    """Timers that nobody records a place for, steps, races, shields: it remembers what it saw."""
    chance = Random(seed)
    seen: list[str] = []

    async def leg(number: int) -> str:
        kind = chance.choice(("sleep", "step", "race", "shield", "call", "long"))
        if kind == "sleep":
            await hf.sleep(chance.choice((10, 60)))
        elif kind == "step":
            await hf.run(book, f"{number} after {len(seen)}")
        elif kind == "long":
            await hf.run(drive_there, 0.01)
        elif kind == "race":
            await hf.race([hf.sleep(20), hf.sleep(30), hf.run(drive_there, 0.005)])
        elif kind == "shield":
            await hf.shield(hf.gather(hf.sleep(15), hf.run(book, f"shielded {number}")))
        else:
            await hf.call(stubborn)
        return kind

    for number in range(6):
        try:
            seen.append(await leg(number))
        except hf.Cancelled:
            seen.append("cancelled")
            await hf.run(give_back, f"{number} after {seen}")
    return seen


@pytest.mark.parametrize("number", rest_slow(range(12), quick=2))
def test_a_cancellation_at_any_moment_is_at_the_same_place_on_every_replay(number: int) -> None:
    seed = SEED + number
    print(f"HOLDFAST_SEED={seed}")
    moment = Random(seed).choice((0, 1, 12, 25, 61, 100, 150))

    def check(result: Any) -> bool:
        return bool(result.count("cancelled") <= 1)

    crash_everywhere(
        wanderer,
        seed,
        app=app,
        outside=lambda: cancel_after(moment),
        check=check,
        points_max=30,
        seed=seed,
        reset=ledger.clear,
    )


def test_a_request_past_the_deadline_of_the_execution_says_nothing() -> None:
    short = hf.App("memory:")

    @short.workflow(timeout="1h")
    async def flow() -> None:
        await hf.sleep("1d")

    with World(short) as world:
        handle = short.start(flow, id="x")
        world.elapse("2h")
        handle.cancel()
        with pytest.raises(hf.TimedOut):
            handle.result()


def test_who_awaits_a_cancelled_child_fails_and_does_not_end_as_cancelled() -> None:
    family = hf.App("memory:")

    @family.workflow
    async def child() -> None:
        await hf.sleep("1d")

    @family.workflow
    async def parent() -> None:
        await hf.call(child)

    with World(family) as world:
        handle = family.start(parent, id="p")
        world.elapse("1m")
        family.handle("p:1").cancel()
        with pytest.raises(hf.errors.ExecutionCancelled) as caught:
            handle.result()
        assert not isinstance(caught.value, hf.Cancelled)
        [reply] = world.run(world.node.request([ask(PromiseGet("p"))]))
        assert promise_of(reply).state == "rejected"


@pytest.mark.parametrize(("block", "promise", "is_own"), [("1m", "1h", True), ("1h", "1m", False)])
def test_a_timeout_block_tells_its_own_end_from_that_of_what_it_awaits(
    block: str, promise: str, is_own: bool
) -> None:
    limits = hf.App("memory:")

    @limits.workflow
    async def flow() -> bool:
        limit = hf.timeout(block)
        try:
            async with limit:
                await hf.promise(timeout=promise)
        except hf.TimedOut:
            return limit.expired
        raise AssertionError("nobody settles it")

    with World(limits):
        assert limits.start(flow).result() is is_own


def test_somebody_who_only_settles_the_request_is_heard_by_the_next_worker() -> None:
    """The promise is there while a long step runs; resolving it is all it takes."""
    with World(app) as world:
        handle = app.start(trip, 10, id="x")
        world.elapse("1m")
        world.run(world.node.request([ask(PromiseSettle(cancel_id("x"), "resolved"))]))
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()


@app.workflow
async def talkative() -> None:
    try:
        hf.logger.info("waiting")
        await hf.promise()
    except hf.Cancelled:
        hf.logger.info("cancelled")
        await hf.promise()


def test_the_logger_does_not_repeat_what_was_said_around_a_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "holdfast.workflow"), World(app) as world:
        handle = app.start(talkative, id="t1")
        world.elapse(1)
        handle.cancel()
        world.elapse(1)
        world.kill()
        app.resolve("t1:2")
        handle.result()
    said = [record.message for record in caplog.records if record.name == "holdfast.workflow"]
    assert said == ["waiting", "cancelled"]
