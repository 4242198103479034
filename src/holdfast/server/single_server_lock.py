"""One server per SQLite file: a second one would not get the messages that the first one's commits cause.

The lock is on a file beside the database. The system lets go of it when the process ends, however it ends, so
nothing has to be cleaned up; the empty file stays. What is no server (an app of its own, `holdfast gc`) does
not ask for it.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from holdfast.server.errors import StoreInUse
from holdfast.store.urls import file_of

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:  # what it says when somebody has it
            raise BlockingIOError(*error.args) from None
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def single_server(store: str) -> Generator[None]:
    file = file_of(store)
    if file is None or file.name == ":memory:":
        yield
        return
    try:
        lock = os.open(f"{file.resolve()}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:  # then the database cannot be written either, and opening it says why
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            _take(lock, str(file))
        yield
    finally:
        os.close(lock)


def _take(lock: int, name: str) -> None:
    try:
        _lock(lock)
    except BlockingIOError:
        raise StoreInUse(
            f"Another server is running on {name}. Stop it first, or share a PostgreSQL between many servers."
        ) from None
