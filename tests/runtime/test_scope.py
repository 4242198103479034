"""Scopes: leaving joins, a failure interrupts the siblings, a cancellation cannot be swallowed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from holdfast.runtime import Cancelled, Scope, TaskInterrupted, TimedOut, scope, scoped, sleep, spawn, timeout
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, watch


def test_leaving_a_scope_waits_for_its_tasks() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(watch, "a", trace)
            tasks.spawn(watch, "b", trace)
            trace.append("block ends")
        trace.append("left")

    hand = Hand(root)
    hand.resolve("b")
    assert trace == ["block ends", "b done"]
    hand.resolve("a")
    assert trace == ["block ends", "b done", "a done", "left"]


def test_a_scope_of_nothing_is_left_at_once() -> None:
    async def root() -> str:
        async with scope():
            pass
        return "left"

    assert Hand(root).result() == "left"


def test_tasks_of_a_scope_give_their_values() -> None:
    async def root() -> Any:
        async with scope() as tasks:
            a, b = tasks.spawn(follow, "a"), tasks.spawn(follow("b"), name="second")
        return await a, await b, b.name

    hand = Hand(root)
    hand.resolve("a", 1)
    hand.resolve("b", 2)
    assert hand.result() == (1, 2, "second")


def test_a_failing_task_interrupts_its_siblings() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(watch, "a", trace)
            tasks.spawn(follow, "b")
            tasks.spawn(watch, "c", trace)

    hand = Hand(root)
    hand.reject("b", ValueError("b"))
    assert trace == ["a interrupted", "c interrupted"]
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert [str(error) for error in caught.value.exceptions] == ["b"]


def test_a_failing_task_interrupts_the_block_it_belongs_to() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(follow, "a")
            try:
                await promise("never")
            finally:
                trace.append("block unwound")

    hand = Hand(root)
    hand.reject("a", ValueError("a"))
    assert trace == ["block unwound"]
    with pytest.raises(ExceptionGroup):
        hand.result()


def test_failures_come_out_together_in_spawn_order() -> None:
    async def stubborn(name: str) -> None:
        try:
            await promise(name)
        except TaskInterrupted:
            raise KeyError(name) from None

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(stubborn, "a")
            tasks.spawn(follow, "b")
            tasks.spawn(stubborn, "c")

    hand = Hand(root)
    hand.reject("b", ValueError("b"))
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert [repr(error) for error in caught.value.exceptions] == [
        "KeyError('a')",
        "ValueError('b')",
        "KeyError('c')",
    ]


def test_an_error_of_the_block_interrupts_the_tasks_and_comes_out_as_it_is() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(watch, "a", trace)
            await promise("go")
            raise ValueError("block")

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a interrupted"]
    with pytest.raises(ValueError, match="block"):
        hand.result()


def test_a_failing_block_waits_for_the_cleanup_of_its_tasks() -> None:
    trace: list[str] = []

    async def tidy() -> None:
        try:
            await promise("a")
        except TaskInterrupted:
            await promise("cleanup")
            trace.append("cleaned")

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(tidy)
            await promise("go")
            raise ValueError("block")

    hand = Hand(root)
    hand.resolve("go")
    assert not hand.done
    hand.resolve("cleanup")
    assert trace == ["cleaned"]
    with pytest.raises(ValueError, match="block"):
        hand.result()


def test_errors_of_block_and_tasks_come_out_together_the_block_first() -> None:
    async def worse() -> None:
        try:
            await promise("a")
        except TaskInterrupted:
            raise KeyError("task") from None

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(worse)
            await promise("go")
            raise ValueError("block")

    hand = Hand(root)
    hand.resolve("go")
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]


def test_a_cancellation_comes_out_bare_and_reaches_every_task() -> None:
    trace: list[str] = []

    async def child(name: str) -> None:
        try:
            await promise(name)
        except Cancelled:
            trace.append(name)
            raise

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(child, "a")
            tasks.spawn(child, "b")
            await promise("block")

    hand = Hand(root)
    hand.cancel()
    assert trace == ["a", "b"]
    with pytest.raises(Cancelled):
        hand.result()


def test_a_cancellation_while_joining_waits_for_cleanup_and_comes_out() -> None:
    trace: list[str] = []

    async def tidy() -> None:
        try:
            await promise("a")
        except Cancelled:
            await promise("cleanup")
            trace.append("cleaned")

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(tidy)

    hand = Hand(root)
    hand.cancel()
    assert not hand.done
    hand.resolve("cleanup")
    assert trace == ["cleaned"]
    with pytest.raises(Cancelled):
        hand.result()


def test_an_interrupt_of_the_owner_interrupts_its_tasks_and_comes_out_bare() -> None:
    trace: list[str] = []

    async def owner() -> None:
        async with scope() as tasks:
            tasks.spawn(watch, "a", trace)

    async def root() -> str:
        task = spawn(owner)
        await promise("go")
        task.interrupt()
        try:
            await task
        except TaskInterrupted:
            return "interrupted"
        return "ended"

    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a interrupted"]
    assert hand.result() == "interrupted"


def test_interrupting_one_task_is_no_failure_of_the_scope() -> None:
    trace: list[str] = []

    async def root() -> str:
        async with scope() as tasks:
            first = tasks.spawn(watch, "a", trace)
            tasks.spawn(watch, "b", trace)
            await promise("go")
            first.interrupt()
        return "left"

    hand = Hand(root)
    hand.resolve("go")
    hand.resolve("b")
    assert trace == ["a interrupted", "b done"]
    assert hand.result() == "left"


def test_scopes_nest_and_the_inner_one_fails_first() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as outer:
            outer.spawn(watch, "outer", trace)
            async with scope() as inner:
                inner.spawn(watch, "inner", trace)
                inner.spawn(follow, "bad")

    hand = Hand(root)
    hand.reject("bad", ValueError("bad"))
    assert trace == ["inner interrupted", "outer interrupted"]
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert caught.value.subgroup(ValueError) is not None


def test_a_failure_outside_unwinds_a_scope_inside() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as outer:
            outer.spawn(follow, "bad")
            async with scope() as inner:
                inner.spawn(watch, "inner", trace)

    hand = Hand(root)
    hand.reject("bad", ValueError("bad"))
    assert trace == ["inner interrupted"]
    with pytest.raises(ExceptionGroup) as caught:
        hand.result()
    assert [str(error) for error in caught.value.exceptions] == ["bad"]


def test_a_task_can_spawn_into_its_own_scope_while_it_is_being_left() -> None:
    trace: list[str] = []

    async def parent(tasks: Scope) -> None:
        await promise("a")
        tasks.spawn(watch, "b", trace)

    async def root() -> str:
        async with scope() as tasks:
            tasks.spawn(parent, tasks)
        return "left"

    hand = Hand(root)
    hand.resolve("a")
    assert not hand.done
    hand.resolve("b")
    assert trace == ["b done"]
    assert hand.result() == "left"


def test_spawning_into_a_closed_scope_is_refused() -> None:
    async def root() -> None:
        async with scope() as tasks:
            pass
        tasks.spawn(follow, "a")

    with pytest.raises(RuntimeError, match="not open"):
        Hand(root).result()


def test_spawning_into_a_scope_that_was_never_entered_is_refused() -> None:
    async def root() -> None:
        scope().spawn(follow, "a")

    with pytest.raises(RuntimeError, match="not open"):
        Hand(root).result()


def test_a_scope_is_used_once() -> None:
    async def root() -> None:
        once = scope()
        async with once:
            pass
        async with once:
            pass

    with pytest.raises(RuntimeError, match="used once"):
        Hand(root).result()


def test_a_failure_in_a_scope_is_no_unawaited_failure() -> None:
    async def root() -> str:
        try:
            async with scope() as tasks:
                tasks.spawn(follow, "a")
        except ExceptionGroup:
            return "handled"
        return "missed"

    hand = Hand(root)
    hand.reject("a", ValueError())
    hand.close()
    assert hand.result() == "handled"
    assert hand.reports == []


def test_a_block_that_catches_the_sibling_failure_still_raises_it_when_left() -> None:
    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(follow, "a")
            try:
                await promise("b")
            except TaskInterrupted:
                await promise("c")

    hand = Hand(root)
    hand.reject("a", ValueError("a"))
    assert hand.waiting == ("c",)
    hand.resolve("c")
    with pytest.raises(ExceptionGroup):
        hand.result()


def test_a_generator_uses_a_scope_through_scoped() -> None:
    def body(tasks: Scope) -> Generator[Any, Any, str]:
        tasks.spawn(follow, "a")
        value = yield from promise("b")
        return f"body {value}"

    def root() -> Generator[Any, Any, str]:
        return (yield from scoped(body))

    hand = Hand(root)
    hand.resolve("b", 1)
    assert not hand.done
    hand.resolve("a")
    assert hand.result() == "body 1"


def test_a_timeout_around_a_scope_interrupts_its_tasks() -> None:
    trace: list[str] = []

    async def root() -> str:
        try:
            async with timeout(5), scope() as tasks:
                tasks.spawn(watch, "a", trace)
        except TimedOut:
            return "timed out"
        return "ended"

    hand = Hand(root)
    hand.elapse(5)
    assert trace == ["a interrupted"]
    assert hand.result() == "timed out"


def test_a_timeout_inside_a_scope_leaves_its_tasks_alone() -> None:
    trace: list[str] = []

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(watch, "a", trace)
            try:
                async with timeout(5):
                    await sleep(60)
            except TimedOut:
                trace.append("timed out")

    hand = Hand(root)
    hand.elapse(5)
    hand.resolve("a")
    assert trace == ["timed out", "a done"]
    assert hand.done
