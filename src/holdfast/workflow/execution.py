"""One execution: it drives the fibers on one side and talks to a node on the other.

What the code has asked for and seen, and what follows from that, is progress.py's. The loop of `drive`: let
the fibers see every completion that is recorded; begin what they asked for; write what must be durable before
it may have consequences; wait for a step or for a completion from outside; and when nothing is left to do
here, suspend.

1. An effect starts only after the results and the choices that led to it are durable.
2. Fibers see one completion at a time, with a full drain after each.
3. What a fiber sees live is what it would see on replay: values go through their recorded form.
4. After the claim is lost nothing more is recorded; the signal of every running step is set.
5. A request to cancel is seen when nothing else can be, as an event between two completions; that it was, and
   after how many, is written before anything follows. What it called is cancelled too, as is what was called
   by a fiber that is interrupted, inside a timeout that expires, or by the loser of a race.
6. What cannot be written down has not happened: the code is told at that operation, and that is recorded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Literal

from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, PreloadReply, PromiseReply, Reply, StreamsReply
from holdfast.protocol.requests import (
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    RegisterAction,
    RequestData,
    SettleAction,
    StreamList,
    TaskFulfill,
    TaskSuspend,
)
from holdfast.protocol.streams import ANSWER_HEADER, MAILBOX
from holdfast.runtime import ExecutionClosed, Future, Report, Scheduler
from holdfast.runtime.inbox import Inbox, is_taken
from holdfast.steps.info import ExecutionInfo, describe
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.conversation import NextMessage
from holdfast.workflow.errors import ClaimGone, ReplayMismatch
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.logs import said, tell
from holdfast.workflow.no_loop import without_loop
from holdfast.workflow.operations import StepOperation
from holdfast.workflow.progress import Progress
from holdfast.workflow.reading import read_rest
from holdfast.workflow.running_steps import RunningSteps
from holdfast.workflow.transacting import TransactionalStep

Ending = Literal["fulfilled", "suspended", "lost", "halted"]


class Execution:
    def __init__(
        self,
        claim: AcquireReply,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        worker_context: WorkerContext,
    ) -> None:
        self.id = claim.promise.id
        self.promise = claim.promise
        self.name = name
        self.worker_context = worker_context
        self.scheduler = Scheduler(self)
        self.lease_ends_s = inf  # by the loop's clock; whoever holds the claim keeps it up to date
        self.failure: Exception | None = None  # with which it has ended
        self.lost_because = ""
        self.is_loss_told = False
        self._loop = asyncio.get_running_loop()
        self._work = (work, args, kwargs)
        self._progress = Progress(self.promise, claim.preload, worker_context, self.scheduler, work)
        self._writer = FencedWriter(
            worker_context.client, self.id, claim.task.version, self._progress.learn, self._progress.replied
        )
        self._steps = RunningSteps(worker_context, self._wake)
        self._unread: AcquireReply | None = claim  # until it has begun
        self._listening: dict[str, Callable[[], None]] = {}  # and how to stop
        self._awaiting: Sequence[str] = ()  # what it was suspended on
        self._is_doubtful = False  # something may have settled that no message told us of
        self._waiter: asyncio.Future[None] | None = None  # of the loop, for `_wake`
        self._info: ExecutionInfo | None = None
        self._inbox: Inbox | None = None
        self._received: list[tuple[Future[Any], Callable[[], object]]] = []

    # --- the world, as the fibers see it ---------------------------------------------------------------

    def issue(self, operation: object, /) -> str:
        return self._progress.issue(operation)

    def report(self, report: Report, /) -> None:
        self.worker_context.report(self.id, report)

    def elapsed_s(self) -> float:
        return self._progress.elapsed_s()

    @property
    def inbox(self) -> Inbox:
        """The messages to this execution."""
        if self._inbox is None:
            self._inbox = Inbox(self.scheduler, partial(NextMessage, self.id), self._set_aside)
            self._progress.after_drain = self._answer_received
        return self._inbox

    def received(self, reader: Future[Any], answer: Callable[[], object]) -> None:
        """A question was taken by a reader that does not answer: `answer` does, after the drain, unless the
        reader has lost it again."""
        self._received.append((reader, answer))

    def _answer_received(self) -> None:
        received, self._received = self._received, []
        for reader, answer in received:
            if is_taken(reader):
                answer()

    def _set_aside(self, element: Promise, error: Exception) -> None:
        answer = (element.value.headers or {}).get(ANSWER_HEADER)
        if self._progress.set_aside(element, error, answer):
            message = f"{element.id} was set aside: {said(error)}"
            tell(logging.WARNING, "set aside", message, promise=element.id, **self._fields)

    @property
    def _fields(self) -> dict[str, Any]:
        return {"execution": self.id, "workflow": self.name}

    def is_patched(self, name: str) -> bool | None:
        return self._progress.is_patched(name)

    @property
    def is_replaying(self) -> bool:
        return self._progress.is_replaying

    @property
    def info(self) -> ExecutionInfo:
        """Who drives it: made once for each claim."""
        if self._info is None or self._info.token != self.version:
            self._info = describe(self.promise, self.name, self.version)
        return self._info

    # --- the claim -------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """At which it is claimed here."""
        return self._writer.version

    @property
    def fault(self) -> ReplayMismatch | None:
        """Why it was halted."""
        return self._progress.fault

    @property
    def is_lost(self) -> bool:
        return self._writer.is_lost

    def resume(self, claim: AcquireReply) -> bool:
        """Take up a suspended execution where it was left, if nobody else drove it in between."""
        if claim.task.version != self.version + 1 or self._writer.is_lost:
            return False
        self._writer.version = claim.task.version
        self.promise = claim.promise
        self._stop_listening()
        self._is_doubtful |= claim.cursor is not None  # what it waits for may be in the rest
        awaited = claim.data.awaited
        for record in claim.preload if awaited is None else [*claim.preload, awaited]:
            self._progress.learn(record)
        return True

    def doubt(self) -> None:
        """Something has woken it while it is held: look what that was."""
        self._is_doubtful = True
        self._wake()

    def lose(self) -> None:
        """The claim is gone: stop at once, record nothing more. Steps are told, whatever we wait for now."""
        self._writer.is_lost = True
        self.scheduler.attempt.set(ExecutionClosed(f"{self.id} is no longer held here"))
        self._wake()

    def close(self) -> None:
        """Take the fibers down and call off what still runs."""
        self._stop_listening()
        without_loop(self.scheduler.close)
        self._steps.close()

    def _check_claim(self) -> None:
        """Is it still ours, as far as can be known here? One that was asleep finds out by its own clock."""
        if self._writer.is_lost or self._loop.time() >= self.lease_ends_s:
            raise ClaimGone(self.id)

    # --- driving ---------------------------------------------------------------------------------------

    async def drive(self) -> Ending:
        """Go on until there is nothing more to do here."""
        progress, steps = self._progress, self._steps
        try:
            await self._start_or_catch_up()
            while True:
                self._check_claim()
                if self._is_doubtful:
                    self._is_doubtful = False
                    await self._look([progress.cancel_id, *progress.awaited(self.scheduler.waiting())])
                for refused in self._writer.take_refused():
                    progress.refuse(*refused)
                without_loop(progress.advance)
                if progress.fault is not None:
                    return "halted"
                if self.scheduler.done:
                    return await self._fulfil()
                if progress.take_note():
                    continue
                if progress.has_fresh and await self._begin():
                    continue
                if progress.cancel_called():
                    await self._write()
                    continue
                if steps.running and not self._has_news():
                    await self._wait()
                if steps.finished:
                    progress.record_steps(steps.take_finished())
                    await self._write()
                elif steps.late:
                    await self._announce()
                elif not (steps.running or progress.has_arrived) and await self._suspend():
                    return "suspended"
        except ClaimGone as gone:
            self._writer.is_lost = True
            self.lost_because = str(gone)
            return "lost"

    async def _start_or_catch_up(self) -> None:
        if self._unread is None:
            await self._look(self._progress.unseen(self._awaiting))  # messages may be lost
            return
        claim, self._unread = self._unread, None
        self._progress.read(await read_rest(self._writer, claim))
        await self._look(self._progress.elsewhere())
        work, args, kwargs = self._work
        without_loop(self.scheduler.start, work, *args, **kwargs)

    async def _begin(self) -> bool:
        """Begin what the fibers asked for. Is there anything new to see?"""
        steps, learnt = self._progress.begin()
        if self._progress.has_unwritten:
            await self._write()
            self._check_claim()  # the answer may have come late
            learnt = True
        # One by one they need not wait for the next turn; many are performed sooner if they go together.
        alone = len(steps) == 1 and self.worker_context.runner.executions == 1
        for promise_id, step in steps:
            if step.database is not None:
                self._put_into_transaction(promise_id, step)
            self._steps.start(promise_id, step, self.info, self._progress.is_open, at_once=alone)
        return learnt

    def _put_into_transaction(self, promise_id: str, step: StepOperation) -> None:
        """What is performed is its function with a transaction around it."""
        context, recorder = self.worker_context, self._progress.recorder
        assert context.transactions is not None
        known = TransactionalStep(promise_id, step, self.promise, self.version, recorder, context.provided)
        step.function, step.placed = context.transactions.wrap(known), ((), {})

    async def _announce(self) -> None:
        self._progress.announce(self._steps.take_late())
        await self._write()
        if self._progress.is_cancel_awaited and self._progress.cancel_id not in self._listening:
            await self._listen([self._progress.cancel_id])

    async def _suspend(self) -> bool:
        """Nothing is left to do here. False: something has settled meanwhile, go on."""
        waiting = self.scheduler.waiting()
        if self.scheduler.done or not waiting:
            return False
        awaited = self._progress.awaited(waiting)
        actions = [
            RegisterAction("promise.register_callback", PromiseRegisterCallback(promise_id, self.id))
            for promise_id in awaited
        ]
        waits = self._progress.describe_waits(waiting)
        [reply] = await self._write(TaskSuspend(self.id, self.version, actions, True, waits))
        if reply.status == 200:
            self._awaiting = awaited
            return True
        if self._writer.refused:
            return False
        if reply.status != 300:
            raise ClaimGone(f"{self.id}: {reply.data}")
        if isinstance(reply.data, PreloadReply):
            for record in reply.data.preload:
                self._progress.learn(record)
            self._is_doubtful |= reply.data.cursor is not None
        await self._look(self._progress.unseen(awaited))
        return False

    async def _fulfil(self) -> Ending:
        settle, failure = self._progress.end()
        fulfil = TaskFulfill(self.id, self.version, SettleAction(settle))
        asked = [] if self._inbox is None else [StreamList(self.id)]
        reply, *streams = await self._write(fulfil, *asked)
        if reply.status != 200:
            raise ClaimGone(f"{self.id}: {reply.data}")
        self.failure = failure
        for promise_id, why in [*self._writer.refused, *self._progress.unheard]:
            message = f"{promise_id} was begun last and was refused: {why}"
            tell(logging.ERROR, "refused", message, promise=promise_id, **self._fields)
        if self._inbox is not None:
            self._tell_unread(streams[0], self._inbox)
        return "fulfilled"

    def _tell_unread(self, reply: Reply, inbox: Inbox) -> None:
        """The code has received messages, and has returned before the last one."""
        if isinstance(reply.data, StreamsReply):
            unread = reply.data.streams.get(MAILBOX, 0) - inbox.taken
            if unread > 0:
                message = f"{self.name} {self.id} has ended, and {unread} message(s) to it were not read"
                tell(logging.WARNING, "unread", message, **self._fields)

    # --- waiting and asking ----------------------------------------------------------------------------

    def _write(self, *asked: RequestData) -> Awaitable[list[Reply]]:
        """One commit: what was chosen and is not durable yet, then what is asked."""
        return self._writer.write(self._progress.take_unwritten(), asked)

    async def _look(self, promise_ids: Sequence[str]) -> None:
        self._learn_from(await self._writer.ask([PromiseGet(key) for key in promise_ids]))

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply.data, PromiseReply):
                self._progress.learn(reply.data.promise)

    def _has_news(self) -> bool:
        """Is there anything to do besides waiting for steps?"""
        steps, progress = self._steps, self._progress
        if steps.finished or progress.has_arrived or steps.late or progress.is_cancel_due:
            return True
        return self._is_doubtful or self._writer.is_lost or self.scheduler.done

    async def _wait(self) -> None:
        """Steps are running. Hear also of what settles outside meanwhile."""
        if self._progress.is_urgent:
            await self._write()
        unheard = self._progress.to_hear(self._listening)
        if unheard:
            await self._listen(unheard)
        while not self._has_news():
            self._waiter = self._loop.create_future()
            if not self._listening:
                await self._waiter
                continue
            # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with the news.
            told, _ = await asyncio.wait([self._waiter], timeout=self.worker_context.listen_again_s)
            if not told:  # a message may have been lost
                await self._listen([*self._listening])

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _listen(self, promise_ids: list[str]) -> None:
        listen = [PromiseRegisterListener(key, self.worker_context.address) for key in promise_ids]
        for promise_id in promise_ids:
            if promise_id not in self._listening:
                self._listening[promise_id] = self.worker_context.inbox.hear(promise_id, self._notice)
        self._learn_from(await self._writer.ask(listen))

    def _notice(self, promise: Promise) -> None:
        """A promise that this execution listens to has settled."""
        self._progress.learn(promise)
        self._wake()

    def _stop_listening(self) -> None:
        for withdraw in self._listening.values():
            withdraw()
        self._listening.clear()
