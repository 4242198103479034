"""Deletes old executions for as long as a node runs: one pass after another, with pauses in between.

It gives way: after each short transaction it rests several times as long as that took. Several nodes on one
store may all do it; what one has forgotten the others do not find.

Where nothing is to be deleted in general, it begins when something has ended that says itself how long it is
kept (`note_kept`), and deletes only such.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from holdfast.node.retention import RetentionProgress

log = logging.getLogger("holdfast.node")

first_pass_s_max: Final = 10.0
pass_rest_s_min: Final = 1.0
pass_rest_s_max: Final = 3_600.0
passes_per_retention: Final = 24
page_rest_s_min: Final = 0.02
page_rest_share: Final = 4.0  # so many times as long as the page took

CollectSome = Callable[[RetentionProgress, int | None], Awaitable[RetentionProgress]]


class Janitor:
    def __init__(self, collect_some: CollectSome, older_than_ms: int | None) -> None:
        self._collect_some = collect_some
        self._older_than_ms = older_than_ms
        self._shortest_ms = older_than_ms
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._older_than_ms is not None:
            self._begin()

    def note_kept(self, keep_ms: int) -> None:
        """Something has ended that is to be deleted so long after its end."""
        if self._shortest_ms is None or keep_ms < self._shortest_ms:
            self._shortest_ms = keep_ms
        if self._task is None and not self._stopping.is_set():
            self._begin()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """After the transaction that is under way."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    @property
    def _rest_s(self) -> float:
        rest_s = (self._shortest_ms or 0) / 1000 / passes_per_retention
        return min(max(rest_s, pass_rest_s_min), pass_rest_s_max)

    async def _run(self) -> None:
        await self._rest(random.uniform(0, min(self._rest_s, first_pass_s_max)))  # noqa: S311
        while not self._stopping.is_set():
            try:
                await self._pass()
            except Exception:
                log.warning("a retention pass failed; the next pass repeats it", exc_info=True)
            await self._rest(self._rest_s * random.uniform(0.75, 1.25))  # noqa: S311

    async def _pass(self) -> None:
        progress, now_s = RetentionProgress(), asyncio.get_running_loop().time
        while progress.after is not None and not self._stopping.is_set():
            began = now_s()
            progress = await self._collect_some(progress, self._older_than_ms)
            await self._rest(max(page_rest_s_min, page_rest_share * (now_s() - began)))
        if progress.forgotten or progress.too_large:
            log.info(
                "deleted %d promises of %d executions past their retention (%d executions are too large)",
                progress.forgotten,
                progress.trees,
                progress.too_large,
                extra={
                    "promises": progress.forgotten,
                    "trees": progress.trees,
                    "too_large": progress.too_large,
                },
            )

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
