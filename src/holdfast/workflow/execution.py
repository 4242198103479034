"""One execution: fibers on one side, a node on the other, and the rules of replay between them.

The loop of `drive`: feed the fibers every completion that is recorded; begin what they asked for; write what
must be on disk before it may have consequences; wait for a step or for news from outside; and when nothing is
left to do here, suspend and let go.

1. An effect starts only after the results and the choices that led to it are durable: it waits until the
   fenced writer has written what is unwritten.
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
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Literal

from holdfast.payloads.errors import NotRecorded, WorkerError
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, PreloadReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    RegisterAction,
    SettleAction,
    TaskFulfill,
    TaskSuspend,
)
from holdfast.runtime import ExecutionClosed, Report, Scheduler
from holdfast.steps.info import ExecutionInfo, describe
from holdfast.workflow.cancellation import ask_to_cancel, cancel_called, origin_of
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import ClaimGone, ReplayMismatch
from holdfast.workflow.fenced_writer import FencedWriter
from holdfast.workflow.logs import tell
from holdfast.workflow.no_loop import without_loop
from holdfast.workflow.operations import Call, DurableOperation, Note, StepOperation
from holdfast.workflow.progress import Progress
from holdfast.workflow.reading import read_rest
from holdfast.workflow.recording import as_settled
from holdfast.workflow.running_steps import RunningSteps, is_cut_short
from holdfast.workflow.wake_flag import WakeFlag

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
        self._work = (work, args, kwargs)
        self._writer = FencedWriter(worker_context.client, self.id, claim.task.version, self._learn)
        self._progress = Progress(
            self.promise, claim.preload, worker_context, self.scheduler, self._writer.note, work
        )
        self._listening: dict[str, Callable[[], None]] = {}  # and how to stop
        self._awaiting: tuple[str, ...] = ()  # what it was suspended on
        self._is_doubtful = False  # there may be news that no message told us of
        self._wake_flag = WakeFlag()
        self._steps = RunningSteps(worker_context, self._wake_flag)
        self._unread: AcquireReply | None = claim  # until it has begun
        self._loop = asyncio.get_running_loop()
        self.lease_ends_s = inf  # by the loop's clock; whoever holds the claim keeps it up to date
        self._info: ExecutionInfo | None = None
        self.failure: Exception | None = None  # with which it has ended
        self.lost_because = ""
        self.is_loss_told = False

    # --- the world, as the fibers see it ---------------------------------------------------------------

    def issue(self, operation: object, /) -> str:
        return self._progress.issue(operation)

    @property
    def fault(self) -> ReplayMismatch | None:
        """Why it was halted."""
        return self._progress.fault

    @property
    def version(self) -> int:
        """At which it is claimed here."""
        return self._writer.version

    def report(self, report: Report, /) -> None:
        self.worker_context.report(self.id, report)

    @property
    def info(self) -> ExecutionInfo:
        """Who drives it: made once for each claim."""
        if self._info is None or self._info.token != self.version:
            self._info = describe(self.promise, self.name, self.version)
        return self._info

    @property
    def is_replaying(self) -> bool:
        return self._progress.is_replaying

    def is_patched(self, name: str) -> bool | None:
        return self._progress.is_patched(name)

    # --- driving ---------------------------------------------------------------------------------------

    async def drive(self) -> Ending:
        """Go on until there is nothing more to do here."""
        try:
            if self._unread is not None:
                claim, self._unread = self._unread, None
                self._progress.read(await read_rest(self._writer, claim))
                await self._look(self._progress.journal.elsewhere())
                work, args, kwargs = self._work
                without_loop(self.scheduler.start, work, *args, **kwargs)
            else:
                await self.catch_up()
            while True:
                self._check_claim()
                if self._is_doubtful:
                    self._is_doubtful = False
                    await self._look([self._progress.cancel.id, *self.scheduler.waiting()])
                self._tell_refusals()
                without_loop(self._progress.feed)
                self._progress.check()
                if self.fault is not None:
                    return "halted"
                if self.scheduler.done:
                    return await self._fulfil()
                if self._progress.notes:
                    self._take_note(next(iter(self._progress.notes)), self._progress.place)
                    continue
                if self._progress.fresh and await self._begin():
                    continue
                if self._progress.called:
                    self._cancel_called()
                    await self._writer.write()
                    continue
                if self._steps.running and not self._has_news():
                    await self._wait()
                if self._steps.finished:
                    await self._record()
                elif self._steps.late:
                    await self._announce()
                elif not (self._steps.running or self._progress.arrived):
                    ending = await self._suspend()
                    if ending is not None:
                        return ending
        except ClaimGone as gone:
            self._writer.is_lost = True
            self.lost_because = str(gone)
            return "lost"

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
            self._learn(record)
        return True

    def notice(self, promise: Promise) -> None:
        """A promise that this execution listens to has settled."""
        self._learn(promise)
        self._wake_flag.tell()

    def doubt(self) -> None:
        """Something has woken it while it is held: look what that was."""
        self._is_doubtful = True
        self._wake_flag.tell()

    @property
    def is_lost(self) -> bool:
        return self._writer.is_lost

    def lose(self) -> None:
        """The claim is gone: stop at once, record nothing more. Steps are told, whatever we wait for now."""
        self._writer.is_lost = True
        self.scheduler.attempt.set(ExecutionClosed(f"{self.id} is no longer held here"))
        self._wake_flag.tell()

    def _check_claim(self) -> None:
        """Is it still ours, as far as can be known here? One that was asleep finds out by its own clock."""
        if self._writer.is_lost or self._loop.time() >= self.lease_ends_s:
            raise ClaimGone(self.id)

    def _stop_listening(self) -> None:
        for withdraw in self._listening.values():
            withdraw()
        self._listening.clear()

    def close(self) -> None:
        """Take the fibers down and call off what still runs."""
        self._stop_listening()
        without_loop(self.scheduler.close)
        self._steps.close()

    # --- completions -----------------------------------------------------------------------------------

    def _learn(self, record: Promise) -> None:
        self._progress.learn(record)

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply.data, PromiseReply):
                self._learn(reply.data.promise)

    def _tell_refusals(self) -> None:
        """What the node would not create: the code sees an error there, at a place that is recorded."""
        while self._writer.refused:
            promise_id, error = self._writer.refused.pop(0)
            if promise_id not in self._progress.open:
                raise error
            self._progress.refuse(promise_id, error)

    # --- effects ---------------------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Begin what the fibers asked for, in the order in which they asked. Is there anything new to see?"""
        steps: list[tuple[str, StepOperation]] = []
        fresh, self._progress.fresh = self._progress.fresh, {}
        for promise_id in fresh:
            operation = self._progress.open[promise_id]
            record = self._progress.journal.records.get(promise_id)
            if promise_id in self._progress.journal.refusals:
                continue
            if isinstance(operation, StepOperation) and (record is None or record.state == "pending"):
                steps.append((promise_id, operation))
            elif record is None:
                self._create_outside(promise_id, operation)
            else:
                self._learn(record)
        learnt = len(steps) < len(fresh)
        if self._writer.unwritten:
            await self._writer.write()
            self._check_claim()  # the answer may have come late
            learnt = True
        # One by one they need not wait for the next turn; many are performed sooner if they go together.
        alone = len(steps) == 1 and self.worker_context.runner.executions == 1
        wanted = self._progress.open.__contains__
        for promise_id, step in steps:
            self._steps.start(promise_id, step, self.info, wanted, at_once=alone)
        return learnt

    def _create_outside(self, promise_id: str, operation: DurableOperation) -> None:
        """What completes elsewhere is created there. A call is not preloaded with us, so it leaves a mark."""
        try:
            creation = self._progress.recorder.outside(promise_id, operation)
        except WorkerError as error:
            self._progress.refuse(promise_id, error)
        except ValueError as error:  # past a limit of the protocol
            self._progress.refuse(promise_id, NotRecorded(f"{operation.label} cannot be created: {error}"))
        else:
            if isinstance(operation, Call):
                self._writer.note(self._progress.recorder.mark(promise_id, operation))
            self._writer.note(creation)

    def _take_note(self, promise_id: str, place: int) -> None:
        """A choice without an effect: seen before anything else is begun, written before it has effects."""
        note = self._progress.open[promise_id]
        assert isinstance(note, Note)
        chosen = self.worker_context.choose(promise_id, note)
        creation = self._progress.recorder.note(promise_id, note, chosen, place)
        if note.cancels is not None and note.gently:
            self._writer.ask_to_cancel(ask_to_cancel(note.cancels, note.cancels.partition(":")[0]))
        elif note.cancels is not None:
            self._writer.cancel(note.cancels)
        self._writer.note(creation)
        self._progress.journal.add(as_settled(creation))

    def _has_news(self) -> bool:
        steps, told = self._steps, self._progress.cancel.is_due or self._is_doubtful
        told = told or self._writer.is_lost or self.scheduler.done
        return bool(steps.finished or self._progress.arrived or steps.late or told)

    async def _announce(self) -> None:
        """A step that takes long is written down while it runs, so that people can see it and cancel it."""
        late = self._steps.take_late()
        creations = [self._progress.recorder.local(key, self._progress.open[key]) for key in late]
        if not (self._progress.cancel.is_asked or self._progress.cancel.is_open):
            creations.append(self._progress.cancel.creation())
        await self._writer.write(creations)
        if self._progress.cancel.is_open and self._progress.cancel.id not in self._listening:
            await self._listen([self._progress.cancel.id])

    async def _wait(self) -> None:
        """Steps are running. Hear also of what settles outside meanwhile."""
        if self._writer.has_cancellation:
            await self._writer.write()  # a cancellation is not kept waiting
        if len(self._progress.open) > len(self._steps.running):
            heard, awaited = self._listening, self.scheduler.is_awaited
            unheard = [key for key in self._progress.outside if key not in heard and awaited(key)]
            if unheard:
                await self._listen(unheard)
        while not self._has_news():
            if not self._listening:
                await self._wake_flag.wait()
                continue
            # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with the news.
            told, _ = await asyncio.wait([self._wake_flag.wait()], timeout=self.worker_context.listen_again_s)
            if not told:  # a message may have been lost
                await self._listen([*self._listening])

    async def _listen(self, promise_ids: list[str]) -> None:
        listen = [PromiseRegisterListener(key, self.worker_context.address) for key in promise_ids]
        for promise_id in promise_ids:
            if promise_id not in self._listening:
                self._listening[promise_id] = self.worker_context.inbox.hear(promise_id, self.notice)
        self._learn_from(await self._writer.ask(listen))

    # --- writes ----------------------------------------------------------------------------------------

    async def _record(self) -> None:
        """Write the results of steps that ended, each with its place; then let the fibers see them."""
        creations: list[PromiseCreate] = []
        place = self._progress.place
        while self._steps.finished:
            promise_id, outcome = self._steps.finished.popleft()
            if is_cut_short(outcome):
                raise ClaimGone(f"{self.id}: whoever performs its steps has closed")
            step = self._progress.open.get(promise_id)
            if step is None:  # somebody else settled it meanwhile, and the fibers have seen that
                continue
            creations.append(self._progress.recorder.step(promise_id, step, outcome, place))
            place += 1
        await self._writer.write(creations)

    # --- endings ---------------------------------------------------------------------------------------

    async def _suspend(self) -> Ending | None:
        """Nothing is left to do here. None: something has settled meanwhile, go on."""
        waiting = self.scheduler.waiting()
        if self.scheduler.done or not waiting:
            return None
        actions = [
            RegisterAction("promise.register_callback", PromiseRegisterCallback(promise_id, self.id))
            for promise_id in waiting
        ]
        suspend = TaskSuspend(self.id, self.version, actions, check_woken=True)
        [reply] = await self._writer.write_and_ask([suspend])
        if reply.status == 200:
            self._awaiting = waiting
            return "suspended"
        if self._writer.refused:
            return None
        if reply.status != 300:
            raise ClaimGone(f"{self.id}: {reply.data}")
        if isinstance(reply.data, PreloadReply):
            for record in reply.data.preload:
                self._learn(record)
            self._is_doubtful |= reply.data.cursor is not None
        await self.catch_up(waiting)
        return None

    async def catch_up(self, promise_ids: Sequence[str] | None = None) -> None:
        """Look at what it waits for. Needed after a suspension, because messages may be lost."""
        unseen = self._progress.open.keys() - self._progress.arrived.keys()
        await self._look([key for key in promise_ids or self._awaiting if key in unseen])

    async def _look(self, promise_ids: Sequence[str]) -> None:
        self._learn_from(await self._writer.ask([PromiseGet(key) for key in promise_ids]))

    def _begin_unawaited(self) -> None:
        """The code has returned: what it started or cancelled last happens though nobody waits for that."""
        journal = self._progress.journal
        for promise_id in self._progress.fresh:
            operation = self._progress.open[promise_id]
            started = isinstance(operation, Call) and not operation.waits
            if started and promise_id not in journal.records:
                self._create_outside(promise_id, operation)
        place = max(journal.order, default=0)
        for promise_id in self._progress.notes:
            note = self._progress.open[promise_id]
            if isinstance(note, Note) and note.cancels is not None and not journal.knows(promise_id):
                place += 1
                self._take_note(promise_id, place)

    async def _fulfil(self) -> Ending:
        self._begin_unawaited()
        self._cancel_called()
        if self._progress.cancel.is_open:  # nobody has asked, and nobody will
            self._writer.cancel(self._progress.cancel.id)
        settle, failure = self._progress.outcome()
        fulfil = TaskFulfill(self.id, self.version, SettleAction(settle))
        [reply] = await self._writer.write_and_ask([fulfil])
        if reply.status != 200:
            raise ClaimGone(f"{self.id}: {reply.data}")
        self.failure = failure
        for promise_id, why in self._writer.refused:
            message = f"{promise_id} could not be started: {why}"
            tell(logging.ERROR, "refused", message, execution=self.id, workflow=self.name, promise=promise_id)
        return "fulfilled"

    def _cancel_called(self) -> None:
        """Cancel what was called, once it is there."""
        for promise_id in self._progress.called:
            record = self._progress.journal.records.get(promise_id)
            if record is not None:
                self._writer.ask_to_cancel(cancel_called(record, origin_of(self.promise)))
        self._progress.called.clear()
