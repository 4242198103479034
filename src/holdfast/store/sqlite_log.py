"""Extends SQLite's write-ahead log in large steps, so that a commit need not change the file's length.

A commit that makes the log longer costs the file system a commit of its own: the new length and the new
blocks must be on disk too. One that overwrites what the file has already costs the data alone. So as soon as
SQLite has written past the end, a stretch of zeros is put behind it. Checkpoints begin the log anew and leave
its length, so before long it has all the length it needs.

1. Zeros are written only while we hold SQLite's write lock: nobody else can append to the log meanwhile.
2. Nothing depends on them. Whoever recovers the log stops at the first frame that is not whole, and zeros are
   none. They are synced with the next commit; if they cannot be written, SQLite goes on as without them.
3. Windows goes without: SQLite deletes the log when the last connection closes, which a file that somebody
   else has open there does not allow.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

stretch_bytes: Final = 1024 * 1024
tail_bytes: Final = 64 * 1024  # more than a frame, which is never all zeros

Write = Callable[[int, bytes, int], int]


class SqliteLog:
    """The log of an open file. `write` is `os.pwrite` if none is given; tests give one that remembers."""

    def __init__(self, path: str, *, stretch: int = stretch_bytes, write: Write | None = None) -> None:
        self._file = os.open(f"{path}-wal", os.O_RDWR)
        self._size = 0
        self._stretch = stretch
        self._write = write or os.pwrite

    def make_room(self) -> None:
        """Inside a transaction that holds the write lock, before anything of it is written."""
        size = os.fstat(self._file).st_size
        if size != self._size:
            with suppress(OSError):  # a full disk, say
                if not self._has_room(size):
                    self._write(self._file, bytes(self._stretch), size)
            self._size = os.fstat(self._file).st_size

    def _has_room(self, size: int) -> bool:
        """Has another process put its zeros there? Two that each answered the other's would never end."""
        tail = os.pread(self._file, tail_bytes, max(0, size - tail_bytes))
        return tail.count(0) == tail_bytes

    def close(self) -> None:
        os.close(self._file)
