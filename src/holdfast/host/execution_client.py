"""What an app asks its node about executions and promises. Everything here runs on the session's loop.

1. Whoever waits for a result hears of it by a message, or asks again after a while: messages may be lost.
2. Under an id that is taken, only the same call is started again: anything else is refused (IdTaken).
3. Settling says who won: what stands is compared with what was asked for.
"""

from collections.abc import Awaitable, Callable, Mapping
from reprlib import Repr
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.caller import Caller, expect
from holdfast.client.errors import Refused
from holdfast.client.listening import OutcomeWait, Settlements
from holdfast.host.errors import AlreadySettled, ClosedTooSoon, NotAnOpenPromise
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.signature import Signature
from holdfast.protocol import limits, tags
from holdfast.protocol.address import target_of
from holdfast.protocol.errors import AlreadyExists, HoldfastError
from holdfast.protocol.operations import ended_by_deadline
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import Empty, PromiseReply, Reply, ReplyData
from holdfast.protocol.requests import (
    CreateAction,
    ExecutionCancel,
    ExecutionFork,
    ExecutionRetry,
    ExecutionStart,
    OnExisting,
    PromiseCreate,
    PromiseGet,
    PromiseRegisterListener,
    PromiseSettle,
    RequestData,
    TaskContinue,
    TaskHalt,
)
from holdfast.runtime.errors import TimedOut
from holdfast.steps.hooks import with_headers
from holdfast.steps.middleware import Entered
from holdfast.workflow.errors import ExecutionCancelled, IdTaken
from holdfast.workflow.placement import Placement
from holdfast.workflow.same_call import check_same_call, is_same_value

Outcome = Literal["resolved", "rejected"]

_short: Final = Repr()
_short.maxstring = _short.maxother = 100


class Start(Struct, frozen=True):
    """An execution to be started: checked and encoded."""

    id: str
    param: Value
    group: str | None = None
    timeout_s: float | None = None
    tags: Mapping[str, str] = {}
    signature: Signature | None = None
    supplied: frozenset[str] = frozenset()
    placement: Placement = Placement()
    name: str | None = None
    on_existing: OnExisting = "return"
    key: str | None = None  # by which the node knows this start, if it is sent again

    @property
    def returns(self) -> Any:
        return Any if self.signature is None else self.signature.returns


def with_entered(asked: Start, entered: Entered | None) -> Start:
    """With the headers that middlewares and carried variables have added."""
    if entered is None or not entered.invocation.headers:
        return asked
    return replace(asked, param=with_headers(asked.param, entered.invocation.headers))


def start_request(creation: PromiseCreate, asked: Start) -> RequestData:
    """The creation itself, if what has the id already is what is wanted."""
    if asked.on_existing == "return":
        return creation
    return ExecutionStart(CreateAction(creation), asked.on_existing)


