"""Calls of workflows under an id that the code chooses."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import Ledger, World, crash_everywhere

app = hf.App("memory:")
ledger = Ledger()


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:  # pyright: ignore[reportUnusedFunction]
    ledger.clear()


def enter(what: str) -> str:
    ledger.enter(what)
    return what


@app.workflow
async def child(number: int) -> int:
    await hf.run(enter, f"child {number}")
    if number < 0:
        raise ValueError("negative")
    return number * 2


@app.workflow
async def sleeper() -> str:
    try:
        await hf.sleep("9d")
    except hf.Cancelled:
        await hf.run(enter, "cancelled")
        raise
    return "slept"


@app.workflow
async def parent(count: int) -> list[int]:
    return [*await hf.gather(*(hf.call(child.with_options(id=f"c-{n}"), n) for n in range(count)))]


@app.workflow
async def calls(child_id: str, number: int, on_existing: Any = "return") -> Any:
    try:
        return await hf.call(child.with_options(id=child_id, on_existing=on_existing), number)
    except hf.HoldfastError as error:
        return f"{type(error).__name__}: {error}"


@app.workflow
async def starts(child_id: str) -> Any:
    try:
        return await hf.start(child.with_options(id=child_id), 7)
    except hf.errors.IdTaken as error:
        return type(error).__name__


@app.workflow
async def waits_for(child_id: str) -> str:
    return await hf.call(sleeper.with_options(id=child_id))


@app.workflow
async def twice() -> list[int]:
    once = child.with_options(id="both")
    return [*await hf.gather(hf.call(once, 4), hf.call(once, 4))]


def test_what_is_called_is_found_under_its_id() -> None:
    with World(app) as world:
        assert app.start(parent, 3).result() == [0, 2, 4]
        assert app.handle("c-2", int).result() == 4
        assert world.store.promises["c-2"].tags["resonate:origin"] == "c-2"
        assert len(ledger.entries) == 3


def test_every_crash_leaves_one_child_and_one_outcome() -> None:
    crash_everywhere(parent, 3, app=app, ledger=ledger, reset=ledger.clear)
    crash_everywhere(starts, "c-9", app=app, reset=ledger.clear)


def test_the_error_of_what_is_called_is_raised_by_the_call() -> None:
    with World(app), pytest.raises(ValueError, match="negative"):
        app.start(calls, "c-1", -1).result()


def test_the_same_call_under_an_id_is_one_execution_whoever_began_it() -> None:
    with World(app):
        child.with_options(id="c-1").start(5)
        assert app.start(calls, "c-1", 5).result() == 10
        assert app.start(calls, "c-1", 5).result() == 10
        assert app.start(twice).result() == [8, 8]
        assert ledger.entries == ["child 5", "child 4"]


@pytest.mark.parametrize("number", [6, 5])
def test_another_call_under_a_taken_id_is_refused_where_it_is_called(number: int) -> None:
    with World(app):
        child.with_options(id="c-1").start(5).result()
        said = app.start(calls, "c-1", number, "reject" if number == 5 else "return").result()
        assert said.startswith("IdTaken: The id 'c-1'")
        assert ("with other arguments" in said) is (number == 6)


def test_an_id_is_not_refused_to_the_call_that_has_taken_it() -> None:
    crash_everywhere(calls, "c-1", 5, "reject", app=app, ledger=ledger, reset=ledger.clear)


def test_a_start_gives_the_id() -> None:
    with World(app):
        assert app.start(starts, "c-7").result() == "c-7"
        assert app.handle("c-7", int).result() == 14
        child.with_options(id="c-8").start(8)
        assert app.start(starts, "c-8").result() == "IdTaken"


def test_a_caller_that_is_cancelled_cancels_what_it_has_begun() -> None:
    with World(app) as world:
        handle = app.start(waits_for, "s-1")
        world.elapse("1d")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        with pytest.raises(hf.errors.ExecutionCancelled):
            app.handle("s-1").result()
        assert ledger.entries == ["cancelled"]


def test_a_caller_that_is_cancelled_leaves_what_others_have_begun() -> None:
    with World(app) as world:
        other = sleeper.with_options(id="s-1").start()
        world.elapse("1m")
        handle = app.start(waits_for, "s-1")
        world.elapse("1d")
        handle.cancel()
        with pytest.raises(hf.errors.ExecutionCancelled):
            handle.result()
        assert other.result() == "slept"


@app.workflow
async def calls_a_caller() -> str:
    return await hf.call(waits_for.with_options(id="middle"), "s-1")


@app.workflow
async def calls_and_works(child_id: str) -> str:
    """It is never suspended."""
    called = hf.spawn(waits_for_it, child_id)
    await hf.run(stall)
    return await called


async def waits_for_it(child_id: str) -> str:
    return await hf.call(sleeper.with_options(id=child_id))


async def stall() -> None:
    await asyncio.Event().wait()


@app.workflow
async def starts_then_calls(child_id: str) -> str:
    await hf.start(sleeper.with_options(id=child_id))
    return await hf.call(sleeper.with_options(id=child_id))


def test_a_caller_that_is_cancelled_at_once_ends_what_it_has_begun() -> None:
    with World(app) as world:
        handle = app.start(calls_a_caller)
        world.elapse("1d")
        handle.cancel(now=True)
        for name in ("middle", "s-1"):
            assert app.handle(name).info().state == "cancelled"
        assert ledger.entries == []


def test_a_caller_that_is_at_work_ends_what_it_has_begun_when_it_is_cancelled_at_once() -> None:
    with World(app) as world:
        handle = app.start(calls_and_works, "s-1")
        world.elapse("1s")
        assert handle.info().state == "running"
        handle.cancel(now=True)
        assert app.handle("s-1").info().state == "cancelled"


def test_a_caller_that_is_cancelled_at_once_leaves_what_others_have_begun() -> None:
    with World(app) as world:
        other = sleeper.with_options(id="s-1").start()
        handle = app.start(waits_for, "s-1")
        started = app.start(starts_then_calls, "s-2")
        world.elapse("1d")
        handle.cancel(now=True)
        started.cancel(now=True)
        assert other.result() == app.handle("s-2", str).result() == "slept"


def test_an_execution_does_not_call_itself() -> None:
    with World(app):
        said = app.start(calls, "me", 5, id="me").result()
        assert said.startswith("BadId: with_options(id='me') is the id of the execution that calls it")


@pytest.mark.parametrize("on_existing", ["again_if_failed", "replace"])
def test_a_call_cannot_begin_anew_what_has_the_id(on_existing: str) -> None:
    with World(app):
        assert "'return' or 'reject'" in app.start(calls, "c-1", 5, on_existing).result()
