"""One execution: fibers on one side, a node on the other, and the rules of replay between them.

The loop of `drive`: feed the fibers every completion that is recorded; begin what they asked for; write what
must be on disk before it may have consequences; wait for a step or for news from outside; and when nothing is
left to do here, suspend and let go.

1. An effect starts only after the results and the choices that led to it are durable: it waits until the pen
   (pen.py) has written what is unwritten.
2. Fibers see one completion at a time, with a full drain after each.
3. What a fiber sees live is what it would see on replay: values go through their recorded form.
4. After the claim is lost nothing more is recorded; the signal of every running step is set.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Literal

from holdfast.protocol.records import Promise
from holdfast.protocol.replies import AcquireReply, PromiseReply, Reply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSettle,
    RegisterAction,
    SettleAction,
    TaskFulfill,
    TaskSuspend,
)
from holdfast.runtime import Report, Scheduler, Timer
from holdfast.worker import journal as j
from holdfast.worker.execution_errors import ClaimGone, ReplayMismatch
from holdfast.worker.info import ExecutionInfo, describe
from holdfast.worker.news import News
from holdfast.worker.operations import Call, Note, Operation, Sleep, Step
from holdfast.worker.pen import Pen
from holdfast.worker.recording import Recorder, as_settled, read_outcome
from holdfast.worker.surroundings import Surroundings
from holdfast.worker.under_way import StepsUnderWay

Ending = Literal["fulfilled", "suspended", "lost", "halted"]


class Execution:
    def __init__(
        self,
        claim: AcquireReply,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        around: Surroundings,
    ) -> None:
        self.id = claim.promise.id
        self.promise = claim.promise
        self.name = name
        self.around = around
        self.scheduler = Scheduler(self)
        self._work = (work, args, kwargs)
        self._journal = j.Journal(self.id, claim.preload)
        self._open: dict[str, Operation] = {}  # issued, not yet seen to complete
        self._notes: dict[str, None] = {}  # issued, not yet taken
        self._fresh: dict[str, None] = {}  # issued besides notes, not yet begun
        self._arrived: dict[str, None] = {}  # completed outside, not yet seen by the fibers
        self._pen = Pen(around.client, self.id, claim.task.version, self._learn)
        self._listening: dict[str, Callable[[], None]] = {}  # and how to stop
        self._awaiting: tuple[str, ...] = ()  # what it was suspended on
        self._count = 0
        self._place = 1
        self.fault: ReplayMismatch | None = None
        self._news = News()
        self._steps = StepsUnderWay(around, self._news)
        self._recorder = Recorder(self.promise, around.payloads, around.group, around.now)
        self._started = False
        self._loop = asyncio.get_running_loop()
        self.lease_ends_s = inf  # by the loop's clock; whoever holds the claim keeps it up to date
        self._info: ExecutionInfo | None = None

    # --- the world, as the fibers see it ---------------------------------------------------------------

    def issue(self, operation: object, /) -> str:
        if isinstance(operation, Timer):  # the runtime's own: that of a timeout
            operation = Sleep(operation.seconds)
        assert isinstance(operation, Operation), f"{operation} is not known here"
        if isinstance(operation, Step):
            self.around.provided.check(operation.function, operation.kwargs, operation.options.mode)
        self._count += 1
        promise_id = j.child_id(self.id, self._count)
        known = promise_id in self._journal.records
        digest = self._recorder.fingerprint(promise_id, operation, known=known)
        if known:
            self._compare(promise_id, operation, digest)
        self._open[promise_id] = operation
        (self._notes if isinstance(operation, Note) else self._fresh)[promise_id] = None
        return promise_id

    @property
    def version(self) -> int:
        """At which it is claimed here."""
        return self._pen.version

    def report(self, report: Report, /) -> None:
        self.around.report(self.id, report)

    @property
    def info(self) -> ExecutionInfo:
        """Who drives it: made once for each claim."""
        if self._info is None or self._info.token != self.version:
            self._info = describe(self.promise, self.name, self.version)
        return self._info

    @property
    def is_replaying(self) -> bool:
        """Is the code being led along what was recorded?"""
        return self._place in self._journal.order or self._journal.highest > self._count

    def is_patched(self, name: str) -> bool | None:
        """Did the recorded run take this patch? None: nothing is recorded here, so it is free to."""
        return self._journal.took(f"note patch {name}", self._count + 1)

    def _compare(self, promise_id: str, operation: Operation, digest: str | None) -> None:
        try:
            self._journal.check(promise_id, operation.label, digest, self.scheduler.origin())
        except ReplayMismatch as mismatch:
            self.fault = mismatch
            raise

    # --- driving ---------------------------------------------------------------------------------------

    async def drive(self) -> Ending:
        """Go on until there is nothing more to do here."""
        try:
            if not self._started:
                self._started = True
                await self._look(self._journal.elsewhere())
                work, args, kwargs = self._work
                self.scheduler.start(work, *args, **kwargs)
            while True:
                self._check_claim()
                self._feed()
                if self.fault is None:
                    ended = self.scheduler.done
                    self.fault = self._journal.unasked(self._place, self._count, self._open, ended=ended)
                if self.fault is not None:
                    return "halted"
                if self.scheduler.done:
                    return await self._fulfil()
                if self._notes:
                    self._take_note()
                    continue
                if self._fresh:
                    await self._begin()
                if self._steps.running and not self._has_news():
                    await self._wait()
                if self._steps.finished:
                    await self._record()
                elif self._steps.late:
                    await self._announce()
                elif not (self._steps.running or self._arrived):
                    ending = await self._suspend()
                    if ending is not None:
                        return ending
        except ClaimGone:
            self._pen.is_lost = True
            return "lost"

    def resume(self, claim: AcquireReply) -> bool:
        """Take up a suspended execution where it was left, if nobody else drove it in between."""
        if claim.task.version != self.version + 1 or self._pen.is_lost:
            return False
        self._pen.version = claim.task.version
        self.promise = claim.promise
        self._stop_listening()
        for record in claim.preload:
            self._learn(record)
        if claim.data.awaited is not None:
            self._learn(claim.data.awaited)
        return True

    def notice(self, promise: Promise) -> None:
        """A promise that this execution listens to has settled."""
        self._learn(promise)
        self._news.tell()

    def lose(self) -> None:
        """The claim is gone: stop at once, record nothing more."""
        self._pen.is_lost = True
        self._news.tell()

    def _check_claim(self) -> None:
        """Is it still ours, as far as can be known here? One that was asleep finds out by its own clock."""
        if self._pen.is_lost or self._loop.time() >= self.lease_ends_s:
            raise ClaimGone(self.id)

    def _stop_listening(self) -> None:
        for withdraw in self._listening.values():
            withdraw()
        self._listening.clear()

    def close(self) -> None:
        """Take the fibers down and call off what still runs."""
        self._stop_listening()
        self.scheduler.close()
        self._steps.close()

    # --- completions -----------------------------------------------------------------------------------

    def _learn(self, record: Promise) -> None:
        self._journal.add(record)
        if record.id in self._open and self._completed_outside(record.id):
            self._arrived[record.id] = None

    def _learn_from(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if isinstance(reply.data, PromiseReply):
                self._learn(reply.data.promise)

    def _feed(self) -> None:
        """Let the fibers see what has completed: first what is recorded, by place; then what came since."""
        while not self.scheduler.done and self.fault is None:
            recorded = self._journal.order.get(self._place)
            if recorded in self._open:
                self._place += 1
                self._deliver(recorded)
            elif len(self._open) == 1 and self._completed_outside(only := next(iter(self._open))):
                self._deliver(only)  # nothing else could have come first: its place needs no record
            elif recorded is None and self._arrived:
                promise_id = next(iter(self._arrived))
                self._pen.note(self._recorder.observation(promise_id, self._place))
                self._journal.order[self._place] = promise_id
                self._place += 1
                self._deliver(promise_id)
            else:
                return

    def _completed_outside(self, promise_id: str) -> bool:
        operation = self._open[promise_id]
        record = self._journal.records.get(promise_id)
        if record is None or isinstance(operation, Note):
            return False
        if isinstance(operation, Step):  # announced, and settled by somebody else
            return record.state != "pending" and j.PLACE not in (record.value.headers or {})
        started = isinstance(operation, Call) and not operation.waits
        return started or record.state != "pending"

    def _deliver(self, promise_id: str) -> None:
        operation = self._open.pop(promise_id)
        self._arrived.pop(promise_id, None)
        self._fresh.pop(promise_id, None)
        self._notes.pop(promise_id, None)
        try:
            value = read_outcome(operation, promise_id, self._journal.records.get(promise_id), self.around)
        except Exception as error:
            self.scheduler.reject(promise_id, error)
        else:
            self.scheduler.resolve(promise_id, value)

    # --- effects ---------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Begin what the fibers asked for, in the order in which they asked."""
        steps: list[tuple[str, Step]] = []
        fresh, self._fresh = self._fresh, {}
        for promise_id in fresh:
            operation = self._open[promise_id]
            record = self._journal.records.get(promise_id)
            if isinstance(operation, Step) and (record is None or record.state == "pending"):
                steps.append((promise_id, operation))
            elif record is None:
                self._create_outside(promise_id, operation)
            else:
                self._learn(record)
        if self._pen.unwritten:
            await self._pen.write()
            self._check_claim()  # the answer may have come late
        for promise_id, step in steps:
            self._steps.start(promise_id, step, self.info, self._open.__contains__)

    def _create_outside(self, promise_id: str, operation: Operation) -> None:
        """What completes elsewhere is created there. A call is not preloaded with us, so it leaves a mark."""
        if isinstance(operation, Call):
            self._pen.note(self._recorder.mark(promise_id, operation))
        self._pen.note(self._recorder.outside(promise_id, operation))

    def _take_note(self) -> None:
        """A choice without an effect: seen before anything else is begun, written before it has effects."""
        promise_id = next(iter(self._notes))
        note = self._open[promise_id]
        assert isinstance(note, Note)
        creation = self._recorder.note(promise_id, note, self.around.choose(promise_id, note), self._place)
        if note.cancels is not None:
            self._pen.cancel(note.cancels)
        self._pen.note(creation)
        self._journal.add(as_settled(creation))

    def _has_news(self) -> bool:
        steps = self._steps
        return bool(steps.finished or self._arrived or steps.late or self._pen.is_lost or self.scheduler.done)

    async def _announce(self) -> None:
        """A step that takes long is written down while it runs, so that people can see it."""
        late = self._steps.take_late()
        await self._pen.write([self._recorder.local(key, self._open[key]) for key in late])

    async def _wait(self) -> None:
        """Steps are running. Hear also of what settles outside meanwhile."""
        if self._pen.has_cancellation:
            await self._pen.write()  # a cancellation is not kept waiting
        if len(self._open) > len(self._steps.running):
            heard = self._steps.running.keys() | self._listening.keys()
            unheard = [key for key in self.scheduler.waiting() if key in self._open and key not in heard]
            if unheard:
                await self._listen(unheard)
        while not self._has_news():
            await self._news.wait()

    async def _listen(self, promise_ids: list[str]) -> None:
        listen = [PromiseRegisterListener(promise_id, self.around.address) for promise_id in promise_ids]
        for promise_id in promise_ids:
            self._listening[promise_id] = self.around.inbox.hear(promise_id, self.notice)
        self._learn_from(await self._pen.ask([("promise.register_listener", data) for data in listen]))

    # --- writes ----------------------------------------------------------------------------------------

    async def _record(self) -> None:
        """Write the results of steps that ended, each with its place; then let the fibers see them."""
        creations: list[PromiseCreate] = []
        place = self._place
        while self._steps.finished:
            promise_id, outcome = self._steps.finished.popleft()
            step = self._open.get(promise_id)
            if step is None:  # somebody else settled it meanwhile, and the fibers have seen that
                continue
            creations.append(self._recorder.step(promise_id, step, outcome, place))
            place += 1
        await self._pen.write(creations)

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
        suspend = TaskSuspend(self.id, self.version, actions)
        [reply] = await self._pen.write_and_ask([("task.suspend", suspend)])
        if reply.status == 200:
            self._awaiting = waiting
            return "suspended"
        if reply.status != 300:
            raise ClaimGone(f"{self.id}: {reply.data}")
        await self.catch_up(waiting)
        return None

    async def catch_up(self, promise_ids: Sequence[str] | None = None) -> None:
        """Look at what it waits for. Needed after a suspension, because messages may be lost."""
        unseen = self._open.keys() - self._arrived.keys()
        await self._look([key for key in promise_ids or self._awaiting if key in unseen])

    async def _look(self, promise_ids: Sequence[str]) -> None:
        self._learn_from(await self._pen.ask([("promise.get", PromiseGet(key)) for key in promise_ids]))

    async def _fulfil(self) -> Ending:
        for promise_id in self._fresh:  # nobody waits for the word that these have begun
            operation = self._open[promise_id]
            started = isinstance(operation, Call) and not operation.waits
            if started and promise_id not in self._journal.records:
                self._create_outside(promise_id, operation)
        try:
            value = self.around.payloads.encode(self.scheduler.result())
            settle = PromiseSettle(self.id, "resolved", value)
        except Exception as error:
            settle = PromiseSettle(self.id, "rejected", self.around.payloads.encode_error(error))
        fulfil = TaskFulfill(self.id, self.version, SettleAction(settle))
        [reply] = await self._pen.write_and_ask([("task.fulfill", fulfil)])
        if reply.status != 200:
            raise ClaimGone(f"{self.id}: {reply.data}")
        return "fulfilled"
