"""Executions that continue as new."""

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.errors import BadArguments
from holdfast.protocol.ids import child_id
from holdfast.protocol.locks import lock_id, read_lock
from holdfast.testing import World, crash_everywhere
from holdfast.workflow.errors import IdTaken, NotRunning
from tests.counts import rest_slow

app = hf.App("memory:")
effects: list[str] = []


def note(text: str) -> str:
    effects.append(text)
    return text


@app.workflow
async def counting(last: int, number: int = 0) -> list[int]:
    assert hf.current().generation == number
    await hf.run(note, f"turn {number}")
    await hf.publish("turn", number)
    await hf.emit("log", f"turn {number}")
    if number == last:
        return [number, hf.current().generation]
    return hf.continue_as_new(last, number + 1)


@app.workflow
def generating(last: int, number: int = 0) -> Generator[Any, Any, int]:
    yield from hf.sleep("1h")
    if number == last:
        return number
    return hf.continue_as_new(last, number=number + 1)


@app.workflow(loop="asyncio")
async def with_asyncio(last: int, number: int = 0) -> float:
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(7_000):  # in every generation anew
        await asyncio.sleep(3_600)
    assert 3_599 < asyncio.get_running_loop().time() - began < 3_610
    if number == last:
        return number
    return hf.continue_as_new(last, number + 1)


@app.workflow
async def meter(total: int = 0, taken: int = 0) -> list[int]:
    value = await hf.receive(int)
    if value < 0:
        return [total, taken]
    return hf.continue_as_new(total + value, taken + 1)


@app.workflow
async def approving(done: int = 0) -> int:
    if done == 2:
        return done
    done += await hf.promise(int, name="approval")
    return hf.continue_as_new(done)


@app.workflow
async def parent() -> list[int]:
    return await hf.call(counting, 2)


@app.workflow
async def patient(seen: bool = False) -> bool:
    try:
        await hf.sleep("30d")
    except hf.Cancelled:
        hf.continue_as_new(True)
    return seen


def test_it_goes_on_under_its_id_and_whoever_waits_goes_on_waiting() -> None:
    with World(app) as world:
        handle = app.start(counting, 3, id="c")
        assert handle.result() == [3, 3]
        assert handle.info().generation == 3
        assert world.published("c", "turn") == 3
        assert world.stream("c", "log") == [f"turn {number}" for number in range(4)]


def test_both_spellings_and_asyncio_continue() -> None:
    with World(app):
        assert app.start(generating, 3).result() == 3
        assert app.start(with_asyncio, 2).result() == 2


def test_a_called_workflow_continues_and_its_caller_waits() -> None:
    with World(app):
        assert app.start(parent).result() == [2, 2]


def test_messages_that_were_not_received_stay() -> None:
    with World(app) as world:
        handle = app.start(meter, id="m")
        for value in (1, 2, 3, 4, -1):
            world.tell("m", value)
        assert handle.result() == [10, 4]


def test_records_of_the_last_generation_are_gone_unless_they_are_kept() -> None:
    with World(app) as world:
        app.start(counting, 3, id="c").result()
        assert records(world, "c") == ["g3.0~begun", "g3.1", "g3.2", "g3.3"]
    kept = hf.App("memory:", keep_generations=1)

    @kept.workflow
    async def turning(number: int = 0) -> int:
        await hf.run(note, "x")
        if number == 3:
            return number
        return hf.continue_as_new(number + 1)

    with World(kept) as world:
        kept.start(turning, id="c").result()
        assert records(world, "c") == ["g2.1", "g3.0~begun", "g3.1"]


def records(world: World, execution: str) -> list[str]:
    prefix = child_id(execution, 0)[:-1]
    found = [key.removeprefix(prefix) for key in world.store.promises if key.startswith(prefix)]
    return sorted(key for key in found if key[0] in "g0123456789")


def test_an_id_is_compared_with_the_arguments_of_the_first_start() -> None:
    with World(app) as world:
        handle = app.start(meter, 5, 0, id="m")
        world.tell("m", 1)
        world.elapse("1s")
        assert app.start(meter, 5, 0, id="m").id == handle.id
        with pytest.raises(IdTaken):
            app.start(meter, 6, 1, id="m")


LOCKED = hf.App("memory:")


async def leaving_locks_behind(number: int = 0) -> list[str]:
    """Each generation takes a lock and never releases it. Of its fibers one holds a lock, one wants it."""
    await hf.lock("own", timeout="1h").acquire()
    for _ in range(2):
        hf.spawn(keep_the_lock("shared"))
    await hf.sleep("1m")
    if number < 2:
        hf.continue_as_new(number + 1)
    return [lock.name for lock in await hf.gather(*[hf.lock(f"other {n}").acquire() for n in range(2)])]


async def keep_the_lock(name: str) -> None:
    async with hf.lock(name):
        await hf.sleep("1d")


leaving = LOCKED.workflow(name="leaving")(leaving_locks_behind)
keeping = LOCKED.workflow(name="keeping", keep_generations=5)(leaving_locks_behind)


