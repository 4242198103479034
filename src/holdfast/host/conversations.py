"""Talking to executions from outside: telling, asking, settling promises by name. Runs on the session's loop.

1. Every message has a key. Without one from the caller it is a fresh one, so that a request whose answer was
   lost can be repeated: a message is appended once.
2. The promise of an answer is named after the key, so one array asks and begins to listen: one round trip.
3. A promise with a name may be settled before the code has come to it. It counts only if the execution is not
   over in the same commit. When it is over, what was settled before still stands: the same value is fine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from holdfast.client.caller import ask, expect, fresh_key, is_whole
from holdfast.client.errors import Refused
from holdfast.client.refusals import known_refusal
from holdfast.host.execution_client import ExecutionClient, Start
from holdfast.host.tracked_calls import SentRequest
from holdfast.payloads.messages import encode_message
from holdfast.protocol import limits, tags
from holdfast.protocol.errors import ExecutionOver, NoSuchExecution, NotAsExpected, unanswered
from holdfast.protocol.jobs import CODE_HEADER
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import PromiseReply, Reply, StreamAppendReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    Request,
    RequestData,
    Settle,
    StreamAnswer,
    StreamAppend,
)
from holdfast.protocol.streams import MAILBOX, answer_id, key_id
from holdfast.runtime.errors import TimedOut
from holdfast.workflow.errors import IdTaken
from holdfast.workflow.messages import named_id


class Conversations(Struct, frozen=True):
    executions: ExecutionClient

    def encode(self, message: Any) -> Value:
        return encode_message(self.executions.payloads, message)

    def begin_to_tell(
        self, execution_id: str, message: Value, key: str | None
    ) -> SentRequest[list[Reply]] | Coroutine[Any, Any, None]:
        """A node beside us has the message at once: what this execution asks for now goes into one commit
        with it. Another one has it when what this gives is awaited."""
        asked = [ask(StreamAppend(execution_id, MAILBOX, message, fresh_key() if key is None else key))]
        answering = self.executions.caller.begin(asked)
        if isinstance(answering, asyncio.Future):
            return SentRequest(answering, partial(self._read_told, execution_id, asked))
        return self._told(execution_id, asked, answering)

    def _read_told(
        self, execution_id: str, asked: list[Request], answered: list[Reply]
    ) -> Coroutine[Any, Any, None] | None:
        if not is_whole(asked, answered):
            return self._go_on_telling(execution_id, asked, answered)
        _appended(answered[0], execution_id)
        return None

    async def _told(self, execution_id: str, asked: list[Request], answering: Awaitable[list[Reply]]) -> None:
        rest = self._read_told(execution_id, asked, await answering)
        if rest is not None:
            await rest

    async def _go_on_telling(self, execution_id: str, asked: list[Request], answered: list[Reply]) -> None:
        [reply] = await self.executions.caller.go_on(asked, answered)
        _appended(reply, execution_id)

    async def ask(self, execution_id: str, message: Value, timeout_s: float, returns: Any) -> Any:
        executions, key = self.executions, fresh_key()
        await executions.learn_clock(execution_id)
        name = answer_id(key_id(execution_id, MAILBOX, key))
        answer = StreamAnswer(executions.now() + round(timeout_s * 1000), name)
        asked = StreamAppend(execution_id, MAILBOX, message, key, answer)
        try:
            promise = await executions.settled(name, asked)
        except Refused as refused:
            raise known_refusal(refused, execution_id) from None
        if promise.state == "rejected_timedout":
            raise TimedOut(f"{execution_id} gave no answer within {timeout_s:g} s. [{TimedOut.code}]")
        if (promise.value.headers or {}).get(CODE_HEADER) == ExecutionOver.code:
            raise ExecutionOver(execution_id, unanswered)
        return executions.outcome(promise, returns)

    async def call(
        self,
        execution_id: str,
        message: Value,
        returns: Any,
        begin: Callable[[], PromiseCreate],
        key: str | None = None,
    ) -> Any:
        """Ask an execution, and wait as long as it takes. If it does not exist, `begin` it in the commit that
        asks."""
        executions, key = self.executions, key or fresh_key()
        name = answer_id(key_id(execution_id, MAILBOX, key))
        asked = StreamAppend(execution_id, MAILBOX, message, key, StreamAnswer(limits.instant_ms_max, name))
        try:
            promise = await executions.settled(name, asked)
        except Refused as refused:
            error = known_refusal(refused, execution_id)
            if not isinstance(error, NoSuchExecution):
                raise error from None
            promise = await executions.settled(name, begin(), asked)
        if (promise.value.headers or {}).get(CODE_HEADER) == ExecutionOver.code:
            raise ExecutionOver(execution_id, unanswered)
        return executions.outcome(promise, returns)

    async def start_and_tell(self, asked: Start, message: Value) -> Promise:
        """Both in one commit. What runs under the id must be the same workflow, whatever its arguments."""
        creation = await self.executions.timed_creation(asked)
        append = StreamAppend(
            asked.id, MAILBOX, message, fresh_key(), expect={tags.WORKFLOW: asked.name or ""}
        )
        created, told = await self.executions.caller.replies([creation, append])
        if told.code == NotAsExpected.code:
            raise IdTaken(f"{asked.id!r} is not an execution of {asked.name}")
        promise = expect(created, PromiseReply).promise
        _appended(told, asked.id)
        return promise

    async def settle_named(self, execution_id: str, name: str, outcome: Any, *, is_error: bool) -> None:
        executions = self.executions
        promise_id = named_id(execution_id, name)
        state, value = executions.settlement(outcome, is_error=is_error)
        root, named = await self._root_and(execution_id, promise_id)
        if root.state != "pending":
            if named is None or named.state not in ("resolved", "rejected"):
                raise ExecutionOver(execution_id)
            executions.check_settled(named, state, value)
            return
        creation = PromiseCreate(
            promise_id, root.timeout_at, tags=_lineage(root), settle=Settle(state, value)
        )
        replies = await self._ask_all([creation, PromiseGet(execution_id)])
        promise = expect(replies[0], PromiseReply).promise
        executions.check_settled(promise, state, value)
        if expect(replies[1], PromiseReply).promise.state != "pending":
            raise ExecutionOver(execution_id)

    async def _root_and(self, execution_id: str, promise_id: str) -> tuple[Promise, Promise | None]:
        """An execution, and a promise of it, if there is one."""
        found, named = await self._ask_all([PromiseGet(execution_id), PromiseGet(promise_id)])
        if found.status == 404:
            raise NoSuchExecution(execution_id)
        root = expect(found, PromiseReply).promise
        if tags.TARGET not in root.tags:
            raise NoSuchExecution(execution_id)
        return root, None if named.status == 404 else expect(named, PromiseReply).promise

    async def _ask_all(self, asked: Sequence[RequestData]) -> list[Reply]:
        return await self.executions.caller.replies(asked)


def _lineage(root: Promise) -> dict[str, str]:
    return {
        tags.ORIGIN: root.tags.get(tags.ORIGIN, root.id),
        tags.BRANCH: root.tags.get(tags.BRANCH, root.id),
        tags.PARENT: root.id,
        tags.SCOPE: "global",
    }


def _appended(reply: Reply, execution_id: str) -> StreamAppendReply:
    try:
        return expect(reply, StreamAppendReply)
    except Refused as refused:
        raise known_refusal(refused, execution_id) from None
