"""How far the code of an execution has come: what it asked for, what it has seen, and in which order.

It knows no node and no clock: it is told what was recorded (`read`, `learn`) and how steps ended, and it says
what is to be written (`take_unwritten`) and which steps are to be performed (`begin`).

`advance` lets the fibers see completions one at a time, with a full drain after each:

1. first what is recorded, by place, and a cancellation after as many completions as it was seen after;
2. then what could not have come in any other order: the only completion there is to wait for;
3. then, once the code is past its record, a request to cancel; and then what came since. That these were
   seen, and where, is noted before they are, and written before anything follows.

Code that asks for something else than was recorded is told nothing, because it could catch what it is told:
what it asked for never completes, and neither does anything after that. The first mismatch is the fault.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any, Final

from holdfast.payloads.errors import NotRecorded, WorkerError
from holdfast.protocol import limits
from holdfast.protocol.executions import Wait
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import CreateAction, PromiseCreate, PromiseSettle, Settle, SettleAction
from holdfast.runtime import Scheduler, Timer
from holdfast.runtime.driver import Origin
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow import journal as j
from holdfast.workflow.cancellation import UnwantedCalls, cancel_promise
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import ReplayMismatch
from holdfast.workflow.mismatch import arguments_in_words, now_in_words
from holdfast.workflow.open_operations import OpenOperations
from holdfast.workflow.operations import Action, Call, DurableOperation, Note, Sleep, StepOperation
from holdfast.workflow.recording import Recorder, as_settled
from holdfast.workflow.transacting import Recorded
from holdfast.workflow.waits import describe_waits

id_bytes_spare: Final = 32  # for the records beside an operation


class Progress:
    def __init__(
        self,
        root: Promise,
        records: Sequence[Promise],
        worker_context: WorkerContext,
        scheduler: Scheduler,
        work: Callable[..., Any],
    ) -> None:
        self.fault: ReplayMismatch | None = None
        self.is_replaying = False  # has the code that runs now run before, as far as the record tells?
        self.after_drain: Callable[[], None] = lambda: None
        self.cancel_id = j.cancel_id(root.id)
        self.unheard: list[tuple[str, Exception]] = []  # failures that came after the end of the code
        self._root = root
        self._worker_context = worker_context
        self._scheduler = scheduler
        self._work = work
        self._journal = j.Journal(root.id)
        self.recorder = Recorder(root, worker_context)
        self._open = OpenOperations()
        self._unwanted = UnwantedCalls(root, self._journal)
        self._unwritten: list[Action] = []  # chosen, and not durable yet
        self._count = 0  # operations
        self._seen = 0  # completions
        self._seen_at = root.created_at  # the latest of them, by the node's clock
        self._is_cancelled = False  # and the fibers have seen it
        self._last: tuple[str, str, Origin] | None = None  # the operation that was compared last
        self._place_recorded = 0  # before this process
        self.read(records)

    # --- what is known ---------------------------------------------------------------------------------

    def read(self, records: Sequence[Promise]) -> None:
        """What was recorded before this process, or the rest of it. All is read before the code runs."""
        self._journal.read(records)
        self._place_recorded = self._journal.last_place
        self._begin_drain()

    def elsewhere(self) -> list[str]:
        """What is to be looked at before the code runs."""
        return self._journal.elsewhere()

    def learn(self, record: Promise) -> None:
        self._journal.add(record)
        for promise_id in self._open.completed_by(record.id):
            if self._completed_outside(promise_id):
                self._open.arrived[promise_id] = None

    def replied(self, promise_id: str, reply: Reply) -> None:
        """The reply to what an operation has asked."""
        operation = self._open.get(promise_id)
        if operation is not None:
            operation.replied(promise_id, reply, self)

    def complete(self, promise_id: str, error: Exception | None = None) -> None:
        """An operation that only its reply completes: with nothing, or with an error."""
        settle = Settle("resolved") if error is None else Settle("rejected", self.recorder.failure(error))
        if self._scheduler.done and error is not None:
            self.unheard.append((promise_id, error))
        operation, place = self._open[promise_id], self._journal.free_place()
        self._record(self.recorder.settled(promise_id, operation, settle, place))

    def refuse(self, promise_id: str, error: Exception) -> None:
        """What cannot be created: the code sees an error there, at a place that is recorded."""
        if promise_id not in self._open:
            raise error
        operation, place = self._open[promise_id], self._journal.free_place()
        self._record(self.recorder.refusal(promise_id, operation, error, place))

    def is_open(self, promise_id: str) -> bool:
        return promise_id in self._open

    def awaited(self, promise_ids: Iterable[str]) -> list[str]:
        """The promises that complete these operations."""
        return [self._open.awaited_id(key) for key in promise_ids]

    def unseen(self, promise_ids: Iterable[str]) -> list[str]:
        """Those that may have settled without our knowing."""
        return self._open.unseen(promise_ids)

    def to_hear(self, heard: Container[str]) -> list[str]:
        """The promises outside that the fibers wait for and that are not heard of yet."""
        return self._open.to_hear(heard, self._scheduler.is_awaited)

    @property
    def has_arrived(self) -> bool:
        """Has something completed outside that the fibers have not seen?"""
        return bool(self._open.arrived)

    @property
    def has_fresh(self) -> bool:
        return bool(self._open.fresh)

    # --- asking ----------------------------------------------------------------------------------------

    def issue(self, operation: object) -> str:
        if self.fault is not None:  # something that does not exist, and so never completes
            self._count += 1
            return j.child_id(self._root.id, self._count)
        if isinstance(operation, Timer):  # the runtime's own: that of a timeout
            operation = Sleep(operation.seconds)
        assert isinstance(operation, DurableOperation), f"{operation} is not known here"
        operation.check(self._worker_context)
        promise_id = operation.fixed_id or j.child_id(self._root.id, self._count + 1)
        if promise_id in self._open:
            return promise_id  # one that has a name is asked for again
        if len(promise_id.encode()) + id_bytes_spare > limits.id_bytes_max:
            raise NotRecorded(
                f"The id of the execution leaves no room for those below it: {self._root.id[:80]}..."
            )
        operation.digest = self.recorder.payloads.digest(*operation.arguments)
        known = False
        if operation.fixed_id is None:
            self._count += 1
            known = self._journal.knows(promise_id)
        if known and not self._is_as_recorded(promise_id, operation):
            return promise_id
        self._open.add(promise_id, operation)
        if isinstance(operation, Call) and operation.waits:
            self._unwanted.watch(promise_id, operation)
        return promise_id

    def _is_as_recorded(self, promise_id: str, operation: DurableOperation) -> bool:
        where = self._scheduler.origin()
        self._last = (promise_id, operation.label, where)
        given = partial(arguments_in_words, operation, payloads=self.recorder.payloads)
        self.fault = self._journal.check(promise_id, operation.label, operation.digest, where, given)
        return self.fault is None

    def is_patched(self, name: str) -> bool | None:
        """Did the recorded run take this patch? None: nothing is recorded here, so it is free to."""
        return self._journal.took(f"note patch {name}", self._count + 1)

    def _check(self) -> None:
        """If the code has not asked for all that was recorded, that is a fault."""
        if self.fault is None and not self._to_read():
            seen = None if self._is_cancelled else self._seen
            ended = self._scheduler.done
            now = partial(now_in_words, self._scheduler, self._open, self._last, self._work)
            self.fault = self._journal.unasked(self._count, now, is_open=self.is_open, ended=ended, seen=seen)

    # --- seeing ----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let the fibers see what has completed, then compare."""
        journal = self._journal
        while not self._scheduler.done and self.fault is None:
            self.after_drain()
            recorded = journal.next
            if journal.canceled_after == self._seen and not self._is_cancelled:
                self._cancel()
            elif recorded is not None and recorded in self._open:
                if self._open[recorded].is_read_once and not journal.knows(recorded):
                    break  # a message that was seen before is to be read
                journal.place += 1
                self._deliver(recorded)
            elif (
                (only := self._open.only()) and self._completed_outside(only) and not self._open[only].copies
            ):
                self._deliver(only)  # nothing else could have come first: its place needs no record
            elif self.is_cancel_due and journal.canceled_after is None and not journal.is_led(self._count):
                self._write(self.recorder.cancellation(self._seen))
                journal.canceled_after = self._seen
            elif recorded is None and self._open.arrived:
                self._observe(next(iter(self._open.arrived)))
            else:
                break
        self._check()

    def _observe(self, promise_id: str) -> None:
        """This is the next completion that the fibers see."""
        operation, journal = self._open[promise_id], self._journal
        if operation.copies:
            settle = operation.copy(promise_id, self._completing(promise_id), self.recorder)
            self._record(self.recorder.settled(promise_id, operation, settle, journal.place))
        else:
            self._write(self.recorder.observation(promise_id, journal.place))
            journal.observe(promise_id)

    def _completed_outside(self, promise_id: str, *, needs_record: bool = True) -> bool:
        record, operation = self._completing(promise_id), self._open[promise_id]
        return record is not None and operation.is_complete(record) and (needs_record or not operation.copies)

    def _completing(self, promise_id: str) -> Promise | None:
        """The record of the promise that completes it, if that is known."""
        return self._journal.records.get(self._open.awaited_id(promise_id))

    def _begin_drain(self) -> None:
        """What the code asks for is begun only after a drain. So if anything that comes from this one on was
        recorded before this process, all of this one has run before."""
        journal = self._journal
        led = journal.place <= self._place_recorded or journal.highest > self._count
        self.is_replaying = led or self._is_to_be_cancelled

    def _deliver(self, promise_id: str) -> None:
        operation = self._open.remove(promise_id)
        if isinstance(operation, Call):
            operation.unwatch()
        self._seen += 1
        self._begin_drain()
        record = self._journal.records.get(promise_id)
        if record is not None and record.state != "pending" and not operation.is_seen_unwritten:
            self._seen_at = max(self._seen_at, record.settled_at or 0)
        refusal = self._journal.refusals.get(promise_id)
        try:
            if refusal is not None:
                raise self.recorder.decode_error(refusal.value)
            value = operation.read(promise_id, record, self.recorder)
        except Exception as error:
            self._scheduler.reject(promise_id, error)
        else:
            self._scheduler.resolve(promise_id, value)
        if operation.is_read_once:
            self._journal.forget(promise_id)

    def elapsed_s(self) -> float:
        """From its creation to the last completion that its code has seen: the same in every replay."""
        return (self._seen_at - self._root.created_at) / 1000

    # --- writing ---------------------------------------------------------------------------------------

    def describe_waits(self, waiting: Sequence[str]) -> list[Wait]:
        """For people: what it waits for, and at which lines."""
        return describe_waits(waiting, self._open, self._scheduler)

    def take_unwritten(self) -> list[Action]:
        """What was chosen since the last write, in that order."""
        unwritten, self._unwritten = self._unwritten, []
        return unwritten

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)

    @property
    def is_urgent(self) -> bool:
        """Is there something unwritten that others wait for? A cancellation is."""
        return not all(isinstance(action, CreateAction) for action in self._unwritten)

    def begin(self) -> tuple[list[tuple[str, StepOperation]], bool]:
        """Begin what the fibers asked for, in the order in which they asked. Which steps are to be performed,
        and is there anything new to see?"""
        steps: list[tuple[str, StepOperation]] = []
        fresh = self._to_read() or self._open.fresh
        self._open.fresh = {key: each for key, each in self._open.fresh.items() if key not in fresh}
        for promise_id, operation in fresh.items():
            if promise_id in self._journal.refusals:
                continue
            if isinstance(operation, StepOperation) and self._journal.is_pending(promise_id):
                steps.append((promise_id, operation))
            elif (record := self._journal.records.get(promise_id) or self._completing(promise_id)) is None:
                self._create(promise_id, operation)
            else:
                self.learn(record)
        return steps, len(steps) < len(fresh)

    def _to_read(self) -> dict[str, DurableOperation]:
        """Messages that may have been seen before, while more is recorded that the code is to be led along:
        they are read before anything is begun or compared."""
        unread = self._open.unread(self._journal.knows)
        is_led = self._journal.is_led(self._count) or self._is_to_be_cancelled
        return unread if unread and is_led else {}

    def take_note(self) -> bool:
        """A choice without an effect: seen before anything else is begun, written before it has effects."""
        if self._open.notes and self._to_read():
            return False
        for promise_id, note in self._open.notes.items():
            self._choose(promise_id, note, self._journal.place)
            return True
        return False

    def record_steps(self, outcomes: Iterable[tuple[str, StepOutcome]]) -> None:
        """The results of steps that ended, each with its place."""
        place = self._journal.free_place()
        for promise_id, outcome in outcomes:
            step = self._open.get(promise_id)
            if step is None:  # somebody else settled it meanwhile, and the fibers have seen that
                continue
            if isinstance(outcome.value, Recorded):
                self.learn(outcome.value.promise)
                continue
            self._write(self.recorder.step(promise_id, step, outcome, place))
            place += 1

    def announce(self, promise_ids: Iterable[str]) -> None:
        """Steps that take long are written down while they run, so that people can see and cancel them."""
        for promise_id in promise_ids:
            self._write(self.recorder.local(promise_id, self._open[promise_id]))
        if self.cancel_id not in self._journal.records:
            self._write(cancel_promise(self._root))

    def _create(self, promise_id: str, operation: DurableOperation) -> None:
        """What completes elsewhere is created there."""
        try:
            creations = operation.create(promise_id, self.recorder)
        except WorkerError as error:
            self.refuse(promise_id, error)
        except ValueError as error:  # past a limit of the protocol
            self.refuse(promise_id, NotRecorded(f"{operation.label} cannot be created: {error}"))
        else:
            self._unwritten += creations

    def _choose(self, promise_id: str, note: Note, place: int) -> None:
        chosen = self._worker_context.choose(promise_id, note)
        creation = self.recorder.note(promise_id, note, chosen, place)
        if note.effects is not None:
            self._unwritten += note.effects(promise_id)
        self._record(creation)

    def set_aside(self, element: Promise, error: Exception, answer: str | None) -> bool:
        """A message could not be read: that is recorded, and whoever asked is told. False: it was before."""
        if self._journal.knows(name := j.aside_id(element.id)):
            return False
        value = self.recorder.failure(error)
        self._record(self.recorder.local(name, None, Settle("rejected", value)))
        if answer is not None:
            self._unwritten.append(SettleAction(PromiseSettle(answer, "rejected", value)))
        return True

    def _record(self, creation: PromiseCreate) -> None:
        """To be written, and known to be so from now on."""
        self._write(creation)
        self._journal.add(as_settled(creation))

    def _write(self, creation: PromiseCreate) -> None:
        self._unwritten.append(CreateAction(creation))

    # --- cancellation ----------------------------------------------------------------------------------

    @property
    def is_cancel_due(self) -> bool:
        """Was it asked to cancel itself, which the fibers have not seen? Past its deadline nobody is."""
        record = None if self._is_cancelled else self._journal.records.get(self.cancel_id)
        return record is not None and record.state == "resolved"

    @property
    def _is_to_be_cancelled(self) -> bool:
        """Is a cancellation recorded that this process has not come to?"""
        return self._journal.canceled_after is not None and not self._is_cancelled

    @property
    def is_cancel_awaited(self) -> bool:
        """Is the promise there that asks it to cancel itself, and nobody has asked?"""
        return self.cancel_id in self._journal.records and self._journal.is_pending(self.cancel_id)

    def _cancel(self) -> None:
        """Throw `Cancelled` into the fibers."""
        self._is_cancelled = True
        self._begin_drain()
        self._scheduler.cancel()

    def cancel_called(self) -> bool:
        """Cancel what was called and nobody wants any more. Is there any?"""
        if not self._unwanted:
            return False
        self._unwritten += self._unwanted.take()
        return True

    # --- ending ----------------------------------------------------------------------------------------

    def end(self) -> tuple[PromiseSettle, Exception | None]:
        """How the execution ends, now that its code has; and what it failed with, unless it was cancelled.
        What the code started or cancelled last happens though nobody waits for that."""
        self.after_drain()
        for promise_id, operation in [*self._open.fresh.items(), *self._open.notes.items()]:
            if not operation.is_effect or self._journal.knows(promise_id):
                continue
            if isinstance(operation, Note):
                self._choose(promise_id, operation, self._journal.last_place + 1)
            else:
                self._create(promise_id, operation)
        self.cancel_called()
        if self.is_cancel_awaited:  # nobody has asked, and nobody will
            self._unwritten.append(SettleAction(PromiseSettle(self.cancel_id, "rejected_canceled")))
        return self.recorder.ending(self._scheduler.result, is_cancelled=self._is_cancelled)
