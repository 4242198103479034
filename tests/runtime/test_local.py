"""Locals belong to the execution, context variables to the fiber, and the slot to the thread."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.runtime import Channel, Local, NotInFiber, current, gather, run, spawn
from holdfast.runtime.slot import slot
from holdfast.runtime.testing import Hand, promise


def test_the_default_applies_until_something_is_set() -> None:
    local = Local("default")

    async def root() -> list[str]:
        before = local.get()
        local.set("set")
        return [before, local.get()]

    assert Hand(root).result() == ["default", "set"]


@pytest.mark.parametrize("value", [None, 0, "", False])
def test_an_empty_value_is_a_value(value: Any) -> None:
    local: Local[Any] = Local("default")

    async def root() -> Any:
        local.set(value)
        return local.get()

    assert Hand(root).result() == value


def test_all_fibers_share_it_and_the_last_writer_wins() -> None:
    local = Local(0)

    async def child() -> None:
        local.set(local.get() + 1)

    async def root() -> int:
        await gather([child() for _ in range(5)])
        return local.get()

    assert Hand(root).result() == 5


def test_two_locals_never_collide() -> None:
    first, second = Local(1), Local(1)

    async def root() -> tuple[int, int]:
        first.set(5)
        return first.get(), second.get()

    assert Hand(root).result() == (5, 1)


def test_interleaved_executions_do_not_see_each_others_values() -> None:
    local = Local("none")

    async def root(name: str) -> str:
        local.set(name)
        await promise("a")
        return local.get()

    first, second = Hand(root, "first"), Hand(root, "second")
    second.resolve("a")
    first.resolve("a")
    assert (first.result(), second.result()) == ("first", "second")


def test_values_are_kept_by_reference() -> None:
    local: Local[list[int]] = Local([])

    async def root() -> bool:
        mine = [1]
        local.set(mine)
        return local.get() is mine

    assert Hand(root).result() is True


def test_a_refused_set_leaves_the_value_untouched() -> None:
    local = Local("default")

    async def root() -> str:
        local.set("inside")
        await promise("a")
        return local.get()

    hand = Hand(root)
    with pytest.raises(NotInFiber):
        local.set("outside")
    hand.resolve("a")
    assert hand.result() == "inside"


def test_a_context_variable_set_in_a_fiber_does_not_leak_to_the_driver() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="driver")

    async def root() -> None:
        variable.set("fiber")
        await promise("a")

    Hand(root)
    assert variable.get() == "driver"


def test_each_fiber_has_its_own_context() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    async def child(name: str) -> str:
        variable.set(name)
        await promise(name)
        return variable.get()

    async def root() -> list[str]:
        return await gather([child("a"), child("b")])

    hand = Hand(root)
    hand.resolve("b")
    hand.resolve("a")
    assert hand.result() == ["a", "b"]


def test_a_child_inherits_the_context_at_the_moment_of_the_spawn() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")

    async def child() -> str:
        return variable.get()

    async def root() -> str:
        variable.set("at spawn")
        task = spawn(child)
        variable.set("after spawn")
        return await task

    assert Hand(root).result() == "at spawn"


def test_a_fiber_keeps_its_context_across_waits() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)

    async def root() -> int:
        for number in range(1, 4):
            variable.set(variable.get() + number)
            await promise(str(number))
        return variable.get()

    hand = Hand(root)
    for number in range(1, 4):
        hand.resolve(str(number))
    assert hand.result() == 6


def test_the_slot_is_filled_only_while_fibers_run() -> None:
    seen: list[Any] = []

    async def root() -> None:
        seen.append(current())
        await promise("a")
        seen.append(current())

    assert slot.scheduler is None
    hand = Hand(root)
    assert slot.scheduler is None
    hand.resolve("a")
    assert slot.scheduler is None
    assert seen == [hand.scheduler] * 2


def test_the_slot_is_restored_when_a_fiber_drives_another_execution() -> None:
    seen: list[Any] = []

    async def inner() -> None:
        seen.append(current())

    async def outer() -> None:
        nested = Hand(inner)
        seen.append(nested.scheduler)
        seen.append(current())

    hand = Hand(outer)
    assert seen[0] is seen[1]
    assert seen[2] is hand.scheduler


def test_the_slot_is_restored_when_a_fiber_fails() -> None:
    async def root() -> None:
        raise ValueError

    Hand(root)
    assert slot.scheduler is None


def test_interleaved_executions_keep_their_own_channels_and_steps() -> None:
    async def root(name: str) -> str:
        box = Channel[str]()

        async def child() -> None:
            box.send(f"{name} {await promise('a')}")

        spawn(child)
        return await box.receive

    first, second = Hand(root, "first"), Hand(root, "second")
    second.resolve("a", 2)
    first.resolve("a", 1)
    assert (first.result(), second.result()) == ("first 1", "second 2")


def test_a_step_cannot_read_a_local() -> None:
    local = Local(1)

    def reads() -> int:
        return local.get()

    async def root() -> int:
        return await run(reads)

    hand = Hand(root)
    hand.perform("reads")
    with pytest.raises(NotInFiber):
        hand.result()
