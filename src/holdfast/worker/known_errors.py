"""Which error classes a payload may come back as: those that are here already."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any


class KnownErrors(Mapping[str, type[Exception]]):
    """Error classes by `module:qualname`, of modules already imported. Nothing is imported by name."""

    def __getitem__(self, name: str) -> type[Exception]:
        module, _, path = name.partition(":")
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
