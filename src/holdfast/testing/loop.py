"""An event loop whose clock jumps: when everybody waits, it is at once as late as the next timer.

Only for code that waits on timers and futures of this loop: nothing else can wake it.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Stuck(RuntimeError):
    """Everybody waits for something that cannot come: no timer is set, and no work is left."""


class _JumpingSelector(selectors.SelectSelector):
    loop: "JumpingLoop"

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise Stuck(
                "Everybody waits for something that cannot come. Is there a promise that nobody settles?"
            )
        self.loop.jumped_s += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, epoch_ms: int = 0) -> None:
        self.jumped_s = 0.0
        self._epoch_ms = epoch_ms
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self.jumped_s

    def millis(self) -> int:
        return self._epoch_ms + round(self.jumped_s * 1000)


def run_jumping(main: Coroutine[Any, Any, Result], loop: JumpingLoop) -> Result:
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
