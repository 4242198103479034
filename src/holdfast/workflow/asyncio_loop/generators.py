"""Async generators of a workflow that are left before their end, and when they are closed.

1. One that the code lets go of is closed by a task, as asyncio does it: that moment is the same in every
   run.
2. One that only the garbage collector finds (it was part of a cycle) is kept, and closed at the end of the
   workflow: when the collector runs is not the same in every run.
"""

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncGenerator
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holdfast.runtime.slot import slot

if TYPE_CHECKING:
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop


class _Collector:
    """On which thread is the garbage collector at work?"""

    thread: int | None = None

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        self.thread = get_ident() if phase == "start" else None


_collector = _Collector()


def watch_collector() -> None:
    gc.callbacks.append(_collector)


def unwatch_collector() -> None:
    gc.callbacks.remove(_collector)


class AsyncGenerators:
    def __init__(self, loop: "WorkflowLoop") -> None:
        self._loop = loop
        self._open: dict[int, weakref.ref[AsyncGenerator[Any, Any]]] = {}
        self._found: list[AsyncGenerator[Any, Any]] = []  # by the collector
        self._count = 0
        self.is_over = False

    def install(self) -> Any:
        """For the thread that runs now; gives what `restore` needs."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._begun, self._let_go)
        return hooks

    def restore(self, hooks: Any) -> None:
        sys.set_asyncgen_hooks(*hooks)

    def _begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._count += 1
        number, open_generators = self._count, self._open
        open_generators[number] = weakref.ref(generator, lambda _: open_generators.pop(number, None))

    def _let_go(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self.is_over:
            return
        if slot.scheduler is self._loop.scheduler and _collector.thread != get_ident():
            self._loop.create_task(generator.aclose())
        else:
            self._found.append(generator)

    def live(self) -> list[AsyncGenerator[Any, Any]]:
        """Oldest first; then what the collector has found."""
        held = [generator for ref in [*self._open.values()] if (generator := ref()) is not None]
        return [*held, *self._found]

    async def close_all(self) -> None:
        live = self.live()
        self._found.clear()
        self._open.clear()
        outcomes = await asyncio.gather(*(each.aclose() for each in live), return_exceptions=True)
        for generator, outcome in zip(live, outcomes, strict=True):
            if isinstance(outcome, Exception):
                message = f"an error occurred during closing of asynchronous generator {generator!r}"
                self._loop.call_exception_handler(
                    {"message": message, "exception": outcome, "asyncgen": generator}
                )
