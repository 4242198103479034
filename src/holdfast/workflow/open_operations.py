"""The operations that the code has asked for and not yet seen to complete, and how far each of them has come.

A note is *taken* (its value is chosen), everything else is *begun*; both happen after the drain in which it
was asked for. What completes outside has *arrived* when that is known and the fibers have not seen it.
"""

from collections.abc import Callable, Container, Iterable, Sequence

from holdfast.workflow.operations import DurableOperation, Note


class OpenOperations(dict[str, DurableOperation]):
    """By id, in the order of asking."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[str, Note] = {}  # not yet taken
        self.fresh: dict[str, DurableOperation] = {}  # not yet begun
        self.arrived: dict[str, None] = {}
        self.messages = 0  # how many of them are messages
        self._outside: dict[str, None] = {}  # those that complete elsewhere
        self._by_awaited: dict[str, dict[str, None]] = {}  # those that a promise of somebody else completes

    def add(self, promise_id: str, operation: DurableOperation) -> None:
        self[promise_id] = operation
        if not operation.completes_here:
            self._outside[promise_id] = None
            self.messages += operation.is_read_once
            if operation.awaits is not None:
                self._by_awaited.setdefault(operation.awaits, {})[promise_id] = None
        if isinstance(operation, Note):
            self.notes[promise_id] = operation
        else:
            self.fresh[promise_id] = operation

    def remove(self, promise_id: str) -> DurableOperation:
        """The fibers see it complete."""
        operation = self[promise_id]
        del self[promise_id]
        for others in (self.arrived, self.fresh, self.notes):
            if promise_id in others:
                del others[promise_id]
        if not operation.completes_here:
            del self._outside[promise_id]
            self.messages -= operation.is_read_once
            if operation.awaits is not None:
                same = self._by_awaited[operation.awaits]
                del same[promise_id]
                if not same:
                    del self._by_awaited[operation.awaits]
        return operation

    def only(self) -> str | None:
        """The only one there is."""
        return next(iter(self)) if len(self) == 1 else None

    def unread(self, knows: Callable[[str], bool]) -> dict[str, DurableOperation]:
        """Messages that were not looked for."""
        return {key: each for key, each in self.fresh.items() if each.is_read_once and not knows(key)}

    def awaited_id(self, promise_id: str) -> str:
        """The id of the promise that completes it."""
        operation = self.get(promise_id)
        return promise_id if operation is None else operation.awaits or promise_id

    def completed_by(self, promise_id: str) -> Sequence[str]:
        """The operations that this promise completes."""
        if promise_id in self._by_awaited:
            return [each for each in self._by_awaited[promise_id] if each in self]
        return (promise_id,) if promise_id in self else ()

    def unseen(self, promise_ids: Iterable[str]) -> list[str]:
        """Of these promises those that may have settled without our knowing."""
        return [
            key for key in promise_ids if any(each not in self.arrived for each in self.completed_by(key))
        ]

    def to_hear(self, heard: Container[str], is_awaited: Callable[[str], bool]) -> list[str]:
        """The promises outside that fibers wait for and that are not heard of yet."""
        if not self._outside:
            return []
        found = [(key, self.awaited_id(key)) for key in self._outside]
        return [each for key, each in found if each not in heard and is_awaited(key)]
