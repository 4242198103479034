"""A session: one client, its workers and their message streams, alive on one event loop."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from math import isinf
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.asking import ask
from holdfast.client.errors import Refused
from holdfast.client.inside import request_inside, request_inside_async
from holdfast.client.interface import Client
from holdfast.client.tls import client_context
from holdfast.node import Node
from holdfast.node.clock import Clock, wall_clock
from holdfast.node.group import Outcome
from holdfast.protocol import limits, tags
from holdfast.protocol.dialect import CURRENT_VERSION
from holdfast.protocol.errors import HoldfastError
from holdfast.protocol.messages import Unblock
from holdfast.protocol.records import Promise, Value
from holdfast.protocol.replies import PromiseReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterListener,
    PromiseSettle,
    Request,
    RequestData,
)
from holdfast.runtime import Report
from holdfast.settings import SessionSettings, way_back
from holdfast.store.interface import CannotJoin
from holdfast.store.urls import file_of, open_store
from holdfast.tasks.desk import Desk, answer
from holdfast.tasks.errors import BadOption
from holdfast.tasks.home import Sent
from holdfast.tasks.order import Order, fresh_end
from holdfast.tasks.registry import TaskRegistry
from holdfast.tasks.storing import Declarations
from holdfast.tasks.worker import TaskWorker
from holdfast.worker.cancellation import cancel_requests
from holdfast.worker.child import WayBack
from holdfast.worker.errors import NoStoreHere
from holdfast.worker.execution_errors import CallCanceled, CallTimedOut
from holdfast.worker.fault import KnownErrors
from holdfast.worker.inbox import Inbox
from holdfast.worker.operations import Note
from holdfast.worker.payload import Payloads
from holdfast.worker.providers import Key, Provided, Providers
from holdfast.worker.registry import Registry
from holdfast.worker.steps import StepRunner
from holdfast.worker.surroundings import Surroundings, choose_now
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.app")

listen_again_s: Final = 30.0  # a lost message costs at most this
ask_again_s: Final = 0.5  # in a child on SQLite, where the parent's node has no way to tell
refused_rest_s: Final = 2.0


class Seams(Struct, frozen=True):
    """Where holdfast.testing takes hold: the client, the clock, who performs steps, who chooses notes."""

    client: Client | None = None
    now: Clock | None = None  # else the node's, as the client knows it
    runner: Callable[[], StepRunner] | None = None
    choose: Callable[[str, Note], Any] = choose_now
    fresh: Callable[[], str] = fresh_end  # the ends of ids that nobody chose
    listen_again_s: float = listen_again_s
    pid: str | None = None
    chance: Random | None = None
    loses_messages: bool = False  # on the way from `client`
    provide: Mapping[Key, Any] = {}  # instead of what the app provides


class Session:
    def __init__(
        self,
        settings: SessionSettings,
        registry: Registry,
        providers: Providers | None = None,
        seams: Seams | None = None,
        tasks: TaskRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._seams = seams or Seams()
        self._registry = registry
        self._tasks = TaskRegistry() if tasks is None else tasks  # an empty one may have queues
        self._provided = Provided((providers or Providers()).replaced(self._seams.provide))
        self._payloads = Payloads(settings.codec)
        self._errors = KnownErrors()
        self._inbox = Inbox()
        self._pid = self._seams.pid or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        # Whoever runs no worker must not be offered work: an offer that nobody takes up costs a retry.
        self._hears_in = settings.group if settings.worker else f"{settings.group}.callers"
        self._address = f"poll://uni@{self._hears_in}/{self._pid}"
        self._node: Node | None = None
        self._worker: Worker | None = None
        self._task_worker: TaskWorker | None = None
        self._declaring: asyncio.Task[None] | None = None
        self._streams: list[asyncio.Task[None]] = []
        self._count = 0
        self._listen_again_s = self._seams.listen_again_s
        if settings.is_in_child and file_of(settings.url) is not None:
            self._listen_again_s = ask_again_s

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._client, clock = await self._connect()
        self.now = self._seams.now or clock
        self.fresh = self._seams.fresh
        self.desk = Desk(
            self._client, self._payloads, self._tasks, self._errors, self.now, self.fresh, self.settled
        )
        self._runner = self._make_runner()
        try:
            if self._settings.worker:
                await self._provided.open()
                await self._start_workers()
            self._streams.append(asyncio.create_task(self._listen()))
        except BaseException:
            await self.close()
            raise

    def _make_runner(self) -> StepRunner:
        make = self._seams.runner
        return StepRunner(way_back=self._way_back()) if make is None else make()

    def _way_back(self) -> WayBack:
        way = way_back(self._settings)
        return way if self._seams.client is None else replace(way, url=None)

    async def _start_workers(self) -> None:
        declarations = Declarations(self._tasks, self._client, self._payloads, self._settings.group)
        is_declared = await declarations.store_now()
        self._worker = Worker(
            self.surroundings(),
            self._registry,
            pid=self._pid,
            lease_s=self._settings.lease_s,
            concurrency=self._settings.concurrency,
        )
        self._worker.start()
        if is_declared:
            self._start_task_worker()
        else:
            self._declaring = asyncio.create_task(self._declare_later(declarations))

    async def _declare_later(self, declarations: Declarations) -> None:
        await declarations.store_in_time()
        self._start_task_worker()

    def _start_task_worker(self) -> None:
        if not self._tasks and not self._settings.tasks.queues:
            return
        worker = self._task_worker = TaskWorker(
            self._client,
            self._payloads,
            self._tasks,
            pid=self._pid,
            settings=self._settings.tasks,
            lease_s=self._settings.lease_s,
            now=self.now,
            runner=None if self._seams.client is None else self._make_runner(),
            polls=self._seams.client is None or self._seams.loses_messages,
            chance=self._seams.chance,
            way_back=self._way_back(),
        )
        for group in worker.groups:
            self._streams.append(asyncio.create_task(self._listen_for_tasks(group, worker)))
        worker.start()

    @property
    def queues(self) -> list[str]:
        """Those whose tasks are run here."""
        return [] if self._task_worker is None else self._task_worker.queues

    async def close(self) -> None:
        await self._end([self._declaring] if self._declaring is not None else [])
        stops: list[Coroutine[Any, Any, None]] = []
        if self._worker is not None:
            stops.append(self._worker.stop(self._settings.grace_s))
        if self._task_worker is not None:
            stops.append(self._task_worker.stop())
        await asyncio.gather(*stops)
        await self._end(self._streams)
        await self._runner.close()
        await self._provided.close()
        await self._client.close()
        if self._node is not None:
            await self._node.stop()

    async def abandon(self) -> None:
        """Drop everything as a killed process would: nothing is released, leases lapse."""
        await self._client.close()
        await self._end([self._declaring] if self._declaring is not None else [])
        if self._worker is not None:
            await self._worker.abandon()
        if self._task_worker is not None:
            await self._task_worker.abandon()
        await self._end(self._streams)
        await self._runner.close()
        await self._provided.close()

    async def _end(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def pid(self) -> str:
        return self._pid

    @property
    def is_idle(self) -> bool:
        """Is there a worker here that holds no execution?"""
        return self._worker is not None and not self._worker.held_count

    @property
    def is_idle_for_tasks(self) -> bool:
        return self._task_worker is not None and not self._task_worker.held_count

    async def _connect(self) -> tuple[Client, Clock]:
        """A client, and the clock of its node."""
        if self._seams.client is not None:
            return self._seams.client, wall_clock
        url = self._settings.url
        retention_s = self._settings.retention_s
        if url.startswith(("http://", "https://")):
            if retention_s is not None:
                raise NoStoreHere("This app talks to a server, so it cannot decide what that forgets")
            from holdfast.client.http import HttpClient

            tls = client_context(self._settings.certificate)
            far = HttpClient(url.split(","), token=self._settings.token, tls=tls)
            return far, far.now
        from holdfast.client.embedded import EmbeddedClient

        retention_ms = None if retention_s is None else round(retention_s * 1000)
        self._node = Node(open_store(url), retention_ms=retention_ms, sweeps=not self._settings.is_in_child)
        await self._node.start()
        self._node.watch_outsiders(partial(self._inbox.look, self._node.find_promises))
        return EmbeddedClient(self._node), self._node.now

    def surroundings(self) -> Surroundings:
        return Surroundings(
            client=self._client,
            payloads=self._payloads,
            runner=self._runner,
            inbox=self._inbox,
            address=self._address,
            group=self._settings.group,
            now=self.now,
            choose=self._seams.choose,
            known_errors=self._errors,
            report=_report,
            provided=self._provided,
            listen_again_s=None if isinf(self._seams.listen_again_s) else self._seams.listen_again_s,
        )

    async def _listen(self) -> None:
        """For as long as the session lives: who is refused today may be let in tomorrow."""
        while True:
            try:
                await self._hear()
                return
            except HoldfastError as error:
                log.error("the message stream was refused: %s", error)
                await asyncio.sleep(refused_rest_s)

    async def _hear(self) -> None:
        async with self._client.messages(self._hears_in, self._pid) as messages:
            async for message in messages:
                if isinstance(message, Unblock):
                    self._inbox.tell(message.promise)
                elif self._worker is not None:
                    self._worker.hear(message)

    # --- inside the caller's transaction ---------------------------------------------------------------

    def send_inside(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        """From any thread: the work is done on the caller's connection."""
        requests = [ask(order.creation) for order in orders]
        try:
            outcome = request_inside(connection, requests, self.now(), file_of(self._settings.url))
        except CannotJoin as error:
            raise BadOption(str(error)) from None
        return self._sent_inside(orders, outcome)

    async def send_inside_async(self, connection: Any, orders: Sequence[Order]) -> list[Sent]:
        requests = [ask(order.creation) for order in orders]
        try:
            file = file_of(self._settings.url)
            outcome = await request_inside_async(connection, requests, self.now(), file)
        except CannotJoin as error:
            raise BadOption(str(error)) from None
        return self._sent_inside(orders, outcome)

    def _sent_inside(self, orders: Sequence[Order], outcome: Outcome) -> list[Sent]:
        if self._node is not None:
            self._loop.call_soon_threadsafe(self._node.expect_outsiders, outcome.next_due)
        return [answer(order, reply) for order, reply in zip(orders, outcome.replies, strict=True)]

    async def _listen_for_tasks(self, group: str, worker: TaskWorker) -> None:
        async with self._client.messages(group, self._pid) as messages:
            async for message in messages:
                worker.hear(message)

    # --- what an app asks for --------------------------------------------------------------------------

    async def start(
        self,
        promise_id: str,
        param: Value,
        group: str | None,
        timeout_s: float | None,
        user_tags: Mapping[str, str],
    ) -> Promise:
        entries: dict[str, str] = {
            **user_tags,
            tags.ORIGIN: promise_id,
            tags.BRANCH: promise_id,
            tags.PARENT: promise_id,
            "resonate:scope": "global",
            tags.TARGET: f"poll://any@{group or self._settings.group}",
        }
        now = self.now()
        timeout_at = limits.instant_ms_max if timeout_s is None else now + round(timeout_s * 1000)
        return await self._ask("promise.create", PromiseCreate(promise_id, timeout_at, param, entries))

    async def result(self, promise_id: str, returns: Any) -> Any:
        return self._outcome(await self.settled(promise_id), returns)

    async def settled(self, promise_id: str) -> Promise:
        """Wait until a promise is settled."""
        settled: asyncio.Future[Promise] = asyncio.get_running_loop().create_future()

        def hear(promise: Promise) -> None:
            if not settled.done():
                settled.set_result(promise)

        withdraw = self._inbox.hear(promise_id, hear)
        try:
            while not settled.done():
                listen = PromiseRegisterListener(promise_id, self._address)
                promise = await self._ask("promise.register_listener", listen)
                if promise.state != "pending":
                    hear(promise)
                await asyncio.wait([settled], timeout=self._listen_again_s)
            return settled.result()
        finally:
            withdraw()

    def _outcome(self, promise: Promise, returns: Any) -> Any:
        if promise.state == "resolved":
            return self._payloads.decode(promise.value, returns)
        if promise.state == "rejected":
            raise self._payloads.decode_error(promise.value, self._errors)
        if promise.state == "rejected_canceled":
            raise CallCanceled(f"{promise.id} was cancelled")
        raise CallTimedOut(f"{promise.id} timed out")

    async def cancel(self, promise_id: str, *, now: bool) -> None:
        root = await self._ask("promise.get", PromiseGet(promise_id))
        await self._ask_all(cancel_requests(root, now=now))

    async def settle(self, promise_id: str, value: Any) -> None:
        """Settle a promise that a workflow waits for."""
        await self._ask("promise.settle", PromiseSettle(promise_id, "resolved", self._payloads.encode(value)))

    async def settle_error(self, promise_id: str, error: Exception) -> None:
        value = self._payloads.encode_error(error)
        await self._ask("promise.settle", PromiseSettle(promise_id, "rejected", value))

    async def _ask(self, kind: str, data: RequestData) -> Promise:
        return (await self._ask_all([(kind, data)]))[0]

    async def _ask_all(self, asked: list[tuple[str, RequestData]]) -> list[Promise]:
        """In one commit, in this order. Each may be repeated, so a node that is busy is asked again."""
        self._count += 1
        corr_id = f"{self._pid}/{self._count}"
        requests = [Request(kind, corr_id, CURRENT_VERSION, "A", data) for kind, data in asked]
        while True:
            replies = await self._client.request(requests)
            promises = [reply.data.promise for reply in replies if isinstance(reply.data, PromiseReply)]
            if len(promises) == len(requests):
                return promises
            refused = [reply for reply in replies if not isinstance(reply.data, PromiseReply)]
            if not any(reply.status in (429, 503) for reply in refused):
                raise Refused(refused[0].status, str(refused[0].data))
            await asyncio.sleep(0.1)


def _report(execution: str, report: Report) -> None:
    log.warning("%s", report, extra={"execution": execution})
