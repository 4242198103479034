"""Steps that are declared: recorded in a workflow, plain functions anywhere else."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

import holdfast as hf
from holdfast.payloads.errors import BadRetry, BadStepOption
from holdfast.testing import World
from holdfast.workflow.step_functions import StepFunction
from tests.steps.processed import declared_square

app = hf.App("memory:")
calls: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    calls.clear()


@hf.step
def weigh(item: str, count: int = 1) -> float:
    """Grams."""
    calls.append("weigh")
    return len(item) * count / 2


@hf.step(retry=hf.Retry(attempts=3, delay="1s", jitter=0), name="pay")
async def charge(card: str) -> str:
    calls.append("charge")
    if len(calls) < 3:
        raise ConnectionError("no")
    return f"{card}, attempt {hf.current().attempt}"


@hf.step
def nested(item: str) -> float:
    return weigh.plain(item) + float(weigh(item))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Shop:
    def __init__(self, town: str) -> None:
        self.town = town

    @hf.step
    async def ship(self, item: str) -> str:
        return f"{item} from {self.town} by {hf.current().step}"

    @staticmethod
    @hf.step
    def label(item: str) -> str:
        return item.upper()


def run(workflow: Any, *args: Any) -> Any:
    with World(app):
        return app.start(workflow, *args).result()


@app.workflow
async def buy(item: str) -> list[Any]:
    return [await weigh(item, count=3), await charge("visa")]


@app.workflow
def buy_by_generator(item: str) -> Generator[Any, Any, float]:
    return (yield from weigh(item))


@app.workflow
async def buy_by_run(item: str) -> list[Any]:
    return [await hf.run(weigh, item), await hf.run(charge, "visa", name="pay later")]


@app.workflow
async def ship_all() -> list[str]:
    shop: Any = Shop("Ulm")
    return [await shop.ship("lamp"), await shop.label("lamp"), await hf.run(shop.ship, "bed")]


@app.workflow
async def impatient() -> str:
    return await charge.with_options(retry=hf.Retry.never())("visa")


@app.workflow
async def in_a_step() -> float:
    return await nested("lamp")


@app.workflow
async def in_a_process(number: int) -> int:
    return await declared_square(number)


def test_a_declared_step_that_a_workflow_calls_is_performed_with_its_options() -> None:
    assert run(buy, "lamp") == [6.0, "visa, attempt 2"]
    assert calls == ["weigh", "charge", "charge"]


def test_a_declared_step_is_recorded_under_its_name() -> None:
    with World(app) as world:
        handle = app.start(buy, "lamp")
        handle.result()
        records = [each for each in world.journal(handle.id) if "~" not in each.id]
        labels = [(each.param.headers or {})["holdfast:op"] for each in records]
    assert labels == ["step weigh", "step pay"]


def test_outside_a_workflow_a_declared_step_is_the_plain_function() -> None:
    plain: Any = weigh("lamp", 2)
    assert plain == 4.0
    with pytest.raises(ConnectionError):
        asyncio.run(charge.plain("visa"))
    assert calls == ["weigh", "charge"]
    assert weigh.__name__ == "weigh"
    assert weigh.__doc__ == "Grams."
    assert repr(charge) == "<step pay>"


def test_inside_a_step_a_declared_step_is_the_plain_function() -> None:
    assert run(in_a_step) == 4.0


def test_a_workflow_that_is_a_generator_calls_declared_steps_too() -> None:
    assert run(buy_by_generator, "lamp") == 2.0


def test_run_performs_a_declared_step_with_its_options_and_those_of_the_call() -> None:
    assert run(buy_by_run, "lamp") == [2.0, "visa, attempt 2"]


def test_options_at_the_call_replace_those_of_the_declaration() -> None:
    with World(app), pytest.raises(ConnectionError):
        app.start(impatient).result()
    assert calls == ["charge"]


def test_a_method_can_be_a_step() -> None:
    shipped = run(ship_all)
    assert [each.partition(" by ")[0] for each in shipped] == ["lamp from Ulm", "LAMP", "bed from Ulm"]
    assert isinstance(Shop.ship, StepFunction)


def test_a_declared_step_can_run_in_a_process_of_its_own() -> None:
    with hf.App("memory:") as real:
        squared = real.workflow(in_a_process.function)
        assert real.start(squared, 7).result() == 49


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"retry": 5}, BadRetry),
        ({"mode": "fast"}, BadStepOption),
        ({"name": ""}, BadStepOption),
        ({"timeout": "soon"}, ValueError),
    ],
)
def test_a_wrong_option_is_refused_where_the_step_is_declared(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        hf.step(**options)(len)
    with pytest.raises(error):
        weigh.with_options(**options)


def test_what_cannot_be_a_step_is_refused_where_it_is_declared() -> None:
    declare: Any = hf.step
    with pytest.raises(TypeError, match="has no name"):
        declare(lambda: 1)
    with pytest.raises(BadStepOption, match="already a step"):
        declare(weigh)
    with pytest.raises(BadStepOption, match="below @staticmethod"):
        declare(staticmethod(len))
