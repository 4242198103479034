"""What one request has changed, in order, so that it can be undone: one that is refused leaves no trace."""

from typing import Any, Final

_absent: Final = object()


class UndoLog:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[dict[Any, Any] | list[Any], Any, Any]] = []

    def set(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        self._entries.append((container, key, container.get(key, _absent)))
        container[key] = value

    def remove(self, container: dict[Any, Any], key: Any) -> None:
        self._entries.append((container, key, container[key]))
        del container[key]

    def append(self, items: list[Any], item: Any) -> None:
        items.append(item)
        self._entries.append((items, None, None))

    def forget(self) -> None:
        """Nothing that happened so far is undone any more."""
        self._entries.clear()

    def undo(self) -> None:
        for container, key, old in reversed(self._entries):
            if isinstance(container, list):
                container.pop()
            elif old is _absent:
                del container[key]
            else:
                container[key] = old
        self._entries.clear()
