"""How far the code of an execution has come: what it asked for, what it has seen, and in which order.

It knows no node and no clock: it is told what was recorded (`read`, `learn`) and how steps ended, and it says
what is to be written (`take_unwritten`) and which steps are to be performed (`begin`).

`advance` lets the fibers see completions one at a time, with a full drain after each:

1. first what is recorded, by place, and a cancellation after as many completions as it was seen after;
2. then what could not have come in any other order: the only completion there is to wait for;
3. then, once the code is past its record, a request to cancel; and then what came since. That these were
   seen, and where, is noted before they are, and written before anything follows.

Code that asks for something else than was recorded is told nothing: it could catch that. What it asked for
never completes, and neither does anything after it. The first mismatch is the fault.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any, Final

from holdfast.payloads.errors import NotRecorded, WorkerError
from holdfast.protocol import limits
from holdfast.protocol.cancelling import asked_by_deadline
from holdfast.protocol.executions import Wait
from holdfast.protocol.failures import Failure
from holdfast.protocol.generations import generation_of
from holdfast.protocol.mending import FailurePoint
from holdfast.protocol.records import NOTHING, Promise, Value
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import CreateAction, PromiseCreate, PromiseSettle, Settle, SettleAction
from holdfast.runtime import Scheduler, TimedOut, Timer
from holdfast.runtime.driver import Origin
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow import journal as j
from holdfast.workflow.cancellation import UnwantedCalls, cancel_promise, out_of_time
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.ended_operations import EndedOperations
from holdfast.workflow.errors import ReplayMismatch
from holdfast.workflow.failing import Failures
from holdfast.workflow.generations import began_at
from holdfast.workflow.mismatch import arguments_in_words, now_in_words
from holdfast.workflow.open_operations import OpenOperations
from holdfast.workflow.operations import (
    Action,
    Await,
    CallOperation,
    DurableOperation,
    Note,
    Sleep,
    StepOperation,
)
from holdfast.workflow.recording import Recorder, as_settled
from holdfast.workflow.step_records import StepRecords
from holdfast.workflow.waits import describe_waits

id_bytes_spare: Final = 32  # for the records beside an operation
number_chars: Final = 20  # of an operation, at most


class Progress:
    def __init__(
        self,
        root: Promise,
        records: Sequence[Promise],
        worker_context: WorkerContext,
        scheduler: Scheduler,
        work: Callable[..., Any],
        workflow: str = "",
    ) -> None:
        self.fault: ReplayMismatch | None = None
        self.is_replaying = False  # has the code that runs now run before, as far as the record tells?
        self.after_drain: Callable[[], None] | None = None
        self.cancel_id = j.cancel_id(root.id)
        self.unheard: list[tuple[str, Exception]] = []  # failures that came after the end of the code
        self._root = root
        self._worker_context = worker_context
        self._scheduler = scheduler
        self._work = work
        self.recorder = Recorder(root, worker_context)
        self.ended = EndedOperations(root, workflow, worker_context.observers, worker_context.now)
        self._number = generation_of(root).number
        self._base = self.recorder.base
        self._below = j.below(self._base)
        self._has_room = len(self._below.encode()) + number_chars + id_bytes_spare <= limits.id_bytes_max
        self._names: list[str] = []  # of promises with a name whose outcome the code has seen
        self.tickets: dict[str, str] = {}  # for locks that its code holds or wants, and their names
        self._journal = j.Journal(root.id, self._base)
        self._open = self.asked = OpenOperations()
        self.is_cancel_due = False  # asked to cancel itself, which the fibers have not seen
        self.steps = StepRecords(self._journal, self.recorder)
        self.unwanted = UnwantedCalls(root, self._journal)
        self.unwritten: list[Action] = []  # chosen, and not durable yet
        self._count = 0  # operations
        self._seen = 0  # completions
        self._began_at = began_at(root)
        self._seen_at = self._began_at  # the latest of them, by the node's clock
        self.is_cancelled = False  # and the fibers have seen it
        self._failures = Failures()
        self._last: tuple[str, str, Origin] | None = None  # the operation that was compared last
        self._place_recorded = 0  # before this process
        self.read(records)

    # --- what is known ---------------------------------------------------------------------------------

    def read(self, records: Sequence[Promise]) -> None:
        """What was recorded before this process, or the rest of it. All is read before the code runs."""
        self._journal.read(records)
        self._place_recorded = self._journal.last_place
        self._look_for_cancellation()
        self._begin_drain()

    def elsewhere(self) -> list[str]:
        """What is to be looked at before the code runs."""
        return self._journal.elsewhere()

    def learn(self, record: Promise) -> None:
        self._journal.add(record)
        known = self._journal.records[record.id]
        for promise_id in self._open.completed_by(record.id):
            if self._open[promise_id].is_complete(known):
                self._open.arrived[promise_id] = None
        if self.steps.timers and (due := self.steps.take_due(record)) is not None and due[0] in self._open:
            self._open.fresh[due[0]] = due[1]  # its next attempt
        if record.id == self.cancel_id:
            self._look_for_cancellation()

    def replied(self, promise_id: str, reply: Reply) -> None:
        """The reply to what an operation has asked."""
        if (operation := self._open.get(promise_id)) is not None:
            operation.replied(promise_id, reply, self)

    def complete(self, promise_id: str, error: Exception | None = None, value: Value = NOTHING) -> None:
        """An operation that only its reply completes: with a value, or with an error."""
        settle = Settle("resolved", value)
        if error is not None:
            settle = Settle("rejected", self.recorder.failure(error))
        if self._scheduler.done and error is not None:
            self.unheard.append((promise_id, error))
        operation, place = self._open[promise_id], self._journal.free_place()
        self._record(self.recorder.settled(promise_id, operation, settle, place))

    def add_unwritten(self, actions: Sequence[Action]) -> None:
        """More that an operation asks for, because of a reply."""
        self.unwritten += actions

    def refuse(self, promise_id: str, error: Exception) -> None:
        """What cannot be created: the code sees an error there, at a place that is recorded."""
        if promise_id not in self._open:
            raise error
        operation, place = self._open[promise_id], self._journal.free_place()
        self._record(self.recorder.refusal(promise_id, operation, error, place))

    def awaited(self, promise_ids: Iterable[str]) -> list[str]:
        """The promises that complete these operations; and the timers of all steps that are put off."""
        own = [self._open.awaited_id(key) for key in promise_ids if self.steps.timer_of(key) is None]
        return [*own, *self.steps.timers]

    def unseen(self, promise_ids: Iterable[str]) -> list[str]:
        """Those that may have settled without our knowing."""
        return [*self._open.unseen(promise_ids), *self.steps.timers]

    def to_hear(self, heard: Container[str]) -> list[str]:
        """The promises outside that the fibers wait for and that are not heard of yet."""
        timers = [timer for timer in self.steps.timers if timer not in heard]
        return self._open.to_hear(heard, self._scheduler.is_awaited) + timers

    # --- asking ----------------------------------------------------------------------------------------

    def issue(self, operation: object) -> str:
        if self.fault is not None:  # something that does not exist, and so never completes
            self._count += 1
            return f"{self._below}{self._count}"
        if isinstance(operation, Timer):  # the runtime's own: that of a timeout
            operation = Sleep(operation.seconds, is_alarm=True)
        assert isinstance(operation, DurableOperation), f"{operation} is not known here"
        if self._number and isinstance(operation, Await):
            operation.number()
        operation.check(self._worker_context)
        promise_id = operation.fixed_id or f"{self._below}{self._count + 1}"
        if promise_id in self._open:
            return promise_id  # one that has a name is asked for again
        if (operation.fixed_id is not None or not self._has_room) and not _has_room(promise_id):
            raise NotRecorded(
                f"The id is too long to add the ids of its steps, use a shorter one: {self._root.id[:80]}..."
            )
        operation.digest = self.recorder.payloads.digest(*operation.arguments)
        if operation.fixed_id is None:
            self._count += 1
            journal = self._journal
            is_known = promise_id in journal.records or promise_id in journal.refusals
            if is_known and not self._is_as_recorded(promise_id, operation):
                return promise_id
        self._open.add(promise_id, operation)
        if isinstance(operation, CallOperation) and operation.waits:
            self.unwanted.watch(promise_id, operation)
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
        journal = self._journal
        is_led = journal.place in journal.order or journal.highest > self._count
        if not is_led and journal.canceled_after is None:
            return  # nothing is recorded that it has not asked for
        if self.fault is None and not self._to_read():
            seen = None if self.is_cancelled else self._seen
            now = partial(now_in_words, self._scheduler, self._open, self._last, self._work)
            self.fault = journal.unasked(
                self._count, now, is_open=self._open.__contains__, ended=self._scheduler.done, seen=seen
            )

    # --- seeing ----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Let the fibers see what has completed, then compare."""
        journal = self._journal
        while self.fault is None:
            if self.after_drain is not None:  # also after the last one: what it asks for may be recorded
                self.after_drain()
            if self._scheduler.done:
                break
            recorded = journal.order.get(journal.place)
            if journal.canceled_after == self._seen and not self.is_cancelled:
                self._cancel()
            elif recorded is not None and recorded in self._open:
                if self._open[recorded].is_read_once and not journal.knows(recorded):
                    break  # a message that was seen before is to be read
                self._deliver(recorded, is_placed=True)
            elif len(self._open) == 1 and (only := self._only_completed()) is not None:
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

    def _only_completed(self) -> str | None:
        """The only operation that is open, if it has completed outside."""
        for promise_id, operation in self._open.items():
            awaited = operation.awaits or promise_id
            if awaited in self._journal.records and not operation.copies:
                return promise_id if operation.is_complete(self._journal.records[awaited]) else None
        return None

    def _completing(self, promise_id: str) -> Promise | None:
        """The record of the promise that completes it, if that is known."""
        return self._journal.records.get(self._open.awaited_id(promise_id))

    def _begin_drain(self) -> None:
        """What the code asks for is begun only after a drain. So if anything that comes from this one on was
        recorded before this process, all of this one has run before."""
        journal = self._journal
        self.is_replaying = (
            journal.place <= self._place_recorded
            or journal.highest > self._count
            or (journal.canceled_after is not None and not self.is_cancelled)
        )

    def _deliver(self, promise_id: str, *, is_placed: bool = False) -> None:
        journal, place, asked = self._journal, self._journal.place, self._count
        operation = self._open.remove(promise_id)
        if self.steps.timers:
            self.steps.remove(promise_id)
        journal.place += is_placed
        if isinstance(operation, CallOperation):
            operation.unwatch()
        elif isinstance(operation, Await) and operation.named is not None:
            self._names.append(operation.named)
        self._seen += 1
        self._begin_drain()
        record = journal.records.get(promise_id)
        if record is not None and record.state != "pending" and not operation.is_seen_unwritten:
            settled_at = record.settled_at or 0
            if settled_at > self._seen_at:
                self._seen_at = settled_at
        value, failure = self.recorder.read(promise_id, operation, record, journal.refusals)
        if self.ended.is_wanted and not self.is_replaying:
            self.ended.seen(promise_id, operation, record, failure)
        if failure is not None or not operation.completes_here:
            self._failures.passed(FailurePoint(place, asked, promise_id), operation, failure)
        if failure is not None:
            self._scheduler.reject(promise_id, failure)
        else:
            self._scheduler.resolve(promise_id, value)
        if operation.is_read_once:
            self._journal.forget(promise_id)

    def elapsed_s(self) -> float:
        """From the begin of this generation to the last completion that its code has seen."""
        return max(0, self._seen_at - self._began_at) / 1000

    # --- writing ---------------------------------------------------------------------------------------

    def describe_waits(self, waiting: Sequence[str]) -> list[Wait]:  # for people
        return describe_waits(waiting, self._open, self._scheduler, self.steps.describe)

    def take_unwritten(self) -> list[Action]:
        """What was chosen since the last write, in that order."""
        unwritten, self.unwritten = self.unwritten, []
        return unwritten

    @property
    def is_urgent(self) -> bool:
        """Is there something unwritten that others wait for? A cancellation is."""
        return not all(isinstance(action, CreateAction) for action in self.unwritten)

    def begin(self) -> tuple[list[tuple[str, StepOperation]], bool]:
        """Begin what the fibers asked for, in order: the steps to perform; is there anything new to see?"""
        steps: list[tuple[str, StepOperation]] = []
        journal, fresh = self._journal, self._open.fresh
        left: dict[str, DurableOperation] = {}
        if self._open.messages and (unread := self._to_read()):
            left = {key: each for key, each in fresh.items() if key not in unread}
            fresh = unread
        self._open.fresh = left
        for promise_id, operation in fresh.items():
            if promise_id in journal.refusals:
                continue
            record = journal.records.get(promise_id)
            if isinstance(operation, StepOperation) and (record is None or record.state == "pending"):
                if not (journal.put_off and self.steps.is_put_off(promise_id, operation)):
                    steps.append((promise_id, operation))
            elif (record := record or self._completing(promise_id)) is None:
                self._create(promise_id, operation)
            else:
                self.learn(record)
        return steps, len(steps) < len(fresh)

    def _to_read(self) -> dict[str, DurableOperation]:
        """Messages that may have been seen before, while more is recorded: to be read before all else."""
        if self._open.messages and (self._journal.is_led(self._count) or self._is_to_be_cancelled):
            return self._open.unread(self._journal.knows)
        return {}

    @property
    def waits_for_message(self) -> bool:
        """Do the fibers wait for the next message, which is asked for now, and for nothing else?"""
        only = self._open.only()
        return (
            only is not None
            and self._open[only].is_read_once
            and not (self._open.arrived or self._open.notes or self.unwanted)
            and self._completing(only) is None
            and not (self._journal.is_led(self._count) or self._is_to_be_cancelled or self.is_cancel_due)
        )

    def take_note(self) -> bool:
        """A choice without an effect: seen before anything else is begun, written before it has effects."""
        if self._open.notes and self._to_read():
            return False
        for promise_id, note in self._open.notes.items():
            self._choose(promise_id, note, self._journal.place)
            return True
        return False

    def record_steps(
        self, outcomes: Sequence[tuple[str, StepOutcome]], failures: dict[str, list[Failure]]
    ) -> None:
        """The results of steps that ended, each with its place, and what failed before them."""
        if self.ended.is_wanted:
            for promise_id, outcome in outcomes:
                step = self._open.get(promise_id)
                if step is not None and outcome.rests_s is None:
                    self.ended.step(promise_id, step, outcome)
        creations, recorded = self.steps.record(outcomes, failures, self._open)
        self.unwritten += map(CreateAction, creations)
        for promise in recorded:
            self.learn(promise)

    def announce(self, promise_ids: Iterable[str], failures: dict[str, list[Failure]]) -> None:
        """Steps that take long are written down while they run, so that people can see and cancel them."""
        for promise_id in promise_ids:
            failed = failures.pop(promise_id, [])
            self._write(*self.steps.announce(promise_id, self._open[promise_id], failed))
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
            self.unwritten += creations

    def _choose(self, promise_id: str, note: Note, place: int) -> None:
        chosen = self._worker_context.choose(promise_id, note)
        creation = self.recorder.note(promise_id, note, chosen, place)
        if note.effects is not None:
            self.unwritten += note.effects(promise_id)
        self._record(creation)

    def set_aside(self, element: Promise, error: Exception, answer: str | None) -> bool:
        """A message could not be read: that is recorded, and whoever asked is told. False: it was before."""
        if self._journal.knows(name := j.aside_id(element.id)):
            return False
        value = self.recorder.failure(error)
        self._record(self.recorder.local(name, None, Settle("rejected", value)))
        if answer is not None:
            self.unwritten.append(SettleAction(PromiseSettle(answer, "rejected", value)))
        return True

    def _record(self, creation: PromiseCreate) -> None:
        """To be written, and known to be so from now on."""
        self._write(creation)
        self._journal.add(as_settled(creation))

    def _write(self, *creations: PromiseCreate) -> None:
        self.unwritten += map(CreateAction, creations)

    # --- cancellation ----------------------------------------------------------------------------------

    def _look_for_cancellation(self) -> None:
        """Was it asked to cancel itself? Past its deadline nobody is."""
        record = None if self.is_cancelled else self._journal.records.get(self.cancel_id)
        self.is_cancel_due = record is not None and record.state == "resolved"

    @property
    def _is_to_be_cancelled(self) -> bool:
        """Is a cancellation recorded that this process has not come to?"""
        return self._journal.canceled_after is not None and not self.is_cancelled

    def _cancel(self) -> None:
        """Throw `Cancelled` into the fibers."""
        self.is_cancelled = True
        self.is_cancel_due = False
        self._failures.cancelled(self._journal.place, self._count)
        self._begin_drain()
        self._scheduler.cancel(TimedOut(out_of_time(self._root)) if self.is_out_of_time else None)

    @property
    def is_out_of_time(self) -> bool:
        """Was it its deadline that asked it to cancel itself? Every replay sees the same record."""
        asked = self._journal.records.get(self.cancel_id)
        return asked is not None and asked_by_deadline(asked)


def _has_room(promise_id: str) -> bool:
    """For the ids of the records beside it."""
    return len(promise_id.encode()) + id_bytes_spare <= limits.id_bytes_max
