"""Handles of a task (wait for it, read it, cancel it, run it again) and of a queue (pause, resume, read)."""

import asyncio
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from holdfast.jobs.codes import RESERVED, RetrievalCode
from holdfast.jobs.errors import SendFailed
from holdfast.jobs.info import TaskInfo
from holdfast.jobs.options import instant, millis
from holdfast.jobs.registry import QueueLimits
from holdfast.jobs.result import Err, Ok, TaskError, TaskResult
from holdfast.jobs.send_request import SendError, SendRequest
from holdfast.jobs.stream_reader import StreamItem, StreamReader, read_published, stream_of, watch_of
from holdfast.jobs.task_client import Sent, TaskApp
from holdfast.payloads.durations import Duration
from holdfast.protocol.jobs import QueueView

T = TypeVar("T")
E = TypeVar("E", bound=TaskError)


class TaskHandle(Generic[T, E]):
    """
    result = handle.get(timeout=10)     # in asyncio: await handle, or await handle.get_async(timeout=10)

    Neither raises because of the task: the `TaskResult` has its value or its error. The handle keeps that.
    It does not keep a WAIT_TIMEOUT or a lookup that failed: the next call asks again. `timeout=0` does not
    wait.
    """

    def __init__(self, task_app: TaskApp, task_id: str, *, is_new: bool = True) -> None:
        self.id = task_id
        self.is_new = is_new  # False: another send with the same key or id was there first
        self._task_app = task_app
        self._known: TaskResult[T, E] | None = None

    def get(self, timeout: Duration | None = None) -> TaskResult[T, E]:
        """Wait for the result. Past the `timeout` it is an error with the code WAIT_TIMEOUT."""
        return self._known or self._task_app.block(self._result(_seconds(timeout)))

    async def get_async(self, timeout: Duration | None = None) -> TaskResult[T, E]:  # noqa: ASYNC109
        if self._known is not None:
            return self._known
        return await self._task_app.bridge(self._result(_seconds(timeout)))

    def __await__(self) -> Generator[Any, None, TaskResult[T, E]]:
        return self.get_async().__await__()

    def info(self) -> TaskInfo:
        """Its state, its instants, its attempts. Raises `TaskNotFound`."""
        return self._task_app.block(self._info())

    async def info_async(self) -> TaskInfo:
        return await self._task_app.bridge(self._info())

    def cancel(self, *, force: bool = False) -> None:
        """End it as CANCELLED. One that runs is stopped only with `force`: its signal is set.

        Raises `CannotCancel` when it runs or is over; cancelling it again is fine.
        """
        self._task_app.block(self._cancel(force=force))

    async def cancel_async(self, *, force: bool = False) -> None:
        await self._task_app.bridge(self._cancel(force=force))

    def promote(self) -> None:
        """Let it begin now, whatever its delay or its retry policy says. Raises `CannotReschedule` if it does
        not wait. A task that waits only for a worker keeps its place.
        """
        self._task_app.block(self._reschedule(None))

    async def promote_async(self) -> None:
        await self._task_app.bridge(self._reschedule(None))

    def reschedule(self, at: datetime) -> None:
        """Start it at another instant, with a time zone. Raises `CannotReschedule` if it is not waiting, or
        if its deadline is before that.
        """
        self._task_app.block(self._reschedule(instant("at", at)))

    async def reschedule_async(self, at: datetime) -> None:
        await self._task_app.bridge(self._reschedule(instant("at", at)))

    def rerun(self) -> "TaskHandle[T, E]":
        """The same task again, under a new id, when it FAILED, was CANCELLED or has EXPIRED.

        Raises `CannotRerun`, or `SendFailed` as `send` does.
        """
        return raise_unsent([adopt(self._task_app, self._task_app.block(self._rerun()))])[0]

    async def rerun_async(self) -> "TaskHandle[T, E]":
        return raise_unsent([adopt(self._task_app, await self._task_app.bridge(self._rerun()))])[0]

    def published(self, name: str, *, returns: Any = Any) -> Any:
        """The value that it has published last under this name; None before. In asyncio: await it."""
        return self._task_app.result_of(read_published(self._task_app, self.id, name, returns, None))

    def watch(self, name: str, *, returns: Any = Any) -> StreamReader[Any]:
        """What it publishes under this name, from the last value on, until it is over: `for`, `async for`."""
        return watch_of(self._task_app, self.id, name, returns)

    def stream(self, name: str, *, after: int = 0, returns: Any = Any) -> StreamReader[StreamItem]:
        """What it emits under this name, as `(number, chunk)`, until it is over: `for`, `async for`."""
        return stream_of(self._task_app, self.id, name, after, returns)

    async def _result(self, timeout_s: float | None) -> TaskResult[T, E]:
        result = cast("TaskResult[T, E]", await self._task_app.task_client.result(self.id, timeout_s))
        if result.is_ok or not isinstance(RESERVED.get(result.err_value.error_code), RetrievalCode):
            self._known = result
        return result

    async def _known_or_result(self, timeout_s: float | None) -> TaskResult[T, E]:
        return self._known or await self._result(timeout_s)

    async def _info(self) -> TaskInfo:
        return await self._task_app.task_client.info(self.id)

    async def _cancel(self, *, force: bool) -> None:
        await self._task_app.task_client.cancel(self.id, force=force)

    async def _reschedule(self, at: int | None) -> None:
        await self._task_app.task_client.reschedule(self.id, at)

    async def _rerun(self) -> Sent:
        return await self._task_app.task_client.rerun(self.id)

    def __repr__(self) -> str:
        return f"<handle of task {self.id}>"


