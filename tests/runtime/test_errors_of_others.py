# mypy: disable-error-code="no-any-return"
"""Errors belong to whoever made them: their classes may forbid assignment; some cannot be raised again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    Err,
    StopIterationRaised,
    all_settled,
    any_of,
    as_completed,
    gather,
    race,
    scope,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow


@dataclass(frozen=True)
class Frozen(Exception):
    reason: str


class Sealed(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("no assignment")

    def with_traceback(self, trace: Any, /) -> Any:
        raise TypeError("no traceback")


errors = pytest.mark.parametrize("make", [lambda: Frozen("x"), lambda: Sealed("x")], ids=["frozen", "sealed"])


async def raising(make: Callable[[], Exception]) -> None:
    await promise("a")
    raise make()


@errors
def test_an_error_that_forbids_assignment_fails_the_root(make: Callable[[], Exception]) -> None:
    hand = Hand(raising, make)
    hand.resolve("a")
    with pytest.raises((Frozen, Sealed)) as caught:
        hand.result()
    assert caught.traceback[-1].name == "raising"


@errors
def test_an_error_that_forbids_assignment_reaches_who_awaits_the_task(make: Callable[[], Exception]) -> None:
    async def root() -> str:
        task = spawn(raising, make)
        caught = 0
        for _ in range(2):
            try:
                await task
            except (Frozen, Sealed):
                caught += 1
        return f"caught {caught}"

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == "caught 2"


@errors
def test_a_promise_can_fail_with_an_error_that_forbids_assignment(make: Callable[[], Exception]) -> None:
    def root() -> Generator[Any, Any, str]:
        try:
            yield from gather(promise("a"), promise("b"))
        except (Frozen, Sealed) as error:
            return type(error).__name__
        return ""

    hand = Hand(root)
    hand.reject("a", make())
    assert hand.result() in ("Frozen", "Sealed")


@errors
def test_a_task_can_be_interrupted_with_an_error_that_forbids_assignment(
    make: Callable[[], Exception],
) -> None:
    async def root() -> str:
        task = spawn(follow, "a")
        await promise("go")
        task.interrupt(make())
        try:
            await task
        except (Frozen, Sealed):
            return "interrupted"
        return ""

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "interrupted"


@errors
def test_a_scope_and_its_block_can_fail_with_an_error_that_forbids_assignment(
    make: Callable[[], Exception],
) -> None:
    async def root() -> str:
        try:
            async with scope() as tasks:
                tasks.spawn(raising, make)
        except ExceptionGroup as group:
            return f"{len(group.exceptions)} in a group"
        return ""

    hand = Hand(root)
    hand.resolve("a")
    assert hand.result() == "1 in a group"


async def plainly() -> Any:
    return await promise("a")


def in_generator() -> Generator[Any, Any, Any]:
    return (yield from promise("a"))


async def in_a_race() -> Any:
    return await race(promise("a"), Channel[int]().receive)


async def in_a_loop() -> Any:
    return [await each for each in as_completed([promise("a")])]


async def in_a_task() -> Any:
    return await spawn(plainly)


@pytest.mark.parametrize("body", [plainly, in_generator, in_a_race, in_a_loop, in_a_task])
def test_stop_iteration_arrives_as_itself_in_meaning(body: Callable[[], Any]) -> None:
    original = StopIteration("the rest")
    hand = Hand(body)
    hand.reject("a", original)
    with pytest.raises(StopIterationRaised, match=r"StopIteration\(.the rest.\).*\[HF5121\]") as caught:
        hand.result()
    assert caught.value.__cause__ is original
    assert caught.value.value == "the rest"


def test_stop_iteration_is_seen_for_what_it_is_in_combinators() -> None:
    async def root() -> Any:
        [settled] = await all_settled(promise("a"))
        try:
            await any_of([promise("b")])
        except ExceptionGroup as group:
            return settled, group.exceptions[0]

    hand = Hand(root)
    hand.reject("a", StopIteration())
    hand.reject("b", StopIteration())
    settled, error = hand.result()
    assert isinstance(settled, Err)
    assert isinstance(settled.err_value, StopIterationRaised)  # pyright: ignore[reportUnknownMemberType]
    assert isinstance(error, StopIterationRaised)
