"""News of promises, by id: whoever waits in this process is told when the node says that one has settled."""

from collections.abc import Callable

from holdfast.protocol.records import Promise

Hear = Callable[[Promise], None]


class Inbox:
    def __init__(self) -> None:
        self._waiting: dict[str, list[Hear]] = {}

    def hear(self, promise_id: str, hear: Hear) -> Callable[[], None]:
        """Call `hear` once with the settled promise. Returns a way to withdraw."""
        self._waiting.setdefault(promise_id, []).append(hear)
        return lambda: self._withdraw(promise_id, hear)

    def tell(self, promise: Promise) -> None:
        for hear in self._waiting.pop(promise.id, []):
            hear(promise)

    @property
    def awaited(self) -> list[str]:
        return [*self._waiting]

    def _withdraw(self, promise_id: str, hear: Hear) -> None:
        waiting = self._waiting.get(promise_id, [])
        if hear in waiting:
            waiting.remove(hear)
        if not waiting:
            self._waiting.pop(promise_id, None)
