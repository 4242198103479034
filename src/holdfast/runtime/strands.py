"""Strands of another kind inside one fiber: what a library's own loop needs of this runtime.

A workflow may be written for another event loop (asyncio's). Then one fiber, the root, runs that loop, and
the loop's tasks are the strands of the execution. `Scheduler.strands` says so; the constructs of this
runtime that begin, end or interrupt strands ask it instead of the fiber that is running.

1. While it is set, no second fiber is spawned: `spawn` starts a task of the loop, behind the face of a
   `Fiber`.
2. Whoever waits for a future of this runtime is a strand, and parks as the loop parks (`wait`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import Future


class Strands(Protocol):
    """What the fiber that runs a loop gives to `Scheduler.strands`."""

    def wait(self, future: Future[Any], /) -> Generator[Any, Any, Any]:
        """Park the running strand until `future` has settled; its value, or its error raised."""
        ...

    def spawn(
        self, work: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, group: Any = None
    ) -> Fiber[Any]:
        """Start a strand; `group` is what `open_group` gave."""
        ...

    def open_timeout(self, seconds: float) -> AbstractAsyncContextManager[Any]:
        """A block that raises TimeoutError when it still waits after that time."""
        ...

    def open_group(self) -> Any:
        """A block that is not left before all strands in it have ended; it raises their failures together."""
        ...

    async def shield(self, work: Any, /) -> Any:
        """Run `work` to its end. A cancellation that comes meanwhile is raised at the next wait."""
        ...

    def bodies(self) -> Iterable[tuple[str, Any]]:
        """The name and the suspended coroutine of every strand, oldest first."""
        ...
