"""The loop with the timers of uvloop, on which the node's tests run again, is what it says."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.node.conftest import UvloopTimers


def run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def turns() -> list[str]:
    seen: list[str] = []
    loop, both = asyncio.get_running_loop(), asyncio.Event()

    def see(what: str) -> None:
        seen.append(what)
        if len(seen) == 2:
            both.set()

    loop.call_soon(see, "ready before")
    loop.call_later(0, see, "a delay of zero")
    await both.wait()
    return seen


async def is_above_when_it_rings(delay_s: float) -> bool:
    loop = asyncio.get_running_loop()
    found: asyncio.Future[bool] = loop.create_future()
    timers: list[asyncio.TimerHandle] = []
    timers.append(loop.call_later(delay_s, lambda: found.set_result(timers[0].when() > loop.time())))
    return await found


def test_a_delay_of_zero_goes_before_what_was_ready_and_the_instant_of_a_timer_is_never_reached() -> None:
    assert run(UvloopTimers(), turns()) == ["a delay of zero", "ready before"]
    assert run(asyncio.SelectorEventLoop(), turns()) == ["ready before", "a delay of zero"]
    for delay_s in (0, 0.001):
        assert run(UvloopTimers(), is_above_when_it_rings(delay_s))


def test_a_timer_that_was_cancelled_does_not_ring_and_the_others_do_in_order() -> None:
    async def ring() -> list[int]:
        rung: list[int] = []
        loop, last = asyncio.get_running_loop(), asyncio.Event()
        timers = [loop.call_later(number / 1_000, rung.append, number) for number in (3, 1, 2)]
        loop.call_later(0.005, last.set)
        timers[2].cancel()
        await last.wait()
        return rung

    assert run(UvloopTimers(), ring()) == [1, 3]
