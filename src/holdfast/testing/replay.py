"""Replays an execution from its records, writes nothing, and checks that the code still matches.

1. The record must lead the code to the recorded outcome.
2. What was ever performed or created under an id must be what the code asks for under that id now: otherwise
   an effect was begun before the choices that led to it were durable.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.interface import MessageStream
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.errors import NoSuchExecution
from holdfast.protocol.generations import (
    arguments_of,
    base_of,
    begun_id,
    generation_of,
    lies_in_generation,
)
from holdfast.protocol.operations import cancel_id
from holdfast.protocol.records import Promise, TaskView, Value
from holdfast.protocol.replies import (
    AcquireReply,
    FenceReply,
    Invoked,
    PreloadReply,
    PromiseReply,
    Reply,
    StreamAppendReply,
    StreamReply,
    StreamsReply,
)
from holdfast.protocol.requests import (
    AppendAction,
    CreateAction,
    NextAction,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterCallback,
    PromiseRegisterListener,
    PromiseSettle,
    Request,
    StreamAppend,
    StreamList,
    StreamNext,
    TaskFence,
    TaskFulfill,
    TaskRestart,
    TaskSuspend,
)
from holdfast.protocol.streams import NUMBER_HEADER, element_id, key_id
from holdfast.protocol.wire import to_reply
from holdfast.runtime import Step
from holdfast.steps.here import info_of
from holdfast.steps.observer import SILENT
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepCall, StepOutcome
from holdfast.store.memory import MemoryStore
from holdfast.testing.mortal import describe
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.execution import Execution
from holdfast.workflow.generations import BoundCall
from holdfast.workflow.operations import DurableOperation
from holdfast.workflow.registry import Registry

PATIENCE_S: Final = 1.0  # of virtual time: a replay waits for nothing


class Untrue(AssertionError):
    """A replay of the records of an execution ends otherwise than the execution did."""


class Performed(Struct, frozen=True):
    """That somebody began to perform a step, for better or worse."""

    execution: str
    id: str
    label: str
    digest: str | None

    @staticmethod
    def of(step: Step, payloads: Payloads) -> "Performed":
        info = info_of(step)
        assert info is not None
        digest = payloads.digest(step.args, step.kwargs)
        return Performed(info.id, info.step or "", f"step {step.name}", digest)


class ReadOnlyClient:
    """Answers from what is stored. What was never stored is there, and nobody ever settles it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.outcome: tuple[str, Value] | None = None

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Reply:
        match request.data:
            case TaskFence(action=CreateAction(data=creation)):
                record = self._store.promises.get(creation.id)
                if record is None:
                    settle = creation.settle
                    state = "pending" if settle is None else settle.state
                    value = Value() if settle is None else settle.value
                    record = Promise(
                        creation.id, state, creation.param, value, creation.tags, creation.timeout_at, 0
                    )
                inner = Reply(200, PromiseReply(record))
                return Reply(200, FenceReply(to_reply("promise.create", "", request.version, inner), []))
            case TaskFence(action=NextAction(data=asked)):
                inner = Reply(200, self._next(asked))
                return Reply(200, FenceReply(to_reply("stream.next", "", request.version, inner), []))
            case TaskFence(action=AppendAction(data=append)):
                inner = self._appended(append)
                return Reply(200, FenceReply(to_reply("stream.append", "", request.version, inner), []))
            case TaskFence():
                inner = Reply(404, "not now")
                return Reply(200, FenceReply(to_reply("promise.settle", "", request.version, inner), []))
            case TaskFulfill(action=action):
                self.outcome = (action.data.state, action.data.value)
                return Reply(200, PromiseReply(self._store.promises[action.data.id]))
            case PromiseGet(id=promise_id) | PromiseRegisterListener(awaited=promise_id):
                found = self._store.promises.get(promise_id)
                return Reply(404, "not there") if found is None else Reply(200, PromiseReply(found))
            case PromiseCreate() | PromiseRegisterCallback() | PromiseSettle():
                return Reply(404, "somebody else was asked to cancel itself, and has been")
            case StreamList():
                return Reply(200, StreamsReply({}, 0, over=True))
            case TaskSuspend(actions=actions) if self._has_settled(action.data.awaited for action in actions):
                return Reply(300, PreloadReply([]))
            case TaskSuspend() | TaskRestart():
                return Reply(409, "nothing more will come")
            case _:
                raise AssertionError(f"a replay asked for {describe([request])}")

    def _has_settled(self, promise_ids: Iterable[str]) -> bool:
        found = (self._store.promises.get(promise_id) for promise_id in promise_ids)
        return any(promise is not None and promise.state != "pending" for promise in found)

    def _next(self, asked: StreamNext) -> StreamReply:
        """The messages from a number on; none that came after the end."""
        found: list[Promise] = []
        while True:
            key = element_id(asked.id, asked.stream, asked.number + len(found))
            element = self._store.promises.get(key)
            if element is None or element.state == "rejected_canceled":
                return StreamReply(found, asked.number, asked.number + len(found) - 1, over=False)
            found.append(element)

    def _appended(self, append: StreamAppend) -> Reply:
        """What was sent is there; what was not, was about to be when the record ended."""
        record = self._store.promises.get(key_id(append.id, append.stream, append.key or ""))
        if record is None:
            return Reply(404, "not there", NoSuchExecution.code)
        number = int((record.value.headers or {})[NUMBER_HEADER])
        element = self._store.promises[element_id(append.id, append.stream, number)]
        answer = None if append.answer is None else self._store.promises.get(append.answer.id or "")
        return Reply(200, StreamAppendReply(element, number, answer))

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class _Idle(StepRunner):
    """A step that has no record never finishes."""

    def start(self, call: StepCall, done: Callable[[StepOutcome], None]) -> None:
        pass


