# pyright: reportPrivateUsage=false
"""What `hf.spawn`, `hf.scope`, `hf.timeout` and `hf.shield` do where the strands are tasks of asyncio.

An interruption is asyncio's own: CancelledError in the task, for that is what code written for asyncio
cleans up after. What it is for comes out where the block ends: `hf.TimedOut`, or the failures of a scope.
"""

import asyncio
from collections.abc import Generator, Iterable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from holdfast.runtime.errors import FiberInterrupted
from holdfast.runtime.fiber import Fiber
from holdfast.runtime.future import PENDING, Future, notify
from holdfast.runtime.operation import body_of, delegate
from holdfast.workflow.asyncio_loop.waits import wait_for

if TYPE_CHECKING:
    from holdfast.runtime.scheduler import Scheduler
    from holdfast.workflow.asyncio_loop.loop import WorkflowLoop


class TaskFiber(Fiber[Any]):
    """A task of asyncio as `hf.spawn` gives it."""

    __slots__ = ("_interruption", "_loop", "_task")

    def __init__(self, task: asyncio.Task[Any], name: str, number: int, loop: "WorkflowLoop") -> None:
        self._state = PENDING
        self._waiters = None
        self._loop = loop
        self.scheduler = loop.scheduler
        self.name = name
        self.number = number
        self._task = task
        self._interruption: Exception | None = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self._reject(self._interruption or FiberInterrupted(f"{self.path} was cancelled"))
        elif (error := task._exception) is not None:
            self._reject(error)  # until somebody sees it asyncio tells of it
        else:
            self._resolve(task.result())
        notify(self)

    def _observed(self) -> None:
        if not self._task.cancelled():
            self._task.exception()

    def _belongs_to(self, scheduler: "Scheduler") -> bool:
        return self.scheduler is scheduler

    def _interrupt(self, error: Exception, *, gently: bool = False) -> None:
        if not self._task.done() and not (gently and self._task.cancelling()):
            self._interruption = error
            self._loop.tell(self)  # a race may be decided between two drains

    def be_told(self) -> None:
        """It is to be interrupted."""
        self._task.cancel(self._interruption)


class TaskStrands:
    """`Scheduler.strands` of an execution whose root runs a loop of asyncio."""

    def __init__(self, loop: "WorkflowLoop") -> None:
        self.loop = loop
        self._spawned = 1  # the root

    def wait(self, future: Future[Any], /) -> Generator[Any, Any, Any]:
        return wait_for(future, self.loop)

    def spawn(
        self, work: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, group: Any = None
    ) -> Fiber[Any]:
        given: str | None = None if kwargs is None or callable(work) else kwargs.pop("name", None)
        body = body_of(work, args, kwargs)
        name = given or body.__name__
        self._spawned += 1
        if not isinstance(body, CoroutineType):
            body = _run(body)
        task = (group or self.loop).create_task(body, name=f"{name}#{self._spawned}")
        return TaskFiber(task, name, self._spawned, self.loop)

    def open_timeout(self, seconds: float) -> asyncio.Timeout:
        return asyncio.timeout(seconds)

    def open_group(self) -> asyncio.TaskGroup:
        return asyncio.TaskGroup()

    async def shield(self, work: Any, /) -> Any:
        task = asyncio.current_task()
        inner = asyncio.ensure_future(_run(work))
        held: list[asyncio.CancelledError] = []
        while not inner.done():
            try:
                await asyncio.wait([inner])
            except asyncio.CancelledError as cancelled:
                held.append(cancelled)
        if task is not None:
            for each in held:
                task.uncancel()
                task.cancel(*each.args[:1])
        return inner.result()

    def bodies(self) -> Iterable[tuple[str, Any]]:
        return [(task.get_name(), task.get_coro()) for task in self.loop.tasks]


async def _run(work: Any) -> Any:
    return await delegate(work)
