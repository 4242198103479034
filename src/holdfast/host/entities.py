"""Entities from outside: calling one, looking at its state, listing and deleting them.

A call is a question to the execution of the entity. It asks first and begins the execution only if there is
none: an instance that exists is not read for every call.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.client.caller import expect
from holdfast.host.bridge import AppBridge
from holdfast.host.pages import all_of, all_of_async
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.errors import NoSuchExecution
from holdfast.protocol.executions import ENDED
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import ExecutionSearch, PromiseGet, PromiseSettle
from holdfast.steps.hooks import with_headers
from holdfast.steps.middleware import await_asked, telling
from holdfast.workflow.entities import creation_of, encode_request, run_read, state_in
from holdfast.workflow.entity_class import EntityClass, entity_of

if TYPE_CHECKING:
    from holdfast.host.session import Session

E = TypeVar("E")


class EntityHandle:
    """One instance of an entity, from outside. In scripts its calls wait and return; in asyncio they are
    awaited."""

    def __init__(
        self, app: AppBridge, payloads: Payloads, entity: EntityClass[Any], key: str, call_id: str | None
    ) -> None:
        self._app = app
        self._payloads = payloads
        self._entity = entity
        self._call_id = call_id
        self.key = key
        self.id = entity.id_of(key)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._entity.methods:
            raise self._entity.no_call(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if name in self._entity.reads:
                encode_request(self._entity, name, args, kwargs, self._payloads)  # do the arguments fit?
                return self._app.result_of(self._read(name, args, kwargs))
            return self._app.result_of(self._leave(name, args, kwargs))

        return call

    def _leave(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """A call as it leaves, with the middlewares around that."""
        name, payloads = f"{self._entity.name}.{method}", self._payloads
        entered = self._app.tasks.hooks.leaving("tell", name, self.id, args, kwargs, payloads)
        if entered is None:
            return self._call(method, encode_request(self._entity, method, args, kwargs, payloads))
        asked = entered.invocation
        with telling(entered):
            message = encode_request(self._entity, method, asked.args, asked.kwargs, payloads)
        return await_asked(entered, self._call(method, with_headers(message, asked.headers)))

    async def _call(self, method: str, message: Value) -> Any:
        conversations = self._app.session.conversations
        group = self._app.session.executions.group
        begin = partial(creation_of, self._entity, self.key, group, self._payloads)
        returns = self._entity.returns(method)
        return await conversations.call(self.id, message, returns, begin, self._call_id)

    async def _read(self, method: str, args: Any, kwargs: Any) -> Any:
        promise = await find_promise(self._app.session, self.id)
        instance = state_in(self._entity, self.key, promise, self._payloads)
        return run_read(self._entity, method, instance, args, kwargs)

    def __repr__(self) -> str:
        return f"<entity {self.id}>"


class Entities(Generic[E]):
    """All instances of one entity. `for key in app.entities(Account)`; in asyncio `async for`."""

    def __init__(self, app: AppBridge, payloads: Payloads, cls: type[E]) -> None:
        self._app = app
        self._payloads = payloads
        self._entity = entity_of(cls)

    def state(self, key: str) -> E:
        """The instance as its last finished call left it: its fields can be read. In asyncio: await it.

        One that nobody has called has its defaults. Raises `ExecutionCancelled` for one that was deleted.
        """
        found: E = self._app.result_of(self._state(key))
        return found

    def delete(self, key: str) -> Any:
        """End an instance. Its state is gone at once; calls that wait, and later ones, raise `ExecutionOver`
        until the retention of the app deletes what is left of it."""
        return self._app.result_of(self._delete(key))

    async def _state(self, key: str) -> E:
        promise = await find_promise(self._app.session, self._entity.id_of(key))
        return state_in(self._entity, key, promise, self._payloads)

    async def _delete(self, key: str) -> None:
        executions = self._app.session.executions
        [reply] = await executions.caller.replies(
            [PromiseSettle(self._entity.id_of(key), "rejected_canceled")]
        )
        if reply.status == 404:
            raise NoSuchExecution(self._entity.id_of(key))
        expect(reply, PromiseReply)

    async def _page(self, cursor: str | None) -> tuple[list[str], str | None]:
        search = ExecutionSearch(kind="execution", name=self._entity.name, limit=100, cursor=cursor)
        reply = await self._app.session.looking.page(search)
        open_ones = [view for view in reply.executions if view.status not in ENDED]
        return [self._entity.key_of(view.id) for view in open_ones], reply.cursor

    def __iter__(self) -> Iterator[str]:
        return all_of(self._app, self._page)

    def __aiter__(self) -> AsyncIterator[str]:
        return all_of_async(self._app, self._page)


async def find_promise(session: "Session", promise_id: str) -> Promise | None:
    [reply] = await session.executions.caller.replies([PromiseGet(promise_id)])
    return None if reply.status == 404 else expect(reply, PromiseReply).promise