@LOCKED.workflow
async def taking_after_it() -> bool:
    async with hf.lock("own", timeout="30s"), hf.lock("shared", timeout="30s"):
        return True


def held_by(world: World, name: str) -> list[str]:
    return [holder.id for holder in read_lock(world.store.promises[lock_id(name)]).holders]


@pytest.mark.parametrize("workflow", [leaving, keeping], ids=lambda it: it.name)
def test_locks_that_a_generation_leaves_behind_are_released_with_it(workflow: Any) -> None:
    with World(LOCKED) as world:
        handle = LOCKED.start(workflow, id="x")
        world.elapse("70s")
        assert (held_by(world, "own"), held_by(world, "shared")) == (["x:g1.1"], ["x:g1.3"])
        assert handle.result() == ["other 0", "other 1"]
        assert LOCKED.start(taking_after_it).result()


def test_a_generation_that_leaves_locks_behind_survives_a_crash_at_every_write() -> None:
    proof = crash_everywhere(leaving, app=LOCKED)
    assert proof.result == ["other 0", "other 1"]


def test_a_promise_with_a_name_is_another_one_in_each_generation() -> None:
    with World(app) as world:
        handle = app.start(approving, id="a")
        world.elapse("1s")
        app.resolve("a", 1, name="approval")
        world.elapse("1s")
        assert handle.info().generation == 1
        app.resolve("a", 1, name="approval")
        assert handle.result() == 2


def test_a_cancellation_that_was_seen_is_not_seen_again() -> None:
    with World(app) as world:
        handle = app.start(patient, id="p")
        world.elapse("1h")
        handle.cancel()
        world.elapse("1h")
        assert handle.info().generation == 1
        assert handle.result() is True


def test_arguments_that_do_not_fit_are_told_where_it_continues() -> None:
    other = hf.App("memory:")

    @other.workflow
    async def wrong(number: int = 0) -> str:
        try:
            hf.continue_as_new("not a number")
        except BadArguments as error:
            return str(error.code)

    with World(other):
        assert other.start(wrong).result() == BadArguments.code


def test_a_fiber_that_was_spawned_cannot_continue() -> None:
    other = hf.App("memory:")

    async def inner() -> None:
        hf.continue_as_new()

    @other.workflow
    async def wrong() -> str:
        try:
            await hf.spawn(inner())
        except NotRunning as error:
            return str(error.code)
        return ""

    with World(other):
        assert other.start(wrong).result() == NotRunning.code


@pytest.mark.parametrize(
    "workflow", rest_slow([counting, generating, with_asyncio], quick=1), ids=lambda it: it.name
)
def test_it_survives_a_crash_at_every_write(workflow: Any) -> None:
    proof = crash_everywhere(workflow, 2, app=app)
    assert proof.crashes > 8


async def messages() -> None:
    for number in range(4):
        await app.tell("crash-test", 10 + number, key=f"k{number}")
        await asyncio.sleep(3)
    await app.tell("crash-test", -1, key="end")


def test_one_that_receives_survives_a_crash_at_every_write() -> None:
    proof = crash_everywhere(meter, app=app, outside=messages)
    assert proof.result == [46, 4]


@pytest.mark.slow
def test_ten_thousand_generations_take_no_more_room_than_a_thousand() -> None:
    sizes = [store_size_after(last) for last in (1_000, 10_000)]
    assert sizes[1] < sizes[0] * 2


@pytest.mark.slow
def test_three_hundred_generations_more_take_no_more_room() -> None:
    """What was published ten minutes ago is gone, so from then on nothing grows."""
    sizes = [store_size_after(last) for last in (700, 1_000)]
    assert sizes[1] < sizes[0] * 1.2


def store_size_after(last: int) -> int:
    """Records in the store while a workflow continues so often, once a second."""
    other = hf.App("memory:")

    @other.workflow
    async def turning(last: int, number: int = 0) -> int:
        await hf.run(note, "x")
        await hf.publish("turn", number)
        await hf.sleep("1s")
        if number == last:
            return number
        return hf.continue_as_new(last, number + 1)

    with World(other) as world:
        handle = other.start(turning, last, id="t")
        world.elapse(last - 10)
        size = len(world.store.promises)
        assert handle.result() == last
    effects.clear()
    return size


def test_a_request_to_cancel_outlives_the_generation_that_had_not_seen_it(tmp_path: Path) -> None:
    """A message and then the request come while nobody runs it; the message ends the generation at once."""

    def make(*, worker: bool) -> tuple[hf.App, Any]:
        app = hf.App(f"sqlite:///{tmp_path}/holdfast.db", worker=worker)

        @app.workflow
        async def turn(number: int = 0) -> None:
            await hf.receive(str)
            hf.continue_as_new(number + 1)

        return app, turn

    app, turn = make(worker=True)
    with app:
        handle = turn.with_options(id="t").start()
        while handle.info().state != "suspended":
            pass
    away, _ = make(worker=False)
    with away:
        away.tell("t", "go on")
        away.handle("t").cancel()
    with app:
        with pytest.raises(hf.errors.ExecutionCancelled):
            app.handle("t").result(60)
        assert app.handle("t").info().generation == 1
