"""Tasks that perform async steps, one after the other: a step that never waits costs no task of its own.

1. What is submitted is begun in the next turn of the loop, in order, all of it by one task. That is best
   when there are many. What is performed is begun at once, on the caller's stack, in a spare task. That is
   best for one that is alone.
2. A step that waits keeps the task that began it, and another goes on with the rest. So inside a step
   `asyncio.current_task()`, timeouts and task groups are what they would be in a task of its own.
3. A task that was cancelled performs nothing more: no step feels what was meant for another.
4. Each body runs in its own Context, the task in that in which the `LoopTasks` were made.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Task
from asyncio.tasks import (  # as in asyncio's page on extending it
    _enter_task,  # pyright: ignore[reportPrivateUsage]
    _leave_task,  # pyright: ignore[reportPrivateUsage]
)
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from holdfast.steps.step_run import StepRun

Body = Coroutine[Any, Any, Any]


class LoopTasks:
    def __init__(self, loop: AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._queue: deque[tuple[StepRun, Body, Context]] = deque()
        self._one_is_at_it = False
        self._spare: _Spare | None = None

    def perform(self, step_run: StepRun, body: Body, context: Context) -> bool:
        """Has it ended already?"""
        spare, caller = self._spare, asyncio.current_task(self._loop)
        if spare is None or not spare.is_idle or caller is None:
            if spare is None or spare.task.done():
                self._spare = _Spare(self)
            self.submit(step_run, body, context)
            return False
        value, awaited, error = None, None, None
        ended = True
        _leave_task(self._loop, caller)
        _enter_task(self._loop, spare.task)
        try:
            awaited = context.run(body.send, None)
            ended = False
        except StopIteration as stop:
            value = stop.value
        except BaseException as caught:  # asyncio would let an exit through to whoever runs the loop
            error = caught
        finally:
            _leave_task(self._loop, spare.task)
            _enter_task(self._loop, caller)
        if ended:
            step_run.ended(body, value, error)
        else:
            self._spare = None
            spare.keep(step_run, body, awaited, context)
        return ended

    async def close(self) -> None:
        """Wait for the spare task to end: whoever closes the loop next shall find nothing pending."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.task.cancel()
            await asyncio.wait([spare.task])

    def submit(self, step_run: StepRun, body: Body, context: Context) -> None:
        self._queue.append((step_run, body, context))
        if not self._one_is_at_it:
            self._send_one()

    def _send_one(self) -> None:
        self._one_is_at_it = True
        self.make_task(self._perform_all())

    async def _perform_all(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._queue and not task.cancelling():
            step_run, body, context = self._queue.popleft()
            if not step_run.is_to_begin(body):
                continue
            try:
                awaited = context.run(body.send, None)
            except StopIteration as stop:
                step_run.ended(body, stop.value, None)
            except BaseException as error:  # asyncio would let an exit through to whoever runs the loop
                step_run.ended(body, None, error)
            else:
                self._go_on_without()
                task.set_name(step_run.name)
                step_run.keep(task)
                await self.stay(step_run, body, _rest_of(body, awaited, context))
                return
        self._go_on_without()

    def _go_on_without(self) -> None:
        self._one_is_at_it = False
        if self._queue:
            self._send_one()

    def make_task(self, body: Body) -> Task[None]:
        # Not loop.create_task: a factory that starts tasks eagerly would run the step on the caller's stack.
        return Task(body, loop=self._loop, name="holdfast-step", context=self._context)

    async def stay(self, step_run: StepRun, body: Body, rest: Awaitable[Any]) -> None:
        value, error = None, None
        try:
            value = await rest
        except BaseException as caught:
            error = caught
        if self._loop.is_running():
            step_run.ended(body, value, error)
        elif error is not None:
            raise error


class _Spare:
    """A task that has begun and waits to be somebody's."""

    def __init__(self, loop_tasks: LoopTasks) -> None:
        self._loop_tasks = loop_tasks
        self._wanted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits = False
        self._begun: tuple[StepRun, Body, Any, Context] | None = None
        self.task = loop_tasks.make_task(self._wait())
        self._tell_if_dropped(False)

    @property
    def is_idle(self) -> bool:
        return self._waits and self._begun is None and not self.task.cancelling()

    def keep(self, step_run: StepRun, body: Body, awaited: Any, context: Context) -> None:
        """The body began in this task and waits: until it ends, the task is its own."""
        self._begun = step_run, body, awaited, context
        self._tell_if_dropped(True)
        self.task.set_name(step_run.name)
        step_run.keep(self.task)
        if not self._wanted.done():
            self._wanted.set_result(None)

    def _tell_if_dropped(self, told: bool) -> None:
        """A loop that is dropped takes a spare task with it, which is nothing to be told of (asyncio does the
        same to the tasks that it makes for itself)."""
        cast(Any, self.task)._log_destroy_pending = told

    async def _wait(self) -> None:
        self._waits = True
        error: BaseException | None = None
        try:
            await self._wanted
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if self._begun is None:
            return
        step_run, body, awaited, context = self._begun
        if error is not None and asyncio.isfuture(awaited) and awaited.cancel():
            error = None  # comes to the body from there
        await self._loop_tasks.stay(step_run, body, _rest_of(body, awaited, context, error))


@coroutine
def _rest_of(
    body: Body, awaited: Any, context: Context, thrown: BaseException | None = None
) -> Generator[Any, Any, Any]:
    """What `await body` would be, had it not begun: passes on what it waits for, and what comes of that."""
    while True:
        try:
            try:
                if thrown is not None:
                    cause, thrown = thrown, None
                    raise cause
                value = yield awaited
            except GeneratorExit:
                context.run(body.close)
                raise
            except BaseException as error:
                awaited = context.run(body.throw, error)
            else:
                awaited = context.run(body.send, value)
        except StopIteration as stop:
            return stop.value
