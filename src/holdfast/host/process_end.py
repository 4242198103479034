"""What happens to open apps at the end of the interpreter, and in a child that os.fork() makes.

1. At the end, every app that lives in a background thread is closed, whatever the others do. Only those are
   kept alive for it: an app that was closed is nobody's business.
2. In a child every app is closed, and nothing of the parent's is touched or collected: to close its files
   would write to them, to close its sockets would talk in its name.
3. SQLite counts its locks by process: on a file that the parent has open, the child would believe that it
   holds them and hold none. So that file is not opened there; what is in the parent's memory cannot be.
"""

import asyncio
import atexit
import logging
import os
import threading
from typing import Any, Final, Protocol
from weakref import WeakSet

from holdfast.host.errors import OpenedBeforeFork
from holdfast.protocol.text import hide_password
from holdfast.store.urls import file_of

log = logging.getLogger("holdfast.app")


class Opened(Protocol):
    """An app, as far as this is about it."""

    def close(self) -> None: ...

    def after_fork(self) -> None:
        """In the child."""
        ...


_all: Final[WeakSet[Any]] = WeakSet()
_in_threads: Final[set[Opened]] = set()
_left_alone: Final[list[Any]] = []
_inherited: Final[set[str]] = set()


def watch(app: Opened) -> None:
    _all.add(app)


def add(app: Opened) -> None:
    """It lives in a background thread from now on, or is being opened there."""
    _in_threads.add(app)


def discard(app: Opened) -> None:
    _in_threads.discard(app)


def leave_alone(parts: Any, url: str) -> None:
    """In a child: these are the parent's, at work for this URL."""
    _left_alone.append(parts)
    _inherited.add(_key(url))


def check_not_inherited(url: str) -> None:
    """Raises OpenedBeforeFork where the parent's store must not, or cannot, be opened in this process."""
    if _key(url) not in _inherited:
        return
    if file_of(url) is not None:
        raise OpenedBeforeFork(f"{hide_password(url)} was open when os.fork() created this process")
    if url.startswith("memory:"):
        raise OpenedBeforeFork(
            "The app keeps everything in the memory of the parent process, which os.fork() does not share"
        )


def _key(url: str) -> str:
    file = file_of(url)
    return url if file is None else str(file.resolve())


def _close_at_exit() -> None:
    for app in [*_in_threads]:
        try:
            app.close()
        except Exception:
            log.exception("an app could not be closed at the end of the program")


def _after_fork() -> None:
    _in_threads.clear()
    for app in [*_all]:
        app.after_fork()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """In the background thread of an app, until `end_thread`.

    No signal comes to this thread: a KeyboardInterrupt or SystemExit here was raised by code that runs in it.
    The loop would end, and whoever waits for the app would wait forever.
    """
    is_over = False
    while not is_over:
        try:
            loop.run_forever()
            is_over = True
        except (KeyboardInterrupt, SystemExit) as error:
            log.error("%r was raised on the event loop of an app, which continues", error, exc_info=error)


def end_thread(thread: threading.Thread, loop: asyncio.AbstractEventLoop) -> None:
    """End the background thread of an app, and its loop."""
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
