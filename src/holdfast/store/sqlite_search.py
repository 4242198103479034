"""A search on SQLite has so many milliseconds: one thread does everything, so everybody else waits for it.

1. Only searches that may pass over many records are timed; an index leads to all that the others need.
2. The time is that of a stopwatch which the store was given. In a simulation it counts virtual time, so that
   the speed of the machine changes nothing there.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.store.interface import TookTooLong, search_ms_max

instructions_per_look: Final = 10_000  # of SQLite's machine, between two looks at the time: less than 1 ms

Stopwatch = Callable[[], float]  # in seconds


@contextmanager
def in_time(connection: Any, stopwatch: Stopwatch) -> Generator[None, None, None]:
    """End what is being looked for when it takes too long."""
    ends = stopwatch() + search_ms_max / 1000
    connection.set_progress_handler(lambda: stopwatch() > ends, instructions_per_look)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        raise TookTooLong(search_ms_max) from None
    finally:
        connection.set_progress_handler(None, 0)
