"""What an app says to its executions: telling, asking, settling their promises."""

from collections.abc import Awaitable
from typing import Any, Final, cast

from holdfast.host.bridge import AppBridge
from holdfast.host.tracked_calls import SentCall, SentRequest
from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.errors import BadArguments
from holdfast.payloads.messages import encode_message
from holdfast.payloads.payloads import Payloads
from holdfast.payloads.user_tags import check_id, check_key
from holdfast.protocol.records import Value
from holdfast.steps.middleware import Entered, await_asked, telling
from holdfast.workflow.messages import named_id

default_ask_s: Final = 60.0


class Conversing:
    """In scripts these calls wait and return; in asyncio they are awaited."""

    payloads: Payloads
    _bridge: AppBridge

    def tell(self, id: str, message: Any = None, *, key: str | None = None) -> Awaitable[None]:  # noqa: A002
        """Send a message to an execution: what its `hf.mailbox` and `hf.receive` give. In a script it is
        durable when this returns, in asyncio when it was awaited.

        It waits there until the code asks for it, and is seen once, in the order of commits. Under the same
        `key` it is sent once, however often you call this. Raises `NoSuchExecution` and `ExecutionOver`, and
        `StreamFull` when too many messages are unread.

        >>> app.tell("order-17", Item("tea", 5), key="evt-9")
        """
        sent_once = None if key is None else check_key(key)
        value, entered = self._leaving("tell", id, message)

        what = f"the message to {check_id(id)}"
        if entered is not None:
            return self._bridge.do(what, await_asked(entered, self._tell(id, value, sent_once)))
        if not self._bridge.may_send_now():
            return self._bridge.do(what, self._tell(id, value, sent_once))
        sent = self._bridge.session.conversations.begin_to_tell(id, value, sent_once)
        if isinstance(sent, SentRequest):
            return self._bridge.tracked_calls.hold(SentCall(what, sent))
        return self._bridge.do(what, sent)

    async def _tell(self, execution_id: str, message: Value, key: str | None) -> None:
        """On the session's loop."""
        await self._bridge.session.wait_for_clock()
        sent = self._bridge.session.conversations.begin_to_tell(execution_id, message, key)
        self._bridge.tracked_calls.note_sent()
        await sent

    def ask(
        self,
        id: str,  # noqa: A002
        message: Any = None,
        *,
        timeout: Duration = default_ask_s,
        returns: Any = Any,
    ) -> Any:
        """Send a message to an execution and wait for its answer. In asyncio: await it.

        Raises what the code refuses it with (`MessageRefused`, or your own error), `TimedOut` when there is
        no answer in time, and `ExecutionOver` when the execution ends without one. The message stays sent.

        >>> count = app.ask("order-17", Item("tea", 5), timeout="5s")
        """
        limit_s = duration_s(timeout)
        value, entered = self._leaving("ask", id, message)

        async def ask() -> Any:
            await self._bridge.tracked_calls.let_others_begin()
            return await self._bridge.session.conversations.ask(check_id(id), value, limit_s, returns)

        return self._bridge.result_of(ask() if entered is None else await_asked(entered, ask()))

    def _leaving(self, how: str, execution_id: str, message: Any) -> tuple[Value, Entered | None]:
        """A message as it leaves, and the middlewares around that."""
        hooks = self._bridge.tasks.hooks
        entered = hooks.leaving("tell", how, execution_id, (message,), {}, self.payloads)
        if entered is None:
            return encode_message(self.payloads, message), None
        with telling(entered):
            [message] = entered.invocation.args
            value = encode_message(self.payloads, message, entered.invocation.headers)
        return value, entered

    def resolve(self, id: str, value: Any = None, *, name: str | None = None) -> Awaitable[None]:  # noqa: A002
        """Settle a promise that a workflow waits for. In a script it is durable when this returns.

        `id` is the id of the promise. With `name`, it is the id of the execution that has
        `hf.promise(name=...)`; the code need not have asked for it yet. The first outcome is final. Settling
        it again with the same value is fine; another value raises `AlreadySettled`, which has the outcome.
        With `name` it may raise `NoSuchExecution` and `ExecutionOver`. Executions and tasks are refused:
        cancel them instead.
        """
        return self._settle("resolving", id, value, name)

    def reject(self, id: str, error: Exception, *, name: str | None = None) -> Awaitable[None]:  # noqa: A002
        """Settle it with an error, which is raised where the workflow awaits it. Otherwise as `resolve`."""
        if not isinstance(cast(object, error), Exception):
            raise BadArguments(f"reject takes an exception, such as ValueError('too late'), not {error!r}")
        return self._settle("rejecting", id, error, name, is_error=True)

    def _settle(
        self, what: str, given: str, outcome: Any, name: str | None, *, is_error: bool = False
    ) -> Awaitable[None]:
        async def settle() -> None:
            await self._bridge.session.wait_for_clock()
            if name is None:
                await self._bridge.session.executions.settle(given, outcome, is_error=is_error)
            else:
                await self._bridge.session.conversations.settle_named(given, name, outcome, is_error=is_error)

        promise_id = check_id(given) if name is None else named_id(check_id(given), name)
        return self._bridge.do(f"the {what} of {promise_id}", settle())
