"""as_completed and map_over: results as they come, and bounded concurrency."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    Channel,
    FiberInterrupted,
    Queue,
    as_completed,
    map_over,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow
from tests.runtime.inside import waiters


def test_results_come_in_the_order_of_settlement() -> None:
    seen: list[Any] = []

    async def root() -> None:
        seen.extend([await each for each in as_completed([promise("a"), spawn(follow, "b"), promise("c")])])

    hand = Hand(root)
    for name in "cab":
        hand.resolve(name, name)
    assert seen == ["c", "a", "b"]


def test_results_that_are_there_already_come_first_in_input_order() -> None:
    async def root() -> list[Any]:
        first, second = Channel[str](), Channel[str]()
        second.send("second")
        first.send("first")
        return [await each for each in as_completed([promise("a"), first.receive, second.receive])]

    hand = Hand(root)
    hand.resolve("a", "a")
    assert hand.result() == ["first", "second", "a"]


def test_several_settlements_in_one_drain_are_all_kept() -> None:
    async def sender(boxes: list[Channel[int]]) -> None:
        await promise("go")
        for number, box in enumerate(boxes):
            box.send(number)

    async def root() -> list[int]:
        boxes = [Channel[int]() for _ in range(3)]
        spawn(sender, boxes)
        return [await each for each in as_completed([box.receive for box in reversed(boxes)])]

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == [0, 1, 2]


def test_a_failure_is_raised_by_the_wait_it_is_the_result_of() -> None:
    async def root() -> list[str]:
        told: list[str] = []
        for each in as_completed([promise("a"), promise("b")]):
            try:
                told.append(str(await each))
            except ValueError as error:
                told.append(f"error {error}")
        return told

    hand = Hand(root)
    hand.reject("b", ValueError("b"))
    hand.resolve("a", "a")
    assert hand.result() == ["error b", "a"]


def test_a_repeated_input_gives_one_result() -> None:
    async def root() -> list[Any]:
        future = promise("a")
        return [await each for each in as_completed([future, future, promise("b")])]

    hand = Hand(root)
    hand.resolve("b", "b")
    hand.resolve("a", "a")
    assert hand.result() == ["b", "a"]


def test_nothing_in_nothing_out() -> None:
    async def root() -> list[Any]:
        nothing: list[Any] = []
        return [await each for each in as_completed(nothing)]

    assert Hand(root).result() == []


def test_leaving_the_loop_early_leaves_nothing_registered() -> None:
    box = Channel[int]()

    async def root() -> None:
        for each in as_completed([promise("a"), box.receive]):
            await each
            break
        await promise("x")

    hand = Hand(root)
    hand.resolve("a")
    assert waiters(box.receive) == 0


def test_leaving_the_loop_early_takes_no_item_from_a_queue() -> None:
    async def root() -> int:
        queue = Queue[int]()
        for each in as_completed([promise("a"), queue.get()]):
            await each
            break
        queue.put(5)
        return await queue.get()

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == 5


def test_a_cancellation_is_thrown_at_the_wait() -> None:
    async def root() -> None:
        for each in as_completed([promise("a"), promise("b")]):
            await each

    hand = Hand(root)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_what_the_loop_waits_for_is_known_to_the_driver() -> None:
    async def root() -> None:
        for each in as_completed([promise("a"), spawn(follow, "b")]):
            await each

    assert Hand(root).waiting == ("a", "b")


def test_a_generator_loops_the_same_way() -> None:
    def root() -> Generator[Any, Any, list[Any]]:
        seen: list[Any] = []
        for each in as_completed([promise("a"), promise("b")]):
            seen.append((yield from each))  # noqa: PERF401
        return seen

    hand = Hand(root)
    hand.resolve("b", "b")
    hand.resolve("a", "a")
    assert hand.result() == ["b", "a"]


def test_map_over_gives_results_in_item_order() -> None:
    async def root() -> list[str]:
        return await map_over(follow, ["a", "b", "c"], limit=3)

    hand = Hand(root)
    for name in "cba":
        hand.resolve(name, name.upper())
    assert hand.result() == ["A", "B", "C"]


def test_map_over_has_no_more_calls_under_way_than_its_limit() -> None:
    async def root() -> list[Any]:
        return await map_over(follow, [f"n{number}" for number in range(6)], limit=2)

    hand = Hand(root)
    most = 0
    while not hand.done:
        most = max(most, len(hand.waiting))
        hand.resolve(hand.waiting[-1])
    assert most == 2


def test_map_over_starts_calls_in_item_order() -> None:
    async def root() -> list[Any]:
        return await map_over(follow, "abcd", limit=2)

    hand = Hand(root)
    for name in ("b", "c", "a", "d"):
        hand.resolve(name)
    assert list(hand.issued) == ["a", "b", "c", "d"]


def test_the_first_failure_stops_the_map() -> None:
    trace: list[str] = []

    async def child(name: str) -> None:
        try:
            await promise(name)
        except FiberInterrupted:
            trace.append(f"{name} interrupted")
            raise

    async def root() -> None:
        await map_over(child, "abcd", limit=3)

    hand = Hand(root)
    hand.reject("b", ValueError("b"))
    assert trace == ["a interrupted", "c interrupted"]
    with pytest.raises(ValueError, match="b"):
        hand.result()
    assert "d" not in hand.issued


def test_map_over_nothing_is_an_empty_list() -> None:
    async def root() -> list[Any]:
        return await map_over(follow, [], limit=3)

    assert Hand(root).result() == []


def test_map_over_can_be_run_again() -> None:
    async def root() -> list[Any]:
        once = map_over(follow, ["a", "b"], limit=1)
        return [await once, await once]

    hand = Hand(root)
    for name in ("a", "b", "a/2", "b/2"):
        hand.resolve(name, name)
    assert hand.result() == [["a", "b"], ["a/2", "b/2"]]


def test_map_over_passes_a_cancellation_on() -> None:
    async def root() -> None:
        await map_over(follow, "abc", limit=2)

    hand = Hand(root)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


def test_a_limit_below_one_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="limit of at least one"):
        map_over(follow, "a", limit=0)


def test_map_over_raises_the_failure_that_came_first() -> None:
    async def work(name: str) -> Any:
        try:
            return await promise(name)
        except FiberInterrupted:
            raise KeyError(name) from None  # fails later, though it was started first

    async def root() -> Any:
        return await map_over(work, ["a", "b", "c"], limit=3)

    hand = Hand(root)
    hand.reject("b", ValueError("first"))
    with pytest.raises(ValueError, match="first"):
        hand.result()


def test_map_over_raises_the_failure_that_came_first_in_a_generator() -> None:
    def work(name: str) -> Generator[Any, Any, Any]:
        try:
            return (yield from promise(name))
        except FiberInterrupted:
            raise KeyError(name) from None

    def root() -> Generator[Any, Any, Any]:
        return (yield from map_over(work, ["a", "b"], limit=2))

    hand = Hand(root)
    hand.reject("b", ValueError("first"))
    with pytest.raises(ValueError, match="first"):
        hand.result()


def test_map_over_gives_an_interrupt_with_a_group_as_it_is() -> None:
    async def child() -> None:
        await map_over(follow, ["a"], limit=1)

    async def root() -> str:
        task = spawn(child)
        await promise("go")
        task.interrupt(ExceptionGroup("mine", [ValueError("inside")]))
        try:
            await task
        except ExceptionGroup as group:
            return group.message
        return ""

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "mine"


@pytest.mark.parametrize(("items", "limit", "fibers"), [(0, 5, 0), (2, 1000, 2), (5, 2, 2)])
def test_map_over_spawns_no_more_fibers_than_items(items: int, limit: int, fibers: int) -> None:
    async def root() -> Any:
        return await map_over(follow, [str(number) for number in range(items)], limit=limit)

    with Hand(root) as hand:
        spawned = hand.scheduler._spawned  # pyright: ignore[reportPrivateUsage]
        assert spawned == 1 + fibers, "the root and its workers"


def test_all_futures_of_as_completed_may_be_taken_out_before_the_first_is_awaited() -> None:
    async def root() -> list[str]:
        following = list(as_completed([promise("a"), promise("b")]))
        return [await each for each in following]

    hand = Hand(root)
    hand.resolve("b", "second")
    hand.resolve("a", "first")
    assert hand.result() == ["second", "first"]
    hand.close()
