"""Large requests are decoded one at a time.

To decode one takes the loop some milliseconds, and meanwhile nobody else is served. However many have come,
one turn of the loop decodes only so many bytes of them; small requests pass in between.
"""

import asyncio
from collections import deque
from typing import Final

small_bytes: Final = 16_384  # these need no turn
turn_bytes_max: Final = 262_144  # what is larger by itself has a turn to itself


class Turns:
    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, count: int) -> None:
        """Wait until a request of so many bytes may be decoded."""
        if count <= small_bytes:
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append((turn, count))
        if len(self._waiting) == 1:
            loop.call_soon(self._begin_turn)
        await turn

    def _begin_turn(self) -> None:
        size = 0
        while self._waiting:
            turn, count = self._waiting[0]
            if size and size + count > turn_bytes_max:
                break
            self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                size += count
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_turn)