class ExecutionClient(Struct, frozen=True, kw_only=True):
    caller: Caller  # everything asked here may be repeated
    payloads: Payloads
    known_errors: Mapping[str, type[Exception]]
    inbox: Settlements
    address: str
    group: str
    now: Callable[[], int]
    learn_clock: Callable[[str], Awaitable[None]]
    listen_again_s: float
    note_queue: Callable[[str], None]
    waiting: dict[OutcomeWait, None] = {}  # who waits for a result

    def stop_waiting(self) -> None:
        """It is closed: nobody is going to tell those who wait for a result what becomes of it."""
        for wait in self.waiting:
            wait.stop(ClosedTooSoon(f"The app was closed before {wait.promise_id} was over"))

    async def start(self, asked: Start) -> Promise:
        """Raises IdTaken when something else has the id."""
        creation = await self.timed_creation(asked)
        [reply] = await self.caller.replies([start_request(creation, asked)])
        return self.started(asked, reply)

    async def timed_creation(self, asked: Start) -> PromiseCreate:
        """What is asked for to start it, by the node's clock."""
        if asked.timeout_s is not None or asked.placement.is_later:
            await self.learn_clock(asked.id)
        return self.creation(asked)

    def creation(self, asked: Start) -> PromiseCreate:
        """The same, where the node's clock is known."""
        entries: dict[str, str] = {
            **asked.tags,
            tags.ORIGIN: asked.id,
            tags.BRANCH: asked.id,
            tags.PARENT: asked.id,
            tags.SCOPE: "global",
            tags.TARGET: target_of(asked.group or self.group),
            **asked.placement.entries(),
        }
        if asked.name is not None:
            entries[tags.WORKFLOW] = asked.name
        timeout_at = limits.instant_ms_max
        if asked.placement.queue is not None:
            self.note_queue(asked.placement.queue)
        if asked.placement.is_later:
            entries |= asked.placement.delay(self.now())
        if asked.timeout_s is not None:
            ends = asked.placement.ends(round(asked.timeout_s * 1000))
            timeout_at = min(self.now() + ends.after_ms, limits.instant_ms_max)
            entries |= ends.entries
        return PromiseCreate(asked.id, timeout_at, asked.param, entries, asked.key)

    def started(self, asked: Start, reply: Reply) -> Promise:
        """The execution that has the id, if it is the one that was asked for."""
        if reply.code == AlreadyExists.code:
            raise IdTaken(f"The id {asked.id!r} is taken")
        promise = expect(reply, PromiseReply).promise
        check_same_call(asked.param, promise, self.payloads, asked.signature, asked.supplied)
        return promise

    async def result(self, promise_id: str, returns: Any) -> Any:
        return self.outcome(await self.settled(promise_id), returns)

    async def settled(self, promise_id: str, *first: RequestData) -> Promise:
        """Wait until a promise is settled. `first` is what creates it, asked for in the same commit."""
        wait = OutcomeWait(promise_id)
        withdraw = self.inbox.hear(promise_id, wait.hear)
        self.waiting[wait] = None
        try:
            while wait.promise is None:
                listen = PromiseRegisterListener(promise_id, self.address)
                replies = await self.caller.replies([*first, listen])
                for reply in replies[:-1]:
                    expect(reply, ReplyData)
                first = ()
                promise = expect(replies[-1], PromiseReply).promise
                if promise.state != "pending":
                    return promise
                await wait.heard_within(self.listen_again_s)
            return wait.promise
        finally:
            self.waiting.pop(wait, None)
            withdraw()

    def outcome(self, promise: Promise, returns: Any) -> Any:
        if promise.state == "resolved":
            return self.payloads.decode(promise.value, returns)
        if promise.state == "rejected":
            raise self.payloads.decode_error(promise.value, self.known_errors)
        if promise.state == "rejected_canceled" and not ended_by_deadline(promise):
            raise ExecutionCancelled(f"{promise.id} was cancelled")
        raise TimedOut(f"{promise.id} timed out. [{TimedOut.code}]")

    async def cancel(self, promise_id: str, *, now: bool) -> None:
        await self._ask(ExecutionCancel(promise_id, now))

    async def retry(self, promise_id: str, timeout_s: float | None) -> None:
        """Raises a refusal if it cannot go on from where it failed."""
        await self._ask(ExecutionRetry(promise_id, await self._deadline(promise_id, timeout_s)))

    async def fork(
        self, promise_id: str, new_id: str, before: str, param: Value | None, timeout_s: float | None
    ) -> None:
        deadline = await self._deadline(promise_id, timeout_s)
        try:
            promise = await self._ask(ExecutionFork(promise_id, new_id, before, param, deadline))
        except Refused as refused:
            if refused.reply_code != AlreadyExists.code:
                raise
            raise IdTaken(f"The id {new_id!r} is taken by something else, or by another fork") from None
        if param is not None:
            check_same_call(param, promise, self.payloads)

    async def param_of(self, promise_id: str) -> Value:
        """What it was called with."""
        return (await self._ask(PromiseGet(promise_id))).param

    async def halt(self, promise_id: str, reason: str) -> None:
        await self.caller.ask(TaskHalt(promise_id, None, reason), Empty)

    async def resume(self, promise_id: str) -> None:
        await self.caller.ask(TaskContinue(promise_id), Empty)

    async def _deadline(self, promise_id: str, timeout_s: float | None) -> int | None:
        if timeout_s is None:
            return None
        await self.learn_clock(promise_id)
        return self.now() + round(timeout_s * 1000)

    async def settle(self, promise_id: str, outcome: Any, *, is_error: bool = False) -> None:
        """Settle a promise that a workflow waits for. Its tags never change: they can be looked at first."""
        state, value = self.settlement(outcome, is_error=is_error)
        promise = await self._ask(PromiseGet(promise_id))
        if tags.TARGET in promise.tags:
            what = "a background task" if tags.JOB in promise.tags else "an execution"
            raise NotAnOpenPromise(f"{promise_id!r} is {what}, which cannot be settled from outside")
        self.check_settled(await self._ask(PromiseSettle(promise_id, state, value)), state, value)

    def settlement(self, outcome: Any, *, is_error: bool) -> tuple[Outcome, Value]:
        if is_error:
            return "rejected", self.payloads.encode_error(outcome)
        return "resolved", self.payloads.encode(outcome)

    def check_settled(self, promise: Promise, state: Outcome, value: Value) -> None:
        """Raises AlreadySettled unless it ended so."""
        if promise.state != state or not is_same_value(value, promise.value, self.payloads):
            raise self._settled_otherwise(promise)

    def _settled_otherwise(self, promise: Promise) -> AlreadySettled:
        value: Any = None
        try:
            if promise.state == "rejected":
                value = self.payloads.decode_error(promise.value, self.known_errors)
            else:
                value = self.payloads.decode(promise.value)
        except HoldfastError as error:  # who settled it may have another codec
            value = error
        ended = {"rejected_canceled": "cancelled", "rejected_timedout": "timed out"}
        shown = "" if self.payloads.is_coded or promise.state in ended else f" with {_short.repr(value)}"
        how = ended.get(promise.state, promise.state)
        return AlreadySettled(f"{promise.id!r} is already {how}{shown}", promise.state, value)

    async def _ask(self, data: RequestData) -> Promise:
        return (await self.caller.ask(data, PromiseReply)).promise
