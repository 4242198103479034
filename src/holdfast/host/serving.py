"""What an app serves by HTTP: its management API, its console, what is pushed to it; and its lifespan."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from holdfast.host.bridge import AppBridge
from holdfast.host.session import Session
from holdfast.host.settings import SessionSettings
from holdfast.protocol.text import hide_password

if TYPE_CHECKING:
    from holdfast.host.push_endpoint import PushEndpoint

Texts = Sequence[str]


class Serving:
    settings: SessionSettings
    _bridge: AppBridge
    _console_port: int
    _may_choose_port: bool

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncGenerator[None]:
        """For frameworks: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def push_endpoint(self, *, token: str | None = None) -> "PushEndpoint":
        """An ASGI application that runs what a server pushes to it: for platforms that call you by HTTP.

        The app's `group` is the URL at which the server reaches it. One request runs one execution until it
        ends or waits; a wait ends the request and holds nothing. `token`: what the server sends (its setting
        `push_token`; else HOLDFAST_PUSH_TOKEN). Background tasks are not pushed. Call this before the app is
        opened. Crash: when the lease is over, the execution is pushed again.

        >>> app = App("https://holdfast.example.org", group="https://fn.example.org/", worker=False)
        >>> application = app.push_endpoint()  # uvicorn shop:application
        """
        from holdfast.host.push_endpoint import PushEndpoint

        self.settings = replace(self.settings, is_pushed=True)
        return PushEndpoint(self._bridge, self.lifespan, token)

    def serve_management(
        self, port: int = 8002, *, host: str = "127.0.0.1", tokens: Texts = (), allowed_origins: Texts = ()
    ) -> str:
        """Serve the management API (`/v1`) of this app's own node until it is closed.

        Answers with its URL. Without `tokens` it can be reached from this machine only. `allowed_origins` are
        those of web pages that may call it.
        """
        return self._bridge.block(self._serve_management(port, host, tokens, allowed_origins))

    async def serve_management_async(
        self, port: int = 8002, *, host: str = "127.0.0.1", tokens: Texts = (), allowed_origins: Texts = ()
    ) -> str:
        return await self._bridge.bridge(self._serve_management(port, host, tokens, allowed_origins))

    async def _serve_management(
        self, port: int, host: str, tokens: Texts, origins: Texts, opening: Session | None = None
    ) -> str:
        await asyncio.to_thread(import_module, "holdfast.server")  # not on the loop: that takes a while
        from holdfast.server import Settings, serving_management

        session, stack = opening or self._bridge.session, AsyncExitStack()
        settings = Settings(host=host, port=port, tokens=tuple(tokens), allowed_origins=tuple(origins))
        server = await stack.enter_async_context(serving_management(session.node, settings))
        session.before_close.append(stack.aclose)
        return server.url

    async def _open_console(self, session: Session) -> None:
        """An app without a node of its own looks at its server's. Any port will do, unless one was named."""
        log = logging.getLogger("holdfast.app")
        if session.own_node is None:
            [server, *_] = hide_password(self.settings.url).split(",")
            log.warning("the console is at %s/console/", server.rstrip("/"))
            return
        from holdfast.server.errors import SettingsError

        try:
            url = await self._serve_management(self._console_port, "127.0.0.1", (), (), session)
        except SettingsError:
            if not self._may_choose_port:
                raise
            log.warning("port %s is taken: another port is chosen for the console", self._console_port)
            url = await self._serve_management(0, "127.0.0.1", (), (), session)
        log.warning("the console is at %s/console/", url)
