"""How far the code of an execution has come: what it asked for, what it has seen, and in which order.

`feed` lets the fibers see completions one at a time, with a full drain after each:

1. first what is recorded, by place, and a cancellation after as many completions as it was seen after;
2. then what could not have come in any other order: the only completion there is to wait for;
3. then, once the code is past its record, a request to cancel; and then what came since. That these were
   seen, and where, is noted before they are, and written before anything follows.

Code that asks for something else than was recorded is told nothing, because it could catch what it is told:
what it asked for never completes, and neither does anything after that. The first mismatch is the fault.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.payloads.errors import NotRecorded
from holdfast.protocol import limits
from holdfast.protocol.records import Promise, Settlement
from holdfast.protocol.requests import PromiseCreate, PromiseSettle
from holdfast.runtime import Cancelled, ExecutionClosed, Scheduler, Timer
from holdfast.runtime.driver import Origin
from holdfast.workflow import journal as j
from holdfast.workflow.cancellation import CancelRequest
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import ReplayMismatch
from holdfast.workflow.mismatch import arguments_in_words, end_in_words, wait_in_words
from holdfast.workflow.operations import Call, DurableOperation, Note, Sleep, StepOperation
from holdfast.workflow.recording import Recorder, as_settled, read_outcome

id_bytes_spare: Final = 32  # for the records beside an operation


class Progress:
    def __init__(
        self,
        root: Promise,
        records: Sequence[Promise],
        worker_context: WorkerContext,
        scheduler: Scheduler,
        note: Callable[[PromiseCreate], None],
        work: Callable[..., Any],
    ) -> None:
        self.journal = j.Journal(root.id)
        self.recorder = Recorder(root, worker_context)
        self.cancel = CancelRequest(root)
        self.open: dict[str, DurableOperation] = {}  # issued, not yet seen to complete
        self.notes: dict[str, None] = {}  # issued, not yet taken
        self.fresh: dict[str, None] = {}  # issued besides notes, not yet begun
        self.arrived: dict[str, None] = {}  # completed outside, not yet seen by the fibers
        self.called: list[str] = []  # calls that nobody wants the result of, to be cancelled too
        self.outside: dict[str, None] = {}  # issued, completes elsewhere, not yet seen to complete
        self.place = 1
        self.fault: ReplayMismatch | None = None
        self._count = 0
        self._seen = 0  # completions
        self._id = root.id
        self._worker_context = worker_context
        self._scheduler = scheduler
        self._note = note
        self._work = work
        self._last: tuple[str, str, Origin] | None = None  # the operation that was compared last
        self._place_recorded = 0  # before this process
        self.is_replaying = False  # has the code that runs now run before, as far as the record tells?
        self.read(records)

    def read(self, records: Sequence[Promise]) -> None:
        """What was recorded before this process, or the rest of it. All is read before the code runs."""
        self.journal.read(records)
        self.cancel.learn(self.journal.records.get(self.cancel.id))
        self._place_recorded = max(self.journal.order, default=0)
        self._begin_drain()

    # --- asking ----------------------------------------------------------------------------------------

    def issue(self, operation: object) -> str:
        if self.fault is not None:
            return self._never()
        if isinstance(operation, Timer):  # the runtime's own: that of a timeout
            operation = Sleep(operation.seconds)
        assert isinstance(operation, DurableOperation), f"{operation} is not known here"
        if isinstance(operation, StepOperation):
            self._worker_context.provided.check(operation.function, operation.kwargs, operation.options.mode)
        promise_id = j.child_id(self._id, self._count + 1)
        if len(promise_id.encode()) + id_bytes_spare > limits.id_bytes_max:
            raise NotRecorded(
                f"The id of the execution leaves no room for those below it: {self._id[:80]}..."
            )
        self._count += 1
        known = self.journal.knows(promise_id)
        digest = self.recorder.fingerprint(promise_id, operation, known=known)
        if known and not self._is_as_recorded(promise_id, operation, digest):
            return promise_id
        self.open[promise_id] = operation
        if isinstance(operation, Call) and operation.waits:
            operation.watch(lambda: self._call_off(promise_id, operation))
        if not isinstance(operation, StepOperation | Note):
            self.outside[promise_id] = None
        (self.notes if isinstance(operation, Note) else self.fresh)[promise_id] = None
        return promise_id

    def _never(self) -> str:
        """The id of something that does not exist, and so never completes."""
        self._count += 1
        return j.child_id(self._id, self._count)

    def _is_as_recorded(self, promise_id: str, operation: DurableOperation, digest: str | None) -> bool:
        where = self._scheduler.origin()
        self._last = (promise_id, operation.label, where)

        def given(record: Promise) -> str:
            return arguments_in_words(operation, record, self._worker_context.payloads)

        try:
            self.journal.check(promise_id, operation.label, digest, where, given)
        except ReplayMismatch as mismatch:
            self.fault = mismatch
            return False
        return True

    def _is_led(self) -> bool:
        """Is there more that was recorded, for the code to be led along?"""
        return self.place in self.journal.order or self.journal.highest > self._count

    def is_patched(self, name: str) -> bool | None:
        """Did the recorded run take this patch? None: nothing is recorded here, so it is free to."""
        return self.journal.took(f"note patch {name}", self._count + 1)

    def check(self) -> None:
        """After a feed: if the code has not asked for all that was recorded, that is a fault."""
        if self.fault is None:
            seen = None if self.cancel.is_seen else self._seen
            ended = self._scheduler.done
            self.fault = self.journal.unasked(self.place, self._count, self._now, ended=ended, seen=seen)

    def _now(self) -> str:
        """Where the code is, instead of where it was."""
        if not self._scheduler.done or self._scheduler.deadlock is not None:
            return wait_in_words(self._scheduler, self.open)
        last = None if self._last is None else "{} ({!r}, {})".format(*self._last)
        return end_in_words(self._scheduler, last, self._work)

    # --- seeing ----------------------------------------------------------------------------------------

    def learn(self, record: Promise) -> None:
        self.journal.add(record)
        self.cancel.learn(record)
        if record.id in self.open and self._completed_outside(record.id):
            self.arrived[record.id] = None

    def feed(self) -> None:
        """Let the fibers see what has completed."""
        journal = self.journal
        while not self._scheduler.done and self.fault is None:
            recorded = journal.order.get(self.place)
            if journal.canceled_after == self._seen and not self.cancel.is_seen:
                self._be_cancelled()
            elif recorded in self.open:
                self.place += 1
                self._deliver(recorded)
            elif len(self.open) == 1 and self._completed_outside(only := next(iter(self.open))):
                self._deliver(only)  # nothing else could have come first: its place needs no record
            elif self.cancel.is_due and journal.canceled_after is None and not self._is_led():
                self._note(self.recorder.cancellation(self._seen))
                journal.canceled_after = self._seen
            elif recorded is None and self.arrived:
                promise_id = next(iter(self.arrived))
                self._note(self.recorder.observation(promise_id, self.place))
                journal.order[self.place] = promise_id
                self.place += 1
                self._deliver(promise_id)
            else:
                return

    def refuse(self, promise_id: str, error: Exception) -> None:
        """What cannot be created: the code sees an error there, at a place that is recorded."""
        place = self.place
        while place in self.journal.order:
            place += 1
        refusal = self.recorder.refusal(promise_id, self.open[promise_id], error, place)
        self._note(refusal)
        self.journal.add(as_settled(refusal))

    def _completed_outside(self, promise_id: str) -> bool:
        operation = self.open[promise_id]
        record = self.journal.records.get(promise_id)
        if record is None or isinstance(operation, Note):
            return False
        if isinstance(operation, StepOperation):  # announced, and settled by somebody else
            return record.state != "pending" and j.PLACE not in (record.value.headers or {})
        started = isinstance(operation, Call) and not operation.waits
        return started or record.state != "pending"

    def _begin_drain(self) -> None:
        """What the code asks for is begun only after a drain. So if anything that comes from this one on was
        recorded before this process, all of this one has run before."""
        journal = self.journal
        to_be_cancelled = journal.canceled_after is not None and not self.cancel.is_seen
        led = self.place <= self._place_recorded or journal.highest > self._count
        self.is_replaying = led or to_be_cancelled

    def _deliver(self, promise_id: str) -> None:
        operation = self.open.pop(promise_id)
        self.outside.pop(promise_id, None)
        if isinstance(operation, Call):
            operation.unwatch()
        self._seen += 1
        self._begin_drain()
        self.arrived.pop(promise_id, None)
        self.fresh.pop(promise_id, None)
        self.notes.pop(promise_id, None)
        refusal = self.journal.refusals.get(promise_id)
        try:
            if refusal is not None:
                raise self._worker_context.payloads.decode_error(
                    refusal.value, self._worker_context.known_errors
                )
            value = read_outcome(
                operation, promise_id, self.journal.records.get(promise_id), self._worker_context
            )
        except Exception as error:
            self._scheduler.reject(promise_id, error)
        else:
            self._scheduler.resolve(promise_id, value)

    def outcome(self) -> tuple[PromiseSettle, Exception | None]:
        """How the execution ends, now that its code has; and what it failed with, unless it was cancelled."""
        try:
            value = self.recorder.result(self._scheduler.result())
            return PromiseSettle(self._id, "resolved", value), None
        except Exception as error:
            cancelled = self.cancel.is_seen and isinstance(error, Cancelled)
            state: Settlement = "rejected_canceled" if cancelled else "rejected"
            settle = PromiseSettle(self._id, state, self.recorder.failure(error))
            return settle, None if cancelled else error

    def _be_cancelled(self) -> None:
        """Throw `Cancelled` into the fibers."""
        self.cancel.is_seen = True
        self._begin_drain()
        self._scheduler.cancel()

    def _call_off(self, promise_id: str, call: Call) -> None:
        """Nobody wants the result of a call any more. A replay asks again, which is idempotent."""
        record = self.journal.records.get(promise_id)
        is_pending = record is None or record.state == "pending"
        if is_pending and not isinstance(call.called_off_because, ExecutionClosed):
            self.called.append(promise_id)
