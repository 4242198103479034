"""The operations by which executions talk: the next message, a message to another execution, a question, and
waiting for what somebody else has started.

1. A message to somebody else is appended under the id of the operation as its key: once, however often it is
   sent. Its reply completes the operation.
2. The promise of an answer is the operation's own, so it is among the records of whoever asks.
3. The outcome of an execution that somebody else has started is recorded here as well: there it may be
   deleted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.payloads.errors import NotRecorded
from holdfast.protocol.errors import ExecutionOver, NoSuchExecution, unanswered
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import PromiseReply, Reply, StreamAppendReply, StreamReply
from holdfast.protocol.requests import (
    AppendAction,
    CreateAction,
    NextAction,
    PromiseGet,
    Settle,
    SettleAction,
    StreamAnswer,
    StreamAppend,
    StreamNext,
)
from holdfast.protocol.streams import MAILBOX, element_id, key_of as key_of
from holdfast.workflow.errors import ClaimGone
from holdfast.workflow.operations import Action, Asked, DurableOperation, outcome_of

if TYPE_CHECKING:
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder


class NextMessage(DurableOperation):
    """The n-th message to this execution: the element itself, not decoded. `wanted`: what will be made of it,
    by whoever waits for it then."""

    is_read_once = True

    def __init__(self, root: str, wanted: Callable[[], Any], number: int) -> None:
        self.root = root
        self.wanted = wanted
        self.number = number
        self.label = f"message {number}"
        self.fixed_id = element_id(root, MAILBOX, number)

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        return [Asked(promise_id, NextAction(StreamNext(self.root, MAILBOX, self.number)))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        """It is a page: this message and those that have come after it, or this one, pending."""
        if isinstance(reply.data, StreamReply):
            for element in reply.data.promises:
                progress.learn(element)
        elif reply.code == ExecutionOver.code:
            raise ClaimGone(str(reply.data))
        else:
            progress.refuse(promise_id, NotRecorded(f"The next message cannot be awaited: {reply.data}"))

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        return record

    def expected(self) -> Any:
        return self.wanted()


class Tell(DurableOperation):
    """A message to another execution."""

    is_effect = True
    is_seen_unwritten = True

    def __init__(self, other: str, message: Value) -> None:
        self.other = other
        self.message = message
        self.label = f"tell {other}"
        self.arguments = (message.data,), {}

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        return [Asked(promise_id, AppendAction(self._append(promise_id, recorder)))]

    def _append(self, promise_id: str, recorder: "Recorder") -> StreamAppend:
        return StreamAppend(self.other, MAILBOX, self.message, key=key_of(promise_id))

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        appended = isinstance(reply.data, StreamAppendReply)
        progress.complete(promise_id, None if appended else _refusal(self.other, reply))

    def is_complete(self, record: Promise) -> bool:
        return False


class Ask(Tell):
    """A question to another execution: the answer settles the operation's own promise."""

    is_seen_unwritten = False

    def __init__(self, other: str, message: Value, returns: Any, timeout_s: float | None) -> None:
        super().__init__(other, message)
        self.label = f"ask {other}"
        self.returns = returns
        self.timeout_s = timeout_s

    def _append(self, promise_id: str, recorder: "Recorder") -> StreamAppend:
        deadline = min(recorder.after(self.timeout_s), recorder.timeout_at)
        param = recorder.local(promise_id, self).param
        answer = StreamAnswer(deadline, promise_id, param, recorder.answer_tags)
        return StreamAppend(self.other, MAILBOX, self.message, key=key_of(promise_id), answer=answer)

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if not isinstance(reply.data, StreamAppendReply):
            progress.refuse(promise_id, _refusal(self.other, reply))
        elif reply.data.answer is not None:
            progress.learn(reply.data.answer)

    def is_complete(self, record: Promise) -> bool:
        return record.state != "pending"

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        if record is not None and (record.value.headers or {}).get(CODE_HEADER) == ExecutionOver.code:
            raise ExecutionOver(self.other, unanswered)
        return super().read(promise_id, record, recorder)


class Attach(DurableOperation):
    """The outcome of an execution that somebody else has started."""

    copies = True
    is_seen_unwritten = True

    def __init__(self, other: str, returns: Any) -> None:
        self.awaits = other
        self.returns = returns
        self.label = f"attach {other}"

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        assert self.awaits is not None
        return [Asked(promise_id, PromiseGet(self.awaits))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        assert self.awaits is not None
        if isinstance(reply.data, PromiseReply):
            progress.learn(reply.data.promise)
        else:
            progress.complete(promise_id, _refusal(self.awaits, reply))

    def copy(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Settle:
        return outcome_of(promise_id, self, record, recorder)


def all_read(root: str, number: int) -> Asked:
    """What tells the node, at the end, that the messages up to this one were read."""
    following = StreamNext(root, MAILBOX, number + 1, peek=True)
    return Asked(element_id(root, MAILBOX, following.number), NextAction(following))


def is_sure(action: Action) -> bool:
    """Is it something that the node does not refuse: a record, an answer, the promise of a next message?"""
    match action:
        case CreateAction(creation):
            return creation.settle is not None
        case Asked(request=NextAction()) | SettleAction():
            return True
        case _:
            return False


def _refusal(other: str, reply: Reply) -> Exception:
    """Why another execution could not be talked to."""
    if reply.code == ExecutionOver.code:
        return ExecutionOver(other)
    if reply.code == NoSuchExecution.code or reply.status == 404:
        return NoSuchExecution(other)
    return NotRecorded(f"{other} could not be told: {reply.data}")
