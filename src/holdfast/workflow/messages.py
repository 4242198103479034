"""Conversations of a workflow: receiving messages and answering them, telling and asking other executions,
waiting for one that somebody else has started.

    async for message in hf.mailbox(Item):
        basket.append(message.value)
        message.answer(len(basket))

1. Messages are seen in the order in which they were committed, each by one fiber and once. Which message was
   seen at which point is recorded, so that every replay sees the same.
2. A fiber that is interrupted while it waits loses no message.
3. A message that is not of the wanted type is set aside: whoever asked gets the error, a record and the log
   say what it was, and the execution goes on.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Literal, Self, TypeVar, cast, overload

from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.errors import BadArguments, UndecodablePayload
from holdfast.payloads.messages import check_wanted, decode_message, encode_message
from holdfast.protocol.ids import below
from holdfast.protocol.records import Promise, Settlement, Value
from holdfast.protocol.requests import PromiseSettle, SettleAction
from holdfast.protocol.streams import ANSWER_HEADER, is_stream
from holdfast.runtime import Durable, Future
from holdfast.runtime.errors import wrong_execution
from holdfast.runtime.inbox import InTime
from holdfast.runtime.slot import current as current_scheduler
from holdfast.runtime.step import sleep
from holdfast.steps.middleware import telling
from holdfast.workflow.conversation import Ask, Attach, Tell
from holdfast.workflow.errors import AlreadyAnswered, BadName, MessageRefused
from holdfast.workflow.execution import Execution
from holdfast.workflow.not_awaited import expect_await
from holdfast.workflow.operations import Action, Note

T = TypeVar("T")

reserved_names: Final = frozenset({"cancel", "in", "out", "value"})
name_chars_max: Final = 100


def execution() -> Execution:
    """The execution whose code is running."""
    return cast(Execution, current_scheduler().world)


def check_name(name: str) -> str:
    """A name that people give to a promise of an execution."""
    plain = isinstance(cast(Any, name), str) and name.replace("-", "").replace("_", "").isalnum()
    if not plain or not name.isascii() or len(name) > name_chars_max:
        raise BadName(f"{name!r} is not a name")
    if name.isdigit() or name in reserved_names:
        raise BadName(f"The name {name!r} is reserved")
    return name


def named_id(root: str, name: str) -> str:
    """The id of the promise with this name: `order-17:approval`."""
    return f"{below(root)}{check_name(name)}"


def named_stream(kind: Literal["out", "value"], name: str) -> str:
    """The stream of what is emitted, or published, under this name."""
    stream = f"{kind}.{name}"
    if not isinstance(cast(Any, name), str) or not is_stream(stream):
        raise BadName(f"{name!r} is not a name for a stream")
    return stream


class Message(Generic[T]):
    """A message to this execution: its `value`, and its `number` in the order of commits.

    `answer` and `refuse` take effect without `await`. If nobody asked, they change nothing.
    """

    __slots__ = ("_answer_id", "_execution", "_is_answered", "headers", "number", "value")

    def __init__(
        self,
        value: T,
        number: int,
        answer_id: str | None,
        execution: Execution,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.value = value
        self.number = number
        self.headers: Mapping[str, str] = headers or {}
        self._answer_id = answer_id
        self._execution = execution
        self._is_answered = False

    @property
    def is_question(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._answer_id is not None

    @contextmanager
    def context(self) -> Generator[None]:
        """A block in which the carried context variables have the values that the sender had.

        >>> with message.context():
        ...     await book(message.value)
        """
        context = self._execution.worker_context
        with context.hooks.carried.using(self.headers, context.payloads):
            yield

    def answer(self, value: Any = None) -> Future[None]:
        """Answer the question with a value. It is durable before anything that follows has effects."""
        self._check_ours()
        return self._settle("resolved", self._execution.worker_context.payloads.encode(value))

    def refuse(self, reason: str | Exception) -> Future[None]:
        """The asker gets this error; a text is raised there as `MessageRefused`."""
        self._check_ours()
        error = MessageRefused(reason) if isinstance(reason, str) else reason
        return self._settle("rejected", self._execution.worker_context.payloads.encode_error(error))

    def accept(self) -> None:
        """Answer with nothing, as `receive` does."""
        self._settle("resolved", Value())

    def _check_ours(self) -> None:
        if execution() is not self._execution:
            raise wrong_execution(f"the message {self.number}")

    def _settle(self, state: Settlement, value: Value) -> Future[None]:
        if self._is_answered:
            raise AlreadyAnswered(f"The message {self.number} was answered before")
        self._is_answered = True
        answer_id = self._answer_id

        def effects(_: str) -> Sequence[Action]:
            return [] if answer_id is None else [SettleAction(PromiseSettle(answer_id, state, value))]

        note = Note(f"answer {self.number}", lambda: None, args=(state, value.data), effects=effects)
        return self._execution.scheduler.issue(note)

    def __repr__(self) -> str:
        return f"<message {self.number}: {self.value!r}>"


class Mailbox(Generic[T]):
    """The messages to this execution. `async for message in hf.mailbox(Item)`, or `yield from box.next()`."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def next(self) -> Future[Message[T]]:
        """The next message that no other fiber has taken."""
        found = execution()
        wanted = self._wanted

        def read(element: Promise) -> Message[T]:
            return _message(element, wanted, found)

        return found.inbox.get("the next message", read, wanted)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Future[Message[T]]:
        return self.next()


