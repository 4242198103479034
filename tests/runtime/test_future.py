"""Futures settle once, keep their outcome, and look alike whatever is behind them."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime import Channel, Future, gather, spawn
from holdfast.runtime.testing import Hand, promise


async def one() -> int:
    return 1


def test_a_durable_future_is_under_way_before_it_is_awaited() -> None:
    async def root() -> None:
        promise("a")
        promise("b")
        await promise("c")

    assert list(Hand(root).issued) == ["a", "b", "c"]


def test_a_durable_future_parks_its_fiber_until_dispatch() -> None:
    async def root() -> Any:
        return await promise("x")

    hand = Hand(root)
    assert not hand.done
    assert hand.waiting == ("x",)
    hand.resolve("x", "value")
    assert hand.result() == "value"


def test_awaiting_again_gives_the_same_value() -> None:
    async def root() -> list[Any]:
        future = promise("x")
        return [await future, await future, await future]

    hand = Hand(root)
    marker = object()
    hand.resolve("x", marker)
    assert all(value is marker for value in hand.result())


def test_awaiting_a_dispatched_durable_future_again_does_not_park() -> None:
    trace: list[str] = []

    async def other() -> None:
        trace.append("other")

    async def root() -> None:
        future = promise("x")
        await future
        spawn(other)
        await future
        trace.append("root")
        await promise("y")

    hand = Hand(root)
    hand.resolve("x")
    assert trace == ["root", "other"]


def test_awaiting_again_gives_the_same_error() -> None:
    async def root() -> list[BaseException]:
        future = promise("x")
        seen: list[BaseException] = []
        for _ in range(3):
            try:
                await future
            except ValueError as error:
                seen.append(error)
        return seen

    hand = Hand(root)
    failure = ValueError("no")
    hand.reject("x", failure)
    assert all(error is failure for error in hand.result())
    assert len(hand.result()) == 3


def test_a_future_is_shared_by_many_fibers() -> None:
    async def reader(future: Future[int]) -> int:
        return await future

    async def root() -> list[int]:
        future: Future[int] = promise("x")
        return await gather([reader(future) for _ in range(5)])

    hand = Hand(root)
    hand.resolve("x", 3)
    assert hand.result() == [3] * 5


def test_a_future_is_passed_to_another_fiber_and_returned_from_one() -> None:
    async def make() -> Future[int]:
        return promise("x")

    async def root() -> int:
        future = await spawn(make)
        return await future

    hand = Hand(root)
    hand.resolve("x", 8)
    assert hand.result() == 8


def test_a_completion_is_invisible_until_it_is_dispatched() -> None:
    async def root() -> list[bool]:
        first, second = promise("a"), promise("b")
        before = [first.settled, second.settled]
        await first
        return [*before, first.settled, second.settled]

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == [False, False, True, False]


def test_the_result_of_a_settled_future_can_be_read_without_waiting() -> None:
    async def root() -> Any:
        future = promise("x")
        await future
        return future.result()

    hand = Hand(root)
    hand.resolve("x", 5)
    assert hand.result() == 5


def test_the_result_of_a_failed_future_raises_its_error() -> None:
    async def root() -> Any:
        future = promise("x")
        try:
            await future
        except ValueError:
            return future.result()

    hand = Hand(root)
    hand.reject("x", ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        hand.result()


def test_the_result_of_a_pending_future_is_refused() -> None:
    async def root() -> Any:
        return promise("x").result()

    with pytest.raises(RuntimeError, match="not settled"):
        Hand(root).result()


def test_none_is_a_value_like_any_other() -> None:
    async def root() -> Any:
        return await promise("x")

    hand = Hand(root)
    hand.resolve("x", None)
    assert hand.done
    assert hand.result() is None


def test_an_error_object_can_be_a_value_without_being_raised() -> None:
    async def root() -> Any:
        return await promise("x")

    hand = Hand(root)
    error = ValueError("only data")
    hand.resolve("x", error)
    assert hand.result() is error


def test_the_traceback_of_a_shared_error_does_not_grow_with_each_delivery() -> None:
    depths: list[int] = []

    async def fails() -> None:
        raise ValueError("no")

    async def reader(task: Future[None]) -> None:
        try:
            await task
        except ValueError as error:
            depths.append(len(traceback.extract_tb(error.__traceback__)))

    async def root() -> None:
        task = spawn(fails)
        await gather([reader(task) for _ in range(4)])

    Hand(root).result()
    assert len(set(depths)) == 1


def test_a_delivered_error_still_shows_where_it_was_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def root() -> list[str]:
        try:
            await spawn(fails)
        except ValueError as error:
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        return []

    assert "fails" in Hand(root).result()


def test_a_shared_error_keeps_its_own_context_whoever_handles_it() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def root() -> BaseException | None:
        task = spawn(fails)
        try:
            raise KeyError("unrelated")
        except KeyError:
            with suppress(ValueError):
                await task
        try:
            await task
        except ValueError as error:
            return error.__context__
        return KeyError()

    assert Hand(root).result() is None


@pytest.mark.parametrize("kind", ["durable", "task", "channel", "combinator"])
def test_every_kind_of_future_is_awaited_the_same_way(kind: str) -> None:
    async def child() -> Any:
        return await promise("x")

    def make() -> Future[Any]:
        if kind == "durable":
            return promise("x")
        if kind == "task":
            return spawn(child)
        if kind == "combinator":
            return gather([promise("x")])
        box = Channel[Any]()

        async def forward() -> None:
            box.send(await promise("x"))

        spawn(forward)
        return box.receive

    async def root() -> Any:
        return await make()

    hand = Hand(root)
    assert hand.waiting == ("x",)
    hand.resolve("x", 9)
    assert hand.result() in (9, [9])


def test_a_list_of_futures_is_not_a_future() -> None:
    async def root() -> None:
        await [promise("x")]  # type: ignore[misc]

    with pytest.raises(TypeError):
        Hand(root).result()


def test_yield_from_a_future_gives_its_value() -> None:
    def root() -> Generator[Any, Any, int]:
        first: int = yield from promise("x")
        second: int = yield from promise("y")
        return first + second

    hand = Hand(root)
    hand.resolve("x", 1)
    hand.resolve("y", 2)
    assert hand.result() == 3


def test_a_future_says_what_it_is_and_how_it_stands() -> None:
    async def root() -> list[str]:
        waiting, task, box = promise("x"), spawn(one), Channel[int]("mail")
        seen = [repr(waiting), repr(task), repr(box.receive)]
        await task
        return [*seen, repr(task)]

    assert Hand(root).result() == [
        "<durable promise x (promise x), pending>",
        "<fiber one#2, pending>",
        "<channel mail, pending>",
        "<fiber one#2, resolved>",
    ]


def test_a_pending_promise_issued_again_under_the_same_id_is_the_same_future() -> None:
    class Fixed(Hand):
        def issue(self, operation: object, /) -> str:
            return "same"

    async def root() -> bool:
        first, second = promise("a"), promise("b")
        await promise("c")
        return first is second

    hand = Fixed(root)
    hand.resolve("same", 1)
    assert hand.result() is True
