# mypy: disable-error-code="no-any-return"
"""What belongs to one execution is refused in every other, at the line of its use."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, cast

import pytest

from holdfast.runtime import (
    Channel,
    Future,
    Queue,
    Scope,
    Semaphore,
    WrongExecution,
    all_settled,
    any_of,
    as_completed,
    gather,
    race,
    run,
    scope,
    select,
    shield,
    sleep,
    spawn,
    within,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, work

cached: list[Any] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    cached.clear()


async def keep(future: Callable[[], Any]) -> Any:
    """Make a future, keep it where another execution finds it, and stay."""
    cached.append(future())
    return await promise("stay")


async def use() -> Any:
    return await cached[0]


def use_in_generator() -> Generator[Any, Any, Any]:
    return (yield from cast("Future[Any]", cached[0]))


def refused(body: Callable[..., Any], *args: Any) -> str:
    """The sentence with which a second execution is refused. It asks the world for nothing."""
    hand = Hand(body, *args)
    with pytest.raises(WrongExecution, match=r"another execution.*\[HF5120\]") as caught:
        hand.result()
    assert not hand.issued
    return str(caught.value)


pending: dict[str, Callable[[], Any]] = {
    "a promise": lambda: promise("a"),
    "a step": lambda: run(work),
    "a timer": lambda: sleep(5),
    "a task": lambda: spawn(follow, "a"),
    "a gather": lambda: gather(promise("a")),
    "a race": lambda: race(promise("a"), promise("b")),
    "a select": lambda: select(a=promise("a")),
    "what a channel receives": lambda: Channel[int]().receive,
    "an item": lambda: Queue[int]().get(),
    "a permit": lambda: Semaphore(1).acquire(),
    "the next of several": lambda: next(as_completed([promise("a")])),
}


@pytest.mark.parametrize("body", [use, use_in_generator])
@pytest.mark.parametrize("make", pending.values(), ids=pending)
def test_a_future_of_one_execution_is_refused_where_another_awaits_it(
    make: Callable[[], Any], body: Callable[..., Any]
) -> None:
    with Hand(keep, make):
        refused(body)


@pytest.mark.parametrize("body", [use, use_in_generator])
def test_a_settled_future_hands_no_value_to_another_execution(body: Callable[..., Any]) -> None:
    async def owner() -> None:
        cached.append(promise("a"))
        await cached[0]
        await promise("stay")

    with Hand(owner) as hand:
        hand.resolve("a", "a secret")
        refused(body)


def test_a_future_of_an_execution_that_is_over_is_refused_too() -> None:
    async def owner() -> None:
        cached.append(promise("a"))
        await cached[0]

    with Hand(owner) as hand:
        hand.resolve("a", 1)
    refused(use)


def test_a_refused_await_can_be_caught_and_the_execution_goes_on() -> None:
    async def second() -> str:
        try:
            await cached[0]
        except WrongExecution:
            return await promise("mine")
        return "got what is not its own"

    with Hand(keep, lambda: promise("a")), Hand(second) as hand:
        assert hand.waiting == ("mine",)
        hand.resolve("mine", "went on")
        assert hand.result() == "went on"


def test_durable_calls_of_a_waiter_are_never_made_in_the_other_execution() -> None:
    async def second() -> None:
        with suppress(WrongExecution):
            await cached[0]
        await promise("recorded here")

    with Hand(keep, lambda: promise("a")) as first, Hand(second) as hand:
        first.resolve("a")
        assert list(first.issued) == ["a", "stay"]
        assert list(hand.issued) == ["recorded here"]


combining: dict[str, Callable[[Any], Any]] = {
    "gather": lambda each: cast(Any, gather(each)),
    "race": lambda each: race([each]),
    "any_of": lambda each: any_of(each),
    "all_settled": lambda each: all_settled(each),
    "select": lambda each: select(a=each),
    "as_completed": lambda each: next(as_completed([each])),
    "spawn": lambda each: spawn(each),
    "shield": lambda each: shield(each),
}


@pytest.mark.parametrize("combine", combining.values(), ids=combining)
def test_no_combinator_takes_a_future_of_another_execution(combine: Callable[[Any], Any]) -> None:
    async def second() -> None:
        await combine(cached[0])

    with Hand(keep, lambda: promise("a")):
        refused(second)


def test_within_refuses_a_future_of_another_execution() -> None:
    async def second() -> None:
        await within(5, cached[0])

    with Hand(keep, lambda: promise("a")), Hand(second) as hand, pytest.raises(WrongExecution):
        hand.result()


def ask_settled(future: Future[Any]) -> bool:
    return future.settled


def ask_result(future: Future[Any]) -> Any:
    return future.result()


@pytest.mark.parametrize("look", [ask_settled, ask_result])
def test_another_execution_may_not_even_look(look: Callable[[Future[Any]], Any]) -> None:
    async def owner() -> None:
        cached.append(promise("a"))
        await cached[0]
        await promise("stay")

    async def second() -> Any:
        return look(cached[0])

    with Hand(owner) as hand:
        hand.resolve("a", 1)
        assert look(cached[0]) == 1, "a driver may look"
        refused(second)


def test_a_task_spawned_into_the_scope_of_another_execution_is_refused() -> None:
    async def owner() -> None:
        async with scope() as tasks:
            cached.append(tasks)
            await promise("stay")

    async def second() -> None:
        shared: Scope = cached[0]
        shared.spawn(follow, "a")

    with Hand(owner):
        refused(second)


async def send(box: Channel[int]) -> None:
    box.send(1)


async def receive(box: Channel[int]) -> int:
    return await box.receive


async def put(queue: Queue[int]) -> None:
    await queue.put(1)


async def get(queue: Queue[int]) -> int:
    return await queue.get()


async def count(queue: Queue[int]) -> int:
    return len(queue)


async def enter(gate: Semaphore) -> None:
    async with gate:
        pass


async def release(gate: Semaphore) -> None:
    gate.release()


async def free(gate: Semaphore) -> int:
    return gate.free


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (lambda: Channel[int]("mail"), send, receive),
        (lambda: Channel[int]("mail"), send, send),
        (lambda: Queue[int](name="jobs"), put, get),
        (lambda: Queue[int](name="jobs"), put, put),
        (lambda: Queue[int](name="jobs"), put, count),
        (lambda: Semaphore(1, "gate"), enter, enter),
        (lambda: Semaphore(1, "gate"), enter, release),
        (lambda: Semaphore(1, "gate"), enter, free),
    ],
)
def test_what_was_made_outside_belongs_to_the_first_execution_that_uses_it(
    make: Callable[[], Any], first: Callable[[Any], Any], second: Callable[[Any], Any]
) -> None:
    shared = make()

    async def owner() -> None:
        await first(shared)
        await promise("stay")
        await first(make())

    with Hand(owner) as hand:
        sentence = refused(second, shared)
        assert shared.name in sentence if hasattr(shared, "name") else "mail" in sentence
        assert "Make it inside the workflow" in sentence
        hand.resolve("stay")
        assert hand.result() is None


def test_a_module_level_semaphore_loses_no_permit_to_the_execution_it_is_refused_in() -> None:
    gate = Semaphore(1)

    async def owner() -> str:
        async with gate:
            await promise("a")
        async with gate:
            return await promise("b")

    with Hand(owner) as hand:
        refused(enter, gate)
        assert gate.free == 0
        hand.resolve("a")
        refused(enter, gate)
        hand.resolve("b", "done")
        assert hand.result() == "done"
        assert gate.free == 1


def test_a_run_that_is_built_anew_is_refused_what_the_run_before_it_has_used() -> None:
    gate = Semaphore(1)

    async def body() -> None:
        async with gate:
            await promise("a")

    Hand(body).close()
    refused(body)


def test_turns_taken_outside_of_fibers_belong_to_who_awaits_them_first() -> None:
    queue = Queue[int]()
    turn = queue.get()

    async def owner() -> int:
        queue.put(1)
        return await turn

    async def second() -> int:
        return await turn

    assert Hand(owner).result() == 1
    refused(second)
