"""A TCP proxy that fails on command: cut, slow, half-open, and replies lost after the request arrived.

It runs in a thread of its own. Each command acts on the links that are open at that moment and answers with
how many there were, so that a campaign can tell a fault from a gesture.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")
Address = tuple[str, int] | Path

chunk_bytes = 65_536


class _Link:
    """One connection through the proxy: both of its halves."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near = near
        self.far = far
        self.is_dead = False  # half-open: takes everything, passes nothing on, never closes
        self.loses_replies = False

    def abort(self) -> None:
        for half in (self.near, self.far):
            half.transport.abort()


class FaultProxy:
    """
    with FaultProxy(("127.0.0.1", 8001)) as proxy:
        proxy.url      # talk to this instead
        proxy.cut()
    """

    def __init__(self, target: Address, at: Path | None = None) -> None:
        self._target = target
        self._at = at
        self._links: set[_Link] = set()
        self._delay_s = 0.0
        self._refuses = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- commands --------------------------------------------------------------------------------------

    def cut(self) -> int:
        """Every connection ends with a reset."""
        return self._on_links(_Link.abort)

    def half_open(self) -> int:
        """Every connection stays open and is dead forever; neither side is told."""
        return self._on_links(lambda link: setattr(link, "is_dead", True))

    def lose_replies(self) -> int:
        """Requests still arrive; what is answered to them is lost, and the connection with it."""
        return self._on_links(lambda link: setattr(link, "loses_replies", True))

    def slow(self, delay_s: float) -> int:
        """Everything takes this much longer, in both directions. 0 ends it."""
        self._delay_s = delay_s
        return self._on_links(lambda _: None)

    def refuse(self, refuses: bool) -> None:
        """A partition: connections are cut, and new ones refused, until it is taken back."""
        self._refuses = refuses
        if refuses:
            self.cut()

    @property
    def link_count(self) -> int:
        return self._on_links(lambda _: None)

    # --- inside ----------------------------------------------------------------------------------------

    def _on_links(self, act: Callable[[_Link], Any]) -> int:
        async def on_loop() -> int:
            alive = [link for link in self._links if not link.is_dead]
            for link in alive:
                act(link)
            return len(alive)

        return self._run(on_loop())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        if self._at is not None:
            self._server = await asyncio.start_unix_server(self._serve, self._at)
            self._at.chmod(0o777)
            return
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in [*self._links]:
            link.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            if isinstance(self._target, Path):
                far_reader, far = await asyncio.open_unix_connection(self._target)
            else:
                far_reader, far = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, far)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(link, reader, far, downward=False))
                both.create_task(self._pump(link, far_reader, writer, downward=True))
        except* OSError:
            pass
        except* asyncio.CancelledError:  # the proxy closes; asyncio would report it as a defect
            pass
        finally:
            link.abort()
            self._links.discard(link)

    async def _pump(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, downward: bool
    ) -> None:
        while data := await reader.read(chunk_bytes):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if link.is_dead:
                continue
            if downward and link.loses_replies:
                break
            writer.write(data)
            await writer.drain()
        if link.is_dead:
            await asyncio.Event().wait()  # not even the end of one side is passed on
        with suppress(OSError):
            link.abort()
