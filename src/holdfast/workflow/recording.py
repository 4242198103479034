"""How operations and their outcomes are written down: the promises that stand for them.

Everything an execution records is a promise under its own id. Its param names the operation (for the check on
replay), its value holds the outcome and, in a header, the place at which the fibers saw it.
"""

from typing import Any

from holdfast.payloads import error_values
from holdfast.payloads.errors import NotRecorded, PayloadTooLarge
from holdfast.payloads.signature import signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.requests import PromiseCreate, Settle
from holdfast.steps.step_run import StepOutcome
from holdfast.workflow import journal as j
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.errors import CallCanceled, CallTimedOut
from holdfast.workflow.operations import Await, Call, DurableOperation, Note, Sleep
from holdfast.workflow.ran import Ran


class Recorder:
    """Builds the promises of one execution."""

    def __init__(self, root: Promise, worker_context: WorkerContext) -> None:
        self._root = root
        self._worker_context = worker_context
        self._payloads = worker_context.payloads
        self._worker = worker_context.address.rpartition("/")[2]
        self._digests: dict[str, str | None] = {}
        self._tags = {
            tags.ORIGIN: root.tags.get(tags.ORIGIN, root.id),
            tags.BRANCH: root.tags.get(tags.BRANCH, root.id),
            tags.PARENT: root.id,
            tags.SCOPE: "local",
        }

    def fingerprint(self, promise_id: str, operation: DurableOperation, *, known: bool) -> str | None:
        """Of the arguments as they are when it is asked for: the code may change them afterwards."""
        digest = self._payloads.digest(*operation.arguments)
        if not known:
            self._digests[promise_id] = digest
        return digest

    def local(
        self, promise_id: str, operation: DurableOperation, settle: Settle | None = None
    ) -> PromiseCreate:
        """Something that completes here; without `settle`, the announcement that it is under way."""
        headers = {j.LABEL: operation.label}
        digest = self._digests.get(promise_id) if settle is None else self._digests.pop(promise_id, None)
        if digest is not None:
            headers[j.ARGUMENTS] = digest
        return PromiseCreate(promise_id, self._root.timeout_at, Value(headers), self._tags, settle=settle)

    def note(self, promise_id: str, note: Note, chosen: Any, place: int) -> PromiseCreate:
        value = self._payloads.encode(chosen, {j.PLACE: str(place)})
        return self.local(promise_id, note, Settle("resolved", value))

    def step(
        self, promise_id: str, step: DurableOperation, outcome: StepOutcome, place: int
    ) -> PromiseCreate:
        return self.local(promise_id, step, self._settlement(outcome, place))

    def observation(self, promise_id: str, place: int) -> PromiseCreate:
        """That the completion of something outside was seen at a place."""
        name = j.observation_id(self._root.id, place)
        settle = Settle("resolved", Value({j.PLACE: str(place), j.OBSERVED: promise_id}))
        return PromiseCreate(name, self._root.timeout_at, Value(), self._tags, settle=settle)

    def refusal(
        self, promise_id: str, operation: DurableOperation, error: Exception, place: int
    ) -> PromiseCreate:
        """That an operation could not be created, and why: what its future is rejected with."""
        plain = self.local(promise_id, operation)
        self._digests.pop(promise_id, None)
        value = self.failure(error)
        headers = {**(value.headers or {}), j.PLACE: str(place), j.OBSERVED: promise_id}
        settle = Settle("rejected", Value(headers, value.data))
        name = j.refusal_id(promise_id)
        return PromiseCreate(name, self._root.timeout_at, plain.param, self._tags, settle=settle)

    def cancellation(self, after: int) -> PromiseCreate:
        """That a cancellation was seen after so many completions."""
        name = j.cancellation_id(self._root.id)
        settle = Settle("resolved", Value({j.AFTER: str(after)}))
        return PromiseCreate(name, self._root.timeout_at, Value(), self._tags, settle=settle)

    def failure(self, error: BaseException) -> Value:
        """An error as a value; one that is too large is cut to its first words."""
        try:
            return self._payloads.encode_error(error)
        except PayloadTooLarge:
            return self._payloads.encode_error(
                NotRecorded(f"{type(error).__name__}: {error_values.text_of(error)[:1_000]} ...")
            )

    def result(self, result: Any, headers: dict[str, str] | None = None) -> Value:
        return self._payloads.encode(result, headers)

    def mark(self, promise_id: str, operation: DurableOperation) -> PromiseCreate:
        """That a call was made: kept here, while the call itself lives with its answer."""
        return self.local(j.mark_id(promise_id), operation, Settle("resolved"))

    def outside(self, promise_id: str, operation: DurableOperation) -> PromiseCreate:
        """Something that completes elsewhere: a timer, a person, another execution."""
        plain = self.local(promise_id, operation)
        self._digests.pop(promise_id, None)
        entries = {**self._tags, tags.SCOPE: "global"}
        if isinstance(operation, Sleep):
            entries[tags.TIMER] = "true"
            return PromiseCreate(promise_id, self._after(operation.seconds), plain.param, entries)
        if isinstance(operation, Await):
            entries |= operation.tags | {tags.EXTERNAL: "true"}
            deadline = min(self._after(operation.timeout_s), self._root.timeout_at)
            return PromiseCreate(promise_id, deadline, plain.param, entries)
        assert isinstance(operation, Call), f"{operation} completes here"
        call = self._encode(operation)
        entries = {**operation.tags, **entries}
        entries[tags.TARGET] = f"poll://any@{operation.group or self._worker_context.group}"
        if operation.job_call is not None:
            entries |= {**operation.job_call.entries, tags.TARGET: operation.job_call.target}
            if operation.job_call.delay_s:
                entries[tags.DELAY] = str(
                    min(self._after(operation.job_call.delay_s), limits.instant_ms_max - 1)
                )
        entries[tags.BRANCH] = promise_id  # it has steps of its own
        deadline = self._after(operation.timeout_s)
        if operation.waits:
            deadline = min(deadline, self._root.timeout_at)
        param = Value({**(call.headers or {}), **(plain.param.headers or {})}, call.data)
        return PromiseCreate(promise_id, deadline, param, entries)

    def _encode(self, call: Call) -> Value:
        name, args, kwargs, version = call.workflow, call.args, call.kwargs, call.version
        if call.function is None:
            return self._payloads.encode_call(name, args, kwargs, version)
        supplied = self._worker_context.provided.names(call.function)
        return self._payloads.encode_call(name, args, kwargs, version, signature_of(call.function), supplied)

    def _after(self, seconds: float | None) -> int:
        return (
            self._root.timeout_at if seconds is None else self._worker_context.now() + round(seconds * 1000)
        )

    def _ran(self, outcome: StepOutcome) -> str:
        """A step is created and settled in one write, so its record does not say when it began."""
        took_ms = outcome.duration_s * 1000
        began_at = self._worker_context.now() - round(took_ms)
        return str(Ran(began_at, round(took_ms, 3), outcome.attempts, self._worker))

    def _settlement(self, outcome: StepOutcome, place: int) -> Settle:
        headers = {j.PLACE: str(place), j.RAN: self._ran(outcome)}
        error: BaseException | None = outcome.error
        if error is None:
            try:
                return Settle("resolved", self.result(outcome.value, headers))
            except Exception as unencodable:
                error = unencodable
        value = self.failure(error)
        return Settle("rejected", Value((value.headers or {}) | headers, value.data))


def as_settled(creation: PromiseCreate) -> Promise:
    """What will be stored, for the fibers to go on from before it is."""
    settle = creation.settle
    assert settle is not None
    return Promise(
        creation.id, settle.state, creation.param, settle.value, creation.tags, creation.timeout_at, 0, 0
    )


def read_outcome(
    operation: DurableOperation, promise_id: str, record: Promise | None, worker_context: WorkerContext
) -> Any:
    """What the fibers see of a completion: its value, or its error raised."""
    if isinstance(operation, Call) and not operation.waits:
        return promise_id
    if isinstance(operation, Sleep):
        return None
    assert record is not None, f"{promise_id} completed without a record"
    if isinstance(operation, Call) and operation.job_call is not None:
        return operation.job_call.read(record, worker_context.payloads, worker_context.known_errors)
    if record.state == "resolved":
        return worker_context.payloads.decode(record.value, operation.returns)
    if record.state == "rejected":
        raise worker_context.payloads.decode_error(record.value, worker_context.known_errors)
    if record.state == "rejected_canceled":
        raise CallCanceled(f"{promise_id} ({operation.label}) was cancelled")
    raise CallTimedOut(f"{promise_id} ({operation.label}) timed out")
