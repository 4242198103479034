"""What one request has changed, in order, so that it can be undone: one that is refused leaves no trace."""

from typing import Any, Final

_absent: Final = object()


class UndoLog:
    __slots__ = ("_entries", "forget")

    def __init__(self) -> None:
        self._entries: list[tuple[dict[Any, Any] | list[Any], Any, Any]] = []
        self.forget = self._entries.clear  # nothing that happened so far is undone any more

    def set(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        self._entries.append((container, key, container.get(key, _absent)))
        container[key] = value

    def put(
        self, records: dict[Any, Any], changed: dict[Any, Any], key: Any, record: Any, mark: Any = None
    ) -> None:
        """A record, and that it has changed: each of them as by `set`."""
        self._entries += (
            (records, key, records.get(key, _absent)),
            (changed, key, changed.get(key, _absent)),
        )
        records[key] = record
        changed[key] = mark

    def remove(self, container: dict[Any, Any], key: Any) -> None:
        self._entries.append((container, key, container[key]))
        del container[key]

    def append(self, items: list[Any], item: Any) -> None:
        items.append(item)
        self._entries.append((items, None, None))

    def undo(self) -> None:
        for container, key, old in reversed(self._entries):
            if isinstance(container, list):
                container.pop()
            elif old is _absent:
                del container[key]
            else:
                container[key] = old
        self._entries.clear()
