"""Endpoints for workflows, the same in every web framework: start, look, stream, settle, tell, cancel.

This module owns what the endpoints mean. An adapter (`ext/starlette.py`, `ext/fastapi.py`, `ext/flask.py`,
`ext/django/`) owns routes: it makes a `WebRequest` of its framework's request, and its framework's response
of a `WebAnswer`. Who the user is, is the framework's affair; `allow` says what that user may do.

1. A start is answered when it is durable: 202, the id and a link. With an `Idempotency-Key` the same start
   again is the same execution.
2. Only executions of the workflows that were named are seen: any other id is answered like one that is not
   there.
3. Every POST has the content type of JSON, so no page of another site can send one without being asked for.
4. A body is read up to `body_bytes_max`, streams are open up to `streams_max`, nobody waits longer than
   `wait_s_max`.
5. Functions of the application (`allow`, `tags`) run where the framework runs the request: on its thread, in
   its context.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from holdfast.app import App, Handle, Workflow, bridge_of
from holdfast.client.caller import expect
from holdfast.client.errors import Refused
from holdfast.client.refusals import known_refusal
from holdfast.ext.web_errors import (
    BadWebRequest,
    NotAllowed,
    TooManyReaders,
    WebBodyNotJson,
    WebBodyTooLarge,
    headers_of,
    shape_of,
    status_of,
)
from holdfast.payloads.durations import duration_s
from holdfast.payloads.errors import UndecodablePayload
from holdfast.payloads.payloads import dump, load
from holdfast.payloads.schemas import Schema, first_line, parameters_schema
from holdfast.payloads.signature import StoredCall, signature_of
from holdfast.payloads.user_tags import RESERVED, check_id
from holdfast.protocol.errors import HoldfastError, NoSuchExecution
from holdfast.protocol.executions import ENDED, ExecutionView
from holdfast.protocol.ids import below
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import ExecutionReply, PromiseReply
from holdfast.protocol.requests import ExecutionGet, PromiseGet
from holdfast.server import events
from holdfast.server.events import frame, keep_alive
from holdfast.workflow.errors import NotAWorkflow
from holdfast.workflow.registry import check_workflow

log = logging.getLogger("holdfast.web")

T = TypeVar("T")
stream_headers: Final = {name.decode(): value.decode() for name, value in events.headers}
ActionKind = Literal["start", "look", "stream", "settle", "tell", "cancel"]

body_bytes_max: Final = 1_048_576
streams_max: Final = 1_000  # open at once, in one process
wait_s_max: Final = 60.0
keep_alive_s: Final = 15.0
_key: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_wait: Final = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")


class WebRequest(Struct, frozen=True):
    """A request as an adapter hands it on. `source` is the framework's own, for `allow` and `tags`."""

    headers: Mapping[str, str]  # names in lower case
    body: bytes
    source: Any
    base: str = ""  # of the links: the path under which the endpoints are


class WebAnswer(Struct, frozen=True):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Action(Struct, frozen=True):
    """What somebody wants to do: `allow(request, action)` answers whether they may."""

    kind: ActionKind
    workflow: str
    id: str | None = None  # None: a start whose id nobody chose
    tags: Mapping[str, str] = {}  # of the execution


Allow = Callable[[Any, Action], bool | Awaitable[bool]]
MakeTags = Callable[[Any], Mapping[str, str]]


class Way(Protocol):
    """How an adapter reaches the app: with await, or blocking its thread."""

    async def begin(self, start: Callable[[], Handle[Any]]) -> Handle[Any]:
        """Start it; it is durable when this returns."""
        ...

    async def ask(self, work: Coroutine[Any, Any, T]) -> T: ...


class AwaitingWay:
    """From an event loop: the app's own, or another."""

    def __init__(self, app: App) -> None:
        self._bridge = bridge_of(app)

    async def begin(self, start: Callable[[], Handle[Any]]) -> Handle[Any]:
        if self._bridge.is_own_loop():
            return await start().started()
        return await asyncio.to_thread(start)  # opens the app, if nobody has

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._bridge.bridge(work)