class _Watched(Execution):
    asked: dict[str, tuple[str, str | None]]

    def issue(self, operation: object, /) -> str:
        promise_id = super().issue(operation)
        if isinstance(operation, DurableOperation) and self.fault is None:
            self.asked[promise_id] = (
                operation.label,
                self.worker_context.payloads.digest(*operation.arguments),
            )
        return promise_id


async def check_replay(
    root: Promise,
    store: MemoryStore,
    registry: Registry,
    worker_context: WorkerContext,
    performed: Iterable[Performed],
) -> None:
    """Raise `Untrue` if the stored record of an ended execution does not lead to its stored outcome."""
    execution, client = retrace(root, store, registry, worker_context)
    ending = await _drive(execution)
    asked = execution.asked
    if ending != "fulfilled":
        raise Untrue(
            f"Replaying {root.id} from its record does not reach its end: {execution.fault or ending}"
        )
    if client.outcome is None or not same_outcome(root, *client.outcome):
        raise Untrue(
            f"Replaying {root.id} ends with {client.outcome}; it ended with {root.state} {root.value}"
        )
    for step in performed:
        is_last = lies_in_generation(step.id, root.id, generation_of(root).number)
        if step.execution == root.id and is_last and asked.get(step.id) != (step.label, step.digest):
            now = asked.get(step.id, ("nothing", None))
            raise Untrue(
                f"{step.label!r} was performed as {step.id}, where the record now leads to {now[0]!r}"
                f"{' with other arguments' if now[0] == step.label else ''}: "
                "it began before the choices that led to it were durable"
            )


async def check_led(
    root: Promise, store: MemoryStore, registry: Registry, worker_context: WorkerContext, step: Performed
) -> None:
    """Raise `Untrue` if what is stored does not lead an execution to a step that is about to be performed."""
    execution, _ = retrace(root, store, registry, worker_context)
    await _drive(execution)
    if execution.asked.get(step.id) != (step.label, step.digest):
        raise Untrue(f"{step.label!r} began as {step.id} before the choices that led to it were durable")


def retrace(
    root: Promise, store: MemoryStore, registry: Registry, worker_context: WorkerContext
) -> tuple[_Watched, ReadOnlyClient]:
    number = generation_of(root).number
    if number and root.state != "pending":
        root = replace(root, state="pending", value=store.promises[begun_id(root.id, number)].value)
    branch = base_of(root.id, number)
    records = [store.promises[key] for key in store.branches.get(branch, {}) if key != root.id]
    if number and (cancel := store.promises.get(cancel_id(root.id))) is not None:
        records.append(cancel)
    client = ReadOnlyClient(store)
    worker_context = replace(worker_context, client=client, runner=_Idle(), observers=SILENT)
    call = worker_context.payloads.decode_call(arguments_of(root))
    workflow = registry.find(call.function, call.version)
    args, kwargs = workflow.arguments(call, worker_context.payloads, worker_context.provided)
    claim = AcquireReply(TaskView(root.id, "acquired", 1, 0), root, records, "invoke", Invoked(root))
    bound = BoundCall(workflow.name, workflow.body, args, kwargs, workflow)
    execution = _Watched(claim, bound, worker_context, lambda _: bound)
    execution.asked = {}
    return execution, client


async def _drive(execution: _Watched) -> str:
    try:
        return await asyncio.wait_for(execution.drive(), PATIENCE_S)
    except TimeoutError:
        return "lost"
    finally:
        execution.close()


def same_outcome(root: Promise, state: str, value: Value) -> bool:
    # An error's value holds a traceback, whose lines say how it was reached this time.
    return root.state == state and (state != "resolved" or root.value.data == value.data)
