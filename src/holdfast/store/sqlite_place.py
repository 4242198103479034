"""Where the file of a SQLite store is: making it, and noticing that it is no longer there.

A program that has a file open keeps it when somebody deletes, moves or replaces it. SQLite would go on and
commit, and nobody would ever find what it wrote. So after each commit the file, and its log, must still be
what was opened.

1. A commit that went to a file which nobody can find is not acknowledged.
2. The path is made absolute when the file is opened: the program may change its folder afterwards.
3. A database in memory, and a file that cannot be looked at, are not watched. A link that leads elsewhere by
   now counts as a file that was replaced.
"""

import logging
import os
from pathlib import Path

from holdfast.store.interface import FileGone, NotAStore

log = logging.getLogger("holdfast.store")

Identity = tuple[int, int]  # of a file: its device and its number there


def create_private(path: str) -> None:
    """The write-ahead log and its index inherit the mode of the file."""
    if path != ":memory:" and not Path(path).exists():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise NotAStore(
                f"{path} cannot be created: {error.strerror}. Check the path. [{NotAStore.code}]"
            ) from error


class SqlitePlace:
    """The file and its log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        whole = Path(path).resolve()  # SQLite has its log beside what a link leads to
        paths = [Path(path).absolute(), whole, whole.with_name(f"{whole.name}-wal")]
        self._known: dict[str, Identity] = {}
        for each in map(str, paths if path != ":memory:" else ()):
            if (identity := _identity(each)) is not None:
                self._known[each] = identity
        self._is_told = False

    def check(self) -> None:
        """Raises FileGone if one of them is gone, or is another one by now."""
        for path, identity in self._known.items():
            if _identity(path, identity) != identity:
                if not self._is_told:
                    log.error("%s was deleted, moved or replaced while it was open", path)
                self._is_told = True
                raise FileGone("The database file was deleted, moved or replaced while it was open")


def _identity(path: str, unknown: Identity | None = None) -> Identity | None:
    """None if there is no such file; `unknown` if it cannot be looked at, as without the right to."""
    try:
        found = os.stat(path)  # noqa: PTH116, after every commit, and a Path takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return unknown
    return found.st_dev, found.st_ino