class BlockingWay:
    """From a thread of a framework without an event loop. Nothing here is ever suspended: see `run_now`."""

    def __init__(self, app: App) -> None:
        self._bridge = bridge_of(app)

    async def begin(self, start: Callable[[], Handle[Any]]) -> Handle[Any]:
        return start()

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        return self._bridge.block(work)


def pumped(app: App, feed: AsyncGenerator[bytes]) -> Generator[bytes]:
    """The pieces of a stream, for a server that takes them on a thread. The feed runs on the app's loop."""
    bridge = bridge_of(app)

    async def next_piece() -> bytes | None:
        return await anext(feed, None)

    async def close() -> None:
        await feed.aclose()

    try:
        while (piece := bridge.block(next_piece())) is not None:
            yield piece
    except HoldfastError as error:  # the app is being closed
        yield frame(msgspec.json.encode(shape_of(error)), name="refused")
    finally:
        with suppress(HoldfastError):
            bridge.block(close())


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """The result of an endpoint on a `BlockingWay`, on this thread and in its context."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise TypeError("This framework has no event loop, so allow= must be a plain function, not an async one.")


class Endpoints:
    def __init__(
        self,
        app: App,
        workflows: Sequence[Workflow[..., Any]],
        allow: Allow | None = None,
        tags: MakeTags | None = None,
        way: Way | None = None,
    ) -> None:
        given = cast("object", workflows)  # by whoever checks no types
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise NotAWorkflow(f"Expected a list of workflows, got {type(workflows).__name__}")
        for workflow in workflows:
            check_workflow(workflow)
        self.app = app
        self.workflows = {workflow.name: workflow for workflow in workflows}
        self._bridge = bridge_of(app)
        self._allow = allow
        self._tags = tags
        self._way = way or AwaitingWay(app)
        self._streams = 0

    def schema(self, workflow: Workflow[..., Any]) -> tuple[Schema, str]:
        """Of the body that starts it; and what it is about."""
        supplied = self.app.providers.wanted_by(workflow.function)
        return parameters_schema(signature_of(workflow.function), supplied)[0], first_line(workflow.function)

    async def answer(self, work: Coroutine[Any, Any, WebAnswer]) -> WebAnswer:
        """What an endpoint answers, errors of ours included."""
        try:
            return await work
        except HoldfastError as error:
            return refusal(error)

    # --- the endpoints ---------------------------------------------------------------------------------

    async def start(self, request: WebRequest, name: str) -> WebAnswer:
        """The body has the workflow's arguments. With `Prefer: wait=5` this waits so long for the end."""
        workflow = self.workflows.get(name)
        if workflow is None:
            raise BadWebRequest(f"No workflow {name[:80]!r} can be started here")
        wait_s = _wait_of(request)
        args, kwargs = self._arguments(workflow, _json_body(request))
        options: dict[str, Any] = {}
        if (key := request.headers.get("idempotency-key")) is not None:
            options["id"] = _id_of(name, key)
        if self._tags is not None:
            options["tags"] = self._tags(request.source)
        started = workflow.with_options(**options)
        await self._check(request, Action("start", name, started.id, started.tags))
        handle = await self._way.begin(lambda: started.start(*args, **kwargs))
        if wait_s:
            await self._way.ask(self._until_over(handle, wait_s))
            view, promise = await self._read(handle.id)
            if view.status in ENDED:
                return self._shown(request, view, promise)
        return accepted(handle, request.base)

    async def look(self, request: WebRequest, execution_id: str) -> WebAnswer:
        view, promise = await self._seen(request, "look", execution_id)
        return self._shown(request, view, promise)

    async def settle(self, request: WebRequest, execution_id: str, name: str) -> WebAnswer:
        """The body is the value of `hf.promise(name=...)`, which the execution waits for or will wait for."""
        value = _loaded(_json_body(request))
        await self._seen(request, "settle", execution_id)
        await self._way.ask(self._settle(execution_id, name, value))
        return WebAnswer(204)

    async def tell(self, request: WebRequest, execution_id: str) -> WebAnswer:
        """The body is a message to the execution. With an `Idempotency-Key` it is sent once."""
        message = _loaded(_json_body(request))
        await self._seen(request, "tell", execution_id)
        key = request.headers.get("idempotency-key")
        await self._way.ask(self._tell(execution_id, message, None if key is None else _checked_key(key)))
        return WebAnswer(202, b"{}", _json)

    async def cancel(self, request: WebRequest, execution_id: str) -> WebAnswer:
        _json_body(request)
        await self._seen(request, "cancel", execution_id)
        await self._way.ask(self._cancel(execution_id))
        return accepted(self.app.handle(execution_id), request.base)

    async def open_stream(
        self, request: WebRequest, execution_id: str, name: str
    ) -> "AsyncGenerator[bytes] | WebAnswer":
        """Server-sent events: what it emits under a name, from `Last-Event-ID` on, then the event `end`."""
        after_text = request.headers.get("last-event-id", "0")
        try:
            if not (after_text.isascii() and after_text.isdigit() and len(after_text) < 16):
                raise BadWebRequest("Last-Event-ID must be the number of the last element that you received")
            await self._seen(request, "stream", execution_id)
            if self._streams >= streams_max:
                raise TooManyReaders(f"{streams_max:,} streams are open here, which is the limit")
        except HoldfastError as error:
            return refusal(error)
        return self._events(request, execution_id, name, int(after_text))

    # --- how -------------------------------------------------------------------------------------------

    async def _events(
        self, request: WebRequest, execution_id: str, name: str, after: int
    ) -> AsyncGenerator[bytes]:
        reader = aiter(self.app.handle(execution_id).stream(name, after=after))
        coming: asyncio.Future[Any] | None = None
        self._streams += 1
        try:
            yield keep_alive  # so that the head of the answer leaves
            while True:
                coming = asyncio.ensure_future(anext(reader, None)) if coming is None else coming
                await asyncio.wait((coming,), timeout=keep_alive_s)
                if not coming.done():
                    yield keep_alive
                    continue
                item, coming = coming.result(), None
                if item is None:
                    break
                yield frame(dump(item.value), str(item.number))
            view, promise = await self._bridge.bridge(self._records(execution_id))
            yield frame(self._shown(request, view, promise).body, name="end")
        except HoldfastError as error:
            yield frame(msgspec.json.encode(shape_of(error)), name="refused")
        finally:
            self._streams -= 1
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await coming

    def _arguments(self, workflow: Workflow[..., Any], body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Typed and checked as the function says; by name from an object, by position from an array."""
        given: dict[str, Raw] | list[Raw] | None = _loaded(body, dict[str, Raw] | list[Raw] | None)
        by_position = tuple(given) if isinstance(given, list) else ()
        call = StoredCall(workflow.name, by_position, given if isinstance(given, dict) else {})
        supplied = frozenset(self.app.providers.wanted_by(workflow.function))
        return self.app.payloads.bind_arguments(workflow.function, call, supplied)

    async def _check(self, request: WebRequest, action: Action) -> None:
        if self._allow is None:
            return
        answer = self._allow(request.source, action)
        if inspect.isawaitable(answer):
            answer = await answer
        if not answer:
            raise NotAllowed(f"You may not {action.kind} this")

    async def _seen(
        self, request: WebRequest, kind: ActionKind, execution_id: str
    ) -> tuple[ExecutionView, Promise]:
        """The execution, if it is one of ours and this user may do that."""
        view, promise = await self._read(check_id(execution_id))
        name = view.name or ""
        if name not in self.workflows:
            raise NoSuchExecution(execution_id)
        own_tags = {key: value for key, value in view.tags.items() if not key.startswith(RESERVED)}
        try:
            await self._check(request, Action(kind, name, execution_id, own_tags))
        except NotAllowed:
            raise NoSuchExecution(execution_id) from None  # nor may they know that it is there
        return view, promise

    async def _read(self, execution_id: str) -> tuple[ExecutionView, Promise]:
        return await self._way.ask(self._records(execution_id))

    async def _records(self, execution_id: str) -> tuple[ExecutionView, Promise]:
        caller = self._bridge.session.executions.caller
        replies = await caller.replies([ExecutionGet(execution_id), PromiseGet(execution_id)])
        try:
            return expect(replies[0], ExecutionReply).execution, expect(replies[1], PromiseReply).promise
        except Refused as refused:
            raise known_refusal(refused, execution_id) from None

    def _shown(self, request: WebRequest, view: ExecutionView, promise: Promise) -> WebAnswer:
        shown: dict[str, Any] = {"id": view.id, "workflow": view.name, "status": view.status}
        shown["createdAt"] = view.created_at
        if view.status in ENDED:
            shown["endedAt"] = view.settled_at
        if view.status == "completed":
            shown["result"] = self.app.payloads.decode(promise.value)
        elif view.status == "failed":
            error = self.app.payloads.decode_error(promise.value)
            shown["error"], shown["code"] = str(error), view.code
        elif view.waits:
            own = below(view.id)
            named = [wait for wait in view.waits if wait.id.startswith(own)]
            shown["waits"] = [
                {"name": wait.id.removeprefix(own), "what": wait.what, "schema": wait.schema or {}}
                for wait in named
            ]
        shown["links"] = links(view.id, request.base)
        return WebAnswer(200, dump(shown), _json)

    async def _until_over(self, handle: Handle[Any], wait_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._bridge.session.executions.settled(handle.id)

    async def _settle(self, execution_id: str, name: str, value: Any) -> None:
        await self.app.resolve(execution_id, value, name=name)

    async def _tell(self, execution_id: str, message: Any, key: str | None) -> None:
        await self.app.tell(execution_id, message, key=key)

    async def _cancel(self, execution_id: str) -> None:
        await self.app.handle(execution_id).cancel()


_json: Final = {"content-type": "application/json", "cache-control": "no-store"}


def refusal(error: HoldfastError) -> WebAnswer:
    status = status_of(error)
    if status >= 500:
        log.warning("a request was answered with %d: %s", status, error, extra={"code": error.code})
    return WebAnswer(status, msgspec.json.encode(shape_of(error)), _json | headers_of(status))


def accepted(handle: Handle[Any], base: str = "") -> WebAnswer:
    """202: it is durable and goes on by itself; `Location` says where to look. `base`: of the endpoints."""
    found = links(handle.id, base)
    body = {"id": handle.id, "links": found}
    return WebAnswer(202, msgspec.json.encode(body), _json | {"location": found["self"]})


def base_of(path: str, tail: str) -> str:
    """Under which path the endpoints are, when `tail` is what an endpoint adds to it."""
    return quote(path.removesuffix(tail), safe="/")


def links(execution_id: str, base: str = "") -> dict[str, str]:
    own = f"{base}/executions/{quote(execution_id, safe='')}"
    return {"self": own, "stream": f"{own}/streams/{{name}}", "settle": f"{own}/promises/{{name}}"} | {
        "tell": f"{own}/messages",
        "cancel": f"{own}/cancel",
    }


def _json_body(request: WebRequest) -> bytes:
    """The body; `null` if it is empty."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WebBodyNotJson(f"The content type is {kind[:80]!r}")
    if len(request.body) > body_bytes_max:
        raise WebBodyTooLarge(f"The body has more than {body_bytes_max:,} bytes")
    return request.body.strip() or b"null"


def _loaded(body: bytes, expected: Any = Any) -> Any:
    try:
        return load(body, expected)
    except UndecodablePayload:
        try:
            found = type(load(body)).__name__
        except UndecodablePayload:
            raise BadWebRequest("The body is not JSON") from None
    raise BadWebRequest(f"Expected a JSON object of arguments by name, or an array of them, got {found}")


def _checked_key(key: str) -> str:
    if not _key.fullmatch(key):
        raise BadWebRequest("Idempotency-Key must have 1 to 200 letters, digits, '-' and '_'")
    return key


def _id_of(name: str, key: str) -> str:
    return f"{re.sub('[^A-Za-z0-9_-]', '-', name)}-{_checked_key(key)}"


def _wait_of(request: WebRequest) -> float:
    found = _wait.search(request.headers.get("prefer", ""))
    return min(duration_s(int(found[1])), wait_s_max) if found else 0.0
