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
from math import inf
from typing import Any, Literal

from msgspec.structs import replace

from holdfast.protocol import limits
from holdfast.protocol.generations import Generation, begun_with, generation_of
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, PreloadReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    RegisterAction,
    RequestData,
    SettleAction,
    StreamList,
    TaskFulfill,
    TaskRestart,
    TaskSuspend,
)
from holdfast.runtime import ExecutionClosed, Future, Scheduler
from holdfast.runtime.inbox import Inbox
from holdfast.steps import observer
from holdfast.steps.here import StepClaim
from holdfast.workflow.around_body import around_body
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.conversation import all_read, is_sure
from holdfast.workflow.errors import ClaimGone, ReplayMismatch
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.generations import BoundCall, ContinueAsNew, begun_now, find_continuation
from holdfast.workflow.lingering import Lingering
from holdfast.workflow.logs import tell
from holdfast.workflow.message_waits import MessageWaits
from holdfast.workflow.no_loop import without_loop
from holdfast.workflow.operations import Asked, StepOperation
from holdfast.workflow.progress_end import EndingProgress
from holdfast.workflow.reading import find_records, read_rest
from holdfast.workflow.running_steps import RunningSteps
from holdfast.workflow.transacting import TransactionalStep

Ending = Literal["fulfilled", "suspended", "released", "lost", "halted"]


