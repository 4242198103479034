"""Large requests are decoded one at a time.

To decode one takes the loop some milliseconds, and meanwhile nobody else is served. However many have come,
one turn of the loop decodes only so many bytes of them (`Turns`); small requests pass in between.

What was decoded may take twenty times as much memory as it had bytes. Where it is kept until the request is
answered, only so many bytes are decoded at a time (`DecodingRoom`).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

small_bytes: Final = 16_384  # these need no turn
turn_bytes_max: Final = 262_144  # what is larger by itself has a turn to itself
room_bytes_max: Final = 1_048_576  # what is larger by itself has the room to itself


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


class DecodingRoom:
    def __init__(self, bytes_max: int = room_bytes_max) -> None:
        self.bytes_max = bytes_max
        self.taken_bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, count: int) -> Callable[[], None]:
        """Wait until there is room for so many bytes. The answer gives it back; calling it again is fine."""
        if count <= small_bytes:
            return _nothing
        if self._waiting or not self._fits(count):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, count))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._give(count)
                raise
        else:
            self.taken_bytes += count
        is_taken = True

        def give_back() -> None:
            nonlocal is_taken
            if is_taken:
                is_taken = False
                self._give(count)

        return give_back

    def _fits(self, count: int) -> bool:
        return not self.taken_bytes or self.taken_bytes + count <= self.bytes_max

    def _give(self, count: int) -> None:
        self.taken_bytes -= count
        while self._waiting and (self._waiting[0][0].done() or self._fits(self._waiting[0][1])):
            turn, wanted = self._waiting.popleft()
            if not turn.done():
                self.taken_bytes += wanted
                turn.set_result(None)


def _nothing() -> None:
    pass
