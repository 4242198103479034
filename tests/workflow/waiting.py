"""Waiting for something that another thread or process does, in tests that use real ones."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    for _ in range(int(limit_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen in time")
