"""Runs a server: a node, the HTTP application, a socket, and a graceful shutdown.

Stopping: no new connections; every stream is ended, so that workers reconnect; what was accepted is
finished and answered; then the node and its store are closed. All within a time limit.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final

import uvicorn

from holdfast.engine import Rules
from holdfast.node.node import Node
from holdfast.node.process_loop import on_stop_signals, run_on_fast_loop
from holdfast.server.app import ManagementApp, ServerApp
from holdfast.server.auth import Authenticator
from holdfast.server.budgets import AnswerBudget, RequestBudget
from holdfast.server.connection import ServerConnection, check_pace
from holdfast.server.errors import OpenToTheWorld, SettingsError
from holdfast.server.exchange import ServerLimits
from holdfast.server.logs import write_logs
from holdfast.server.origin import is_loopback
from holdfast.server.passing import PassedConnections
from holdfast.server.push import Pusher
from holdfast.server.settings import Settings
from holdfast.server.single_server_lock import single_server
from holdfast.store import open_store
from holdfast.store.interface import Store

log = logging.getLogger("holdfast.server")

pace_check_s: Final = 1.0
accept_backlog: Final = 4_096
# The store's thread needs the interpreter for moments only; the default of 5 ms makes it wait for them.
switch_interval_s: Final = 0.000_1
# Records know no cycles: there is no need to look for some every 700 allocations.
collect_after_allocations: Final = 20_000


class Running(uvicorn.Server):
    """A server that answers at `url` until it is stop requested."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: ServerApp,
        node: Node,
        url: str,
        handshake_timeout_s: float,
        passed: PassedConnections | None = None,
    ) -> None:
        super().__init__(config)
        self._handshake_timeout_s = handshake_timeout_s if config.ssl else None
        self._passed = passed
        self.app = app
        self.node = node
        self.url = url
        self.accepting = asyncio.Event()
        self._asked_to_stop = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # whoever runs the server decides about signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which leaves a client a minute for the TLS handshake."""
        loop = asyncio.get_running_loop()
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        connect = partial(make, config=self.config, server_state=self.server_state, app_state={})
        self.servers = [
            await loop.create_server(
                connect,
                sock=each,
                ssl=self.config.ssl,
                ssl_handshake_timeout=self._handshake_timeout_s,
                backlog=self.config.backlog,
            )
            for each in sockets or ()
        ]
        if self._passed is not None:
            connections = self.server_state.connections
            self._passed.start(connect, self.config.ssl, self._handshake_timeout_s, connections.__len__)
        self.started = True

    async def main_loop(self) -> None:
        self.accepting.set()
        loop = asyncio.get_running_loop()
        self.server_state.default_headers = self.config.encoded_headers
        while not self.should_exit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pace_check_s):
                    await self._asked_to_stop.wait()
            check_pace(self.server_state.connections, loop.time())
            if self._passed is not None:
                self._passed.report()

    def ask_to_stop(self) -> None:
        self.should_exit = True
        self._asked_to_stop.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        if self._passed is not None:
            await self._passed.stop()
        self.app.stop()
        await super().shutdown(sockets)


@asynccontextmanager
async def running(
    settings: Settings,
    store: Store | None = None,
    *,
    passed: PassedConnections | None = None,
    process: int = 0,
) -> AsyncGenerator[Running]:
    """A server for the time of a block.

    async with running(Settings(port=0, store="memory:")) as server:
        print(server.url)

    `passed`: its connections are accepted by a supervisor, of which this is the process of that number.
    """
    authenticator, tls = check(settings)
    node = Node(
        store or open_store(settings.store),
        rules=Rules(retry_ms=settings.retry_ms),
        debug=settings.debug,
        retention_ms=settings.retention_ms,
    )
    listeners = [] if passed is not None else [listen(settings)]
    try:
        url = settings.public_url or (passed.url if passed is not None else url_of(settings, listeners[0]))
        await node.start()
        app = ServerApp(node, settings, authenticator, url)
        pusher = Pusher(settings, app.metrics, url)
        node.router.set_push(pusher.push)
        app.metrics.process = process
        server = Running(_config(settings, app, tls), app, node, url, settings.read_timeout_s, passed)
        try:
            async with _served(server, listeners):
                yield server
        finally:
            node.router.set_push(None)
            await pusher.stop()
            await _stop_node(node, settings.stop_timeout_s)
    finally:
        for listener in listeners:
            listener.close()


@asynccontextmanager
async def serving_management(node: Node, settings: Settings) -> AsyncGenerator[Running]:
    """The management API of a node that somebody else runs, for the time of a block; and nothing besides."""
    authenticator = Authenticator(settings)
    _refuse_to_be_open(settings, authenticator)
    listener = listen(settings)
    try:
        url = settings.public_url or url_of(settings, listener)
        app = ManagementApp(node, settings, authenticator, url)
        server = Running(_config(settings, app, _tls(settings)), app, node, url, settings.read_timeout_s)
        async with _served(server, [listener]):
            yield server
    finally:
        listener.close()


