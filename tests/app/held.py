"""An app that a test keeps in one of its states, also in the middle of its opening or closing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.app import bridge_of
from tests.app.test_life import LONG_S, in_thread, make_app

OPENED_BY_ITSELF, IN_WITH, IN_ASYNC_WITH = "open [5]", "open in `with`", "in `async with`"


class HeldApp:
    """An app whose opening and closing wait where a test says so. It counts how often each was done."""

    def __init__(self, folder: Path) -> None:
        self.app = make_app(folder)
        self.opened = self.closed = 0
        self.inside: Callable[[], Awaitable[None]] | None = None  # done where it is stopped, on its own loop
        self._stops = ""
        self._reached, self._goes_on = threading.Event(), threading.Event()

        @self.app.provide("gate")
        async def gate() -> Any:
            self.opened += 1
            await self._come_to("opening")
            yield None
            await self._come_to("closing")
            self.closed += 1

    async def _come_to(self, where: str) -> None:
        if self._stops == where:
            self._stops = ""
            if self.inside is not None:
                await self.inside()
            self._reached.set()
            await asyncio.to_thread(self._goes_on.wait, LONG_S)

    @property
    def state(self) -> str:
        return bridge_of(self.app)._state  # pyright: ignore[reportPrivateUsage]

    @property
    def lives_in_a_thread(self) -> bool:
        return bridge_of(self.app)._thread is not None  # pyright: ignore[reportPrivateUsage]

    def go_on(self) -> None:
        self._goes_on.set()

    def ask(self) -> str:
        return str(self.app.start("greet").result(LONG_S))

    @contextmanager
    def at(self, state: str) -> Generator[None]:
        """Have it in this state; at the end of the block it goes on, and is closed."""
        thread: threading.Thread | None = None
        if state in (IN_ASYNC_WITH, IN_WITH):
            thread, _ = in_thread(self._keep_async if state == IN_ASYNC_WITH else self._keep)
            assert self._reached.wait(LONG_S)
        elif state in ("opening", "closing"):
            if state == "closing":
                self.app.start("greet")
            self._stops = state
            thread, _ = in_thread(self.ask if state == "opening" else self.app.close)
            assert self._reached.wait(LONG_S)
            assert self.state == state
        elif state != "closed":
            self.ask()
        try:
            yield
        finally:
            self.go_on()
            if thread is not None:
                thread.join(LONG_S)
                assert not thread.is_alive()
            self.app.close()

    def _keep(self) -> None:
        with self.app:
            self._reached.set()
            self._goes_on.wait(LONG_S)

    def _keep_async(self) -> None:
        async def keep() -> None:
            async with self.app:
                self._reached.set()
                await asyncio.to_thread(self._goes_on.wait, LONG_S)

        asyncio.run(keep())
