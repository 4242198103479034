"""Cancelling tasks of the event loop, and waiting until they are over: one way for every layer."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: "Iterable[asyncio.Task[Any] | None]") -> None:
    """How they end is of no interest. Whoever did not start one gives None."""
    # Of what is done already `gather` makes turns of the loop on one Python and none on the next.
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
