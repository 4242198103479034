"""Reading, from outside, what an execution or a background task emits and publishes.

1. Elements come in the order of their numbers, each once. Whoever was cut off goes on after the last number.
2. A reader ends when the execution is over and everything was read.
3. When the connection is lost, the same number is asked for again: nothing is missed and nothing repeated.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast

from msgspec import Struct

from holdfast.client.caller import Caller
from holdfast.client.errors import ClientError, OutcomeUnknown, Refused, RequestTimedOut, Unreachable
from holdfast.client.refusals import known_refusal
from holdfast.payloads.errors import BadArguments
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.errors import ExecutionOver, InvalidField
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import StreamReply
from holdfast.protocol.requests import StreamNext, StreamRead
from holdfast.protocol.streams import ATTEMPT_HEADER, STEP_HEADER
from holdfast.protocol.text import printable
from holdfast.workflow.messages import named_stream

log = logging.getLogger("holdfast.app")

T = TypeVar("T")
Result = TypeVar("Result")

lost_rest_s: Final = 0.1
lost_rest_s_max: Final = 5.0
lost_s_max: Final = 600.0  # a node that cannot be reached for so long is told to whoever reads
_lost: Final = (Unreachable, OutcomeUnknown, RequestTimedOut)


class StreamItem(tuple[int, Any]):
    """An element of a stream: `number, value = item`. `step` is the id of the step or task that emitted it;
    `attempt` is a text that is another one for each attempt at it ("2.1": under the second claim, the first
    attempt there). Both are None for what the code of the workflow itself has emitted."""

    step: str | None
    attempt: str | None

    def __new__(cls, number: int, value: Any, step: str | None = None, attempt: str | None = None) -> Self:
        item = super().__new__(cls, (number, value))
        item.step, item.attempt = step, attempt
        return item

    @property
    def number(self) -> int:
        return self[0]

    @property
    def value(self) -> Any:
        return self[1]


class StreamClient(Struct, frozen=True):
    """What an open app asks its node. Runs on the session's loop."""

    caller: Caller
    payloads: Payloads
    settled: Callable[[str], Awaitable[Promise]]  # wait for a promise

    async def last(self, execution_id: str, stream: str) -> StreamReply:
        """The last element, if there is one."""
        try:
            return await self.caller.ask(StreamRead(execution_id, stream, last=True), StreamReply)
        except Refused as refused:
            raise known_refusal(refused, execution_id) from None

    async def elements(self, execution_id: str, stream: str, number: int) -> Sequence[Promise]:
        """From a number on, at least one: this waits for it. None: the execution is over."""
        loop, rest_s = asyncio.get_running_loop(), lost_rest_s
        lost_since_s: float | None = None
        while True:
            try:
                found = await self._next(execution_id, stream, number)
            except _lost as error:
                lost_since_s = loop.time() if lost_since_s is None else lost_since_s
                if loop.time() - lost_since_s > lost_s_max:
                    raise
                _tell_lost(execution_id, stream, number, error)
                await asyncio.sleep(rest_s)
                rest_s = min(2 * rest_s, lost_rest_s_max)
                continue
            if found is not None:
                return found
            lost_since_s, rest_s = None, lost_rest_s

    async def _next(self, execution_id: str, stream: str, number: int) -> Sequence[Promise] | None:
        try:
            reply = await self.caller.ask(StreamNext(execution_id, stream, number), StreamReply)
        except Refused as refused:
            if refused.reply_code == ExecutionOver.code:
                return ()
            if refused.reply_code == InvalidField.code and number > 1:
                return await self._grown(execution_id, stream, number)
            raise known_refusal(refused, execution_id) from None
        if reply.promises[0].state != "pending":
            return reply.promises
        element = await self.settled(reply.promises[0].id)
        return [element] if element.state == "resolved" else None  # else ask again: it may be over

    async def _grown(self, execution_id: str, stream: str, number: int) -> Sequence[Promise] | None:
        """The stream is shorter than what the reader says it has: wait for one element more, or the end."""
        count = (await self.last(execution_id, stream)).count
        found = await self._next(execution_id, stream, count + 1) if count + 1 < number else None
        return None if found is None or found else ()

    def item(self, number: int, element: Promise, returns: Any) -> StreamItem:
        headers = element.value.headers or {}
        value = self.payloads.decode(element.value, returns)
        return StreamItem(number, value, headers.get(STEP_HEADER), headers.get(ATTEMPT_HEADER))


def _tell_lost(execution_id: str, stream: str, number: int, error: ClientError) -> None:
    log.warning(
        "reading %s of %s was interrupted at %d and continues there: %s",
        stream,
        printable(execution_id),
        number,
        printable(str(error)),
        extra={"execution": execution_id, "code": error.code},
    )


class StreamApp(Protocol):
    """What a reader needs of its app."""

    @property
    def streams(self) -> StreamClient: ...

    def block(self, work: Coroutine[Any, Any, Result], timeout_s: float | None = None) -> Result: ...

    def bridge(self, work: Coroutine[Any, Any, Result]) -> Awaitable[Result]: ...

    def result_of(self, work: Coroutine[Any, Any, Any]) -> Any: ...


class StreamReader(Generic[T]):
    """`for` in a script, `async for` in asyncio. `after`: begin behind this number; None: at the last one."""

    def __init__(
        self,
        app: StreamApp,
        execution_id: str,
        stream: str,
        after: int | None,
        read: Callable[[StreamClient, int, Promise], T],
        ready: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._app = app
        self._execution_id = execution_id
        self._stream = stream
        self._after = after
        self._read = read
        self._ready = ready

    def __iter__(self) -> Iterator[T]:
        number = self._app.block(self._first())
        while found := self._app.block(self._page(number)):
            yield from found
            number += len(found)

    async def __aiter__(self) -> AsyncIterator[T]:
        number = await self._app.bridge(self._first())
        while found := await self._app.bridge(self._page(number)):
            for item in found:
                yield item
            number += len(found)

    async def _first(self) -> int:
        if self._ready is not None:
            await self._ready()
        if self._after is not None:
            return self._after + 1
        return max(1, (await self._app.streams.last(self._execution_id, self._stream)).count)

    async def _page(self, number: int) -> list[T]:
        streams = self._app.streams
        elements = await streams.elements(self._execution_id, self._stream, number)
        return [self._read(streams, each, element) for each, element in enumerate(elements, number)]


async def read_published(
    app: StreamApp, execution_id: str, name: str, returns: Any, ready: Callable[[], Awaitable[None]] | None
) -> Any:
    stream = named_stream("value", name)
    if ready is not None:
        await ready()
    found = (await app.streams.last(execution_id, stream)).promises
    return app.streams.payloads.decode(found[0].value, returns) if found else None


def stream_of(
    app: StreamApp,
    execution_id: str,
    name: str,
    after: int,
    returns: Any,
    ready: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> StreamReader[StreamItem]:
    def read(streams: StreamClient, number: int, element: Promise) -> StreamItem:
        return streams.item(number, element, returns)

    if not isinstance(cast(Any, after), int) or not 0 <= after < limits.stream_number_max:
        raise BadArguments(f"after={after!r} is not the number of an element: it is 0 or more")
    return StreamReader(app, execution_id, named_stream("out", name), after, read, ready)


def watch_of(
    app: StreamApp,
    execution_id: str,
    name: str,
    returns: Any,
    ready: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> StreamReader[Any]:
    def read(streams: StreamClient, number: int, element: Promise) -> Any:
        return streams.payloads.decode(element.value, returns)

    return StreamReader(app, execution_id, named_stream("value", name), None, read, ready)
