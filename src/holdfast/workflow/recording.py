"""How operations and their outcomes are written down: the promises that stand for them.

Everything an execution records is a promise under its own id. Its param names the operation (for the check on
replay), its value holds the outcome and, in a header, the place at which the fibers saw it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from holdfast.payloads import error_values
from holdfast.protocol import limits, tags
from holdfast.protocol.failures import TRIED, Failure, Tried, again_id
from holdfast.protocol.generations import base_of, branch_of, generation_of
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.mending import FAILED_AT
from holdfast.protocol.operations import TIMED_OUT, ran_text
from holdfast.protocol.records import NOTHING, Promise, Settlement, Value
from holdfast.protocol.requests import PromiseCreate, PromiseSettle, Settle
from holdfast.runtime import Cancelled
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow import journal as j
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.failing import Failures
from holdfast.workflow.operations import DurableOperation


class Recorder:
    """Builds the promises of one execution."""

    def __init__(self, root: Promise, worker_context: WorkerContext) -> None:
        self.timeout_at = root.timeout_at
        self.payloads = worker_context.payloads
        self.provided = worker_context.provided
        self.known_errors = worker_context.known_errors
        self.group = worker_context.group
        self._now = worker_context.now
        self.root = root.id
        self.base = base_of(root.id, generation_of(root).number)  # below it lie the records
        self._worker = worker_context.address.rpartition("/")[2]
        self._tags = {
            tags.ORIGIN: root.tags.get(tags.ORIGIN, root.id),
            tags.BRANCH: branch_of(root) or root.id,
            tags.PARENT: root.id,
            tags.SCOPE: "local",
        }

    # --- what completes here ---------------------------------------------------------------------------

    def local(
        self, promise_id: str, operation: DurableOperation | None, settle: Settle | None = None
    ) -> PromiseCreate:
        """A record of an operation; without `settle`, the announcement that it is under way."""
        param = NOTHING if operation is None else _param(operation)
        return PromiseCreate(promise_id, self.timeout_at, param, self._tags, None, settle)

    def note(self, promise_id: str, note: DurableOperation, chosen: Any, place: int) -> PromiseCreate:
        value = self.payloads.encode(chosen, {j.PLACE: str(place)})
        return self.local(promise_id, note, Settle("resolved", value))

    def step(
        self, promise_id: str, step: DurableOperation, outcome: StepOutcome, place: int
    ) -> PromiseCreate:
        headers = {j.PLACE: str(place), j.RAN: self._ran(outcome)}
        error: BaseException | None = outcome.error
        if error is None:
            try:
                settle = Settle("resolved", self.payloads.encode(outcome.value, headers))
                return self.local(promise_id, step, settle)
            except Exception as unencodable:
                error = unencodable
        return self.local(promise_id, step, Settle("rejected", self.failure(error, headers)))

    def put_off(
        self, promise_id: str, tried: Tried, failures: Sequence[Failure], delay_s: float | None
    ) -> PromiseCreate:
        """How often a step was tried, and with what that failed. With a delay it is a timer: the next attempt
        begins when that has rung."""
        param = self.payloads.encode([to_builtins(each) for each in failures], {TRIED: str(tried)})
        record_id = again_id(promise_id, tried.attempts)
        if delay_s is None:
            settle = Settle("resolved")
            return PromiseCreate(record_id, self.timeout_at, param, self._tags, settle=settle)
        entries = {**self._tags, tags.SCOPE: "global", tags.TIMER: "true"}
        return PromiseCreate(record_id, min(self.after(delay_s), limits.instant_ms_max), param, entries)

    def tried(self, attempts: int, took_s: float, before: Tried | None) -> Tried:
        """How often, since when."""
        began_at = self._now() - round(took_s * 1000) if before is None else before.began_at
        return Tried(attempts, max(began_at, 0))

    def since_s(self, began_at: int) -> float:
        return max(0, self._now() - began_at) / 1000

    def transacted(self, promise_id: str, step: DurableOperation, outcome: StepOutcome) -> PromiseCreate:
        """A result that is written by the transaction of the step, before anybody knows its place: it
        completes like something outside."""
        value = self.payloads.encode(outcome.value, {j.RAN: self._ran(outcome)})
        return self.local(promise_id, step, Settle("resolved", value))

    def settled(
        self, promise_id: str, operation: DurableOperation, settle: Settle, place: int
    ) -> PromiseCreate:
        """The outcome of an operation that somebody else has completed."""
        headers = {**(settle.value.headers or {}), j.PLACE: str(place)}
        value = Value(headers, settle.value.data)
        return self.local(promise_id, operation, Settle(settle.state, value))

    def begun(self, promise_id: str, value: Value) -> PromiseCreate:
        """What the last generation was begun with: the result takes its place in the promise."""
        return self.local(promise_id, None, Settle("resolved", value))

    def observation(self, promise_id: str, place: int) -> PromiseCreate:
        """That the completion of something outside was seen at a place."""
        headers = {j.PLACE: str(place), j.OBSERVED: promise_id}
        return self.local(j.observation_id(self.base, place), None, Settle("resolved", Value(headers)))

    def refusal(
        self, promise_id: str, operation: DurableOperation, error: Exception, place: int
    ) -> PromiseCreate:
        """That an operation could not be created, and why: what its future is rejected with."""
        value = self.failure(error, {j.PLACE: str(place), j.OBSERVED: promise_id})
        return self.local(j.refusal_id(promise_id), operation, Settle("rejected", value))

    def cancellation(self, after: int) -> PromiseCreate:
        """That a cancellation was seen after so many completions."""
        settle = Settle("resolved", Value({j.AFTER: str(after)}))
        return self.local(j.cancellation_id(self.base), None, settle)

    def ending(
        self, result: Callable[[], Any], failures: Failures, *, is_cancelled: bool, is_late: bool = False
    ) -> tuple[PromiseSettle, Exception | None]:
        """How the execution ends; and what it failed with, unless it was cancelled.
        `is_late`: by its deadline, and then it has timed out."""
        try:
            return PromiseSettle(self.root, "resolved", self.payloads.encode(result())), None
        except Exception as error:
            cancelled = is_cancelled and isinstance(error, Cancelled)
            state: Settlement = "rejected_canceled" if cancelled else "rejected"
            headers = {CODE_HEADER: TIMED_OUT} if is_late else {}
            if not cancelled:
                headers = {CODE_HEADER: error_values.failure_code(error)}
            if (point := failures.point_of(error, is_cancelled=cancelled)) is not None:
                headers[FAILED_AT] = str(point)
            return PromiseSettle(self.root, state, self.failure(error, headers)), None if cancelled else error

    def failure(self, error: BaseException, headers: dict[str, str] | None = None) -> Value:
        """An error as a value; one that is too large is cut to its first words."""
        value = self.payloads.encode_failure(error)
        return value if headers is None else Value((value.headers or {}) | headers, value.data)

    def read(
        self,
        promise_id: str,
        operation: DurableOperation,
        record: Promise | None,
        refusals: Mapping[str, Promise],
    ) -> tuple[Any, Exception | None]:
        """What the code is given for an operation that has completed or was refused: a value, or an error."""
        try:
            if promise_id in refusals:
                raise self.decode_error(refusals[promise_id].value)
            return operation.read(promise_id, record, self), None
        except Exception as error:
            return None, error

    def decode_error(self, value: Value) -> Exception:
        return self.payloads.decode_error(value, self.known_errors)

    def _ran(self, outcome: StepOutcome) -> str:
        """A step is created and settled in one write, so its record does not say when it began."""
        took_ms = outcome.duration_s * 1000
        return ran_text(self._now() - int(took_ms), took_ms, outcome.attempts, self._worker)

    @property
    def answer_tags(self) -> dict[str, str]:
        """Of the promise of an answer that this execution waits for."""
        return {**self._tags, tags.SCOPE: "global"}

    # --- what completes outside ------------------------------------------------------------------------

    def outside(
        self,
        promise_id: str,
        operation: DurableOperation,
        timeout_at: int,
        entries: Mapping[str, str],
        param: Value | None = None,
    ) -> PromiseCreate:
        """Something that completes elsewhere: a timer, a person, another execution."""
        found = {**self._tags, tags.SCOPE: "global", **entries}
        return PromiseCreate(promise_id, timeout_at, _param(operation, param), found)

    def mark(self, promise_id: str, operation: DurableOperation) -> PromiseCreate:
        """That an operation was begun whose own promise a claim does not preload."""
        param = Value({j.LABEL: operation.label})
        settle = Settle("resolved")
        return PromiseCreate(j.mark_id(promise_id), self.timeout_at, param, self._tags, settle=settle)

    def after(self, seconds: float | None) -> int:
        return self.timeout_at if seconds is None else self._now() + round(seconds * 1000)


def _param(operation: DurableOperation, given: Value | None = None) -> Value:
    headers = {} if given is None else {**(given.headers or {})}
    headers[j.LABEL] = operation.label
    if operation.digest is not None:
        headers[j.ARGUMENTS] = operation.digest
    return Value(headers, None if given is None else given.data)


def as_settled(creation: PromiseCreate) -> Promise:
    """What will be stored, for the fibers to go on from before it is."""
    settle = creation.settle
    assert settle is not None
    return Promise(
        creation.id, settle.state, creation.param, settle.value, creation.tags, creation.timeout_at, 0, 0
    )
