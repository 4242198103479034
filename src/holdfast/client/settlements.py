"""News of promises, by id: whoever waits in this process is told when the node says that one has settled."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.protocol.records import Promise

looked_at_max: Final = 500  # in one transaction

Hear = Callable[[Promise], None]
Find = Callable[[Sequence[str]], Awaitable[list[Promise]]]


class Settlements:
    def __init__(self) -> None:
        self._waiting: dict[str, list[Hear]] = {}

    def hear(self, promise_id: str, hear: Hear) -> Callable[[], None]:
        """Call `hear` once with the settled promise. Returns a way to withdraw."""
        self._waiting.setdefault(promise_id, []).append(hear)
        return lambda: self._withdraw(promise_id, hear)

    def tell(self, promise: Promise) -> None:
        for hear in self._waiting.pop(promise.id, []):
            hear(promise)

    async def look(self, find: Find) -> None:
        """Messages may have been missed: tell of what has settled without one."""
        awaited = self.awaited
        for start in range(0, len(awaited), looked_at_max):
            for promise in await find(awaited[start : start + looked_at_max]):
                if promise.state != "pending":
                    self.tell(promise)

    @property
    def awaited(self) -> list[str]:
        return [*self._waiting]

    def _withdraw(self, promise_id: str, hear: Hear) -> None:
        waiting = self._waiting.get(promise_id, [])
        if hear in waiting:
            waiting.remove(hear)
        if not waiting:
            self._waiting.pop(promise_id, None)
