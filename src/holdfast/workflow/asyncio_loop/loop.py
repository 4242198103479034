# pyright: reportPrivateUsage=false, reportIncompatibleMethodOverride=false
"""The event loop that asyncio finds in a workflow: a queue of callbacks, and nothing of the world.

1. First in, first out, until no callback is left; then the root fiber waits (main.py).
2. Only code of this execution may use it, and only while that runs. It belongs to no thread.
3. A drain that never ends would hold up every other execution of the process: it is ended after
   `callbacks_max`.
"""

import asyncio
import asyncio.tasks
import sys
from asyncio import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, Final, Protocol
from zlib import crc32

from holdfast.runtime import Scheduler
from holdfast.runtime.driver import Report, Trouble
from holdfast.runtime.future import Future, notify
from holdfast.runtime.slot import slot
from holdfast.workflow.asyncio_loop.generators import AsyncGenerators
from holdfast.workflow.asyncio_loop.numbered import WorkflowFuture, WorkflowTask, nth_hash
from holdfast.workflow.asyncio_loop.refusals import RefusingLoop, refuse
from holdfast.workflow.asyncio_loop.timers import DurableTimer, Timers
from holdfast.workflow.errors import NeverWaits

callbacks_max: Final = 1_000_000  # in one drain
failed_max: Final = 1_000  # tasks that are kept to tell of them


# Since Python 3.14 a thread has one current task, and not one for each loop: that of the worker steps aside.
_swap_current_task: Final[Any] = (
    getattr(asyncio.tasks, "_swap_current_task", None) if sys.version_info[:2] >= (3, 14) else None
)


class Told(Protocol):
    """Who hears of something that happened to futures of ours, and passes it on to asyncio."""

    def be_told(self) -> None: ...


class Waiting(Told, Protocol):
    """Who waits for a future of ours on behalf of asyncio."""

    @property
    def future(self) -> Future[Any] | None: ...


class Wakeup(Future[None]):
    """What the root fiber waits for while all tasks wait: that one of them can go on."""

    __slots__ = ("_loop",)

    def __init__(self, loop: "WorkflowLoop") -> None:
        super().__init__()
        self._loop = loop

    def _inputs(self) -> Iterable[Future[Any]]:
        return (told.future for told in self._loop.waits if told.future is not None)

    def _describe(self) -> str:
        return "the tasks of asyncio"