@asynccontextmanager
async def _served(server: Running, listeners: list[socket.socket]) -> AsyncGenerator[None]:
    server.app.connection_count = lambda: len(server.server_state.connections)
    serving = asyncio.create_task(server.serve(sockets=listeners))
    started = asyncio.create_task(server.accepting.wait())
    try:
        await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        if server.started:
            server.ask_to_stop()
        await serving
        started.cancel()


async def _stop_node(node: Node, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await node.stop()
    except TimeoutError:
        log.error("the store did not stop in time; its last transaction is either committed or rolled back")


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Prints one line with the URL when ready."""
    write_logs(settings.log_level)
    if settings.processes != 1:
        from holdfast.server.supervisor import supervise

        supervise(settings)
        return
    tune_process(settings)
    with single_server(settings.store):
        run_on_fast_loop(_serve(settings))


def tune_process(settings: Settings) -> None:
    sys.setswitchinterval(switch_interval_s)
    gc.freeze()
    gc.set_threshold(collect_after_allocations, 20, 50)
    _allow_files(settings.connections_max + 1_000)  # connections, and some files


def _allow_files(wanted: int) -> None:
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS has a bound of its own below "no limit"
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    on_stop_signals(partial(_told_to_stop, stop))
    async with running(settings) as server:
        await server.node.check()
        say_ready(server.url, settings)
        log.info("ready", extra={"url": server.url})
        await stop.wait()
        log.info("stopping")
    log.info("stopped")


def _told_to_stop(stop: asyncio.Event, number: signal.Signals) -> None:
    log.info("stop requested", extra={"signal": number.name})
    stop.set()


def _config(settings: Settings, app: ServerApp, tls: ssl.SSLContext | None) -> uvicorn.Config:
    requests, answers = RequestBudget(settings.bodies_bytes_max), AnswerBudget(settings.answers_bytes_max)
    answers.on_drop = app.metrics.count_slow_reader
    server_limits = ServerLimits(
        settings.connections_max, settings.header_bytes_max, settings.body_bytes_max, requests, answers
    )
    server_limits.read_timeout_s = settings.read_timeout_s
    server_limits.idle_timeout_s = settings.idle_timeout_s
    server_limits.write_timeout_s = settings.stream_write_timeout_s
    server_limits.on_slow_reader = app.metrics.count_slow_reader
    server_limits.on_refusal = lambda refusal: app.metrics.count_refused(refusal.code)
    server_limits.answer = app.answer
    server_limits.ask, server_limits.finish = app.ask, app.finish
    config = uvicorn.Config(
        app,
        http=type("LimitedConnection", (ServerConnection,), {"limits": server_limits}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=settings.stop_timeout_s,  # type: ignore[arg-type]
        backlog=accept_backlog,
    )
    config.load()
    config.ssl = tls
    return config


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # On Windows SO_REUSEADDR would let two servers have one port.
        listener.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
        listener.bind((settings.host, settings.port))
        listener.listen(accept_backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Choose another host or port, or stop the program that uses it."
        ) from None
    return listener


def say_ready(url: str, settings: Settings) -> None:
    """To whoever started the server in a terminal."""
    lines = [
        f"Holdfast is ready at {url}",
        *([f"The console is at {url}/console/"] if settings.console else []),
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def url_of(settings: Settings, listener: socket.socket) -> str:
    scheme = "https" if settings.tls_cert else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def check(settings: Settings) -> tuple[Authenticator, ssl.SSLContext | None]:
    """What can be said of settings before anything is opened."""
    authenticator = Authenticator(settings)
    _refuse_to_be_open(settings, authenticator)
    _refuse_to_debug(settings, authenticator)
    return authenticator, _tls(settings)


def _refuse_to_be_open(settings: Settings, authenticator: Authenticator) -> None:
    if authenticator.is_open and not is_loopback(settings.host) and not settings.allow_unauthenticated:
        raise OpenToTheWorld(
            f"Listening on {settings.host} without auth would let anybody who can reach it do anything. "
            "Set tokens, token_file or jwt_key; or allow_unauthenticated, if the network itself is safe."
        )


def _refuse_to_debug(settings: Settings, authenticator: Authenticator) -> None:
    """debug.* sets the clock and forgets everything: on one node of a machine, never on what many share."""
    if settings.debug and settings.store.startswith(("postgresql://", "postgres://")):
        raise SettingsError("debug does not work on PostgreSQL. Use SQLite or memory, or leave it off.")
    if settings.debug and authenticator.is_open and not is_loopback(settings.host):
        raise SettingsError("debug beyond this machine needs a token or a key. Set tokens, or leave it off.")


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if not settings.tls_cert:
        if settings.tls_key or settings.tls_client_ca:
            raise SettingsError("tls_key and tls_client_ca need tls_cert.")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"The TLS files cannot be used: {error}.") from None
    return context
