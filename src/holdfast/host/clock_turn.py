"""Whoever must know the clock of a node far away, and whoever comes behind: one after the other.

An app that has just been opened learns the clock before it asks for anything with a deadline. That is one
round trip more, so what is asked for meanwhile could overtake it: a message could come before the start of
its execution.

1. The first asks. The others wait, and go on in the order in which they came.
2. If the node cannot be asked, that is the answer for all who waited meanwhile: nobody waits twice as long.
"""

import asyncio
from collections.abc import Awaitable, Callable


class ClockTurn:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # it lets them in, in order
        self._failures = 0
        self._failure: Exception | None = None

    async def learn(self, is_known: Callable[[], bool], ask: Callable[[], Awaitable[object]]) -> None:
        """`ask` unless it is known by then."""
        failures = self._failures
        async with self._turn:
            if is_known():
                return
            if self._failure is not None and self._failures > failures:
                raise self._failure
            try:
                await ask()
            except Exception as error:
                self._failures += 1
                self._failure = error
                raise

    async def go_behind(self) -> None:
        """Let those who came before learn it, or fail."""
        async with self._turn:
            pass
