# mypy: disable-error-code="no-any-return"
"""Diagnosis: dumps name every fiber and line; failures nobody awaited are reported; origins name the line."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from inspect import currentframe
from typing import Any

import pytest

from holdfast.runtime import (
    Channel,
    Semaphore,
    Trouble,
    all_settled,
    gather,
    operation,
    race,
    run,
    select,
    sleep,
    spawn,
)
from holdfast.runtime.diagnosis import snapshot
from holdfast.runtime.testing import Hand, promise


def here() -> int:
    """The line number of the caller."""
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_dump_shows_name_parent_state_and_wait_of_every_fiber() -> None:
    async def child() -> None:
        await promise("a")

    async def root() -> None:
        await gather(spawn(child(), name="left"), spawn(child))

    lines = [line for line in Hand(root).scheduler.dump().splitlines() if line.startswith("fiber")]
    assert lines == [
        "fiber root#1: parked, waits for all of 2, still open: fiber left#2, fiber child#3",
        "fiber left#2, child of root#1: parked, waits for durable promise a (promise a)",
        "fiber child#3, child of root#1: parked, waits for durable promise a/2 (promise a)",
    ]


def test_a_dump_shows_the_whole_suspended_chain_with_file_and_line() -> None:
    numbers: list[int] = []

    async def inner() -> None:
        numbers.append(here() + 1)
        await promise("a")

    async def root() -> None:
        numbers.append(here() + 1)
        await inner()

    view = snapshot(Hand(root).scheduler.live)[0]
    assert [line.line for line in view.stack] == numbers
    assert [line.function.split(".")[-1] for line in view.stack] == ["root", "inner"]
    assert all(line.file == __file__ for line in view.stack)


def test_the_chain_is_seen_through_every_kind_of_delegation() -> None:
    def generator() -> Generator[Any, Any, None]:
        yield from promise("a")

    @operation
    async def coroutine() -> None:
        await operation(generator)()

    async def many() -> AsyncGenerator[None, None]:
        await coroutine()
        yield

    @operation
    async def looping() -> None:
        async for _ in many():
            pass

    def root() -> Generator[Any, Any, None]:
        yield from looping()

    view = snapshot(Hand(root).scheduler.live)[0]
    names = [line.function.split(".")[-1] for line in view.stack]
    assert names == ["root", "looping", "many", "coroutine", "generator"]


def test_a_dump_reads_and_changes_nothing() -> None:
    async def root() -> str:
        return await promise("a")

    hand = Hand(root)
    assert hand.scheduler.dump() == hand.scheduler.dump()
    hand.resolve("a", "fine")
    assert hand.result() == "fine"


def test_a_dump_of_a_done_execution_is_empty() -> None:
    async def root() -> None:
        return None

    assert Hand(root).scheduler.dump() == ""


def test_a_dump_from_inside_shows_the_running_and_the_ready() -> None:
    async def child() -> None:
        return None

    async def root() -> str:
        spawn(child)
        return hand_of[0].scheduler.dump()

    async def start() -> str:
        await promise("go")
        return await root()

    hand_of: list[Hand] = []
    hand = Hand(start)
    hand_of.append(hand)
    hand.resolve("go")
    states = [line for line in hand.result().splitlines() if line.startswith("fiber")]
    assert states == ["fiber start#1: running", "fiber child#2, child of start#1: ready"]


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        (lambda: sleep(5), "durable promise timer (timer of 5 s)"),
        (lambda: run(print), "durable promise print (step print)"),
        (lambda: Channel[int]("mail").receive, "channel mail"),
        (lambda: Channel[int]().receive, "a channel"),
        (lambda: race(promise("a"), promise("b")), "a race of 2, still open: durable promise a (promise a),"),
        (lambda: select(x=promise("a")), "a select of 1, still open: durable promise a"),
        (lambda: all_settled([promise(name) for name in "abcde"]), "and 2 more"),
    ],
)
def test_every_wait_says_what_it_is_for(wait: Any, said: str) -> None:
    async def root() -> None:
        promise("keeps the rest alive")
        await wait()

    assert said in Hand(root).scheduler.dump()


def test_a_wait_for_a_permit_names_the_semaphore() -> None:
    async def root() -> None:
        gate = Semaphore(1, "gate")
        async with gate:
            promise("keeps the rest alive")
            await gate.acquire()

    assert "a permit of semaphore gate" in Hand(root).scheduler.dump()


def test_a_failed_task_nobody_awaited_is_reported_when_the_execution_closes() -> None:
    async def fails() -> None:
        await promise("a")
        raise ValueError("unseen")

    async def root() -> None:
        spawn(fails)
        await promise("b")

    hand = Hand(root)
    hand.resolve("a")
    hand.resolve("b")
    assert hand.reports == []
    hand.close()
    (report,) = hand.reports
    assert report.trouble is Trouble.FAILED_NOT_AWAITED
    assert report.fiber == "fails#2"
    assert str(report.error) == "unseen"
    assert __file__ in report.where
    assert "a fiber failed and nobody awaited it: fails#2: ValueError('unseen')" in str(report)


def test_failures_that_nobody_awaits_are_reported_in_the_order_they_happened() -> None:
    async def fails(name: str) -> None:
        await promise(name)
        raise ValueError(name)

    async def root() -> None:
        for name in "abc":
            spawn(fails, name)
        await promise("x")

    hand = Hand(root)
    for name in "cab":
        hand.resolve(name)
    hand.resolve("x")
    hand.close()
    assert [str(report.error) for report in hand.reports] == ["c", "a", "b"]


@pytest.mark.parametrize("how", ["await", "gather", "all_settled", "race", "result"])
def test_a_failure_somebody_saw_later_is_not_reported(how: str) -> None:
    async def fails() -> None:
        raise ValueError("seen")

    async def root() -> None:
        task = spawn(fails)
        await promise("a")
        try:
            if how == "await":
                await task
            elif how == "gather":
                await gather(task)
            elif how == "all_settled":
                await all_settled([task])
            elif how == "race":
                await race(task)
            else:
                task.result()
        except ValueError:
            pass

    hand = Hand(root)
    hand.resolve("a")
    hand.close()
    assert hand.reports == []


def test_the_failure_of_a_race_loser_is_not_reported() -> None:
    async def loser() -> None:
        await promise("slow")
        raise ValueError("too late to matter")

    async def root() -> None:
        await race(promise("fast"), loser())
        await promise("x")

    hand = Hand(root)
    hand.resolve("fast")
    hand.resolve("slow")
    hand.resolve("x")
    hand.close()
    assert hand.reports == []


def test_the_failure_of_the_root_is_its_outcome_and_not_a_report() -> None:
    async def root() -> None:
        raise ValueError("outcome")

    hand = Hand(root)
    hand.close()
    assert hand.reports == []


def test_a_sibling_is_not_disturbed_by_a_failure_nobody_awaits() -> None:
    async def fails() -> None:
        raise ValueError

    async def root() -> str:
        spawn(fails)
        return await promise("a")

    hand = Hand(root)
    hand.resolve("a", "undisturbed")
    assert hand.result() == "undisturbed"


def test_the_origin_of_a_durable_call_is_the_users_line_and_fiber() -> None:
    numbers: list[int] = []

    async def child() -> None:
        numbers.append(here() + 1)
        await run(print)

    async def root() -> None:
        await spawn(child(), name="printer")

    hand = Hand(root)
    origin = hand.origins["print"]
    assert (origin.fiber, origin.file, origin.line) == ("printer#2", __file__, numbers[0])
    assert origin.function.endswith("child")
    assert str(origin).startswith('fiber printer#2, File "')


def test_the_origin_sees_through_helpers_of_the_runtime() -> None:
    async def root() -> None:
        await gather([sleep(1)])

    origin = Hand(root).origins["timer"]
    assert origin.file == __file__
    assert origin.function.endswith("root")


def test_fibers_are_numbered_in_spawn_order_and_named_after_their_function() -> None:
    async def child() -> None:
        return None

    def generator() -> Generator[Any, Any, None]:
        yield from ()

    async def root() -> list[str]:
        tasks = [spawn(child), spawn(generator), spawn(child(), name="given"), spawn(promise("a"))]
        return [task.path for task in tasks]

    names = Hand(root).result()
    assert names[:3] == ["child#2", "generator#3", "given#4"]
