"""Entities: one execution for each key, which handles one call at a time and keeps its state between them.

    balance = await Account("ada").deposit(500)

An entity is a workflow that reads one message of its mailbox, runs the method it asks for, answers, and
continues as new with the state that the method left. So its state is the arguments of its current
generation; there is no other mechanism.

1. Calls are handled in the order of their commits, each once. The answer, the new state and the end of the
   message are one commit.
2. A call that raises changes nothing of the state. The error is the caller's, also if it is a cancellation
   that nobody has asked for. If the entity itself is cancelled, that ends it.
3. A read looks at the state that the last finished call left: in a workflow it is recorded, from outside it
   is one look at the node. No worker is asked.
4. Between calls the execution is suspended, and nothing of it is kept in memory. The next generation is made
   when there is a call for it (next_call.py), so the code must begin by waiting for a message.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from msgspec import Raw

from holdfast.payloads.messages import encode_message as encode_message
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import StoredCall, signature_of
from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.errors import NoSuchExecution
from holdfast.protocol.generations import arguments_of
from holdfast.protocol.records import Promise, Settlement, Value
from holdfast.protocol.replies import PromiseReply, Reply
from holdfast.protocol.requests import AppendAction, PromiseCreate, PromiseGet, PromiseSettle, SettleAction
from holdfast.protocol.streams import ANSWER_HEADER
from holdfast.runtime import Cancelled, Durable, NotInFiber, Operation
from holdfast.runtime.slot import current as current_scheduler, slot
from holdfast.steps.hooks import with_headers
from holdfast.steps.middleware import telling
from holdfast.workflow.conversation import Ask
from holdfast.workflow.entity_class import EntityClass, State, declare
from holdfast.workflow.errors import EntityMisused, ExecutionCancelled
from holdfast.workflow.execution import Execution
from holdfast.workflow.generations import ContinueAsNew
from holdfast.workflow.messages import Message, execution, mailbox
from holdfast.workflow.not_awaited import expect_await_of_made
from holdfast.workflow.operations import Asked, DurableOperation

if TYPE_CHECKING:
    from holdfast.workflow.progress import Progress
    from holdfast.workflow.recording import Recorder

E = TypeVar("E")


def body_of(entity: EntityClass[Any]) -> Callable[..., Any]:
    """The workflow that is an instance of this entity."""

    async def serve(state: dict[str, Raw] | None = None, version: int = 1) -> None:
        found = execution()
        payloads = found.worker_context.payloads
        key = entity.key_of(found.id)
        message = await mailbox(StoredCall).next()
        try:
            # The state is read when there is a call: what cannot be read is told to whoever calls.
            before = entity.whole_state(key, state, version if state is not None else None)
            instance = entity.instance_of(key, before)
            call: StoredCall = message.value
            bound = entity.check_call(call.function)
            args, kwargs = payloads.bind_arguments(bound, call)
            with message.context():
                result = await entity.methods[call.function](instance, *args, **kwargs)
            after = entity.state_of(instance, before)
            if call.function in entity.reads:
                after = before
            param = encode_state(entity, after, payloads)
            _answer(message, found, "resolved", payloads.encode(result))
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, Cancelled | asyncio.CancelledError):
                if found.is_cancelled:
                    raise
                error = ExecutionCancelled(f"A call of {found.id} raised {type(error).__name__}")
            _answer(message, found, "rejected", payloads.encode_failure(error))
            raise ContinueAsNew(_unchanged(found.promise)) from None
        raise ContinueAsNew(param)

    serve.__name__ = serve.__qualname__ = entity.name
    serve.__doc__ = entity.cls.__doc__
    return serve


def _answer(message: Message[Any], found: Execution, state: Settlement, value: Value) -> None:
    """In the commit that ends the generation, or not at all. It has no record: nobody would replay that."""
    answer_id = message.headers.get(ANSWER_HEADER)
    if answer_id is not None:
        found.write_at_end(SettleAction(PromiseSettle(answer_id, state, value)))


def encode_state(entity: EntityClass[Any], state: State, payloads: Payloads) -> Value:
    return payloads.encode_call(entity.name, (state, entity.version), {}, 1)


def _unchanged(promise: Promise) -> Value:
    return Value(None, arguments_of(promise).data)


def state_in(entity: EntityClass[E], key: str, promise: Promise | None, payloads: Payloads) -> E:
    """An instance as the last finished call left it."""
    if promise is None:
        return entity.instance(key, None)
    if promise.state != "pending":
        raise ExecutionCancelled(f"{promise.id} was deleted")
    call = payloads.decode_call(arguments_of(promise))
    args, kwargs = signature_of(_state_of_call).bind(call, payloads.load)
    return entity.instance(key, *_state_of_call(*args, **kwargs))


def _state_of_call(
    state: dict[str, Raw] | None = None, version: int = 1
) -> tuple[dict[str, Raw] | None, int | None]:
    return state, version if state is not None else None


def creation_of(entity: EntityClass[Any], key: str, group: str, payloads: Payloads) -> PromiseCreate:
    """What begins an instance that nobody has called yet."""
    name = entity.id_of(key)
    entries = {
        tags.ORIGIN: name,
        tags.BRANCH: name,
        tags.PARENT: name,
        tags.SCOPE: "global",
        tags.TARGET: target_of(entity.group or group),
        tags.WORKFLOW: entity.name,
        tags.ENTITY: key if len(key.encode()) <= limits.entry_bytes_max else "",
    }
    return PromiseCreate(name, limits.instant_ms_max, payloads.encode_call(entity.name, (), {}, 1), entries)


def encode_request(
    entity: EntityClass[Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any], payloads: Payloads
) -> Value:
    """A call as a message. Raises where the arguments do not fit the method."""
    bound = entity.check_call(method)
    return payloads.encode_call(method, args, kwargs, 1, signature_of(bound))


def run_read(entity: EntityClass[Any], method: str, instance: Any, args: Any, kwargs: Any) -> Any:
    """Run a read where nothing can be awaited. A field that it sets would be lost, so that is an error."""
    fields = cast("dict[str, Any]", vars(instance))
    before = {**fields}
    running = entity.methods[method](instance, *args, **kwargs)
    try:
        running.send(None)
    except StopIteration as done:
        for field in entity.types:  # what else it keeps in the instance is no state
            if before.get(field) is not fields.get(field):
                raise EntityMisused(
                    f"{entity.name}.{method} is a read, and sets {field!r}: make it a call"
                ) from None
        return done.value
    except NotInFiber as error:
        raise _waits(entity, method) from error
    running.close()
    raise _waits(entity, method)


def _waits(entity: EntityClass[Any], method: str) -> EntityMisused:
    return EntityMisused(f"{entity.name}.{method} is a read, and a read cannot wait: make it a call")


# --- in a workflow ---------------------------------------------------------------------------------------


class EntityCall(Ask, Generic[E]):
    """A call of an entity by a workflow. An instance that does not exist is begun with it."""

    is_effect = False

    def __init__(self, entity: EntityClass[E], key: str, method: str, message: Value) -> None:
        super().__init__(entity.id_of(key), message, entity.returns(method), None)
        self.label = f"entity {self.other} {method}"
        self._entity = entity
        self._key = key
        self._is_begun = False

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if reply.code != NoSuchExecution.code or self._is_begun:
            super().replied(promise_id, reply, progress)
            return
        self._is_begun = True
        recorder = progress.recorder
        begin = creation_of(self._entity, self._key, recorder.group, recorder.payloads)
        append = AppendAction(self._append(promise_id, recorder))
        progress.add_unwritten([begin, Asked(promise_id, append)])


class EntityRead(DurableOperation):
    """The state of an entity, recorded when it was looked at."""

    is_seen_unwritten = True

    def __init__(self, entity: EntityClass[Any], key: str, method: str) -> None:
        self._entity = entity
        self._key = key
        self._id = entity.id_of(key)
        self.label = f"read {self._id} {method}"

    def create(self, promise_id: str, recorder: "Recorder") -> list[Asked]:
        return [Asked(promise_id, PromiseGet(self._id))]

    def replied(self, promise_id: str, reply: Reply, progress: "Progress") -> None:
        if isinstance(reply.data, PromiseReply):
            promise = reply.data.promise
            if promise.state != "pending":
                progress.complete(promise_id, ExecutionCancelled(f"{self._id} was deleted"))
            else:
                progress.complete(promise_id, value=Value(None, arguments_of(promise).data))
        elif reply.status == 404:
            progress.complete(promise_id)
        else:
            progress.complete(promise_id, EntityMisused(f"{self._id} could not be read: {reply.data}"))

    def is_complete(self, record: Promise) -> bool:
        return False

    def read(self, promise_id: str, record: Promise | None, recorder: "Recorder") -> Any:
        assert record is not None
        if record.state == "rejected":
            raise recorder.decode_error(record.value)
        if not record.value.data:
            return self._entity.instance(self._key, None)
        seen = Promise(self._id, "pending", Value(None, record.value.data), Value(), {}, 0, 0)
        return state_in(self._entity, self._key, seen, recorder.payloads)


def _read_in_workflow(
    entity: EntityClass[Any], key: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Generator[Any, Any, Any]:
    looked: Durable[Any] = current_scheduler().issue(EntityRead(entity, key, method))
    instance = yield from looked
    return run_read(entity, method, instance, args, kwargs)


def _leaving(
    entity: EntityClass[Any], key: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Value:
    """A call as it leaves, with its headers."""
    found = execution()
    payloads = found.worker_context.payloads
    entered = found.leaving("tell", f"{entity.name}.{method}", args, kwargs)
    if entered is None:
        return encode_request(entity, method, args, kwargs, payloads)
    asked = entered.invocation
    asked.id = entity.id_of(key)
    with telling(entered):
        message = encode_request(entity, method, asked.args, asked.kwargs, payloads)
    entered.returned(None)
    return with_headers(message, asked.headers)


def stub_of(entity: EntityClass[Any]) -> type[Any]:
    """What `Account("ada")` is in a workflow: its methods are calls, and it has no state of its own."""

    def call_of(name: str) -> Callable[..., Any]:
        made_as = f"{entity.name}(...).{name}"

        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if slot.scheduler is None:
                here = made_as.replace("...", repr(self.key), 1)
                raise EntityMisused(f"{here} was called outside of a workflow")
            if name in entity.reads:
                encode_request(entity, name, args, kwargs, execution().worker_context.payloads)
                return Operation(_read_in_workflow, entity, self.key, name, args, kwargs)
            if entity.id_of(self.key) == execution().id:
                raise EntityMisused(
                    f"{entity.name} {self.key!r} calls itself, and would wait forever: write "
                    f"`await self.{name}(...)`"
                )
            message = _leaving(entity, self.key, name, args, kwargs)
            return current_scheduler().issue(EntityCall(entity, self.key, name, message))

        call.__name__, call.__doc__ = name, entity.methods[name].__doc__
        expect_await_of_made(call, made_as)
        return call

    def no_state(field: str) -> property:
        def refuse(self: Any, value: object = None) -> Any:
            raise EntityMisused(
                f"{entity.name}({self.key!r}) is a reference and has no field {field!r}: call a method"
            )

        return property(refuse, refuse)

    def show(self: Any) -> str:
        return f"{entity.name}({self.key!r})"

    def reduce(self: Any) -> tuple[Any, ...]:
        return entity.cls, (self.key,)

    members: dict[str, Any] = {field: no_state(field) for field in entity.types}
    members |= {name: call_of(name) for name in entity.methods}
    members |= {"__repr__": show, "__reduce__": reduce}
    return type(entity.cls.__name__, (entity.cls,), members)


def declare_entity(
    cls: type[E], name: str | None = None, version: int = 1, group: str | None = None
) -> EntityClass[E]:
    entity = EntityClass(cls, name, version, group)
    declare(cls, entity, stub_of(entity))
    return entity
