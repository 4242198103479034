"""What an open app asks its node about tasks. Everything here runs on the session's loop.

1. `send` never raises because of the node or the way to it: each order gets an Ok or an Err.
2. Sending is repeated when the node says that it has no room, or cannot tell: an order has an id, so the
   same one twice is one.
3. Many orders leave together: one request for up to `orders_per_request_max`, and one commit if they are not
   too large for that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from holdfast.client.caller import Caller, expect, is_busy
from holdfast.client.errors import Refused
from holdfast.jobs.codes import RetrievalCode, SendCode
from holdfast.jobs.errors import CannotCancel, CannotRerun, CannotReschedule, TaskNotFound
from holdfast.jobs.info import TaskInfo, read_info
from holdfast.jobs.outcome import AnyResult, failure, read_result
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.result import Err, NotDone, Ok, TaskError
from holdfast.jobs.send_request import ClockReading, SendError, SendRequest, again
from holdfast.jobs.stream_reader import StreamClient
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.errors import HoldfastError, KeyTaken, TaskRunning
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PromiseReply, QueueReply, Reply, TaskReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    QueueGet,
    QueuePause,
    TaskCancel,
    TaskGet,
    TaskReschedule,
)
from holdfast.steps.providers import Providers

Sent = Ok[Promise] | Err[SendError]

orders_per_request_max: Final = 1_000
forbidden_statuses: Final = (401, 403)
look_s_max: Final = 10.0

Result = TypeVar("Result")


class TaskClient(Struct, frozen=True):
    caller: Caller  # asks a busy node a few times
    payloads: Payloads
    registry: TaskRegistry
    known_errors: Mapping[str, type[Exception]]
    now: Callable[[], int]
    fresh: Callable[[], str]  # the end of an id that nobody chose
    settled: Callable[[str], Awaitable[Promise]]  # wait for a promise
    # Instants, by the node's clock.
    correct: Callable[[Sequence[SendRequest]], Awaitable[Sequence[SendRequest]]]

    # --- sending ---------------------------------------------------------------------------------------

    async def send(self, orders: Sequence[SendRequest]) -> list[Sent]:
        found: list[Sent] = []
        for start in range(0, len(orders), orders_per_request_max):
            found += await self._send_together(orders[start : start + orders_per_request_max])
        return found

    async def _send_together(self, orders: Sequence[SendRequest]) -> list[Sent]:
        try:
            orders = await self.correct(orders)
            replies = await self.caller.replies([order.creation for order in orders])
        except HoldfastError as error:
            return [NotDone(_failed(order, str(error))) for order in orders]
        return [answer(order, reply) for order, reply in zip(orders, replies, strict=True)]

    # --- results ---------------------------------------------------------------------------------------

    async def result(self, task_id: str, timeout_s: float | None) -> AnyResult:
        """What became of it. Never raises: that nobody could be asked is a result too."""
        try:
            promise = await self._settled(task_id, timeout_s)
        except HoldfastError as error:
            missing = getattr(error, "status", None) == 404
            code = RetrievalCode.TASK_NOT_FOUND if missing else RetrievalCode.RESULT_NOT_AVAILABLE
            return failure(code, str(error))
        except TimeoutError:
            promise = None
        if promise is None or promise.state == "pending":
            return failure(RetrievalCode.WAIT_TIMEOUT, f"{task_id} is not over after {timeout_s:g} s")
        return self.read(promise)

    async def _settled(self, task_id: str, timeout_s: float | None) -> Promise | None:
        """The timeout holds also when the node does not answer; just to look takes as long as an answer."""
        if timeout_s == 0:
            return (
                await asyncio.wait_for(self.caller.ask(PromiseGet(task_id), PromiseReply), look_s_max)
            ).promise
        async with asyncio.timeout(timeout_s):
            return await self.settled(task_id)

    def read(self, promise: Promise) -> AnyResult:
        """Typed as the function here says, if there is one of that name."""
        task = self.registry.get(promise.tags.get(tags.TASK, ""))
        if task is None:
            return read_result(promise, Any, TaskError, self.payloads, self.known_errors)
        return read_result(promise, task.returns, task.error_type, self.payloads, self.known_errors)

    async def info(self, task_id: str) -> TaskInfo:
        replies = await self.caller.replies([TaskGet(task_id), PromiseGet(task_id)])
        if replies[0].status == 404:
            raise TaskNotFound(f"There is no task {task_id!r}")
        view = expect(replies[0], TaskReply).task
        promise = expect(replies[1], PromiseReply).promise
        if view.job is None:
            raise TaskNotFound(f"{task_id!r} is an execution of a workflow, not a task")
        return read_info(view, promise, self.payloads)

    # --- control ---------------------------------------------------------------------------------------

    async def cancel(self, task_id: str, *, force: bool) -> None:
        try:
            await self.caller.ask(TaskCancel(task_id, force), TaskReply)
        except Refused as error:
            if error.status == 404:
                raise TaskNotFound(f"There is no task {task_id!r}") from None
            raise CannotCancel(error.what) from None

    async def reschedule(self, task_id: str, at: int | None) -> None:
        try:
            await self.caller.ask(TaskReschedule(task_id, at), TaskReply)
        except Refused as error:
            if error.status == 404:
                raise TaskNotFound(f"There is no task {task_id!r}") from None
            raise CannotReschedule(error.what) from None

    async def rerun(self, task_id: str) -> Sent:
        info = await self.info(task_id)
        if not info.status.is_terminal or info.completed_at is not None:
            raise CannotRerun(f"{task_id} is {info.status}")
        promise = (await self.caller.ask(PromiseGet(task_id), PromiseReply)).promise
        [sent] = await self.send([SendRequest(again(promise, self.now(), self.fresh()), None)])
        return sent

    async def pause(self, queue: str, *, paused: bool) -> None:
        await self.caller.ask(QueuePause(queue, paused), QueueReply)

    async def queue(self, name: str) -> QueueReply:
        return await self.caller.ask(QueueGet(name), QueueReply)


def answer(order: SendRequest, reply: Reply) -> Sent:
    """What the node's reply means for whoever sent the order."""
    creation: PromiseCreate = order.creation
    if isinstance(reply.data, PromiseReply):
        promise = reply.data.promise
        if promise.id == creation.id and not order.is_for(promise):
            what = f"{promise.id} exists already, with another task or other arguments"
            return NotDone(SendError(SendCode.PAYLOAD_MISMATCH, what, promise.id))
        return Ok(promise)
    sentence = str(reply.data)
    if is_busy(reply) or reply.status >= 500:
        return NotDone(_failed(order, sentence))
    if reply.status in forbidden_statuses:  # the task is fine, and nobody here may send it
        return NotDone(SendError(SendCode.ENQUEUE_FAILED, sentence, creation.id))
    taken = reply.code in (KeyTaken.code, TaskRunning.code)
    code = SendCode.KEY_TAKEN if taken else SendCode.VALIDATION_FAILED
    return NotDone(SendError(code, sentence, creation.id))


def _failed(order: SendRequest, sentence: str) -> SendError:
    return SendError(SendCode.ENQUEUE_FAILED, sentence, order.creation.id, retryable=True)


class TaskApp(Protocol):
    payloads: Payloads
    tasks: TaskRegistry
    providers: Providers

    @property
    def group(self) -> str:
        """Of the app's workers."""
        ...

    @property
    def task_client(self) -> TaskClient:
        """Of the open session: for work that runs there."""
        ...

    @property
    def streams(self) -> StreamClient: ...

    def read_clock(self) -> ClockReading: ...

    def fresh(self) -> str:
        """The end of an id that nobody else has."""
        ...

    def block(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result: ...

    def bridge(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]: ...

    def result_of(self, work: Coroutine[Any, Any, Any]) -> Any: ...

    def send_inside(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        """Send as part of the caller's own transaction."""
        ...

    async def send_inside_async(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]: ...
