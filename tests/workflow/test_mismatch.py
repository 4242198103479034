"""Code that does not do what was recorded is told nothing that it could catch; the first mismatch is kept."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import holdfast as hf
from tests.workflow.test_execution import Effects, registry_of
from tests.workflow.world import World, virtual

effects = Effects()


async def before() -> None:
    await hf.run(effects.do, "recorded")
    await hf.promise()


async def catches_errors() -> str:
    try:
        await hf.run(effects.do, "first")
    except Exception:
        await hf.run(effects.do, "compensation")
    return "done"


async def catches_everything() -> str:
    while True:
        try:
            await hf.run(effects.do, "first")
        except BaseException:
            await hf.run(effects.do, "compensation")
        return "done"


async def returns_in_a_finally() -> str:
    try:
        await hf.run(effects.do, "first")
    finally:
        return "done"  # noqa: B012


async def suppresses() -> str:
    with suppress(BaseException):
        await hf.run(effects.do, "first")
    await hf.run(effects.do, "afterwards")
    return "done"


async def does_not_wait() -> str:
    _first = hf.run(effects.do, "first")
    _second = hf.run(effects.do, "second")
    return "done"


async def has_other_fibers() -> str:
    async def other() -> None:
        await hf.run(effects.do, "of another fiber")

    hf.spawn(other)
    with suppress(BaseException):
        await hf.run(effects.do, "of the root")
    return "done"


async def starts_another() -> str:
    with suppress(BaseException):
        await hf.run(effects.do, "first")
    await hf.start("elsewhere")
    await hf.cancel("x:2")
    return "done"


async def halted_by(world: World, after: Callable[..., Any]) -> tuple[Any, list[logging.LogRecord]]:
    """Record one version, deploy another, wake it. Returns the halted task and what was logged."""
    first = world.worker(registry_of(before))
    await world.start("flow", id="x")
    await world.until_state("x", "suspended")
    await first.stop()
    effects.seen.clear()
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record)  # type: ignore[method-assign]
    logging.getLogger("holdfast.worker").addHandler(handler)
    try:
        stored = {key for key in world.store.promises if key != "x:2"}
        second = world.worker(registry_of(after))
        await world.settle("x:2", "gate")
        await world.until_state("x", "halted")
        await asyncio.sleep(100)
        await second.stop()
        assert {key for key in world.store.promises if key != "x:2"} == stored, "something was recorded"
    finally:
        logging.getLogger("holdfast.worker").removeHandler(handler)
    return await world.task("x"), records


@virtual
@pytest.mark.parametrize(
    "after",
    [
        catches_errors,
        catches_everything,
        returns_in_a_finally,
        suppresses,
        does_not_wait,
        has_other_fibers,
        starts_another,
    ],
)
async def test_nothing_that_a_workflow_writes_catches_a_mismatch(
    world: World, after: Callable[..., Any]
) -> None:
    task, records = await halted_by(world, after)
    assert task.state == "halted"
    assert effects.seen == [], "nothing was performed"
    halts = [record for record in records if record.levelno == logging.ERROR]
    assert len(halts) == 1
    assert " x:1 ('step do') was recorded" in halts[0].getMessage(), "the first mismatch is named"


@virtual
async def test_why_an_execution_was_halted_is_kept_with_its_task(world: World) -> None:
    task, records = await halted_by(world, catches_errors)
    line = catches_errors.__code__.co_firstlineno + 2
    assert "x:1 ('step do')" in task.halted.reason
    assert f'"{__file__}", line {line}' in task.halted.reason
    assert task.halted.code == "HF5101"
    assert task.halted.at <= world.loop.millis()
    [halt] = [record for record in records if record.levelno == logging.ERROR]
    shown = vars(halt)
    assert (shown["execution"], shown["workflow"], shown["code"]) == ("x", "flow", "HF5101")
    assert shown["worker"] == "w2"
