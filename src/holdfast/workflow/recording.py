"""How operations and their outcomes are written down: the promises that stand for them.

Everything an execution records is a promise under its own id. Its param names the operation (for the check on
replay), its value holds the outcome and, in a header, the place at which the fibers saw it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.payloads import error_values
from holdfast.payloads.errors import NotRecorded, PayloadTooLarge
from holdfast.protocol import tags
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.operations import Ran
from holdfast.protocol.records import Promise, Settlement, Value
from holdfast.protocol.requests import PromiseCreate, PromiseSettle, Settle
from holdfast.runtime import Cancelled
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow import journal as j
from holdfast.workflow.context import WorkerContext
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
        self._worker = worker_context.address.rpartition("/")[2]
        self._tags = {
            tags.ORIGIN: root.tags.get(tags.ORIGIN, root.id),
            tags.BRANCH: root.tags.get(tags.BRANCH, root.id),
            tags.PARENT: root.id,
            tags.SCOPE: "local",
        }

    # --- what completes here ---------------------------------------------------------------------------

    def local(
        self, promise_id: str, operation: DurableOperation | None, settle: Settle | None = None
    ) -> PromiseCreate:
        """A record of an operation; without `settle`, the announcement that it is under way."""
        param = Value() if operation is None else _param(operation)
        return PromiseCreate(promise_id, self.timeout_at, param, self._tags, settle=settle)

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

    def observation(self, promise_id: str, place: int) -> PromiseCreate:
        """That the completion of something outside was seen at a place."""
        headers = {j.PLACE: str(place), j.OBSERVED: promise_id}
        return self.local(j.observation_id(self.root, place), None, Settle("resolved", Value(headers)))

    def refusal(
        self, promise_id: str, operation: DurableOperation, error: Exception, place: int
    ) -> PromiseCreate:
        """That an operation could not be created, and why: what its future is rejected with."""
        value = self.failure(error, {j.PLACE: str(place), j.OBSERVED: promise_id})
        return self.local(j.refusal_id(promise_id), operation, Settle("rejected", value))

    def cancellation(self, after: int) -> PromiseCreate:
        """That a cancellation was seen after so many completions."""
        settle = Settle("resolved", Value({j.AFTER: str(after)}))
        return self.local(j.cancellation_id(self.root), None, settle)

    def ending(
        self, result: Callable[[], Any], *, is_cancelled: bool
    ) -> tuple[PromiseSettle, Exception | None]:
        """How the execution ends; and what it failed with, unless it was cancelled."""
        try:
            return PromiseSettle(self.root, "resolved", self.payloads.encode(result())), None
        except Exception as error:
            cancelled = is_cancelled and isinstance(error, Cancelled)
            state: Settlement = "rejected_canceled" if cancelled else "rejected"
            code = None if cancelled else {CODE_HEADER: error_values.failure_code(error)}
            return PromiseSettle(self.root, state, self.failure(error, code)), None if cancelled else error

    def failure(self, error: BaseException, headers: dict[str, str] | None = None) -> Value:
        """An error as a value; one that is too large is cut to its first words."""
        try:
            value = self.payloads.encode_error(error)
        except PayloadTooLarge:
            value = self.payloads.encode_error(
                NotRecorded(f"{type(error).__name__}: {error_values.text_of(error)[:1_000]} ...")
            )
        return value if headers is None else Value((value.headers or {}) | headers, value.data)

    def decode_error(self, value: Value) -> Exception:
        return self.payloads.decode_error(value, self.known_errors)

    def _ran(self, outcome: StepOutcome) -> str:
        """A step is created and settled in one write, so its record does not say when it began."""
        took_ms = outcome.duration_s * 1000
        return str(Ran(self._now() - round(took_ms), round(took_ms, 3), outcome.attempts, self._worker))

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
