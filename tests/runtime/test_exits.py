# mypy: disable-error-code="no-any-return"
"""Exits: what is not an `Exception` fails the fiber that raised it, not its scheduler nor its driver."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.runtime import Err, FiberExited, Trouble, all_settled, any_of, scope, spawn
from holdfast.runtime.slot import slot
from holdfast.runtime.testing import Hand, promise


class Own(BaseException):
    pass


exits = pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), Own("x")], ids=repr
)


@exits
def test_an_exit_is_the_failure_of_the_root(error: BaseException) -> None:
    async def root() -> None:
        await promise("a")
        raise error

    hand = Hand(root)
    hand.resolve("a")
    assert hand.done
    with pytest.raises(FiberExited, match=r"Fiber root#1 raised .*\[HF5110\]") as caught:
        hand.result()
    assert caught.value.__cause__ is error
    assert caught.traceback[-1].name == "root"
    assert slot.scheduler is None


@exits
def test_an_exit_of_a_task_is_an_error_for_whoever_awaits_it(error: BaseException) -> None:
    async def child() -> None:
        await promise("a")
        raise error

    async def root() -> str:
        try:
            await spawn(child)
        except FiberExited:
            return await promise("b")
        return "went on"

    hand = Hand(root)
    hand.resolve("a")
    hand.resolve("b", "cleaned up")
    assert hand.result() == "cleaned up"


def test_an_exit_that_nobody_awaits_is_reported_and_the_rest_goes_on() -> None:
    async def child() -> None:
        raise SystemExit

    async def root() -> str:
        spawn(child)
        return await promise("a")

    hand = Hand(root)
    hand.resolve("a", "done")
    assert hand.result() == "done"
    hand.close()
    assert [report.trouble for report in hand.reports] == [Trouble.FAILED_NOT_AWAITED]


def test_exits_of_tasks_can_be_collected() -> None:
    async def child() -> None:
        raise SystemExit

    async def root() -> None:
        [one] = await all_settled([spawn(child)])
        assert isinstance(one, Err)
        assert isinstance(one.error, FiberExited)
        with pytest.raises(ExceptionGroup):
            await any_of([spawn(child)])
        with pytest.raises(ExceptionGroup):
            async with scope() as tasks:
                tasks.spawn(child)

    Hand(root).result()
