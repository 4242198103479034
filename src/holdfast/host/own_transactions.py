"""Calls that would wait for themselves: made in a SQLite transaction of the caller in which we have written.

While that transaction is open nobody else can write to the file, the node included. Whoever waits for the
node before he has committed waits for ever, so he is told (`OwnTransactionOpen`).

1. It is about the thread, or the asyncio task, that sent or started something on a connection of its own. A
   task that it makes meanwhile may wait: it is not the one that commits.
2. Nothing is guessed: it is open exactly if what was written can be seen on that connection and nowhere else.
3. PostgreSQL has no such lock: there everybody but the row's own waiters goes on.
4. A connection that its owner has forgotten is not kept alive here for long: as long as it is, nobody rolls
   its transaction back.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final

from holdfast.host.errors import OwnTransactionOpen
from holdfast.store.callers_session import must_be_awaited, unwrap
from holdfast.store.sqlite_caller import is_uncommitted

kept_s: Final = 60.0  # a reference to a connection


class _Written:
    def __init__(self, owner: object, connection: sqlite3.Connection, promise_id: str) -> None:
        self.owner = owner  # the task, or the thread
        self.connection: sqlite3.Connection | None = connection
        self.promise_id = promise_id

    def let_go(self) -> None:
        self.connection = None


class OwnTransactions:
    """Of one app: what each thread or task wrote last on a connection of its own."""

    def __init__(self) -> None:
        self._written: Final[ContextVar[_Written | None]] = ContextVar("holdfast.written", default=None)

    def note(self, connection: Any, promise_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """Something was written on it, in a transaction that was left open. `loop`: the session's."""
        if must_be_awaited(connection):
            return
        driver = unwrap(connection)
        if isinstance(driver, sqlite3.Connection):
            written = _Written(_here(), driver, promise_id)
            self._written.set(written)
            loop.call_soon_threadsafe(loop.call_later, kept_s, written.let_go)

    def check(self, work: Coroutine[Any, Any, Any] | None = None) -> None:
        """Before somebody waits for the node. Raises OwnTransactionOpen, and then `work` is closed."""
        if not self.is_open_here():
            return
        if work is not None:
            work.close()
        written = self._written.get()
        assert written is not None
        raise OwnTransactionOpen(
            f"{written.promise_id!r} was written in a transaction of yours that is still open, and the "
            "node cannot answer before it ends"
        )

    def is_open_here(self) -> bool:
        """Does whoever asks this keep the file locked?"""
        written = self._written.get()
        if written is None or written.owner != _here():
            return False
        connection = written.connection
        if connection is not None and is_uncommitted(connection, written.promise_id):
            return True
        self._written.set(None)
        return False


def _here() -> object:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs
        task = None
    return threading.get_ident() if task is None else task
