"""The node's tests run on asyncio's own loop, and in `make test-all` again with timers as those of uvloop."""

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

timers_of_uvloop = "timers of uvloop"


class LateTimer(asyncio.TimerHandle):
    def when(self) -> float:
        """Above the loop's time, also when it rings, however late that is."""
        return super().when() + 60.0


class UvloopTimers(asyncio.SelectorEventLoop):
    """A delay of zero runs before what became ready earlier; the instant of a timer that rings is above the
    loop's time. Two defects hid behind asyncio, which does neither."""

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = LateTimer(when, callback, args, self, context)
        inner: Any = self
        if when <= self.time():
            inner._ready.appendleft(timer)
        else:
            heapq.heappush(inner._scheduled, timer)
            timer._scheduled = True  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        return timer


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """For each async test in this folder."""
    return {"asyncio": asyncio.new_event_loop, timers_of_uvloop: UvloopTimers}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and timers_of_uvloop in item.name:
            item.add_marker(pytest.mark.slow)
