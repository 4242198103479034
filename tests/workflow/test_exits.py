"""A workflow that exits fails by itself: its worker, and everything else that it runs, goes on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdfast as hf
from holdfast.runtime import FiberExited, spawn
from holdfast.workflow import functions
from tests.workflow.world import World, virtual, workflow


class Own(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), Own("x")], ids=repr)
@virtual
async def test_an_exit_fails_the_execution_once_and_nothing_else(world: World, error: BaseException) -> None:
    runs: list[str] = []

    async def step() -> str:
        return "done"

    @world.workflow
    async def exits() -> None:
        runs.append("exits")
        await functions.run(step)
        raise error

    @world.workflow
    async def spawns() -> str:
        async def child() -> None:
            raise error

        runs.append("spawns")
        try:
            await spawn(child)
        except FiberExited:
            return await functions.run(step)
        return "went on"

    world.worker(lease_s=2.0)
    with pytest.raises(FiberExited, match=r"\[HF5110\]"):
        await world.run(exits, id="a")
    assert await world.run(spawns, id="b") == "done"
    assert (await world.task("a")).state == "fulfilled"
    await asyncio.sleep(60)
    assert runs == ["exits", "spawns"]


@virtual
async def test_an_exit_before_the_code_runs_is_given_back(world: World) -> None:
    """It is not the workflow's own: a decorator, or a model that reads the arguments."""

    def decorated(function: Callable[[], Coroutine[Any, Any, str]]) -> Callable[[], Any]:
        def wrapper() -> Any:
            if len(tries) < 2:
                tries.append("exit")
                raise SystemExit
            return function()

        return wrapper

    tries: list[str] = []

    @decorated
    async def flow() -> str:
        return "done"

    world.worker()
    assert await world.run(workflow(flow, world.registry, "flow")) == "done"


def test_an_embedded_app_outlives_a_workflow_that_exits() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def exits() -> None:
        raise SystemExit(3)

    @app.workflow
    async def stays() -> str:
        return "fine"

    with app:
        with pytest.raises(FiberExited):
            app.start(exits).result(timeout=60)
        assert app.start(stays).result(timeout=60) == "fine"
