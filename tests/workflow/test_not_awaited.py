"""A step, a call or a timer whose result is dropped is told, with the line: nobody would see how it ended."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.testing import World
from holdfast.workflow.guard import guard


@hf.step
def charge(card: str) -> str:
    return card


class Shop:
    @hf.step
    def pack(self, what: str) -> str:
        return what


def plain(number: int = 1) -> int:
    return number


async def drops_a_step() -> None:
    charge("4111")


async def drops_a_step_with_stars() -> None:
    charge(*("4111",))


async def drops_a_method() -> None:
    Shop().pack("tea")


async def drops_a_run() -> None:
    hf.run(plain, number=2)


async def drops_a_sleep() -> None:
    hf.sleep(0)


async def drops_a_gather() -> None:
    hf.gather(charge("1"), charge("2"))


async def helper() -> None:
    charge("4111")


entities = hf.App("memory:")


@entities.entity
class Cart(hf.Entity):
    count: int = 0

    async def add(self, count: int = 1) -> int:
        self.count += count
        return self.count

    @hf.read
    async def size(self) -> int:
        return self.count


async def drops_a_call_of_an_entity() -> None:
    cast(Any, Cart("ada")).add(2)


async def drops_a_read_of_an_entity() -> None:
    cast(Any, Cart("ada")).size()


async def drops_in_a_helper() -> None:
    await helper()


DROPPED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "charge": (drops_a_step, drops_a_step),
    "charge with stars": (drops_a_step_with_stars, drops_a_step_with_stars),
    "pack": (drops_a_method, drops_a_method),
    "hf.run": (drops_a_run, drops_a_run),
    "hf.sleep": (drops_a_sleep, drops_a_sleep),
    "hf.gather": (drops_a_gather, drops_a_gather),
    "Cart(...).add": (drops_a_call_of_an_entity, drops_a_call_of_an_entity),
    "Cart(...).size": (drops_a_read_of_an_entity, drops_a_read_of_an_entity),
    "charge in a helper": (drops_in_a_helper, helper),
}


def heard_from(body: Callable[..., Any], *, in_world: bool = False) -> list[warnings.WarningMessage]:
    app = hf.App("memory:")
    workflow: Any = app.workflow(body)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with World(app) if in_world else app:
            for _ in range(3):
                app.start(workflow).result()
    return [each for each in heard if each.category is RuntimeWarning]


@pytest.mark.parametrize("in_world", [False, True])
@pytest.mark.parametrize("name", DROPPED)
def test_a_result_that_nobody_awaits_is_told_once_with_its_line(name: str, in_world: bool) -> None:
    body, where = DROPPED[name]
    [told] = heard_from(body, in_world=in_world)
    said = str(told.message)
    assert f"The result of {name.split()[0]}(...) is not awaited" in said
    assert f"await {name.split()[0]}(...)" in said
    assert "[HF5111]" in said
    assert (told.filename, told.lineno) == (__file__, where.__code__.co_firstlineno + 1)
    assert guard.strict_users == 0


async def awaits_everything() -> list[str]:
    first, second = charge("1"), charge("2")
    cards = [charge(card) for card in ("3", "4")]
    await charge("5")
    kept = [await hf.gather(first, second), await hf.gather(cards)]
    await hf.start("nothing") if not kept else None
    return [await first, *[await card for card in cards]]


async def only_starts() -> None:
    """What is started or told happens, whoever waits for it."""
    hf.cancel("nobody")


def steps_in_a_generator() -> Generator[Any, Any, None]:
    yield from charge("1")


async def knows_what_it_does() -> None:
    with hf.unguarded():
        charge("4111")


@pytest.mark.parametrize("body", [awaits_everything, only_starts, steps_in_a_generator, knows_what_it_does])
def test_nothing_is_told_of_what_is_awaited_kept_or_meant(body: Callable[..., Any]) -> None:
    assert heard_from(body) == []


def test_outside_of_workflows_the_plain_function_is_called_and_nothing_is_told() -> None:
    app = hf.App("memory:")

    @app.workflow
    async def calls_it() -> str:
        return await hf.run(outer)

    def outer() -> str:
        charge("4111")
        return "done"

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with app:
            assert app.start(calls_it).result() == "done"
    assert [each for each in heard if each.category is RuntimeWarning] == []


def test_the_first_sleep_of_a_program_is_told_too() -> None:
    """It is when `hf.sleep` is imported, and Python 3.11 looks at so many calls of a run only."""
    program = """
import holdfast as hf

app = hf.App("memory:")


@app.workflow
async def naps() -> None:
    hf.sleep("10d")


app.start(naps).result()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "The result of hf.sleep(...) is not awaited" in ended.stderr
