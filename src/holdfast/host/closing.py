"""Closing what has several parts: all of them, also when one fails."""

import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("holdfast.app")

Part = Callable[[], Awaitable[None]]


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
        log.error("closing failed in another place too: %r", more, exc_info=more)
    if failures:
        raise failures[0]
