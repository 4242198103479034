"""Events in the code of workflows: waiting for one by its name and attributes, and sending one.

    verified = await hf.event("user.verified", user="ada", timeout="7d", look_back="1h")

1. A wait is registered in one commit and remembered: after a crash it is the same wait, and no event that
   came meanwhile is missed.
2. An event is sent under the id of the operation: once, however often the code is replayed.
"""

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.errors import NotRecorded
from holdfast.payloads.event_values import check_event_name, encode_event, encode_match
from holdfast.protocol.errors import TooManyShapes
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import EventReply, PromiseReply, Reply
from holdfast.protocol.requests import AwaitAction, EventAwait, EventSend, SendAction
from holdfast.runtime import Durable
from holdfast.runtime.slot import current as current_scheduler
from holdfast.steps.hooks import with_headers
from holdfast.workflow.conversation import key_of
from holdfast.workflow.messages import execution
from holdfast.workflow.operations import Asked, DurableOperation

if TYPE_CHECKING:
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder

T = TypeVar("T")


class AwaitEvent(DurableOperation):
    def __init__(
        self, name: str, match: dict[str, str], timeout_s: float | None, look_back_s: float, returns: Any
    ) -> None:
        self.label = f"event {name}"
        self.arguments = (sorted(match.items()),), {}
        self.returns = returns
        self._name = name
        self._match = match
        self._timeout_s = timeout_s
        self._look_back_ms = round(look_back_s * 1000)

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        deadline = min(recorder.after(self._timeout_s), recorder.timeout_at)
        param = recorder.local(promise_id, self).param
        wanted = self._match, self._look_back_ms or None
        asked = EventAwait(promise_id, self._name, deadline, *wanted, param, recorder.answer_tags)
        return [Asked(promise_id, AwaitAction(asked))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if isinstance(reply.data, PromiseReply):
            progress.learn(reply.data.promise)
        elif reply.code == TooManyShapes.code:
            told = str(reply.data).removesuffix(f". {TooManyShapes.hint} [{TooManyShapes.code}]")
            progress.refuse(promise_id, TooManyShapes(told))
        else:
            progress.refuse(promise_id, NotRecorded(f"{self.label} cannot be awaited: {reply.data}"))


class SendEvent(DurableOperation):
    is_effect = True
    is_seen_unwritten = True

    def __init__(self, name: str, value: Value, match: dict[str, str], given: str | None) -> None:
        self.label = f"send event {name}"
        self.arguments = (value.data, given), {}
        self._name = name
        self._value = value
        self._match = match
        self._given = given

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        sent = EventSend(self._name, self._given or key_of(promise_id), self._value, self._match)
        return [Asked(promise_id, SendAction(sent))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        is_sent = isinstance(reply.data, EventReply)
        error = None if is_sent else NotRecorded(f"{self.label} was refused: {reply.data}")
        progress.complete(promise_id, error)

    def is_complete(self, record: Promise) -> bool:
        return False


@overload  # the first that fits is meant
def event(  # pyright: ignore[reportOverlappingOverload]
    name: str,
    /,
    *,
    timeout: Duration | None = None,
    look_back: Duration | None = None,
    returns: type[T],
    **match: Any,
) -> Durable[T]: ...
@overload
def event(
    name: str, /, *, timeout: Duration | None = None, look_back: Duration | None = None, **match: Any
) -> Durable[dict[str, Any]]: ...
def event(
    name: str,
    /,
    *,
    timeout: Duration | None = None,
    look_back: Duration | None = None,
    returns: Any = Any,
    **match: Any,
) -> Durable[Any]:
    """Wait for the next event of this name whose attributes equal `match`; its attributes are the result.

    With `look_back`, the first one of that time counts too. Past the `timeout`: `TimedOut`. Crash: no event
    that came meanwhile is missed.

    >>> verified = await event("user.verified", user="ada", timeout="7d", look_back="1h")
    """
    limit = None if timeout is None else duration_s(timeout)
    back = 0.0 if look_back is None else duration_s(look_back)
    wanted = AwaitEvent(check_event_name(name), encode_match(match), limit, back, returns)
    return current_scheduler().issue(wanted)


def send_event(name: str, /, *, id: str | None = None, **attributes: Any) -> Durable[None]:  # noqa: A002
    """Send an event: every execution that waits for a match is woken. Once, however often this is replayed.

    >>> await send_event("user.verified", user="ada")
    """
    context = execution().worker_context
    value, match = encode_event(context.payloads, attributes)
    value = with_headers(value, context.hooks.carried.headers(context.payloads))
    return current_scheduler().issue(SendEvent(check_event_name(name), value, match, id))
