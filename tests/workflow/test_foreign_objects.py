"""What one execution made or used is refused in another, and in a replay; nothing of it is recorded there."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import World

app = hf.App("memory:")


def step(what: str) -> str:
    return what


@dataclass(frozen=True)
class Frozen(Exception):
    reason: str


def test_a_module_level_semaphore_is_refused_in_the_second_execution() -> None:
    gate = hf.Semaphore(1, "gate")

    @app.workflow(name="guarded")
    async def guarded(what: str) -> str:
        async with gate:
            await hf.sleep("1h")
            return await hf.run(step, what)

    with World(app) as world:
        first = app.start(guarded, "one", id="one")
        world.elapse("1m")
        second = app.start(guarded, "two", id="two")
        with pytest.raises(
            hf.errors.WrongExecution, match=r"Semaphore gate belongs to another execution.*HF5120"
        ):
            second.result()
        assert first.result() == "one"
        assert gate.free == 1
        assert not [key for key in world.store.promises if key.startswith("two:")], "it recorded nothing"


def test_a_module_level_channel_hands_no_value_to_another_execution() -> None:
    box = hf.Channel[str]("box")

    @app.workflow(name="sender")
    async def sender() -> None:
        box.send(await hf.run(step, "secret"))

    @app.workflow(name="receiver")
    def receiver() -> Generator[Any, Any, str]:
        return (yield from box.receive)

    with World(app):
        app.start(sender).result()
        with pytest.raises(hf.errors.WrongExecution, match="Channel box"):
            app.start(receiver).result()


@pytest.mark.parametrize("settled", [True, False])
def test_a_cached_durable_future_is_refused_where_another_execution_awaits_it(settled: bool) -> None:
    cache: dict[str, hf.types.Future[str]] = {}

    @app.workflow(name=f"caching {settled}")
    async def caching(key: str) -> str:
        if key not in cache:
            cache[key] = hf.promise(str)
            if settled:
                await cache[key]
            await hf.sleep("1d")
        value = await cache[key]
        return await hf.run(step, value)

    with World(app) as world:
        app.start(caching, "key", id="first")
        world.elapse("1m")
        if settled:
            app.resolve("first:1", "a value")
        world.elapse("1m")
        second = app.start(caching, "key", id="second")
        with pytest.raises(hf.errors.WrongExecution, match=r"Durable promise first:1"):
            second.result()
        assert not [key for key in world.store.promises if key.startswith("second:")]


def test_a_run_that_is_built_anew_is_refused_what_the_run_before_it_used_and_halts() -> None:
    gate = hf.Semaphore(1)

    @app.workflow(name="rebuilt")
    async def rebuilt() -> str:
        async with gate:
            await hf.sleep("1h")
            return "done"

    with World(app) as world:
        app.start(rebuilt, id="x")
        world.elapse("1m")
        world.kill()
        world.elapse("2h")
        assert world.store.promises["x"].state == "pending"
        assert world.store.tasks["x"].state == "halted", "its record says that more should follow"


def test_a_workflow_that_raises_an_error_that_forbids_assignment_fails_with_it() -> None:
    @app.workflow(name="frozen")
    async def frozen() -> None:
        async def fiber() -> None:
            await hf.run(step, "a")
            raise Frozen("cold")

        await hf.spawn(fiber)

    with World(app), pytest.raises(Exception, match="cold") as caught:
        app.start(frozen).result()
    assert "Frozen" in repr(caught.value)