def adopt(
    task_app: TaskApp, sent: Sent, order: SendRequest | None = None
) -> "Ok[TaskHandle[Any, Any]] | Err[SendError]":
    """The handle of what was sent; `order` is what was asked for."""
    if isinstance(sent, Err):
        return sent
    return Ok(TaskHandle(task_app, sent.value.id, is_new=order is None or order.made(sent.value)))


def raise_unsent(results: "Sequence[Ok[TaskHandle[T, E]] | Err[SendError]]") -> list[TaskHandle[T, E]]:
    """The handles; or SendFailed, if something was not sent."""
    failed = [result.err_value for result in results if isinstance(result, Err)]
    if failed:
        sent = "" if len(results) == 1 else f"{len(failed)} of {len(results)} tasks were not sent: "
        raise SendFailed(f"{sent}{failed[0]}".rstrip("."), failed[0], results)
    return [result.value for result in results if isinstance(result, Ok)]


def gather_results(
    handles: "Iterable[TaskHandle[T, E]]", timeout: Duration | None = None
) -> list[TaskResult[T, E]]:
    """The results of many tasks, in the order of their handles. In asyncio: `await asyncio.gather(*handles)`.

    As `handle.get`, it raises nothing because of a task. `timeout` is for all of them together: what is not
    over by then is a WAIT_TIMEOUT. Crash: nothing is lost, ask again.

    >>> results = hf.gather_results(resize.send_many([(1,), (2,)]), timeout="1m")
    """
    known = [*handles]
    if not known:
        return []
    return known[0]._task_app.block(_gather(known, _seconds(timeout)))  # pyright: ignore[reportPrivateUsage]


async def _gather(handles: "Sequence[TaskHandle[T, E]]", timeout_s: float | None) -> list[TaskResult[T, E]]:
    waiting = (handle._known_or_result(timeout_s) for handle in handles)  # pyright: ignore[reportPrivateUsage]
    return await asyncio.gather(*waiting)


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else millis("timeout", timeout) / 1000


class TaskQueue:
    """A queue: what `app.queue` returns."""

    def __init__(self, task_app: TaskApp, limits: QueueLimits) -> None:
        self._task_app = task_app
        self.limits = limits

    @property
    def name(self) -> str:
        """Its name."""
        return self.limits.name

    def pause(self) -> None:
        """Start no more of its tasks. Running ones continue, new ones wait, and deadlines still pass."""
        self._task_app.block(self._set(paused=True))

    def resume(self) -> None:
        """Hand out tasks again."""
        self._task_app.block(self._set(paused=False))

    async def pause_async(self) -> None:
        await self._task_app.bridge(self._set(paused=True))

    async def resume_async(self) -> None:
        await self._task_app.bridge(self._set(paused=False))

    def info(self) -> QueueView:
        """Its limits as they are stored, and how many tasks wait and run."""
        return self._task_app.block(self._get())

    async def info_async(self) -> QueueView:
        return await self._task_app.bridge(self._get())

    async def _set(self, *, paused: bool) -> None:
        await self._task_app.task_client.pause(self.name, paused=paused)

    async def _get(self) -> QueueView:
        return (await self._task_app.task_client.queue(self.name)).queue

    def __repr__(self) -> str:
        return f"<queue {self.name}>"
