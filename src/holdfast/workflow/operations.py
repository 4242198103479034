"""What an execution can ask the world for: one class for each kind of durable operation.

A kind brings its own behaviour: what is written to begin it (`create`), when a record completes it
(`is_complete`) and what the code is given then (`read`). A step is performed by the driver, and a note is
chosen on the spot; both complete here. Everything else completes outside.

`label` is what a replay compares with what was recorded, so it names the kind and the name, never anything
that may differ from run to run. `arguments` is fingerprinted for the same comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, json

from holdfast import runtime
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import Signature, signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.operations import ended_by_deadline
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    CreateAction,
    RequestData,
    Settle,
)
from holdfast.protocol.requests.tasks import FencedAction
from holdfast.runtime.errors import TimedOut
from holdfast.runtime.slot import current_fiber
from holdfast.steps.hooks import with_headers
from holdfast.steps.retry import Retry
from holdfast.steps.step_run import Mode
from holdfast.workflow.errors import ExecutionCancelled
from holdfast.workflow.journal import PLACE
from holdfast.workflow.placement import Ends, Placement

if TYPE_CHECKING:
    from holdfast.workflow.context import WorkerContext
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder

NAMED: Final = "promise "  # the label of a promise with a name begins so
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Asked(Struct, frozen=True):
    """A request of an operation that reads the reply itself (`replied`)."""

    promise_id: str
    request: FencedAction | RequestData


Action = FencedAction | RequestData | Asked  # all but bare requests are fenced by the claim


class DurableOperation:
    """A durable operation. Its outcome is recorded under an id that only its place in the code decides."""

    completes_here = False
    is_effect = False  # happens also when the code returns before anybody has awaited it
    copies = False  # what completes it belongs to somebody else: the outcome is recorded here as well
    is_seen_unwritten = False  # the code sees the outcome before it is written, so that has no time yet
    is_read_once = False  # its record is needed no more once the code has seen it
    fixed_id: str | None = None  # of one that is not counted
    awaits: str | None = None  # the promise that completes it, if that is not its own
    label = ""
    arguments: Arguments = ((), {})
    returns: Any = Any  # the type that its value is decoded to
    digest: str | None = None  # of the arguments as they were when it was asked for

    def check(self, context: "WorkerContext") -> None:
        """Can it be done here at all? Raises where it is asked for."""

    def create(self, promise_id: str, recorder: "Recorder") -> Sequence[Action]:
        """What is written to begin it, where it completes outside."""
        raise NotImplementedError

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        """The reply to what it has `Asked`."""
        raise NotImplementedError

    def expected(self) -> Any:
        """The type of what somebody outside is to give; Any if it is not known, or nobody is."""
        return Any

    def is_complete(self, record: Promise) -> bool:
        """Does this record complete it, without a place of its own?"""
        return record.state != "pending"

    def copy(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Settle:
        """The outcome as it is recorded, of one that `copies`."""
        raise NotImplementedError

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        """What the code is given: the value, or its error raised."""
        assert record is not None, f"{promise_id} completed without a record"
        if record.state == "resolved":
            return recorder.payloads.decode(record.value, self.returns)
        if record.state == "rejected":
            raise recorder.decode_error(record.value)
        if record.state == "rejected_canceled" and not ended_by_deadline(record):
            raise ExecutionCancelled(f"{promise_id} ({self.label}) was cancelled")
        raise TimedOut(f"{promise_id} ({self.label}) timed out. [{TimedOut.code}]")

    def recorded_arguments(self, record: Promise, payloads: Payloads) -> Arguments | str | None:
        """What it was given then, where more than a fingerprint of that is kept."""
        return None

    def __str__(self) -> str:
        return self.label


class StepOptions(Struct, frozen=True):
    name: str | None = None
    retry: Retry | None = None
    timeout_s: float | None = None
    mode: Mode = "auto"


class StepOperation(DurableOperation, runtime.Step):
    """A function to be performed outside the fibers; recorded when it finishes."""

    completes_here = True

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: StepOptions,
        signature: Signature,
        above: runtime.Signal,
        database: Any = None,
    ) -> None:
        runtime.Step.__init__(self, options.name or function.__name__, function, args, kwargs, above)
        self.options = options
        self.plain = function  # as the code gave it: a transaction is put around it for each claim
        self.label = f"step {self.name}"
        self.arguments = args, kwargs
        self.signature = signature
        self.returns = signature.returns
        self.is_supplied = False  # has it parameters that the application fills in?
        self.database = database  # of a transactional step: what makes connections to it

    def check(self, context: "WorkerContext") -> None:
        if self.database is not None:
            assert context.transactions is not None
            context.transactions.check(self.database)
        self.is_supplied = bool(context.provided.check(self.signature, self.kwargs, self.options.mode))

    def is_complete(self, record: Promise) -> bool:
        """It was announced and somebody else has settled it, or it has written its result by itself."""
        return record.state != "pending" and PLACE not in (record.value.headers or {})


class Note(DurableOperation):
    """A value chosen here and now (the time, a random number, a patch marker) and remembered.

    Its `effects`, given its id, are part of the same write.
    """

    completes_here = True
    is_seen_unwritten = True

    def __init__(
        self,
        name: str,
        choose: Callable[[], Any],
        returns: Any = Any,
        args: tuple[Any, ...] = (),
        effects: Callable[[str], Sequence[Action]] | None = None,
    ) -> None:
        self.name = name
        self.label = f"note {name}"
        self.choose = choose
        self.returns = returns
        self.arguments = args, {}
        self.effects = effects
        self.is_effect = effects is not None

    def is_complete(self, record: Promise) -> bool:
        return False


class Sleep(DurableOperation):
    can_fail = False
    label = "sleep"

    def __init__(self, seconds: float, *, is_alarm: bool = False) -> None:
        self.seconds = seconds
        self.is_alarm = is_alarm  # of a timeout
        self.arguments = (seconds,), {}

    def create(self, promise_id: str, recorder: "Recorder") -> list[CreateAction]:
        timer = recorder.outside(promise_id, self, recorder.after(self.seconds), {tags.TIMER: "true"})
        return [CreateAction(timer)]

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> None:
        pass

    def recorded_arguments(self, record: Promise, payloads: Payloads) -> str:
        return f"(about {(record.timeout_at - record.created_at) / 1000:g})"


class Await(DurableOperation):
    """A promise that somebody outside settles. With a `fixed_id`, also before the code comes to it."""

    label = "promise"

    def __init__(
        self,
        timeout_s: float | None,
        entries: dict[str, str],
        returns: Any,
        name: str | None = None,
        fixed_id: str | None = None,
    ) -> None:
        if name is not None:
            self.label = f"{NAMED}{name}"
        self.named = fixed_id
        self.fixed_id = fixed_id
        self.timeout_s = timeout_s
        self.tags = entries
        self.returns = returns

    def create(self, promise_id: str, recorder: "Recorder") -> list[CreateAction]:
        deadline = min(recorder.after(self.timeout_s), recorder.timeout_at)
        name = self.awaits or promise_id
        promise = recorder.outside(name, self, deadline, self.tags | {tags.EXTERNAL: "true"})
        return [CreateAction(promise)]

    def expected(self) -> Any:
        return self.returns

    def number(self) -> None:
        """Count it among the operations, and record its outcome there: in a later generation the promise with
        this name may be there from an earlier one, and none of these is preloaded with ours."""
        if self.fixed_id is not None:
            self.awaits, self.fixed_id, self.copies, self.is_seen_unwritten = self.fixed_id, None, True, True

    def copy(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Settle:
        return outcome_of(promise_id, self, record, recorder)


def outcome_of(
    promise_id: str, operation: DurableOperation, record: Promise | None, recorder: "Recorder"
) -> Settle:
    """The outcome of what belongs to somebody else, as it is recorded here."""
    assert record is not None
    if record.state in ("resolved", "rejected"):
        return Settle("resolved" if record.state == "resolved" else "rejected", record.value)
    error: Exception = TimedOut(f"{record.id} ({operation.label}) timed out. [{TimedOut.code}]")
    if record.state == "rejected_canceled" and not ended_by_deadline(record):
        error = ExecutionCancelled(f"{record.id} ({operation.label}) was cancelled")
    return Settle("rejected", recorder.failure(error))


class CallOperation(DurableOperation, runtime.Revocable):
    """Another workflow, run by any worker. `waits` is False for one that is only started.

    When nobody wants its result any more, it is asked to cancel itself.
    """

    is_ours = True  # it was started by this call

    def __init__(
        self,
        workflow: str,
        version: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        returns: Any,
        *,
        group: str | None = None,
        timeout_s: float | None,
        waits: bool,
        tags: Mapping[str, str] | None = None,
        function: Callable[..., Any] | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.placement = placement or Placement()
        self.headers: dict[str, str] = {}  # of the param
        self.workflow = workflow
        self.version = version
        self.label = f"{'call' if waits else 'start'} {workflow}"
        self.arguments = args, kwargs
        self.group = group
        self.timeout_s = timeout_s
        self.waits = waits
        self.is_effect = not waits
        self.tags = tags or {}
        self.function = function  # where it is known, the arguments are checked against it
        self.returns = returns
        runtime.Revocable.__init__(self, current_fiber().signal())

    def create(self, promise_id: str, recorder: "Recorder") -> list[CreateAction]:
        """It belongs to the execution that answers it, and a claim does not preload it with ours: a mark does
        that.
        """
        deadline, grace = self.deadline(recorder)
        route = self.route(recorder)
        entries = {**self.tags, **route, **grace, tags.BRANCH: promise_id}  # it has steps of its own
        param = with_headers(self.encoded(recorder), self.headers)
        call = recorder.outside(promise_id, self, deadline, entries, param)
        return [CreateAction(recorder.mark(promise_id, self)), CreateAction(call)]

    def deadline(self, recorder: "Recorder") -> tuple[int, dict[str, str]]:
        """When it is ended, and the tag that says when it is told before. Who waits ends it with himself."""
        now = recorder.after(0)
        at_most_ms = (recorder.timeout_at if self.waits else limits.instant_ms_max) - now
        if self.timeout_s is None:
            return now + at_most_ms, {}
        ends = self.ends(round(self.timeout_s * 1000), at_most_ms)
        return now + ends.after_ms, ends.entries

    def ends(self, timeout_ms: int, at_most_ms: int) -> Ends:
        return self.placement.ends(timeout_ms, at_most_ms)

    def route(self, recorder: "Recorder") -> dict[str, str]:
        """The tags that say who runs it."""
        target = {tags.TARGET: target_of(self.group or recorder.group), tags.WORKFLOW: self.workflow}
        return target | self.placement.entries() | self.placement.delay(recorder.after(0))

    def encoded(self, recorder: "Recorder") -> Value:
        args, kwargs = self.arguments
        if self.function is None:
            return recorder.payloads.encode_call(self.workflow, args, kwargs, self.version)
        supplied = recorder.provided.names(self.function)
        signature = signature_of(self.function)
        return recorder.payloads.encode_call(self.workflow, args, kwargs, self.version, signature, supplied)

    def is_complete(self, record: Promise) -> bool:
        return not self.waits or record.state != "pending"

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        return super().read(promise_id, record, recorder) if self.waits else promise_id

    def recorded_arguments(self, record: Promise, payloads: Payloads) -> Arguments | None:
        if record.param.data is None:
            return None
        call = payloads.decode_call(record.param)
        kwargs = {name: json.decode(raw) for name, raw in call.kwargs_json.items()}
        return tuple(json.decode(raw) for raw in call.args_json), kwargs


class JobCall(CallOperation):
    """A background task: it goes to its queue, and its outcome is a result, ok or not."""

    def __init__(
        self,
        task: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        entries: dict[str, str],
        delay_s: float | None,
        timeout_s: float | None,
        waits: bool,
        read_result: Callable[[Promise, Payloads, Mapping[str, type[Exception]]], Any],
    ) -> None:
        super().__init__(task, 1, args, kwargs, Any, timeout_s=timeout_s, waits=waits)
        self._entries = entries
        self._delay_s = delay_s
        self._read_result = read_result

    def ends(self, timeout_ms: int, at_most_ms: int) -> Ends:
        return Ends(min(timeout_ms, at_most_ms), {})

    def route(self, recorder: "Recorder") -> dict[str, str]:
        if not self._delay_s:
            return self._entries
        begins_at = min(recorder.after(self._delay_s), limits.instant_ms_max - 1)
        return self._entries | {tags.DELAY: str(begins_at)}

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        if not self.waits:
            return promise_id
        assert record is not None, f"{promise_id} completed without a record"
        return self._read_result(record, recorder.payloads, recorder.known_errors)
