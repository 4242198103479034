"""What is written of steps, and which of them wait for their next attempt.

A step that waits long for its next attempt is put off, with a record of what was tried, until a timer rings.

1. Such a step is under way nowhere: it holds no slot, and the execution may suspend. The attempts so far,
   their failures and the next instant are recorded before that.
2. The code sees nothing of it. When the timer has rung the step is begun again, here or in any other process,
   with its count of attempts.
3. One that nobody wants any more ends at once, as it would if it ran.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.protocol.executions import Wait
from holdfast.protocol.failures import Failure, Tried, read_failures
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import PromiseCreate
from holdfast.steps.step_run import StepOutcome, called_off
from holdfast.workflow.journal import Journal
from holdfast.workflow.operations import DurableOperation, StepOperation
from holdfast.workflow.recording import Recorder
from holdfast.workflow.running_steps import announce_s
from holdfast.workflow.transacting import Recorded

error_chars_max: Final = 200


class StepRecords:
    """Of one execution."""

    def __init__(self, journal: Journal, recorder: Recorder) -> None:
        self._journal = journal
        self._recorder = recorder
        self._timers: dict[str, str] = {}  # by the id of the step
        self.timers: dict[str, tuple[str, StepOperation]] = {}  # of those steps, by the id of the timer

    def record(
        self,
        outcomes: Iterable[tuple[str, StepOutcome]],
        failures: dict[str, list[Failure]],
        asked: Mapping[str, DurableOperation],
    ) -> tuple[list[PromiseCreate], list[Promise]]:
        """What is written of steps that have ended or are put off; and what they have written themselves."""
        creations: list[PromiseCreate] = []
        recorded: list[Promise] = []
        place = self._journal.free_place()
        for promise_id, outcome in outcomes:
            step = asked.get(promise_id)
            failed = failures.pop(promise_id) if promise_id in failures else ()
            if not isinstance(step, StepOperation):  # somebody else settled it, and the fibers have seen that
                continue
            if outcome.rests_s is not None:
                creations += self._put_off(promise_id, step, outcome, failed)
                continue
            if failed:
                creations += self._tell(promise_id, failed, outcome.duration_s)
            if isinstance(outcome.value, Recorded):
                recorded.append(outcome.value.promise)
            else:
                creations.append(self._recorder.step(promise_id, step, outcome, place))
                place += 1
        return creations, recorded

    def announce(
        self, promise_id: str, step: DurableOperation, failures: Sequence[Failure]
    ) -> list[PromiseCreate]:
        """That it is under way, and what failed so far."""
        return [self._recorder.local(promise_id, step), *self._tell(promise_id, failures, announce_s)]

    def _put_off(
        self, promise_id: str, step: StepOperation, outcome: StepOutcome, failures: Sequence[Failure]
    ) -> list[PromiseCreate]:
        tried = self._recorder.tried(outcome.attempts, outcome.duration_s, self.tried(promise_id))
        record = self._recorder.put_off(promise_id, tried, failures, outcome.rests_s)
        self._wait(promise_id, step, record.id)
        return [self._recorder.local(promise_id, step), record]

    def _tell(self, promise_id: str, failures: Sequence[Failure], took_s: float) -> list[PromiseCreate]:
        """What is written of failures while the step goes on, or has ended."""
        if not failures:
            return []
        tried = self._recorder.tried(failures[-1].attempt, took_s, self.tried(promise_id))
        return [self._recorder.put_off(promise_id, tried, failures, None)]

    def tried(self, promise_id: str) -> Tried | None:
        """The attempts at a step that are recorded."""
        return self._journal.tried(promise_id) if self._journal.put_off else None

    def is_put_off(self, promise_id: str, step: StepOperation) -> bool:
        """Does the record say that this step waits? Then it is waited for here."""
        record = self._journal.put_off.get(promise_id)
        if record is None or record.state != "pending":
            return False
        self._wait(promise_id, step, record.id)
        return True

    def _wait(self, promise_id: str, step: StepOperation, timer: str) -> None:
        self._timers[promise_id] = timer
        self.timers[timer] = promise_id, step

    def timer_of(self, promise_id: str) -> str | None:
        return self._timers.get(promise_id)

    def take_due(self, record: Promise) -> tuple[str, StepOperation] | None:
        """The step whose timer this is, if it has rung."""
        if record.state == "pending" or record.id not in self.timers:
            return None
        promise_id, step = self.timers.pop(record.id)
        del self._timers[promise_id]
        return promise_id, step

    def remove(self, promise_id: str) -> None:
        """Somebody has settled it."""
        timer = self._timers.pop(promise_id, None)
        if timer is not None:
            del self.timers[timer]

    def take_called_off(self) -> list[tuple[str, StepOutcome]]:
        """Those that nobody wants any more, with their end."""
        ended: list[tuple[str, StepOutcome]] = []
        for promise_id, step in [*self.timers.values()]:
            if step.is_called_off:
                self.remove(promise_id)
                ended.append((promise_id, self._end(promise_id, step)))
        return ended

    def describe(self, wait: Wait) -> Wait:
        """For people: how often the step was tried, why that failed, and when it goes on."""
        record, tried = self._journal.put_off.get(wait.id), self.tried(wait.id)
        if record is None or tried is None or wait.id not in self._timers:
            return wait
        error = ""
        if not self._recorder.payloads.is_coded:  # what nobody shall read in the store is not told there
            failures = read_failures(self._recorder.payloads.decode(record.param))
            error = f"{failures[-1].code}: {failures[-1].message}" if failures else ""
        return replace(
            wait, attempts=tried.attempts, error=error[:error_chars_max], resumes_at=record.timeout_at
        )

    def _end(self, promise_id: str, step: StepOperation) -> StepOutcome:
        tried = self.tried(promise_id)
        assert tried is not None
        took_s = self._recorder.since_s(tried.began_at)
        return StepOutcome(None, called_off(step), tried.attempts, took_s)
