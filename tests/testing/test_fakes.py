"""Steps and tasks that are replaced in a world, in every spelling; and what cannot be replaced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

import holdfast as hf
from holdfast.testing import World, crash_everywhere

app = hf.App()


@dataclass
class Receipt:
    card: str
    cents: int


def charge(card: str, cents: int) -> Receipt:
    raise AssertionError("the real one was called")


@hf.step(retry=hf.Retry(attempts=3, delay=60))
async def ship(address: str) -> str:
    raise AssertionError("the real one was called")


@app.task
def count(number: int) -> int:
    raise AssertionError("the real one was called")


@app.task(mode="process")
def apart(number: int) -> int:
    return number


@app.workflow
async def order(card: str) -> list[Any]:
    receipt = await hf.run(charge, card, cents=5)
    shipped = await ship("Rome")
    return [receipt.card, receipt.cents, shipped]


@app.workflow
async def tally() -> int:
    return (await hf.call(count, 3)).ok_value


def charge_twice(card: str, cents: int) -> Receipt:
    return Receipt(card, 2 * cents)


def no_receipt(card: str, cents: int) -> str:
    return f"{card} {cents}"


def ship_at_once(address: str) -> str:
    return f"to {address}"


def count_one_more(number: int) -> int:
    return number + 1


FAKES: dict[Any, Callable[..., Any]] = {charge: charge_twice, ship: ship_at_once, count: count_one_more}


def test_steps_and_tasks_are_replaced_by_their_functions() -> None:
    with World(app, replace=FAKES):
        assert app.start(tally).result() == 4
        assert app.start(order, "visa").result() == ["visa", 10, "to Rome"]


def test_a_fake_may_be_a_coroutine_function_or_a_mock() -> None:
    shipped = AsyncMock(return_value="sent")
    charged = Mock(return_value=Receipt("any", 1))
    with World(app, replace=FAKES | {ship: shipped, charge: charged}):
        assert app.start(order, "visa").result() == ["any", 1, "sent"]
    shipped.assert_awaited_once_with("Rome")
    charged.assert_called_once_with("visa", cents=5)


def test_what_a_fake_raises_is_retried_as_the_step_says() -> None:
    tries: list[str] = []

    def flaky(address: str) -> str:
        tries.append(address)
        if len(tries) < 3:
            raise ConnectionError
        return "at last"

    with World(app, replace=FAKES | {ship: flaky}) as world:
        began = world.now
        assert app.start(order, "visa").result()[2] == "at last"
        assert (world.now - began).total_seconds() > 60
    assert len(tries) == 3


def test_what_a_fake_returns_must_fit_the_real_one() -> None:
    fakes: dict[Any, Callable[..., Any]] = FAKES | {charge: no_receipt}
    with World(app, replace=fakes), pytest.raises(hf.HoldfastError):
        app.start(order, "visa").result()


def test_fakes_count_in_every_crash_too() -> None:
    proof = crash_everywhere(order, "visa", app=app, replace=FAKES)
    assert proof.result == ["visa", 10, "to Rome"]
    assert proof.crashes > 10


@pytest.mark.parametrize(
    ("given", "fake", "why"),
    [
        (order, FAKES[charge], "order is a workflow"),
        ("charge", FAKES[charge], "'charge' is not a function"),
        (charge, None, "None cannot be called"),
        (apart, FAKES[count], "apart runs in a process of its own"),
    ],
)
def test_what_cannot_be_replaced_is_refused_at_once(given: Any, fake: Any, why: str) -> None:
    with pytest.raises(hf.HoldfastError, match=why):
        World(app, replace={given: fake})


def test_outside_of_the_world_nothing_is_replaced(holdfast_world: Any) -> None:
    with World(app, replace=FAKES):
        pass
    holdfast_world(app)
    with pytest.raises(Exception, match="the real one was called"):
        app.start(order, "visa").result()
