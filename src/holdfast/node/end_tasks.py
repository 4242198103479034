"""Ending what runs: tasks of the event loop, and things with several parts. One way for every layer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

log = logging.getLogger("holdfast.app")
Part = Callable[[], Awaitable[None]]


async def end_tasks(tasks: "Iterable[asyncio.Future[Any] | None]") -> None:
    """How they end is of no interest. Whoever did not start one gives None."""
    # Of what is done already `gather` makes turns of the loop on one Python and none on the next.
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def close_all(*parts: Part) -> None:
    """One after the other, to the end. What fails first is raised then; the rest is told in the log."""
    failures: list[BaseException] = []
    for part in parts:
        try:
            await part()
        except GeneratorExit:  # the loop itself is gone: nothing can be awaited any more
            raise
        except BaseException as error:
            failures.append(error)
    for more in failures[1:]:
        log.error("another part could not be closed either: %r", more, exc_info=more)
    if failures:
        raise failures[0]
