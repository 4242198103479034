"""What a step or a background task emits and publishes while it runs: appended to streams of its execution.

1. Every append is fenced by the claim: whoever has lost it appends nothing, and the next call raises.
2. Appends leave in the order of the calls, many in one commit: while one commit is under way the next ones
   are collected. Once `window_bytes` or `window_chunks` are on their way, a call waits for room.
3. A step's result is not recorded before everything it has emitted is durable (`finish`).
4. Each append has a key: however often it is sent, it is there once. Elements say which step and which
   attempt they come from, so that a reader can tell that a step has begun again.
"""

from __future__ import annotations

import asyncio
from asyncio import (
    AbstractEventLoop,
    _get_running_loop,  # pyright: ignore[reportPrivateUsage]  # asyncio exports it, for whoever makes loops
)
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from hashlib import blake2b
from threading import Condition
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from holdfast.client.caller import Caller
from holdfast.client.interface import Client
from holdfast.payloads.errors import NotRecorded, StepCalledOff, StepsClosed
from holdfast.payloads.messages import TYPE, encode_message
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import TaskRef
from holdfast.protocol.replies import FenceReply, Reply
from holdfast.protocol.requests import AppendAction, StreamAppend, TaskFence
from holdfast.protocol.sizes import message_value_bytes
from holdfast.protocol.streams import ATTEMPT_HEADER, STEP_HEADER
from holdfast.steps.progress import ProgressReporter

if TYPE_CHECKING:
    from holdfast.steps.step_run import StepOutcome


window_chunks: Final = 1_000
window_bytes: Final = 4 * 1_048_576
commit_chunks_max: Final = 250
commit_bytes_max: Final = 1_048_576


