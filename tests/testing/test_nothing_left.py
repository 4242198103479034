"""Whatever dies amid an emit or a report of progress, the world and its workers leave no task behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import CrashPoint, World


async def talk(count: int) -> int:
    for number in range(count):
        hf.progress(number / count)
        await hf.emit("words", number)
    return count


def app_that_talks() -> hf.App:
    app = hf.App("memory:")

    @app.task
    async def work(count: int) -> int:
        return await talk(count)

    @app.workflow
    async def flow(count: int) -> list[int]:
        done = await hf.call(work, count)
        return [await hf.run(talk, count), done.ok_value]

    return app


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_worker_that_dies_at_any_write_leaves_no_task_behind(side: Any) -> None:
    whole = World(app_that_talks())
    with whole:
        assert whole.app.start("flow", 3).result() == [3, 3]
    assert any("append to" in write for write in whole.fuse.writes)
    for write in range(1, len(whole.fuse.writes) + 1):
        world = World(app_that_talks(), crashes=[CrashPoint(write, side)])
        kept = world.loop.tasks = list[tuple[asyncio.Task[Any], Any]]()
        with world:
            handle = world.app.start("flow", 3)
            world.elapse("1h")
            del handle
        assert [task for task, _ in kept if not task.done()] == [], f"{side}:{write}"


def test_a_world_that_cannot_be_opened_leaves_no_task_behind() -> None:
    app = hf.App("memory:")

    @app.provide("database")
    def database() -> Any:
        raise OSError("no such host")

    world, began = World(app), list[Any]()
    create_task = world.loop.create_task

    def noted(coro: Any, **options: Any) -> asyncio.Task[Any]:
        began.append(coro)
        return create_task(coro, **options)

    world.loop.create_task = noted  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no such host"), world:
        pass
    assert any(each.__name__ == "listen" for each in began), "the stream of the caller was open"
    assert [each for each in began if each.cr_frame is not None] == []