@overload
def mailbox(wanted: type[T], /) -> Mailbox[T]: ...
@overload
def mailbox(wanted: Any = ..., /) -> Mailbox[Any]: ...
def mailbox(wanted: Any = Any, /) -> Mailbox[Any]:
    """The messages to this execution, decoded to a type; `A | B` for one of several.

    Crash: each message is seen once, at the same point of every replay. Cancellation, a timeout, a lost race:
    the message stays for the next receiver. A message of another type is set aside, see the page on
    conversations.

    >>> async for message in mailbox(Item):
    ...     message.answer(message.value.price)
    """
    check_wanted(wanted)
    return Mailbox(wanted)


@overload
def receive(wanted: type[T], /, *, timeout: Duration | None = None) -> Future[T]: ...
@overload
def receive(wanted: Any = ..., /, *, timeout: Duration | None = None) -> Future[Any]: ...
def receive(wanted: Any = Any, /, *, timeout: Duration | None = None) -> Future[Any]:
    """The value of the next message; if it is a question, it is answered with None.

    With a `timeout`, `TimedOut` if none has come by then; the time runs from this call.

    >>> item = await receive(Item, timeout="1d")
    """
    found = execution()
    check_wanted(wanted)

    def read(element: Promise) -> Any:
        message = _message(element, wanted, found)
        if message.is_question:
            found.received(reader, message.accept)
        return message.value

    reader: Future[Any] = found.inbox.get("a message", read, wanted)
    if timeout is None:
        return reader
    seconds = duration_s(timeout)
    return InTime(reader, sleep(seconds), seconds, found.scheduler)


def _message(element: Promise, wanted: Any, found: Execution) -> Message[Any]:
    if element.state != "resolved":  # somebody else has written under its number
        raise UndecodablePayload(f"{element.id} is not a message: it is {element.state}")
    value = decode_message(found.worker_context.payloads, element.value, wanted)
    number = int(element.id.rpartition(".")[2])
    headers = element.value.headers or {}
    return Message(value, number, headers.get(ANSWER_HEADER), found, headers)


def tell(execution_id: str, message: Any) -> Durable[None]:
    """Send a message to another execution: once, however often this one is replayed.

    Raises `ExecutionOver` or `NoSuchExecution` where it is awaited.
    """
    value = _leaving("tell", execution_id, message)
    return current_scheduler().issue(Tell(execution_id, value))


def _leaving(how: str, execution_id: str, message: Any) -> Value:
    """A message with its headers."""
    found = execution()
    payloads = found.worker_context.payloads
    entered = found.leaving("tell", how, (message,), {})
    if entered is None:
        return encode_message(payloads, message)
    entered.invocation.id = execution_id
    with telling(entered):
        [message] = entered.invocation.args
        value = encode_message(payloads, message, entered.invocation.headers)
    entered.returned(None)
    return value


@overload
def ask(
    execution_id: str, message: Any, *, returns: type[T], timeout: Duration | None = None
) -> Durable[T]: ...
@overload
def ask(execution_id: str, message: Any, *, timeout: Duration | None = None) -> Durable[Any]: ...
def ask(
    execution_id: str, message: Any, *, returns: Any = Any, timeout: Duration | None = None
) -> Durable[Any]:
    """Send a message to another execution and await its answer, decoded to `returns`.

    Raises what the other refuses it with, `ExecutionOver` if the other is over or ends before it answers,
    `NoSuchExecution`, and `TimedOut` past the `timeout`.
    """
    value = _leaving("ask", execution_id, message)
    limit = None if timeout is None else duration_s(timeout)
    return current_scheduler().issue(Ask(execution_id, value, returns, limit))


@overload
def attach(execution_id: str, *, returns: type[T]) -> Durable[T]: ...
@overload
def attach(execution_id: str) -> Durable[Any]: ...
def attach(execution_id: str, *, returns: Any = Any) -> Durable[Any]:
    """Await an execution that somebody else has started, by its id. `NoSuchExecution` if there is none.

    Its error is raised here. Crash: the outcome is recorded with this execution, so a replay does not
    need the other one.

    >>> receipt = await hf.attach("order-17", returns=str)
    """
    if execution_id == execution().id:
        raise BadArguments(f"hf.attach({execution_id!r}) would wait for the end of this execution itself")
    return current_scheduler().issue(Attach(execution_id, returns))


expect_await(receive, ask, attach)
