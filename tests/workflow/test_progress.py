"""`hf.progress`: what a step or a task tells while it runs, and what the next attempt finds."""

import asyncio
import threading

import pytest

import holdfast as hf
from holdfast.testing import World

app = hf.App("memory:")
found: list[hf.types.StepProgress | None] = []


@pytest.fixture(autouse=True)
def nothing_found() -> None:
    found.clear()


async def load(rows: int, fails_at: int = -1) -> int:
    before = hf.current().progress
    found.append(before)
    first = before.fields["rows"] if before is not None else 0
    for number in range(first + 1, rows + 1):
        hf.progress(number / rows, rows=number)
        if number == fails_at and len(found) == 1:
            raise RuntimeError("the disk is full")
        await asyncio.sleep(60)
    return rows - first


@app.workflow
async def importing(rows: int, fails_at: int = -1, rests: float = 0) -> int:
    retry = hf.Retry(attempts=3, delay=rests) if rests else hf.Retry(attempts=3)
    return await hf.run(load, rows, fails_at, retry=retry)


@app.task(queue="imports", retry=hf.Retry(attempts=2))
async def import_task(rows: int) -> int:
    return await load(rows)


def test_it_is_seen_while_the_step_runs_and_gone_when_it_is_done() -> None:
    with World(app) as world:
        handle = importing.start(10)
        world.elapse("3m30s")
        [(step, progress)] = handle.info().progress.items()
        assert step == f"{handle.id}:1"
        assert (progress.fraction, progress.fields) == (0.4, {"rows": 4})
        assert handle.result() == 10
        assert not handle.info().progress


def test_the_next_attempt_finds_it_after_the_worker_was_killed() -> None:
    with World(app) as world:
        handle = importing.start(10)
        world.elapse("3m30s")
        world.kill()
        assert handle.result() == 6, "the rows behind those that it had told of"
        assert [None if each is None else each.fields for each in found] == [None, {"rows": 4}]


@pytest.mark.parametrize("rests", [1, 3600])
def test_the_next_attempt_finds_it_after_a_failure(rests: float) -> None:
    """Also one that suspends in between."""
    with World(app) as world:
        handle = importing.start(10, 4, rests)
        world.elapse("3m30s")
        assert handle.result() == 6
        assert [None if each is None else each.fields for each in found] == [None, {"rows": 4}]


def test_a_task_finds_it_too() -> None:
    with World(app) as world:
        handle = import_task.send(10)
        world.elapse("3m30s")
        info = handle.info()
        assert info.progress is not None
        assert info.progress.fraction == 0.4
        world.kill()
        assert handle.get().ok_value == 6
        assert handle.info().progress is None


def test_of_many_reports_in_a_second_the_last_is_kept() -> None:
    async def chatty() -> None:
        for number in range(1_000):
            hf.progress(rows=number)
        await asyncio.sleep(5)

    @app.workflow(name="chatty")
    async def talks() -> None:
        await hf.run(chatty)

    with World(app) as world:
        handle = talks.start()
        world.elapse("4s")
        [told] = handle.info().progress.values()
        assert told.fields == {"rows": 999}
        assert told.fraction is None


def test_an_attempt_sees_what_it_has_told_itself() -> None:
    async def asks() -> dict[str, int]:
        hf.progress(0.5, rows=3)
        progress = hf.current().progress
        assert progress is not None
        return progress.fields

    @app.workflow(name="asks itself")
    async def flow() -> dict[str, int]:
        return await hf.run(asks)

    with World(app):
        assert flow.start().result() == {"rows": 3}


def test_in_the_code_of_a_workflow_it_is_refused() -> None:
    @app.workflow(name="no step")
    async def flow() -> None:
        hf.progress(0.5)

    with World(app), pytest.raises(hf.HoldfastError, match="steps and background tasks"):
        flow.start().result()
    with pytest.raises(hf.HoldfastError, match="steps and background tasks"):
        hf.progress(0.5)


@pytest.mark.parametrize("given", [(2,), (-1,), ("half",), (float("nan"),)])
def test_what_is_no_fraction_is_refused(given: tuple[object]) -> None:
    async def wrong() -> None:
        hf.progress(*given)  # type: ignore[arg-type]

    @app.workflow(name=f"wrong {given}")
    async def flow() -> None:
        await hf.run(wrong)

    with World(app), pytest.raises(hf.errors.BadProgress):
        flow.start().result()


def test_threads_of_a_step_may_report() -> None:
    told = threading.Event()

    def work() -> float:
        def report() -> None:
            hf.progress(0.25)
            told.set()

        from contextvars import copy_context

        thread = threading.Thread(target=copy_context().run, args=(report,))
        thread.start()
        thread.join()
        progress = hf.current().progress
        assert progress is not None
        assert progress.fraction is not None
        return progress.fraction

    real = hf.App("memory:")

    @real.workflow
    async def flow() -> float:
        return await hf.run(work)

    with real:
        assert real.start(flow).result() == 0.25
    assert told.is_set()


def test_the_last_report_before_a_failure_is_kept_though_another_left_just_before() -> None:
    async def fails_once() -> dict[str, int]:
        before = hf.current().progress
        if before is not None:
            return before.fields
        for number in (1, 2, 3):
            hf.progress(rows=number)
            await asyncio.sleep(0.01)
        raise RuntimeError("the disk is full")

    @app.workflow(name="fails once")
    async def flow() -> dict[str, int]:
        return await hf.run(fails_once, retry=hf.Retry(attempts=2, delay=3600))

    with World(app) as world:
        handle = flow.start()
        world.elapse("1m")
        world.kill()
        assert handle.result() == {"rows": 3}
