"""gather, race, any_of, all_settled: what they give, when they fail, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from holdfast import runtime
from holdfast.runtime import (
    Cancelled,
    Channel,
    Err,
    FiberInterrupted,
    Future,
    Ok,
    all_settled,
    any_of,
    gather,
    operation,
    race,
    run,
    spawn,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow
from tests.runtime.inside import waiters


def as_durable(name: str) -> Future[Any]:
    return promise(name)


def as_task(name: str) -> Future[Any]:
    return spawn(follow, name)


def as_combinator(name: str) -> Future[Any]:
    return race([promise(name)])


# Every rule holds whatever the inputs are made of.
Make = Callable[[str], Future[Any]]
ANY_INPUT = pytest.mark.parametrize("make", [as_durable, as_task, as_combinator])


def hand_over(combine: Callable[[list[Future[Any]]], Future[Any]], make: Make, names: str = "abc") -> Hand:
    async def root() -> Any:
        return await combine([make(name) for name in names])

    return Hand(root)


# gather


@ANY_INPUT
def test_gather_gives_the_values_in_input_order(make: Make) -> None:
    hand = hand_over(gather, make)
    for name in "cab":
        assert not hand.done
        hand.resolve(name, name.upper())
    assert hand.result() == ["A", "B", "C"]


@ANY_INPUT
def test_gather_fails_with_the_first_failure_in_time(make: Make) -> None:
    hand = hand_over(gather, make)
    hand.reject("b", ValueError("b"))
    assert hand.done
    with pytest.raises(ValueError, match="b"):
        hand.result()


@ANY_INPUT
def test_gather_does_not_wait_for_earlier_inputs_before_failing(make: Make) -> None:
    hand = hand_over(gather, make, "never fails".replace(" ", ""))
    hand.reject("s", KeyError("last input"))
    with pytest.raises(KeyError):
        hand.result()


@ANY_INPUT
def test_gather_ignores_failures_after_the_first(make: Make) -> None:
    async def root() -> str:
        both = gather([make("a"), make("b")])
        try:
            await both
        except ValueError:
            await promise("later")
        try:
            await both
        except ValueError as error:
            return str(error)
        return "no error"

    hand = Hand(root)
    hand.reject("a", ValueError("first"))
    hand.reject("b", ValueError("second"))
    hand.resolve("later")
    assert hand.result() == "first"


def test_gather_of_nothing_is_an_empty_list() -> None:
    async def root() -> Any:
        return await gather([])

    assert Hand(root).result() == []


def test_gather_of_inputs_given_one_by_one_is_a_tuple() -> None:
    async def root() -> Any:
        return await gather(promise("a"), follow("b"))

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.resolve("b", 2)
    assert hand.result() == (1, 2)


def test_gather_of_one_input_is_a_tuple_of_one() -> None:
    async def root() -> Any:
        return await gather(promise("a"))

    hand = Hand(root)
    hand.resolve("a", 1)
    assert hand.result() == (1,)


def test_gather_takes_a_generator_expression() -> None:
    async def root() -> Any:
        return await gather(promise(name) for name in "ab")

    hand = Hand(root)
    hand.resolve("b", 2)
    hand.resolve("a", 1)
    assert hand.result() == [1, 2]


def test_gather_spawns_operations_coroutines_and_generators() -> None:
    @operation
    async def described() -> str:
        return "operation"

    async def coroutine() -> str:
        return "coroutine"

    def generator() -> Generator[Any, Any, str]:
        yield from promise("g")
        return "generator"

    async def root() -> Any:
        return await gather(described(), coroutine(), generator())

    hand = Hand(root)
    hand.resolve("g")
    assert hand.result() == ("operation", "coroutine", "generator")


def test_gather_of_settled_inputs_does_not_park() -> None:
    trace: list[str] = []

    async def bystander() -> None:
        trace.append("bystander")

    async def root() -> None:
        box = Channel[int]()
        box.send(1)
        spawn(bystander)
        trace.append(str(await gather([box.receive, box.receive])))
        await promise("x")

    Hand(root)
    assert trace == ["[1, 1]", "bystander"]


def test_a_future_may_be_listed_twice() -> None:
    async def root() -> Any:
        future = promise("a")
        return await gather([future, promise("b"), future])

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.resolve("b", 2)
    assert hand.result() == [1, 2, 1]


def test_a_future_may_be_in_many_combinators() -> None:
    async def root() -> Any:
        future = promise("a")
        return await gather(race(future, promise("b")), any_of(future, promise("c")), all_settled([future]))

    hand = Hand(root)
    hand.resolve("a", 1)
    assert hand.result() == (1, 1, [Ok(1)])


def test_combinators_nest() -> None:
    async def root() -> Any:
        return await gather(
            race(promise("a"), gather(promise("b"), promise("c"))),
            any_of(gather(promise("d"), promise("e")), promise("f")),
        )

    hand = Hand(root)
    hand.resolve("b", 1)
    hand.reject("d", ValueError())
    hand.resolve("c", 2)
    hand.resolve("f", 3)
    assert hand.result() == ((1, 2), 3)


def test_a_combinator_watches_from_the_call_on_even_if_never_awaited() -> None:
    async def root() -> Any:
        decided = race(promise("a"), promise("b"))
        await promise("later")
        assert decided.settled
        return decided.result()

    hand = Hand(root)
    hand.resolve("b", "second input, first in time")
    hand.resolve("a", "late")
    hand.resolve("later")
    assert hand.result() == "second input, first in time"


def test_a_combinator_is_awaited_by_several_fibers() -> None:
    async def reader(future: Future[Any]) -> Any:
        return await future

    async def root() -> Any:
        both = gather([promise("a"), promise("b")])
        return await gather([reader(both), reader(both)])

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.resolve("b", 2)
    assert hand.result() == [[1, 2], [1, 2]]


def test_a_combinator_starts_no_fiber() -> None:
    async def root() -> None:
        await gather(race(promise("a"), promise("b")), all_settled([promise("c")]))

    assert len(Hand(root).scheduler.live) == 1


def test_the_names_of_the_field_are_reachable_but_not_starred() -> None:
    assert runtime.all is gather
    assert runtime.any is any_of
    assert "all" not in runtime.__all__
    assert "any" not in runtime.__all__


# race


@ANY_INPUT
def test_race_gives_the_first_value_in_time(make: Make) -> None:
    hand = hand_over(race, make)
    hand.resolve("c", "third input")
    assert hand.result() == "third input"


@ANY_INPUT
def test_race_fails_when_the_first_to_settle_fails(make: Make) -> None:
    hand = hand_over(race, make)
    hand.reject("b", ValueError("b"))
    with pytest.raises(ValueError, match="b"):
        hand.result()


def test_race_among_settled_inputs_is_won_by_the_first_in_input_order() -> None:
    async def root() -> Any:
        early, late = Channel[str](), Channel[str]()
        late.send("sent first, listed second")
        early.send("sent second, listed first")
        return await race(promise("x"), early.receive, late.receive)

    assert Hand(root).result() == "sent second, listed first"


def test_a_settled_input_wins_at_once_without_parking() -> None:
    trace: list[str] = []

    async def bystander() -> None:
        trace.append("bystander")

    async def root() -> None:
        box = Channel[int]()
        box.send(1)
        spawn(bystander)
        await race(promise("x"), box.receive)
        trace.append("root")
        await promise("y")

    Hand(root)
    assert trace == ["root", "bystander"]


def test_losers_run_on() -> None:
    trace: list[str] = []

    async def loser() -> None:
        await promise("slow")
        trace.append("loser finished")

    async def root() -> None:
        await race(promise("fast"), spawn(loser))
        await promise("x")

    hand = Hand(root)
    hand.resolve("fast")
    hand.resolve("slow")
    assert trace == ["loser finished"]


def test_race_can_cancel_losing_tasks() -> None:
    trace: list[str] = []

    async def loser() -> None:
        try:
            await promise("slow")
        except FiberInterrupted as error:
            trace.append(str(error))
            raise

    async def root() -> Any:
        return await race(promise("fast"), loser(), cancel_losers=True)

    async def outer() -> Any:
        value = await spawn(root)
        await promise("x")
        return value

    hand = Hand(outer)
    hand.resolve("fast", 1)
    assert trace == ["another input of the race was first"]


def test_a_cancelled_loser_is_no_failure_to_report() -> None:
    async def loser() -> None:
        await promise("slow")

    async def root() -> Any:
        await race(promise("fast"), loser(), cancel_losers=True)
        await promise("x")

    hand = Hand(root)
    hand.resolve("fast", 1)
    hand.resolve("x")
    hand.close()
    assert hand.reports == []


def test_race_can_tell_losing_steps() -> None:
    def slow() -> None:
        return None

    async def root() -> None:
        await race(promise("fast"), run(slow), cancel_losers=True)

    hand = Hand(root)
    step: Any = hand.issued["slow"]
    assert not step.signal.is_set
    hand.resolve("fast")
    assert step.signal.is_set
    assert isinstance(step.signal.reason, FiberInterrupted)


def test_cancelling_losers_reaches_into_losing_combinators() -> None:
    trace: list[str] = []

    async def loser(name: str) -> None:
        try:
            await promise(name)
        except FiberInterrupted:
            trace.append(name)

    async def root() -> None:
        await race(promise("fast"), gather(loser("a"), race(loser("b"), loser("c"))), cancel_losers=True)
        await promise("x")

    hand = Hand(root)
    hand.resolve("fast")
    assert trace == ["a", "b", "c"]


def test_a_winner_settled_at_the_call_cancels_the_others_too() -> None:
    trace: list[str] = []

    async def loser() -> None:
        try:
            await promise("slow")
        except FiberInterrupted:
            trace.append("interrupted")

    async def root() -> None:
        box = Channel[int]()
        box.send(1)
        task = spawn(loser)
        await promise("go")
        await race(box.receive, task, cancel_losers=True)
        await promise("x")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["interrupted"]


@pytest.mark.parametrize("combine", [race, any_of])
def test_a_contest_without_inputs_is_a_value_error_at_the_call(combine: Any) -> None:
    async def root() -> str:
        try:
            combine([])
        except ValueError as error:
            return str(error)
        return "no error"

    assert "needs at least one input" in Hand(root).result()


# any_of


@ANY_INPUT
def test_any_of_gives_the_first_success_past_failures(make: Make) -> None:
    hand = hand_over(any_of, make)
    hand.reject("a", ValueError("a"))
    assert not hand.done
    hand.resolve("c", "C")
    assert hand.result() == "C"


@ANY_INPUT
def test_any_of_raises_all_errors_in_input_order_when_none_succeeds(make: Make) -> None:
    hand = hand_over(any_of, make)
    for name in "cab":
        hand.reject(name, ValueError(name))
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert [str(error) for error in caught.value.exceptions] == ["a", "b", "c"]


def test_any_of_counts_a_repeated_input_once_and_lists_it_twice() -> None:
    async def root() -> Any:
        future = promise("a")
        return await any_of([future, future])

    hand = Hand(root)
    hand.reject("a", ValueError("a"))
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert len(caught.value.exceptions) == 2


# all_settled


@ANY_INPUT
def test_all_settled_gives_every_outcome_in_input_order(make: Make) -> None:
    hand = hand_over(all_settled, make)
    failure = ValueError("b")
    hand.resolve("c", 3)
    hand.reject("b", failure)
    hand.resolve("a", 1)
    assert hand.result() == [Ok(1), Err(failure), Ok(3)]


def test_all_settled_of_nothing_is_an_empty_list() -> None:
    async def root() -> Any:
        return await all_settled([])

    assert Hand(root).result() == []


def test_outcomes_can_be_matched() -> None:
    async def root() -> list[str]:
        told: list[str] = []
        for outcome in await all_settled([promise("a"), promise("b")]):
            match outcome:
                case Ok(value):
                    told.append(f"value {value}")
                case Err(error):
                    told.append(f"error {error}")
        return told

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.reject("b", ValueError("two"))
    assert hand.result() == ["value 1", "error two"]


# cancellation and waiters


@ANY_INPUT
@pytest.mark.parametrize("combine", [gather, race, any_of, all_settled])
def test_no_combinator_can_swallow_a_cancellation(combine: Any, make: Make) -> None:
    hand = hand_over(combine, make)
    hand.cancel()
    with pytest.raises(Cancelled):
        hand.result()


@pytest.mark.parametrize("combine", [gather, race, any_of, all_settled])
def test_an_undecided_combinator_can_be_awaited_again_after_an_interrupt(combine: Any) -> None:
    async def waiter() -> Any:
        future = combine([promise("a")])
        try:
            await future
        except FiberInterrupted:
            await promise("pause")
        return await future

    async def root() -> Any:
        task = spawn(waiter)
        await promise("go")
        task.interrupt()
        return await task

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("pause")
    assert hand.waiting == ("a",)
    hand.resolve("a", 1)
    assert hand.result() in (1, [1], [Ok(1)])


@pytest.mark.parametrize("combine", [gather, race, any_of, all_settled])
def test_an_interrupted_wait_leaves_no_waiter_behind(combine: Any) -> None:
    boxes: list[Channel[int]] = []

    async def waiter() -> None:
        await combine([boxes[0].receive, boxes[1].receive])

    async def root() -> None:
        boxes.extend([Channel(), Channel()])
        task = spawn(waiter)
        await promise("go")
        task.interrupt()
        await promise("x")

    hand = Hand(root)
    assert all(waiters(box.receive) == 1 for box in boxes)
    hand.resolve("go")
    assert all(waiters(box.receive) == 0 for box in boxes)


@pytest.mark.parametrize("combine", [race, any_of])
def test_a_decided_contest_leaves_no_waiter_on_the_losers(combine: Any) -> None:
    box = Channel[int]()

    async def root() -> None:
        await combine([promise("a"), box.receive])
        await promise("x")

    hand = Hand(root)
    assert waiters(box.receive) == 1
    hand.resolve("a")
    assert waiters(box.receive) == 0


def test_a_failed_gather_leaves_no_waiter_on_the_others() -> None:
    box = Channel[int]()

    async def root() -> None:
        try:
            await gather(promise("a"), box.receive)
        except ValueError:
            await promise("x")

    hand = Hand(root)
    hand.reject("a", ValueError())
    assert waiters(box.receive) == 0


def test_waiters_of_a_nested_settlement_wake_in_registration_order() -> None:
    trace: list[str] = []

    async def waiter(name: str, future: Future[Any]) -> None:
        await future
        trace.append(name)

    async def root() -> None:
        future = promise("a")
        inner = race(future)
        outer = gather(inner)
        for name, each in (("outer", outer), ("plain", future), ("inner", inner)):
            spawn(waiter, name, each)
        await promise("x")

    hand = Hand(root)
    hand.resolve("a")
    assert trace == ["outer", "inner", "plain"]


@pytest.mark.parametrize("combine", [gather, race, any_of, all_settled])
def test_a_combinator_outside_a_fiber_says_so(combine: Any) -> None:
    with pytest.raises(runtime.NotInFiber):
        combine([])


def test_a_combinator_refuses_what_cannot_be_awaited() -> None:
    async def root() -> None:
        await gather([1, 2])  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="got int: 1"):
        Hand(root).result()
