"""The HTTP application: which handler answers a path, and who is admitted.

An ASGI application with one small table of routes. Empty path segments are ignored, so a client whose base
URL ends in a slash is understood. Every answer that is not a stream or metrics is JSON.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from holdfast.node.health import failure_of
from holdfast.node.node import Node
from holdfast.protocol.errors import AnswerLost, Refusal
from holdfast.server import metrics as numbers
from holdfast.server.asgi import (
    Answer,
    Disconnected,
    Headers,
    Receive,
    Scope,
    Send,
    header,
    json_type,
    read_body,
    refusal_body,
    refusal_headers,
    respond,
    respond_json,
    respond_refusal,
)
from holdfast.server.auth import Authenticator, bearer_of
from holdfast.server.collection import decode_order
from holdfast.server.console import Console
from holdfast.server.errors import LegacyPath, NoSuchPath, NotReady, WrongMethod
from holdfast.server.management.handler import Management, refuse_managing
from holdfast.server.offers import Offers
from holdfast.server.origin import Visitors
from holdfast.server.rpc import PendingAnswer, Rpc
from holdfast.server.settings import Settings
from holdfast.server.streams import EventStreams

log = logging.getLogger("holdfast.server")

ready_timeout_s: Final = 2.0

T = TypeVar("T")
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class ServerApp:
    def __init__(self, node: Node, settings: Settings, authenticator: Authenticator, url: str) -> None:
        self.metrics = numbers.Metrics()
        self.offers = Offers(node)
        self.streams = EventStreams(node, settings, self.metrics, self.offers, authenticator, url)
        self.connection_count: Callable[[], int] = lambda: 0
        self._node = node
        self._body_bytes_max = settings.body_bytes_max
        self._authenticator = authenticator
        self._visitors = Visitors(settings)
        self._rpc = Rpc(node, settings, self.metrics, authenticator)
        self._management = Management(
            node,
            authenticator,
            self._rpc.answer,
            settings,
            self.metrics,
            self._rpc.admit,
            self._rpc.turns,
        )
        self._routes: dict[str, dict[str, Handler]] = {
            "": {"POST": self._post},
            "poll": {"GET": self.streams.handle},
            "health": {"GET": self._health, "HEAD": self._health},
            "ready": {"GET": self._ready, "HEAD": self._ready},
            "collect": {"POST": self._collect},
            "v1": dict.fromkeys(("GET", "POST", "PUT", "DELETE"), self._management.handle),
        }
        if settings.console:
            console = Console(settings.codec_url)
            self._routes["console"] = {"GET": console.handle, "HEAD": console.handle}
            self._routes[""]["GET"] = self._root
        if settings.metrics:
            self._routes["metrics"] = {"GET": self._metrics}

    async def answer(self, headers: Headers, body: bytes, peer: str = "") -> Answer:
        """Answer `POST /`. Never raises."""
        try:
            extra = self._visitors.admit(headers)
            status, answer, more = await self._rpc.answer(headers, body, peer)
        except Refusal as refusal:
            self.metrics.count_refused(refusal.code)
            return refusal.status, refusal_body(refusal), refusal_headers(refusal)
        except Exception:
            return _lost()
        return status, answer, extra + more if extra else more

    def ask(self, headers: Headers, body: bytes) -> PendingAnswer | None:
        """The short way to answer `POST /`; `finish` follows when the reply is there. None: `answer` it."""
        try:
            return None if self._visitors.admit(headers) else self._rpc.ask(headers, body)
        except Exception:  # `answer` says what is wrong
            return None

    def finish(self, asked: PendingAnswer) -> Answer:
        """Never raises."""
        try:
            return self._rpc.finish(asked)
        except Exception:
            return _lost()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            headers = self._visitors.admit(scope["headers"], is_file=_is_file(scope))
            if headers:
                send = _with_headers(send, headers)
            handler = self._find(scope["path"], scope["method"])
            await handler(scope, receive, send)
        except Refusal as refusal:
            self.metrics.count_refused(refusal.code)
            await (refuse_managing if _first_of(scope["path"]) == "v1" else respond_refusal)(send, refusal)
        except Disconnected:
            pass
        except Exception:
            log.exception("a reply could not be built")
            await respond_refusal(send, AnswerLost("The answer could not be made"))

    def stop(self) -> None:
        """End every stream, so that its worker connects elsewhere or again."""
        self.streams.stop()
        self._management.stop()
        self.offers.stop()

    def _find(self, path: str, method: str) -> Handler:
        first = _first_of(path)
        methods = self._routes.get(first)
        if method == "OPTIONS" and self._visitors.answers_preflight:
            return self._preflight
        if methods is None:
            if first in ("promises", "schedules", "tasks"):
                raise LegacyPath(f"/{first} is not served")
            raise NoSuchPath("There is nothing at this path")
        handler = methods.get(method)
        if handler is None:
            raise WrongMethod(f"This path answers to {' and '.join(methods)}, not to {method[:20]}")
        return handler

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The long way to `answer`, for requests that the short one leaves out (and other ASGI servers)."""
        body = await read_body(receive, self._body_bytes_max)
        status, answer, headers = await self._rpc.answer(
            scope["headers"], body, (scope.get("client") or [""])[0]
        )
        await respond(send, status, answer, [json_type, *headers])

    async def _root(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Browsers are led to the console. The protocol is not asked for by GET."""
        if b"text/html" not in (header(scope["headers"], b"accept") or b""):
            raise WrongMethod("This path answers to POST, not to GET")
        await respond(send, 302, b"", [(b"location", b"console/"), (b"vary", b"accept")])

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond_json(send, 200, {"status": "ok"})

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(ready_timeout_s):
                await self._node.check()
        except Exception as error:
            log.warning("the store does not answer", exc_info=True)
            raise NotReady("The server is not ready") from error
        await respond_json(send, 200, {"status": "ready"})

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._authenticator.grant(bearer_of(scope["headers"])).require_admin("Metrics")
        connections, now = self.connection_count(), time.time_ns() // 1_000_000
        text = await _of_the_store(numbers.expose(self.metrics, self._node, connections, now))
        await respond(send, 200, text, [(b"content-type", numbers.content_type)])

    async def _collect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One short step of forgetting what ended long ago; whoever asks carries the progress along."""
        grant = self._authenticator.grant(bearer_of(scope["headers"]))
        grant.require_admin("Forgetting executions")
        grant.require_change("Forgetting executions")
        order = decode_order(await read_body(receive, self._body_bytes_max))
        done = await _of_the_store(
            self._node.collect_some(order.progress, order.older_than_ms, dry_run=order.dry_run)
        )
        await respond(send, 200, msgspec.json.encode(done), [json_type])

    async def _preflight(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 204, b"", [])


class ManagementApp(ServerApp):
    """The management API alone, of a node inside an application."""

    def __init__(self, node: Node, settings: Settings, authenticator: Authenticator, url: str) -> None:
        super().__init__(node, settings, authenticator, url)
        served = {name: self._routes[name] for name in ("v1", "health", "ready")}
        if settings.console:
            served |= {"console": self._routes["console"], "": {"GET": self._root}}
        self._routes = served

    def ask(self, headers: Headers, body: bytes) -> PendingAnswer | None:
        return None

    async def answer(self, headers: Headers, body: bytes, peer: str = "") -> Answer:
        refusal = NoSuchPath("This is the management API of an application, and nothing is answered here")
        self.metrics.count_refused(refusal.code)
        return refusal.status, refusal_body(refusal), refusal_headers(refusal)


def _first_of(path: str) -> str:
    return next((part for part in path.split("/") if part), "")


def _is_file(scope: Scope) -> bool:
    """Does it ask for a file of the console?"""
    return scope["method"] in ("GET", "HEAD") and scope["path"].lstrip("/").startswith("console/")


def _lost() -> Answer:
    """What an error has left of an answer."""
    log.exception("a reply could not be built")
    fault = AnswerLost("The answer could not be made")
    return fault.status, refusal_body(fault), []


async def _of_the_store(result: Awaitable[T]) -> T:
    try:
        return await result
    except Refusal:
        raise
    except Exception as error:
        log.warning("the store does not answer", exc_info=True)
        raise failure_of(error) from error


def _with_headers(send: Send, extra: Headers) -> Send:
    async def send_more(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *extra]  # type: ignore[misc]
        await send(message)

    return send_more
