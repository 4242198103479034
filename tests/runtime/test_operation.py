# mypy: disable-error-code="no-any-return"
"""Operations are lazy and reusable; the two styles of body mix freely."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from holdfast.runtime import Future, NotAwaited, Operation, delegate, gather, operation, spawn
from holdfast.runtime.testing import Hand, promise


@operation
async def add_async(left: int, right: int) -> int:
    return left + right + await promise("x")


@operation
def add_generator(left: int, right: int) -> Generator[Any, Any, int]:
    extra = yield from promise("x")
    return left + right + extra


BOTH = pytest.mark.parametrize("add", [add_async, add_generator])


@BOTH
def test_describing_an_operation_runs_nothing(add: Any) -> None:
    async def root() -> str:
        add(1, 2)
        return "untouched"

    hand = Hand(root)
    assert hand.result() == "untouched"
    assert hand.issued == {}


@BOTH
def test_an_operation_can_be_awaited(add: Any) -> None:
    async def root() -> int:
        return await add(1, 2)

    hand = Hand(root)
    hand.resolve("x", 10)
    assert hand.result() == 13


@BOTH
def test_an_operation_can_be_delegated_to_from_a_generator(add: Any) -> None:
    described: Operation[int] = add(1, 2)

    def root() -> Generator[Any, Any, int]:
        return (yield from described)

    hand = Hand(root)
    hand.resolve("x", 10)
    assert hand.result() == 13


@BOTH
def test_the_same_operation_runs_anew_each_time(add: Any) -> None:
    async def root() -> list[Any]:
        once = add(1, 2)
        first: int = await once
        second: int = await once
        return [first, second]

    hand = Hand(root)
    hand.resolve("x", 10)
    hand.resolve("x/2", 20)
    assert hand.result() == [13, 23]


@BOTH
def test_the_same_operation_runs_many_times_at_once_without_sharing_state(add: Any) -> None:
    async def root() -> list[int]:
        once = add(1, 2)
        return await gather([once, once, once])

    hand = Hand(root)
    for name, value in (("x/3", 30), ("x", 10), ("x/2", 20)):
        hand.resolve(name, value)
    assert hand.result() == [13, 23, 33]


@BOTH
def test_the_same_operation_runs_under_different_schedulers(add: Any) -> None:
    once = add(1, 2)
    first, second = Hand(once), Hand(once)
    second.resolve("x", 5)
    assert second.result() == 8
    assert not first.done
    first.resolve("x", 6)
    assert first.result() == 9


@BOTH
def test_an_operation_can_be_the_root(add: Any) -> None:
    hand = Hand(add(1, 2))
    hand.resolve("x", 0)
    assert hand.result() == 3


@BOTH
def test_an_operation_can_be_spawned(add: Any) -> None:
    async def root() -> int:
        return await spawn(add(1, 2))

    hand = Hand(root)
    hand.resolve("x", 0)
    assert hand.result() == 3


def test_a_coroutine_delegates_to_a_bare_generator_through_delegate() -> None:
    def helper() -> Generator[Any, Any, int]:
        return (yield from promise("x")) + 1

    async def root() -> int:
        return await delegate(helper())

    hand = Hand(root)
    hand.resolve("x", 1)
    assert hand.result() == 2


def test_a_generator_delegates_to_a_bare_coroutine_through_delegate() -> None:
    async def helper() -> int:
        return await promise("x") + 1

    def root() -> Generator[Any, Any, int]:
        return (yield from delegate(helper()))

    hand = Hand(root)
    hand.resolve("x", 1)
    assert hand.result() == 2


def test_styles_nest_in_each_other_to_any_depth() -> None:
    @operation
    async def level3() -> str:
        return await promise("leaf") + "/3"

    @operation
    def level2() -> Generator[Any, Any, str]:
        return (yield from level3()) + "/2"

    async def level1() -> str:
        return await level2() + "/1"

    hand = Hand(level1)
    hand.resolve("leaf", "value")
    assert hand.result() == "value/3/2/1"


def test_an_error_crosses_styles_at_the_line_of_the_wait() -> None:
    @operation
    def inner() -> Generator[Any, Any, str]:
        try:
            yield from promise("x")
        except ValueError as error:
            return f"caught {error}"
        return "missed"

    async def root() -> str:
        return await inner()

    hand = Hand(root)
    hand.reject("x", ValueError("no"))
    assert hand.result() == "caught no"


def test_a_delegated_body_runs_once_and_says_so_the_second_time() -> None:
    def helper() -> Generator[Any, Any, int]:
        yield from promise("x")
        return 1

    async def root() -> int:
        once = delegate(helper())
        return await once + await once

    hand = Hand(root)
    hand.resolve("x")
    with pytest.raises(TypeError, match="already started or finished"):
        hand.result()


def test_delegating_to_an_operation_gives_the_operation() -> None:
    once = add_async(1, 2)
    assert delegate(once) is once


def test_a_finished_generator_is_refused() -> None:
    def helper() -> Generator[Any, Any, None]:
        yield from ()

    async def root() -> None:
        used = helper()
        assert list(used) == []
        spawn(used)

    with pytest.raises(TypeError, match=r"generator of .*helper was already started or finished"):
        Hand(root).result()


def test_a_generator_started_by_someone_else_is_refused() -> None:
    def helper() -> Generator[Any, Any, None]:
        yield

    async def root() -> None:
        started = helper()
        next(started)
        try:
            spawn(started)
        finally:
            started.close()

    with pytest.raises(TypeError, match="already started"):
        Hand(root).result()


def test_a_generator_spawned_twice_is_refused_the_second_time() -> None:
    def helper() -> Generator[Any, Any, int]:
        return (yield from promise("x"))

    async def root() -> str:
        once = helper()
        spawn(once)
        await promise("start")
        try:
            spawn(once)
        except TypeError:
            return "refused"
        return "accepted"

    hand = Hand(root)
    hand.resolve("start")
    assert hand.result() == "refused"


def test_a_used_coroutine_is_refused() -> None:
    async def helper() -> int:
        return 1

    async def root() -> str:
        once = helper()
        await once
        try:
            spawn(once)
        except TypeError as error:
            return str(error)
        return "accepted"

    assert "coroutine of" in Hand(root).result()


def test_a_function_that_hands_out_a_used_generator_is_refused_too() -> None:
    def helper() -> Generator[Any, Any, None]:
        yield from ()

    used = helper()
    list(used)

    async def root() -> None:
        spawn(lambda: used)

    with pytest.raises(TypeError, match="already started or finished"):
        Hand(root).result()


def test_an_async_generator_is_refused_with_advice() -> None:
    async def many() -> AsyncGenerator[int, None]:
        yield 1

    async def root() -> None:
        spawn(many)  # type: ignore[call-overload]

    with pytest.raises(TypeError, match="is an async generator"):
        Hand(root).result()


def test_a_plain_function_is_refused_with_what_it_returned() -> None:
    def plain() -> int:
        return 7

    async def root() -> None:
        spawn(plain)  # type: ignore[call-overload]

    with pytest.raises(TypeError, match="got int: 7"):
        Hand(root).result()


def test_arguments_for_something_that_is_not_a_function_are_refused() -> None:
    async def root() -> None:
        spawn(add_async(1, 2), 3)  # type: ignore[call-overload]

    with pytest.raises(TypeError, match="which is not a function"):
        Hand(root).result()


def test_a_future_can_be_spawned_to_make_it_a_task() -> None:
    async def root() -> int:
        future: Future[int] = promise("x")
        return await spawn(future, name="watcher")

    hand = Hand(root)
    hand.resolve("x", 4)
    assert hand.result() == 4


def test_a_bound_method_can_be_spawned_with_its_arguments() -> None:
    class Shop:
        async def sell(self, item: str, *, count: int) -> str:
            return f"{count} {item}"

    async def root() -> str:
        return await spawn(Shop().sell, "apples", count=3)

    assert Hand(root).result() == "3 apples"


def test_an_operation_shows_its_function() -> None:
    assert repr(add_async(1, 2)) == "<operation add_async>"
    assert isinstance(add_async(1, 2), Operation)


def test_a_return_value_of_any_kind_arrives_unchanged() -> None:
    marker = object()

    async def root() -> object:
        async def child() -> object:
            return marker

        return await spawn(child)

    assert Hand(root).result() is marker


def test_a_stop_iteration_that_escapes_a_body_is_a_runtime_error_not_a_result() -> None:
    def child() -> Generator[Any, Any, int]:
        yield from promise("x")
        raise StopIteration(5)

    async def root() -> int:
        return await spawn(child)

    hand = Hand(root)
    hand.resolve("x")
    with pytest.raises(RuntimeError, match="StopIteration"):
        hand.result()


def truths() -> Generator[Any, Any, list[str]]:
    found: list[str] = []
    for awaitable in (add_async(1, 2), promise("y"), spawn(add_async, 1, 2), gather(promise("z"))):
        with pytest.raises(NotAwaited, match="Await it") as caught:
            bool(awaitable)
        found.append(str(caught.value))
    yield from promise("x")
    return found


def test_what_was_not_awaited_is_neither_true_nor_false() -> None:
    hand = Hand(truths)
    hand.resolve("x", 0)
    assert all(sentence.endswith("[HF5111]") for sentence in hand.result())
