"""A synchronous store in a separate thread, so that the event loop never waits for a disk.

One hop there and one back per transaction, not per request. Who asks for it is told in the very turn of the
loop that the hop back wakes (`Handover`).
"""

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from holdfast.protocol.records import Millis
from holdfast.store.interface import Bus, Handover, Result, SyncStore, Work

Job = Callable[[], None]

apart_s_max: Final = 30.0


class ThreadedStore:
    parallel_groups = 1
    keeps_time = False
    bus: Bus | None = None

    def __init__(self, store: SyncStore, name: str) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    async def open(self) -> Millis:
        self._thread.start()
        try:
            return await self._call(self._store.open)
        except BaseException:
            self._end()
            raise

    def transact(self, work: Callable[[], Work[Result]]) -> Handover[Result]:
        return self._call(lambda: self._store.run(work))

    def run_apart(self, work: Callable[[], Work[Result]]) -> Result:
        """The same from a thread that may wait, without the event loop."""
        future: concurrent.futures.Future[Result] = concurrent.futures.Future()

        def job() -> None:
            try:
                future.set_result(self._store.run(work))
            except BaseException as error:
                future.set_exception(error)

        self._jobs.put(job)
        return future.result(apart_s_max)

    async def close(self) -> None:
        if self._thread.is_alive():
            await self._call(self._store.close)
            self._end()

    def _end(self) -> None:
        """Nothing is left for the thread to do, so joining it does not keep anybody waiting."""
        self._jobs.put(None)
        self._thread.join()

    def _call(self, do: Callable[[], Result]) -> Handover[Result]:
        loop = asyncio.get_running_loop()
        future = Handover[Result](loop=loop)

        def job() -> None:
            try:
                result = do()
            except BaseException as error:
                _tell(loop, future, None, error)
            else:
                _tell(loop, future, result, None)

        self._jobs.put(job)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: Handover[Result],
    result: Any,
    error: BaseException | None,
) -> None:
    def set_outcome() -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
        if future.told_first is not None:
            future.told_first(future)

    with suppress(RuntimeError):  # the loop was closed while the disk was busy: nobody is left to tell
        loop.call_soon_threadsafe(set_outcome)