class Emitter:
    """Appends for one step, or one attempt at a task. `step_id` is what its elements name."""

    def __init__(
        self,
        client: Client,
        payloads: Payloads,
        task_id: str,
        version: int,
        execution: str,
        step_id: str,
        generation: int | None,
        loop: AbstractEventLoop,
        pid: str,
        sending: set[asyncio.Task[None]],
    ) -> None:
        """Made when the first append is asked for, on whatever thread: most steps emit nothing.

        `sending`: what is on its way, for whoever ends what is left of the steps.
        """
        self._client = client
        self._payloads = payloads
        self._task_id = task_id
        self._version = version
        self._generation = generation
        self._execution = execution
        self._step_id = step_id
        self._loop = loop
        self._pid = pid
        self._all_sending = sending
        self.reporter: ProgressReporter | None = None  # once it has reported progress
        self._changed = Condition()
        self._queued: deque[tuple[StreamAppend, int]] = deque()
        self._chunks = 0  # on their way, the queued ones included
        self._bytes = 0
        self._count = 0
        self._error: Exception | None = None
        self._sending: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def report(self, fraction: float | None, fields: dict[str, Any]) -> None:
        """Tell of progress, on any thread."""
        with self._changed:
            if self.reporter is None:
                ref, step = TaskRef(self._task_id, self._version), self._step_id
                step = "" if step == self._task_id else step
                self.reporter = ProgressReporter(
                    self._client, self._pid, ref, step, self._loop, self._all_sending
                )
        self.reporter.put(fraction, fields)

    # --- on any thread ---------------------------------------------------------------------------------

    def put(self, stream: str, message: Any, attempt: int, type_name: str | None = None) -> Emitted:
        """Append a value. On a thread of its own this waits for room; on the loop, await what it returns.

        `type_name`: of the class that the message was of, in a child process.
        """
        headers = {STEP_HEADER: self._step_id, ATTEMPT_HEADER: f"{self._version}.{attempt}"}
        if type_name is not None:
            headers[TYPE] = type_name
        value = encode_message(self._payloads, message, headers)
        size = message_value_bytes(value)
        with self._changed:
            if self._error is not None:
                raise self._error
            self._count += 1
            key = f"{self._digest()}.{headers[ATTEMPT_HEADER]}.{self._count}"
            self._queued.append((StreamAppend(self._execution, stream, value, key), size))
            self._chunks += 1
            self._bytes += size
        if _get_running_loop() is self._loop:
            self._begin_sending()
            return Emitted(self)
        self._loop.call_soon_threadsafe(self._begin_sending)
        with self._changed:
            self._changed.wait_for(lambda: self.has_room)
        return Emitted(None)

    @property
    def has_room(self) -> bool:
        is_full = self._chunks > window_chunks or self._bytes > window_bytes
        return self._error is not None or not is_full

    def _digest(self) -> str:
        return blake2b(self._step_id.encode(), digest_size=8).hexdigest()

    # --- on the loop -----------------------------------------------------------------------------------

    async def room(self) -> None:
        while not self.has_room:
            await self._change()
        if self._error is not None:
            raise self._error

    def finish(self, outcome: StepOutcome, done: Callable[[StepOutcome], None]) -> None:
        """Call `done` once everything is durable, unless nobody wants the result. What could not be appended
        fails the step."""
        if self.reporter is not None:
            done = partial(self.reporter.finish, done=done)
        self._finish(outcome, done)

    def _finish(self, outcome: StepOutcome, done: Callable[[StepOutcome], None]) -> None:
        if isinstance(outcome.error, StepCalledOff) or (self._sending is None and not self._queued):
            done(self._judged(outcome))
        else:
            self._begin_sending()
            assert self._sending is not None
            self._sending.add_done_callback(lambda _: self._finish(outcome, done))

    def _judged(self, outcome: StepOutcome) -> StepOutcome:
        if self._error is None or outcome.error is not None:
            return outcome
        return replace(outcome, value=None, error=self._error)

    def _change(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def _begin_sending(self) -> None:
        if self._sending is None and self._queued:
            self._sending = self._loop.create_task(self._send())
            self._all_sending.add(self._sending)
            self._sending.add_done_callback(self._has_sent)

    def _has_sent(self, sending: asyncio.Task[None]) -> None:
        self._sending = None
        self._all_sending.discard(sending)
        if sending.cancelled() or sending.exception() is not None:
            failure = StepCalledOff(f"What {self._step_id} emitted could not be sent")
            if sending.cancelled():  # whoever performs steps is closing, so nothing is known of this one
                failure.__cause__ = StepsClosed("The runner is closing")
            self._fail(failure)
        self._begin_sending()

    async def _send(self) -> None:
        caller = Caller(self._client, check=self._check)
        while self._queued:
            chunks = self._take()
            appends = [
                TaskFence(self._task_id, self._version, AppendAction(each), self._generation)
                for each, _ in chunks
            ]
            try:
                replies = await caller.replies(appends)
            except Exception as error:
                self._fail(error)
                return
            for reply in replies:
                self._read(reply)
            with self._changed:
                self._chunks -= len(chunks)
                self._bytes -= sum(size for _, size in chunks)
            self._tell()

    def _take(self) -> list[tuple[StreamAppend, int]]:
        chunks: list[tuple[StreamAppend, int]] = []
        size = 0
        while self._queued and len(chunks) < commit_chunks_max and size < commit_bytes_max:
            chunks.append(self._queued.popleft())
            size += chunks[-1][1]
        return chunks

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _read(self, reply: Reply) -> None:
        if not isinstance(reply.data, FenceReply):
            self._fail(StepCalledOff(f"{self._step_id} is no longer run here: {reply.data}"))
        elif reply.data.action.head.status >= 400:
            self._fail(NotRecorded(f"What {self._step_id} emitted was refused: {reply.data.action.data}"))

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._error is None:
                self._error = error
            self._queued.clear()
            self._chunks = self._bytes = 0
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Emitted:
    """What `emit` and `publish` give in a step or a task: awaited, it waits until there is room."""

    __slots__ = ("_emitter",)

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter

    def __await__(self) -> Generator[Any, Any, None]:
        if self._emitter is not None:
            yield from self._emitter.room().__await__()

    def __iter__(self) -> Generator[Any, Any, None]:
        return self.__await__()