class Execution(MessageWaits):
    def __init__(
        self,
        claim: AcquireReply,
        bound: BoundCall,
        worker_context: WorkerContext,
        bind: Callable[[Promise], BoundCall] | None = None,
    ) -> None:
        """`bind`: what is to be run for a promise, when the execution goes on as another generation."""
        self.id = claim.promise.id
        self.promise = claim.promise
        self.name = bound.name
        self.worker_context = worker_context
        self._bind = bind
        self.lease_ends_s = inf  # by the loop's clock; whoever holds the claim keeps it up to date
        self.failure: Exception | None = None  # with which it has ended
        self.lost_because = ""
        self.is_loss_told = False
        self.is_leaving = False  # it has suspended or fulfilled its task, and waits for the reply
        self._loop = asyncio.get_running_loop()
        self._prepare(bound, claim.preload)
        if claim.data.awaited is not None:  # what has woken it: a message is no part of what is preloaded
            self._progress.learn(claim.data.awaited)
        self._writer = FencedWriter(
            worker_context.client,
            self.id,
            claim.task.version,
            self._progress.learn,
            self._progress.replied,
        )
        self._writer.generation = generation_of(self.promise).number or None
        self._unread: AcquireReply | None = claim  # until it has begun
        self._is_let_go = False
        self._has_code = True  # fibers, that wait or can go on; none between two calls of an entity
        self._listening: dict[str, Callable[[], None]] = {}  # and how to stop
        self._waiter: asyncio.Future[bool] | None = None  # of the loop, for `_wake`
        self._lingering = Lingering()
        self._steps.learn_reported(claim.task)

    def _prepare(self, bound: BoundCall, records: Sequence[Promise]) -> None:
        """What belongs to one generation."""
        self.bound = bound
        self.scheduler = Scheduler(self)
        self._progress = EndingProgress(
            self.promise, records, self.worker_context, self.scheduler, bound.work, bound.name
        )
        self._steps = RunningSteps(self.worker_context, self._progress.asked, self._wake)
        self._awaiting: Sequence[str] = ()  # what it was suspended on
        self._is_doubtful = False  # something may have settled that no message told us of
        self._claim: StepClaim | None = None
        self._inbox: Inbox | None = None
        self._streams: frozenset[str] = frozenset()
        self._received: list[tuple[Future[Any], Callable[[], object]]] = []

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
    def is_kept_warm(self) -> bool:
        """Shall its fibers stay while it is suspended? What has done nothing yet is soon made again."""
        return self._has_code and (not self.is_entity or self._progress.has_records)

    @property
    def is_lost(self) -> bool:
        return self._writer.is_lost

    def resume(self, claim: AcquireReply) -> bool:
        """Take up a suspended execution where it was left, if nobody else drove it in between."""
        if claim.task.version != self.version + 1 or self._writer.is_lost:
            return False
        self._writer.version = claim.task.version
        self.is_leaving = False
        self._lingering.resumed(self._loop.time())
        self._claim = None
        self.promise = claim.promise
        self._steps.learn_reported(claim.task)
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
        if not self._is_let_go:
            self.scheduler.attempt.set(ExecutionClosed(f"{self.id} is no longer held here"))
            self._wake()

    def close(self) -> None:
        """Take the fibers down and call off what still runs."""
        if not self._is_let_go:
            self._stop_listening()
            without_loop(self.scheduler.close)
            self._steps.close()

    def let_go(self) -> None:
        """It is closed, and nobody asks for more than its id and version. What leads back to it is cut, so
        that its memory is freed at once, not by the garbage collector."""
        self._is_let_go = True
        self._let_go_of_generation()
        self._writer.let_go()
        del self.scheduler, self._progress, self._steps, self._inbox, self._received

    # --- driving ---------------------------------------------------------------------------------------

    async def drive(self) -> Ending:
        """Go on until there is nothing more to do here."""
        progress, steps, writer, time = self._progress, self._steps, self._writer, self._loop.time
        try:
            await self._start_or_catch_up()
            while True:
                if writer.is_lost or time() >= self.lease_ends_s:  # who was asleep finds out by the clock
                    raise ClaimGone(self.id)
                if self._is_doubtful:
                    self._is_doubtful = False
                    await self._look([progress.cancel_id, *progress.awaited(self.scheduler.waiting())])
                if writer.refused:
                    for refused in writer.take_refused():
                        progress.refuse(*refused)
                without_loop(progress.advance)
                if progress.fault is not None:
                    return "halted"
                if self.scheduler.done:
                    if (again := find_continuation(self.scheduler)) is None:
                        return await self._fulfil()
                    if (left := await self._restart(again)) is not None:
                        return left
                    progress, steps = self._progress, self._steps
                    continue
                asked = progress.asked
                if asked.notes and progress.take_note():
                    continue
                if asked.fresh:
                    begun = await self._begin()
                    if begun == "suspended":
                        return "suspended"
                    if begun:
                        continue
                if progress.unwanted and progress.cancel_called():
                    await self._write()
                    continue
                if progress.steps.timers:
                    steps.finished += progress.steps.take_called_off()
                if steps.running and not self._has_changes():
                    await self._wait()
                if steps.finished:
                    progress.record_steps(steps.take_finished(), steps.failures)
                    await self._write()
                elif steps.late:
                    await self._announce()
                elif not (steps.running or asked.arrived or asked.fresh) and await self._suspend():
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
        self._run()

    def _run(self) -> None:
        bound, hooks, param = self.bound, self.worker_context.hooks, self.promise.param
        work = (
            around_body(bound.work, self, hooks.middlewares)
            if hooks.middlewares.around["workflow"]
            else bound.work
        )
        context = hooks.carried.context(param, self.worker_context.payloads)
        context.run(without_loop, self.scheduler.start, work, *bound.args, **bound.kwargs)

    async def _restart(self, again: ContinueAsNew) -> Literal["suspended", "released"] | None:
        """This generation is over. The node hears of it with the first write of the next one. Is it suspended
        until there is something to do for that one, or given back because this worker stops?"""
        await self._writer.catch_up()
        assert self._bind is not None
        before, keep = generation_of(self.promise), self.bound.keep_generations
        actions, forgotten = self._progress.end_generation(keeps_records=bool(keep))
        read = before.read if self._inbox is None else self._inbox.taken
        param = begun_now(again.param, self.worker_context.now())
        if keep and (gone := before.number - keep) >= 0:
            forgotten += await find_records(self._writer, self.id, gone)
        restart = TaskRestart(
            self.id, self.version, before.number, param, read, forgotten[: limits.forget_max]
        )
        self._stop_listening()
        without_loop(self.scheduler.close)
        self._steps.close()
        self._let_go_of_generation()
        value = begun_with(param, Generation(before.number + 1, read))
        self.promise = replace(self.promise, value=value)
        self._writer.restart(actions, restart)
        known: list[Promise] = []
        if self.is_entity and not (self._progress.is_cancel_due or self._is_doubtful):
            found = await self._await_call(read + 1)
            self._progress.ended.tell_of_generation()
            if found is None:
                return "suspended"
            known = found
        if self.worker_context.runner.is_stopping:
            await self._writer.catch_up()
            return "released"
        is_doubtful, ended = self._is_doubtful or self._progress.is_cancel_due, self._progress.ended
        self._prepare(self._bind(self.promise), ())
        self._is_doubtful = is_doubtful
        self._progress.ended.follow(ended)
        self._writer.learn, self._writer.replied = self._progress.learn, self._progress.replied
        for record in known:
            self._progress.learn(record)
        self._run()
        return None

    async def _begin(self) -> bool | Literal["suspended"]:
        """Begin what the fibers asked for. Is there anything new to see? If they wait only for the next
        message, asking for it and suspending are one commit."""
        steps, learnt = self._progress.begin()
        if not (steps or self._steps.running) and self._is_to_wait_for_a_message():
            if self._may_linger and self._progress.waits_for_message:
                await self._linger()
                return True
            return "suspended" if await self._suspend() else True
        if self._progress.unwritten or self._writer.leading:
            await self._write()
            if self._writer.is_lost or self._loop.time() >= self.lease_ends_s:  # the answer came late
                raise ClaimGone(self.id)
            learnt = True
        alone = len(steps) == 1  # it need not wait for the next turn; several of one execution go together
        for promise_id, step in steps:
            if step.database is not None:
                self._put_into_transaction(promise_id, step)
            tried = self._progress.steps.tried(promise_id)
            self._steps.start(promise_id, step, self.claim, tried, at_once=alone)
        return learnt

    def _is_to_wait_for_a_message(self) -> bool:
        """Is the next message all that is to be waited for, with nothing unwritten that could be refused?"""
        progress = self._progress
        awaited = [action.promise_id for action in progress.unwritten if isinstance(action, Asked)]
        return (
            not (progress.asked.arrived or progress.asked.fresh or self.scheduler.done)
            and all(map(is_sure, progress.unwritten))
            and bool(awaited)
            and {*awaited} <= {*self.scheduler.waiting()}
        )

    def _put_into_transaction(self, promise_id: str, step: StepOperation) -> None:
        """What is performed is its function with a transaction around it."""
        context, recorder = self.worker_context, self._progress.recorder
        assert context.transactions is not None
        known = TransactionalStep(promise_id, step, self.promise, self.version, recorder, context.provided)
        if context.hooks.middlewares.around["step"]:
            known.around = self._steps.around
        step.function, step.placed = context.transactions.wrap(known), ((), {})

    async def _announce(self) -> None:
        self._progress.announce(self._steps.take_late(), self._steps.failures)
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
        began_s = self._loop.time()
        self.is_leaving = True
        [reply] = await self._write(
            TaskSuspend(self.id, self.version, actions, True, waits, self._writer.generation)
        )
        if reply.status == 200:
            self._awaiting = awaited
            self._lingering.suspended(began_s, self._loop.time())
            return True
        self.is_leaving = False
        if self._writer.refused or self._progress.unwritten:  # what was to be awaited could not be created
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
        fulfil = TaskFulfill(self.id, self.version, SettleAction(settle), self._writer.generation)
        if self._inbox is not None and self._inbox.taken:
            self._progress.unwritten.append(all_read(self.id, self._inbox.taken))
        asked = [] if self._inbox is None else [StreamList(self.id)]
        self._writer.is_last = self.is_leaving = True
        reply, *streams = await self._write(fulfil, *asked)
        if reply.status != 200:
            raise ClaimGone(f"{self.id}: {reply.data}")
        self.failure = failure
        self._tell_ended(settle.state, failure)
        for promise_id, why in [*self._writer.refused, *self._progress.unheard]:
            message = f"{promise_id} was begun last and was refused: {why}"
            tell(logging.ERROR, "refused", message, promise=promise_id, **self._fields)
        for each in streams:
            self._tell_unread(each)
        return "fulfilled"

    def _tell_ended(self, state: str, failure: Exception | None) -> None:
        ending: observer.Ending = "failed" if failure is not None else "completed"
        ending = "cancelled" if state == "rejected_canceled" else ending
        told = observer.EndedExecution(self.promise, self.name, self.worker_context.now(), ending, failure)
        self.worker_context.observers.tell("execution_ended", told)

    # --- waiting and asking ----------------------------------------------------------------------------

    def _write(self, *asked: RequestData) -> Awaitable[list[Reply]]:
        """One commit: what was chosen and is not durable yet, then what is asked."""
        progress = self._progress
        unwritten, progress.unwritten = progress.unwritten, []
        writing, ended = self._writer.write(unwritten, asked), progress.ended
        taken = ended.take(unwritten, asked) if ended.noted or ended.of_before else None
        return ended.tell_after(writing, taken) if taken else writing

    async def _look(self, promise_ids: Sequence[str]) -> None:
        self._learn_from(await self._writer.ask([PromiseGet(key) for key in promise_ids]))

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply.data, PromiseReply):
                self._progress.learn(reply.data.promise)

    def _has_changes(self) -> bool:
        """Is there anything to do besides waiting for steps?"""
        steps, progress, asked = self._steps, self._progress, self._progress.asked
        if steps.finished or asked.arrived or asked.fresh or steps.late or progress.is_cancel_due:
            return True
        return self._is_doubtful or self._writer.is_lost or self.scheduler.done

    async def _wait(self) -> None:
        """Steps are running. Hear also of what settles outside meanwhile."""
        if self._progress.is_urgent:
            await self._write()
        unheard = self._progress.to_hear(self._listening)
        if unheard:
            await self._listen(unheard)
        while not self._has_changes():
            limit_s = self.worker_context.listen_again_s
            if not self._listening or limit_s is None:
                self._waiter = self._loop.create_future()
                await self._waiter
            elif not await self._wait_at_most(limit_s):
                await self._listen([*self._listening])  # a message may have been lost

    async def _wait_at_most(self, limit_s: float) -> bool:
        """Until `_wake`. False: that time is over. `asyncio.wait` would take a turn of the loop more, and
        `wait_for` swallows a cancellation that comes together with the wake-up, on Python 3.11."""
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_later(limit_s, self._wake, False)
        try:
            return await waiter
        finally:
            timer.cancel()

    def _wake(self, has_changes: bool = True) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(has_changes)

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
