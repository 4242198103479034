"""Threads: two of them, each with its own schedulers, never see each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.runtime import Channel, Local, NotInFiber, current, gather, spawn
from holdfast.runtime.testing import Hand, promise


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let the interpreter switch threads as often as it can: a shared slot would show at once."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*targets: Any) -> None:
    failures: list[BaseException] = []
    gate = threading.Barrier(len(targets))

    def guarded(target: Any) -> None:
        gate.wait()
        try:
            target()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.usefixtures("eager_switching")
def test_two_threads_never_see_each_others_scheduler() -> None:
    local = Local("nobody")

    def drive(name: str) -> Any:
        def work() -> None:
            async def child(number: int) -> bool:
                mine = current()
                for _ in range(20):
                    if current() is not mine or local.get() != name:
                        return False
                await promise(f"{number}")
                return current() is mine and mine is hand_of[0].scheduler

            async def root() -> list[bool]:
                local.set(name)
                await promise("start")
                return await gather([spawn(child, number) for number in range(20)])

            for _ in range(20):
                hand_of: list[Hand] = []
                hand = Hand(root)
                hand_of.append(hand)
                hand.resolve("start")
                for number in range(20):
                    hand.resolve(str(number))
                assert all(hand.result())
                hand.close()

        return work

    together(drive("left"), drive("right"))


@pytest.mark.usefixtures("eager_switching")
def test_a_thread_without_fibers_finds_the_slot_empty_while_another_drains() -> None:
    stop = threading.Event()
    seen: list[str] = []

    def drains() -> None:
        async def root() -> int:
            box = Channel[int]()
            box.send(1)
            return sum([await box.receive for _ in range(20_000)])

        Hand(root).close()
        stop.set()

    def looks() -> None:
        while not stop.is_set():
            try:
                current()
                seen.append("saw a fiber of the other thread")
            except NotInFiber:
                continue

    together(drains, looks)
    assert seen == []


def test_a_suspended_execution_can_be_resumed_on_another_thread() -> None:
    async def root() -> list[int]:
        seen = [threading.get_ident()]
        await promise("a")
        return [*seen, threading.get_ident()]

    hand = Hand(root)
    together(lambda: hand.resolve("a"))
    first, second = hand.result()
    assert first != second
