# mypy: disable-error-code="no-any-return"
"""select: the first branch to settle, by name, with its future."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    Channel,
    FiberInterrupted,
    NotInFiber,
    Queue,
    Selected,
    select,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.inside import waiters


def test_select_names_the_branch_that_settled_first() -> None:
    async def root() -> Any:
        chosen = await select(work=promise("a"), stop=promise("b"))
        return chosen.tag, await chosen.future

    hand = Hand(root)
    hand.resolve("b", 2)
    assert hand.result() == ("stop", 2)


def test_select_takes_a_mapping_whose_keys_need_not_be_names() -> None:
    async def root() -> str:
        return (await select({"a branch": promise("a"), "2": promise("b")})).tag

    hand = Hand(root)
    hand.resolve("b")
    assert hand.result() == "2"


def test_branches_that_are_settled_already_go_in_the_order_given() -> None:
    async def root() -> str:
        first, second = Channel[int](), Channel[int]()
        second.send(2)
        first.send(1)
        return (await select({"9": promise("x"), "b": first.receive, "a": second.receive})).tag

    assert Hand(root).result() == "b"


def test_a_failed_branch_is_selected_and_raises_only_when_awaited() -> None:
    async def root() -> list[str]:
        chosen = await select(work=promise("a"))
        told = [chosen.tag]
        try:
            await chosen.future
        except ValueError as error:
            told.append(str(error))
        return told

    hand = Hand(root)
    hand.reject("a", ValueError("no"))
    assert hand.result() == ["work", "no"]


def test_select_can_be_matched() -> None:
    async def root() -> str:
        match await select(work=promise("a"), stop=promise("b")):
            case Selected("work", future):
                return f"work {await future}"
            case Selected(tag, _):
                return tag

    hand = Hand(root)
    hand.resolve("a", 1)
    assert hand.result() == "work 1"


def test_select_spawns_what_is_not_a_future_yet() -> None:
    async def work() -> int:
        return await promise("a") + 1

    async def root() -> Any:
        return await (await select(work=work())).future

    hand = Hand(root)
    hand.resolve("a", 1)
    assert hand.result() == 2


def test_select_without_branches_is_a_value_error_at_the_call() -> None:
    async def root() -> None:
        select()

    with pytest.raises(ValueError, match="at least one branch"):
        Hand(root).result()


def test_a_cancellation_is_thrown_at_the_select_and_not_reported_as_a_branch() -> None:
    async def root() -> str:
        try:
            return (await select(work=promise("a"), timeout=promise("b"))).tag
        except Cancelled:
            return "cancelled"

    hand = Hand(root)
    hand.cancel()
    assert hand.result() == "cancelled"


def test_after_a_cancelled_select_the_timeout_branch_still_works() -> None:
    async def root() -> str:
        branches = {"work": promise("a"), "timeout": promise("b")}
        with suppress(Cancelled):
            await select(branches)
        return (await select(branches)).tag

    hand = Hand(root)
    hand.cancel()
    hand.resolve("b")
    assert hand.result() == "timeout"


def test_a_thousand_selects_leave_a_bounded_number_of_waiters() -> None:
    stop = Channel[None]()

    async def root() -> int:
        seen = 0
        for number in range(1000):
            await select(work=promise(f"work {number}"), stop=stop.receive)
            seen += 1
        return seen

    hand = Hand(root)
    for number in range(1000):
        hand.resolve(f"work {number}")
    assert hand.result() == 1000
    assert waiters(stop.receive) == 0


def test_interrupted_selects_leave_no_waiters_either() -> None:
    stop = Channel[None]()

    async def waiter() -> None:
        while True:
            try:
                await select(stop=stop.receive)
            except FiberInterrupted:
                continue

    async def root() -> None:
        task = spawn(waiter)
        for number in range(50):
            await promise(f"go {number}")
            task.interrupt()
        await promise("x")

    hand = Hand(root)
    for number in range(50):
        hand.resolve(f"go {number}")
    assert waiters(stop.receive) == 1


def test_a_branch_listed_under_two_names_goes_by_the_first() -> None:
    async def root() -> str:
        future = promise("a")
        return (await select(one=future, two=future)).tag

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == "one"


def test_the_loser_of_a_select_takes_no_item_from_its_queue() -> None:
    async def root() -> Any:
        queue = Queue[int]()
        await select(item=queue.get(), stop=promise("stop"))
        queue.put(7)
        return await queue.get()

    hand = Hand(root)
    hand.resolve("stop")
    assert hand.result() == 7


def test_an_item_selected_for_a_fiber_that_was_interrupted_first_goes_back() -> None:
    async def reader(queue: Queue[int]) -> None:
        await select(item=queue.get(), stop=promise("stop"))

    async def root() -> Any:
        queue = Queue[int]()
        task = spawn(reader, queue)
        await promise("go")
        queue.put(7)
        task.interrupt()
        return await queue.get()

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == 7


def test_select_outside_a_fiber_says_so() -> None:
    with pytest.raises(NotInFiber):
        select()
