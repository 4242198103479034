"""What would touch the world is refused in the loop of a workflow, at the line where it is asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.workflow.asyncio_loop.refusals import refused
from holdfast.workflow.errors import NotInAWorkflowLoop

touched: list[str] = []


async def in_a_thread() -> Any:
    await asyncio.to_thread(touched.append, "thread")


async def in_an_executor() -> Any:
    await asyncio.get_running_loop().run_in_executor(None, touched.append, "executor")


async def over_a_connection() -> Any:
    await asyncio.open_connection("127.0.0.1", 1)


async def as_a_server() -> Any:
    await asyncio.start_server(cast(Any, print), "127.0.0.1", 0)


async def in_a_process() -> Any:
    await asyncio.create_subprocess_exec("true")


async def in_a_shell() -> Any:
    await asyncio.create_subprocess_shell("true")


async def by_a_signal() -> Any:
    asyncio.get_running_loop().add_signal_handler(2, touched.append, "signal")


async def by_a_reader() -> Any:
    asyncio.get_running_loop().add_reader(0, touched.append, "reader")


async def by_name() -> Any:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def by_another_loop() -> Any:
    asyncio.get_running_loop().run_until_complete(asyncio.sleep(0))


async def by_settling_what_is_durable() -> Any:
    hf.promise().set_result(3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "code",
    [
        in_a_thread,
        in_an_executor,
        over_a_connection,
        as_a_server,
        in_a_process,
        in_a_shell,
        by_a_signal,
        by_a_reader,
        by_name,
        by_settling_what_is_durable,
    ],
)
def test_the_world_is_refused_with_a_sentence_that_says_where_to_put_it(
    code: Callable[[], Awaitable[Any]],
) -> None:
    app = hf.App("memory:")
    touched.clear()

    @app.workflow(loop="asyncio")
    async def careless() -> str:
        try:
            await code()
        except NotInAWorkflowLoop as error:
            return str(error)
        return "not refused"

    with World(app):
        sentence = app.start(careless).result()
    assert "HF5113" in sentence
    assert "step" in sentence
    assert touched == []


def test_every_method_of_a_loop_is_either_there_or_refused() -> None:
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop

    for name in dir(asyncio.AbstractEventLoop):
        if not name.startswith("_"):
            assert name in refused or name in vars(WorkflowLoop), name


def test_the_loop_is_for_the_code_of_its_execution_while_that_runs() -> None:
    app = hf.App("memory:")
    loops: list[asyncio.AbstractEventLoop] = []
    errors: list[BaseException] = []

    def from_a_step() -> None:
        calls: list[Any] = [
            lambda: loops[0].call_soon_threadsafe(touched.append, "soon"),
            lambda: loops[0].call_later(1, touched.append, "later"),
            lambda: loops[0].create_task(None),  # type: ignore[arg-type]
        ]
        for call in calls:
            try:
                call()
            except NotInAWorkflowLoop as error:
                errors.append(error)

    def from_a_thread() -> None:
        thread = threading.Thread(target=from_a_step)
        thread.start()
        thread.join()

    @app.workflow(loop="asyncio")
    async def passes_on() -> None:
        loops.append(asyncio.get_running_loop())
        await hf.run(from_a_step)
        await hf.run(from_a_thread)

    touched.clear()
    with World(app):
        app.start(passes_on).result()
    assert len(errors) == 6
    assert touched == []


def test_a_step_has_its_own_loop() -> None:
    app = hf.App("memory:")
    loops: list[Any] = []

    async def step() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.create_task(asyncio.sleep(1))

    @app.workflow(loop="asyncio")
    async def workflow() -> None:
        loops.append(asyncio.get_running_loop())
        await hf.run(step)

    with World(app):
        app.start(workflow).result()
    assert loops[0] is not loops[1]


def test_the_app_is_not_for_the_code_of_an_asyncio_workflow_either() -> None:
    app = hf.App("memory:")

    @app.workflow(loop="asyncio")
    async def workflow() -> str:
        try:
            app.start(workflow)
        except hf.HoldfastError as error:
            return str(error)
        return "not refused"

    with World(app):
        assert "HF" in app.start(workflow).result()


@pytest.mark.parametrize("loop", ["trio", "", 3])
def test_only_asyncio_is_known(loop: Any) -> None:
    app = hf.App("memory:")
    with pytest.raises(hf.HoldfastError, match="asyncio"):

        @app.workflow(loop=loop)
        async def workflow() -> None: ...


def test_a_generator_workflow_has_no_asyncio() -> None:
    app = hf.App("memory:")
    with pytest.raises(hf.HoldfastError, match="async def"):

        @app.workflow(loop="asyncio")
        def workflow() -> Any:
            yield from hf.sleep(1)


def test_asyncio_is_as_it_was_once_no_workflow_uses_it() -> None:
    app = hf.App("memory:")
    before = asyncio.all_tasks

    @app.workflow(loop="asyncio")
    async def workflow() -> bool:
        return asyncio.all_tasks is before

    with World(app):
        assert app.start(workflow).result() is False
    assert asyncio.all_tasks is before
    assert "set" not in vars(asyncio.tasks)
