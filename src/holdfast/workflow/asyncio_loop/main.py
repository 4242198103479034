# pyright: reportPrivateUsage=false
"""The root fiber of an execution whose code is written for asyncio: it runs the loop.

1. It does what `asyncio.run` does: the main task; then the tasks that are left are cancelled and waited for;
   then async generators are closed. The outcome of the main task is that of the execution.
2. A cancellation of the execution is `CancelledError` in the main task, with `hf.Cancelled` as its argument.
   If it leaves the main task, the execution ends as cancelled.
3. An execution that is taken down takes its tasks with it: newest first, local cleanup only
   (runtime/teardown.py).
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import wraps
from typing import Any, cast

from holdfast.runtime import Cancelled, ExecutionClosed
from holdfast.runtime.driver import Report, Trouble
from holdfast.runtime.slot import current, current_fiber
from holdfast.runtime.teardown import unwind
from holdfast.workflow.asyncio_loop.durable import WorkflowDurable
from holdfast.workflow.asyncio_loop.generators import unwatch_collector, watch_collector
from holdfast.workflow.asyncio_loop.loop import WorkflowLoop
from holdfast.workflow.asyncio_loop.numbered import OrderedSets
from holdfast.workflow.asyncio_loop.strands import TaskStrands


def in_asyncio(function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
    """The body of a root fiber that runs an `async def` on a loop of asyncio."""

    @wraps(function)
    def body(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        scheduler, world = current(), current().world
        loop: WorkflowLoop = cast(Any, WorkflowLoop)(
            scheduler, getattr(world, "id", ""), getattr(world, "elapsed_s", _no_time)
        )
        return (yield from _Main(loop).run(function(*args, **kwargs)))

    return body


def _no_time() -> float:
    return 0.0


class _Main:
    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._cancelled: Cancelled | None = None  # by whoever cancelled the execution

    def run(self, coroutine: Any) -> Generator[Any, Any, Any]:
        loop, scheduler = self._loop, self._loop.scheduler
        scheduler.strands = TaskStrands(loop)
        scheduler.durable = WorkflowDurable
        # Steps are called off with the task that waits for them, not with the root.
        current_fiber().own_signal = scheduler.attempt.child()
        OrderedSets.enter()
        watch_collector()
        try:
            main = self._task = loop.create_task(coroutine)
            main.add_done_callback(self._stop)
            yield from self._until(main.done)
            self._task = None
            yield from self._end_rest()
            return self._outcome(main)
        finally:
            loop.tell_failed()
            self._take_down()
            unwatch_collector()
            OrderedSets.leave()

    def _stop(self, main: asyncio.Task[Any]) -> None:
        self._loop.is_stopping = True

    def _until(self, is_over: Callable[[], bool]) -> Generator[Any, Any, None]:
        loop = self._loop
        while True:
            loop.drain()
            if is_over():
                return
            try:
                yield loop.park()
            except Exception as interruption:
                self._interrupt(interruption)
            loop.unpark()

    def _interrupt(self, interruption: Exception) -> None:
        if self._task is not None:
            if isinstance(interruption, Cancelled):
                self._cancelled = interruption
            self._task.cancel(interruption)

    def _end_rest(self) -> Generator[Any, Any, None]:
        loop = self._loop
        loop.is_stopping = False
        rest = [task for task in loop.tasks if not task.done()]
        for task in rest:
            task.cancel()
        yield from self._until(lambda: all(task.done() for task in rest))
        for task in rest:
            if not task.cancelled() and (error := task.exception()) is not None:
                message = "unhandled exception during the end of the workflow"
                loop.call_exception_handler({"message": message, "exception": error, "task": task})
        if loop.generators.live():
            closing = loop.create_task(loop.shutdown_asyncgens())
            yield from self._until(closing.done)

    def _outcome(self, main: asyncio.Task[Any]) -> Any:
        if main.cancelled() and self._cancelled is not None:
            raise self._cancelled
        return main.result()

    def _take_down(self) -> None:
        """What is left, because the execution is dropped or the loop itself has failed."""
        loop = self._loop
        report = loop.scheduler.world.report

        def quiet(trouble: Report) -> None:
            # asyncio's own blocks wait for their tasks when they are left: nobody's mistake.
            if trouble.trouble is not Trouble.CLEANUP_WAITED or "asyncio" not in trouble.where:
                report(trouble)

        loop.generators.is_over = True
        while loop.tasks:
            task, _ = loop.tasks.popitem()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            context = getattr(task, "workflow_context", None)
            body: Any = task.get_coro()
            if body is None or task.done():
                continue
            if getattr(body, "cr_suspended", True):
                (_plainly if context is None else context.run)(unwind, body, task.get_name(), quiet)
            else:
                body.close()
        for generator in loop.generators.live():
            with suppress(BaseException):  # it has ended, one way or the other
                generator.athrow(ExecutionClosed("The execution is over or suspended.")).send(None)


def _plainly(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)
