"""Watches the event loop from another thread: if something blocks it, leases are kept and the log names it.

An `async def` that calls `time.sleep` stops everything on its loop, heartbeats too. Then this thread sends
them, for as long as the loop is blocked. A store in this process is asked directly (its node is on the
blocked loop); PostgreSQL and a server over a connection that is opened for it, on another loop.

1. The loop is blocked when it has not answered in so many polls of this thread. Polls are counted, not the
   time between them: a process that was stopped as a whole has blocked nothing.
2. What is over by our own clock is not kept: the loop finds that out when it goes on.
3. Beside what is known to be held, everything is kept that the node holds for this process: the answer to a
   claim may be waiting for the loop.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from holdfast.client.tls import client_context
from holdfast.engine import Rules
from holdfast.host.heartbeat import Heartbeat
from holdfast.host.settings import SessionSettings
from holdfast.node import Node
from holdfast.node.group import CommitContext, run_group
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.store.urls import file_of, open_store

log = logging.getLogger("holdfast.worker")

look_s_max: Final = 0.5
looks_per_lease: Final = 8
told_after_s: Final = 1.0

Send = Callable[[Sequence[Request]], Sequence[Reply]]

attempt_s: Final = 5.0


class LoopWatch:
    """`send` asks the node without the loop; it is called in this thread. Make it on the loop's thread."""

    def __init__(self, send: Send, lease_s: float) -> None:
        self._send = send
        self._look_s = min(look_s_max, lease_s / looks_per_lease)
        self._beat_every = max(2, round(lease_s / 4 / self._look_s))  # in looks
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._heartbeats: list[Heartbeat] = []
        self._answered = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, heartbeat: Heartbeat) -> None:
        self._heartbeats.append(heartbeat)

    def stop(self) -> None:
        """Whatever it is sending may still arrive; nobody waits for it."""
        self._stopped.set()

    def _run(self) -> None:
        missed = 0
        is_told = False
        self._ask()
        while not self._stopped.wait(self._look_s):
            if self._answered.is_set():
                if is_told:
                    log.info("the event loop runs again after about %.1f s", missed * self._look_s)
                missed, is_told = 0, False
                self._ask()
                continue
            missed += 1
            if not is_told and missed * self._look_s >= told_after_s:
                is_told = True
                self._tell(missed * self._look_s)
            if missed % self._beat_every == 0:
                self._beat()

    def _ask(self) -> None:
        self._answered.clear()
        try:
            self._loop.call_soon_threadsafe(self._answered.set)
        except RuntimeError:  # the loop is closed
            self._stopped.set()

    def _tell(self, stood_s: float) -> None:
        function, place = find_blocker(sys._current_frames().get(self._watched))  # pyright: ignore[reportPrivateUsage]
        log.warning(
            "the event loop has been blocked for %.1f s in %s (%s): nothing else on it can run. "
            "Make it a plain def, which runs in a thread, or await inside it.",
            stood_s,
            function,
            place,
            extra={"function": function, "place": place, "worker": self._pid},
        )

    @property
    def _pid(self) -> str | None:
        return next((heartbeat.pid for heartbeat in self._heartbeats), None)

    def _beat(self) -> None:
        for heartbeat in [*self._heartbeats]:
            try:
                heartbeat.beat_apart(self._send)
            except Exception:  # a node that cannot be reached is no reason to stop looking
                log.warning("a heartbeat could not be sent while the event loop is blocked", exc_info=True)


def find_blocker(frame: FrameType | None) -> tuple[str, str]:
    """Of what runs on an event loop: the outermost function that is the user's, and the innermost line."""
    theirs: list[FrameType] = []
    first = frame
    while frame is not None and not _is_loop(frame.f_code.co_filename):
        if not frame.f_code.co_filename.startswith(_package):
            theirs.append(frame)
        frame = frame.f_back
    outer = theirs[-1] if theirs else first
    inner = theirs[0] if theirs else first
    if outer is None or inner is None:
        return "a function that cannot be seen", "nowhere"
    return outer.f_code.co_qualname, f"{inner.f_code.co_filename}:{inner.f_lineno}"


def _is_loop(file: str) -> bool:
    """Frames of the event loop, below which everything is what it runs."""
    return file.startswith(_asyncio) or "/uvloop/" in file


_package: Final = str(Path(__file__).parents[1])
_asyncio: Final = str(Path(asyncio.__file__).parent)


def watch_loop(settings: SessionSettings, node: Node | None) -> LoopWatch:
    """A watch over the loop that runs here. It has begun, and is to be stopped."""
    is_here = settings.url.startswith("memory:") or file_of(settings.url) is not None
    send = node.request_apart if node is not None and is_here else partial(_ask_apart, settings)
    watch = LoopWatch(send, settings.lease_s)
    watch.start()
    return watch


def _ask_apart(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    is_far = settings.url.startswith(("http://", "https://"))
    return asyncio.run(_ask_server(settings, requests) if is_far else _ask_store(settings, requests))


async def _ask_server(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    from holdfast.client.http import HttpClient

    limit_s = min(attempt_s, settings.lease_s / 2)
    tls = client_context(settings.certificate)
    urls = settings.url.split(",")
    async with HttpClient(urls, token=settings.token, tls=tls, limit_s=limit_s, attempt_s=limit_s) as client:
        return await client.request(requests)


async def _ask_store(settings: SessionSettings, requests: Sequence[Request]) -> list[Reply]:
    store = open_store(settings.url)
    reading = await store.open()
    try:
        context = CommitContext(reading, Rules(), debug=False)
        return (await store.transact(lambda: run_group(requests, context))).replies
    finally:
        await store.close()
