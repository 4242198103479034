"""Scopes: leaving joins, a failure interrupts the siblings, a cancellation cannot be swallowed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from holdfast.runtime import (
    Cancelled,
    Channel,
    Fiber,
    FiberExited,
    FiberInterrupted,
    Future,
    Scope,
    Step,
    TimedOut,
    run,
    scope,
    scoped,
    shield,
    sleep,
    spawn,
    timeout,
)
from holdfast.runtime.testing import Hand, promise
from tests.runtime.bodies import follow, watch, work


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
        except FiberInterrupted:
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
        except FiberInterrupted:
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
        except FiberInterrupted:
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
        except FiberInterrupted:
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


def test_a_failure_in_a_scope_is_no_failure_to_report() -> None:
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
            except FiberInterrupted:
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


class Exit(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(1), Exit("mine")], ids=repr)
def test_a_scope_left_by_what_is_no_exception_interrupts_and_joins(error: BaseException) -> None:
    trace: list[str] = []

    async def tidy() -> None:
        try:
            await promise("a")
        except FiberInterrupted:
            await promise("cleanup")
            trace.append("cleaned")

    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(tidy)
            await promise("go")
            raise error

    hand = Hand(root)
    hand.resolve("go")
    assert hand.waiting == ("cleanup",)
    hand.resolve("cleanup")
    assert trace == ["cleaned"]
    with pytest.raises(FiberExited) as caught:
        hand.result()
    assert caught.value.__cause__ is error


def test_a_generator_scope_left_by_what_is_no_exception_joins_too() -> None:
    def body(tasks: Scope) -> Generator[Any, Any, None]:
        tasks.spawn(watch, "a", trace)
        yield from promise("go")
        raise Exit

    def root() -> Generator[Any, Any, None]:
        yield from scoped(body)

    trace: list[str] = []
    hand = Hand(root)
    hand.resolve("go")
    assert trace == ["a interrupted"]
    assert hand.done


def test_a_keyboard_interrupt_does_not_wait_for_the_tasks_of_a_scope() -> None:
    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(follow, "a")
            await promise("go")
            raise KeyboardInterrupt

    hand = Hand(root)
    with pytest.raises(KeyboardInterrupt):
        hand.resolve("go")


class Mine(Exception):
    pass


async def worse(name: str) -> None:
    try:
        await promise(name)
    except Exception:
        raise KeyError(name) from None


@pytest.mark.parametrize("inside", [True, False])
def test_an_owner_that_is_interrupted_with_an_error_gets_that_error_and_no_group(inside: bool) -> None:
    async def owner() -> None:
        async with scope() as tasks:
            tasks.spawn(worse, "a")
            if inside:
                await promise("b")

    async def root() -> str:
        task = spawn(owner)
        await promise("go")
        task.interrupt(Mine("why"))
        try:
            await task
        except Mine as error:
            return str(error)
        return "missed"

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "why"


def test_an_interrupt_is_not_overwritten_by_the_failure_of_a_sibling() -> None:
    """Both reach the block before it runs."""

    async def bad(go: Future[Any]) -> None:
        with suppress(Mine):
            await go
        raise KeyError("bad")

    async def meddler(owner: list[Fiber[Any]], go: Future[Any]) -> None:
        await go
        owner[0].interrupt(Mine("why"))

    async def owner(go: Future[Any]) -> None:
        async with scope() as tasks:
            tasks.spawn(bad, go)
            await promise("block")

    async def root() -> str:
        tasks: list[Fiber[Any]] = []
        go = promise("bad")
        spawn(meddler, tasks, go)
        tasks.append(spawn(owner, go))
        try:
            await tasks[0]
        except Mine as error:
            return str(error)
        return "missed"

    hand = Hand(root)
    hand.resolve("bad")
    assert hand.result() == "why"


def test_an_interrupt_before_the_failure_of_a_sibling_is_what_comes_out() -> None:
    async def bad(box: Channel[int]) -> None:
        await box.receive
        raise KeyError("bad")

    async def owner(box: Channel[int]) -> None:
        async with scope() as tasks:
            tasks.spawn(shield(bad(box)))
            await promise("block")

    async def root() -> str:
        box = Channel[int]()
        task = spawn(owner, box)
        await promise("go")
        task.interrupt(Mine("why"))
        box.send(1)
        try:
            await task
        except Mine as error:
            return str(error)
        return "missed"

    hand = Hand(root)
    hand.resolve("go")
    assert hand.result() == "why"


def test_an_interrupt_of_a_scope_inside_is_not_overwritten_by_a_failure_in_the_scope_around_it() -> None:
    async def tidy() -> None:
        try:
            await promise("a")
        except Mine:
            await promise("cleanup")

    async def owner() -> None:
        async with scope() as outer:
            outer.spawn(shield(follow("bad")))
            async with scope() as inner:
                inner.spawn(tidy)

    async def root() -> str:
        task = spawn(owner)
        await promise("go")
        task.interrupt(Mine("why"))
        try:
            await task
        except Mine as error:
            return str(error)
        return "missed"

    hand = Hand(root)
    hand.resolve("go")
    hand.reject("bad", KeyError("bad"))
    if not hand.done:
        hand.resolve("cleanup")
    assert hand.result() == "why"


def test_a_cancellation_while_joining_is_not_overwritten_by_an_interrupt() -> None:
    async def tidy() -> None:
        try:
            await promise("a")
        except Cancelled:
            await shield(follow("cleanup"))

    async def owner() -> None:
        async with scope() as tasks:
            tasks.spawn(tidy)

    async def root() -> str:
        task = spawn(owner)
        with suppress(Cancelled):
            await promise("b")
        await promise("go")
        task.interrupt(Mine("later"))
        try:
            await task
        except Cancelled:
            return "cancelled"
        return "missed"

    hand = Hand(root)
    hand.cancel()
    hand.resolve("go")
    hand.resolve("cleanup")
    assert hand.result() == "cancelled"


def test_a_failing_task_tells_the_steps_that_the_block_has_started() -> None:
    async def root() -> None:
        async with scope() as tasks:
            tasks.spawn(follow, "bad")
            await run(work)

    hand = Hand(root)
    step = hand.issued["work"]
    assert isinstance(step, Step)
    hand.reject("bad", ValueError())
    assert step.signal.is_set