class WorkflowLoop(RefusingLoop):
    is_of_workflow = True

    def __init__(self, scheduler: Scheduler, name: str, clock: Callable[[], float]) -> None:
        """`name` is the execution's; `clock` gives seconds, the same on every replay."""
        self.scheduler = scheduler
        self.tasks: dict[asyncio.Task[Any], None] = {}  # that are not done, oldest first
        self.failed: dict[asyncio.Task[Any], None] = {}  # perhaps unseen
        self.waits: dict[Waiting, None] = {}  # for futures of ours
        self.timers = Timers(self)
        self.generators = AsyncGenerators(self)
        self.is_stopping = False  # at the end of the main task
        self._ready: deque[asyncio.Handle] = deque()
        self._told: list[Told] = []  # since the last drain
        self._wakeup: Wakeup | None = None
        self._is_draining = False
        self._clock = clock
        self._seed = crc32(name.encode())
        self._count = 0
        self._task_factory: Any = None
        self._exception_handler: Any = None

    # --- draining --------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Run callbacks until none is left."""
        outer = _get_running_loop()
        task = None if _swap_current_task is None else _swap_current_task(outer, None)
        _set_running_loop(self)
        hooks = self.generators.install()
        self._is_draining = True
        try:
            told, self._told = self._told, []
            for each in told:
                each.be_told()
            self._ready.extend(self.timers.take_due(self.time()))
            self._run_ready()
            self.timers.make_durable()
        finally:
            self._is_draining = False
            self.generators.restore(hooks)
            _set_running_loop(outer)
            if _swap_current_task is not None:
                _swap_current_task(outer, task)

    def _run_ready(self) -> None:
        ready = self._ready
        left = callbacks_max
        while ready and not self.is_stopping:
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
                left -= 1
                if not left:
                    raise NeverWaits(
                        f"The tasks of this workflow ran {callbacks_max} callbacks and never waited"
                    )

    def park(self) -> Wakeup:
        self._wakeup = Wakeup(self)
        return self._wakeup

    def unpark(self) -> None:
        self._wakeup = None

    @property
    def parked_on(self) -> Iterable[Future[Any]]:
        return () if self._wakeup is None else (self._wakeup,)

    def tell(self, told: Told) -> None:
        """Pass something on: at once if tasks run, else with the next drain."""
        if self._is_draining:
            told.be_told()
            return
        self._told.append(told)
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup._resolve(None)
            notify(wakeup)

    def next_hash(self) -> int:
        self._count += 1
        return nth_hash(self._seed, self._count)

    # --- what asyncio calls ----------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if slot.scheduler is not self.scheduler:
            refuse("call_soon for anybody but the code of its own execution, while that runs")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._add_timer(self.time() + delay, delay, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self._add_timer(when, when - self.time(), callback, args, context)

    def _add_timer(
        self,
        when: float,
        delay: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> DurableTimer:
        if slot.scheduler is not self.scheduler:
            refuse("timers for anybody but the code of its own execution, while that runs")
        timer = DurableTimer(when, delay, callback, args, self, context)
        if delay <= 0:
            self._ready.append(timer)
        else:
            self.timers.add(timer)
        return timer

    def _timer_handle_cancelled(self, timer: DurableTimer) -> None:
        self.timers.cancelled(timer)

    def time(self) -> float:
        return max(self._clock(), self.timers.reached_s)

    def create_future(self) -> asyncio.Future[Any]:
        return WorkflowFuture(self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        if slot.scheduler is not self.scheduler:
            refuse("tasks for anybody but the code of its own execution, while that runs")
        context = copy_context() if context is None else context
        if self._task_factory is None:
            name = (
                f"Task-{self._count + 1}" if name is None else name
            )  # asyncio's own numbers go on from run to run
            task: asyncio.Task[Any] = WorkflowTask(coro, loop=self, name=name, context=context, **options)
        else:
            task = self._task_factory(self, coro, context=context, **options)
            if name is not None:
                task.set_name(name)
        if not task.done():
            self.tasks[task] = None
            task.add_done_callback(self._task_is_done)
        return task

    def _task_is_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)
        if task._log_traceback:
            self.failed[task] = None
            if len(self.failed) > failed_max:
                self.failed.pop(next(iter(self.failed)))  # asyncio tells when it is freed

    def tell_failed(self) -> None:
        """Of tasks that failed and nobody has asked. asyncio tells when they are freed, perhaps never."""
        for task in self.failed:
            if task._log_traceback:
                message = "Task exception was never retrieved"
                self.call_exception_handler({"message": message, "exception": task.exception(), "task": task})
        self.failed.clear()

    def set_task_factory(self, factory: Any) -> None:
        if factory is not None and not callable(factory):
            raise TypeError("task factory must be a callable or None")
        if factory is not None and factory is getattr(asyncio, "eager_task_factory", None):
            factory = asyncio.create_eager_task_factory(WorkflowTask)  # type: ignore[attr-defined,arg-type,unused-ignore]
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def set_exception_handler(self, handler: Any) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"A callable object or None is expected, got {handler!r}")
        self._exception_handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        source = context.get("task") or context.get("future")
        name = source.get_name() if isinstance(source, asyncio.Task) else "asyncio"
        trouble = Trouble.FAILED_NOT_AWAITED if isinstance(source, asyncio.Future) else Trouble.LOOP_REPORTED
        self.scheduler.world.report(
            Report(trouble, name, context.get("exception"), str(context.get("message", "")))
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is None:
            self.default_exception_handler(context)
        else:
            self._exception_handler(self, context)

    async def shutdown_asyncgens(self) -> None:
        await self.generators.close_all()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""

    def is_running(self) -> bool:
        return self._is_draining

    def is_closed(self) -> bool:
        return self.scheduler.closed or self.scheduler.done

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """It has no debug mode: that is about time and threads."""

    def __repr__(self) -> str:
        return f"<the event loop of a workflow, {len(self.tasks)} tasks>"
