"""A session: one client, its workers and their message streams, alive on one event loop."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isinf
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.client.caller import Caller, ask, busy_tries_max
from holdfast.client.interface import Client, TellsOfWorkers
from holdfast.client.listening import Settlements
from holdfast.client.tls import client_context
from holdfast.host.callers_transactions import CallersTransactions
from holdfast.host.clock_turn import ClockTurn
from holdfast.host.conversations import Conversations
from holdfast.host.errors import NoNodeHere
from holdfast.host.execution_client import ExecutionClient, Start, start_request
from holdfast.host.host import Host, Taken
from holdfast.host.looking import LookClient
from holdfast.host.loop_watch import LoopWatch, watch_loop
from holdfast.host.settings import SessionSettings, app_location, hidden_group
from holdfast.host.slots import SlotGroup, workflow_slots
from holdfast.host.subscriptions import subscription_requests
from holdfast.host.task_service import TaskService
from holdfast.host.transactions import StepTransactions
from holdfast.host.worker_reports import WorkerReporter
from holdfast.jobs.registry import TaskRegistry
from holdfast.jobs.runner import JobRunner
from holdfast.jobs.send_request import SendRequest, corrected, fresh_end
from holdfast.jobs.stream_reader import StreamClient
from holdfast.jobs.task_client import Sent, TaskClient, answer
from holdfast.node import Node
from holdfast.node.clock import Clock, ticks, wall_clock
from holdfast.node.end_tasks import Part, close_all
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.errors import NoStoreHere
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Millis, TaskRef
from holdfast.protocol.requests import PromiseGet
from holdfast.steps.child import AppLocation
from holdfast.steps.providers import Key, Provided, Providers
from holdfast.steps.runner import StepRunner
from holdfast.store.place import StorePlace
from holdfast.store.urls import file_of, open_store
from holdfast.workflow.context import WorkerContext, choose_now
from holdfast.workflow.logs import tell_report
from holdfast.workflow.operations import Note
from holdfast.workflow.registry import Registry
from holdfast.workflow.runner import WorkflowRunner

if TYPE_CHECKING:
    from holdfast.client.http import HttpClient

log = logging.getLogger("holdfast.app")

listen_again_s: Final = 30.0  # a lost message costs at most this
ask_again_s: Final = 0.5  # in a child on SQLite, where the parent's node has no way to tell


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
        self._providers = (providers or Providers()).replaced(self._seams.provide)
        self._provided = Provided(self._providers)
        self._payloads = Payloads(settings.codec)
        self._errors = KnownErrors()
        self._inbox = Settlements()
        self._pid = self._seams.pid or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        # Whoever runs no worker must not be offered work: an offer that nobody takes up costs a retry.
        group = hidden_group(settings.group)
        self._hears_in = group if settings.worker else f"{group}.callers"
        self._address = f"poll://uni@{self._hears_in}/{self._pid}"
        self._node: Node | None = None
        self._watch: LoopWatch | None = None
        self._far: HttpClient | None = None
        self._clock_turn = ClockTurn()
        self._is_stopped = False
        self.is_open = False
        self.after_open: list[Part] = []
        self.before_close: list[Part] = []
        self._workflows: WorkflowRunner | None = None
        self._slots: SlotGroup | None = None
        self._service: TaskService | None = None
        self._reporter: WorkerReporter | None = None
        self._listen_again_s = self._seams.listen_again_s
        if settings.is_in_child and file_of(settings.url) is not None:
            self._listen_again_s = ask_again_s

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._place = StorePlace(self._settings.url)
        self._client, clock = await self._connect()
        self.now = self._seams.now or clock
        self.callers_transactions = CallersTransactions(self._place, self.now, self._expect_write)
        self.fresh = self._seams.fresh
        self.executions = ExecutionClient(
            caller=Caller(self._client),
            payloads=self._payloads,
            known_errors=self._errors,
            inbox=self._inbox,
            address=self._address,
            group=self._settings.group,
            now=self.now,
            learn_clock=self.learn_clock,
            listen_again_s=self._listen_again_s,
            note_queue=self._tasks.note_use,
        )
        self.looking = LookClient(Caller(self._client), self._payloads, self._errors)
        self.conversations = Conversations(self.executions)
        self.streams = StreamClient(Caller(self._client), self._payloads, self.executions.settled)
        self.task_client = TaskClient(
            Caller(self._client, tries_max=busy_tries_max),
            self._payloads,
            self._tasks,
            self._errors,
            self.now,
            self.fresh,
            self.executions.settled,
            self.correct,
        )
        self._host = Host(
            self._client,
            pid=self._pid,
            lease_s=self._settings.lease_s,
            now=self.now,
            polls=self._seams.client is None or self._seams.loses_messages,
            inbox=self._inbox,
        )
        self.is_open = True
        self._runner = self._make_runner()
        try:
            if self._settings.worker:
                await self._provided.open()
                await self._start_workers()
            elif self._settings.is_pushed:
                await self._provided.open()
                self._start_workflows()
            self._host.listen_in(self._hears_in)
            for part in self.after_open:
                await part()
        except GeneratorExit:  # the loop itself is gone
            raise
        except BaseException:
            await self.close()
            raise

    def _make_runner(self) -> StepRunner:
        make = self._seams.runner
        return StepRunner(app_location=self._app_location()) if make is None else make()

    def _app_location(self) -> AppLocation:
        way = app_location(self._settings)
        return way if self._seams.client is None else replace(way, url=None)

    async def _start_workers(self) -> None:
        settings = self._settings
        self._service = TaskService(
            self._host,
            self._client,
            self._tasks,
            self._payloads,
            self._providers,
            settings.group,
            settings.tasks,
            self._make_job_runner,
            self._seams.chance,
            removes_orphans=settings.removes_orphans,
            subscriptions=partial(subscription_requests, self._registry, settings.group),
        )
        is_stored = await self._service.declare()
        self._start_workflows()
        if self._node is not None:
            self._node.watch_foreign_writes(partial(self._host.look, self._node.find_promises))
        self._service.start(is_stored=is_stored)
        if isinstance(self._client, TellsOfWorkers):
            self._reporter = WorkerReporter(
                self._client,
                self._host,
                self._pid,
                settings.group,
                self._registry,
                self._tasks,
                self._providers,
                lambda: self.queues,
                self.now,
            )
            self._reporter.start()

    def _start_workflows(self) -> None:
        settings = self._settings
        self._workflows = WorkflowRunner(self.worker_context(), self._registry, grace_s=settings.grace_s)
        self._slots = workflow_slots(settings.group, settings.concurrency)
        self._host.serve(self._slots, self._workflows)
        if self._seams.client is None:
            self._watch = watch_loop(settings, self._node)
            self._watch.add(self._host.heartbeat)

    async def run_pushed(self, task: TaskRef) -> Taken:
        """Run what was pushed here, until it has ended, waits or was lost."""
        return "full" if self._slots is None else await self._host.take(self._slots, task)

    def _make_job_runner(self) -> JobRunner:
        settings = self._settings.tasks
        steps = (
            StepRunner(
                threads_max=settings.concurrency,
                processes_max=max(1, min(settings.processes, settings.concurrency)),
                app_location=self._app_location(),
            )
            if self._seams.client is None
            else self._make_runner()
        )
        return JobRunner(
            self._payloads,
            self._tasks,
            steps,
            pid=self._pid,
            provided=self._provided,
            grace_s=settings.drain_s,
            client=self._client,
        )

    @property
    def node(self) -> Node:
        """That which runs in this process."""
        if self._node is None:
            raise NoNodeHere(f"The app has no node of its own: it talks to {self._settings.url}")
        return self._node

    @property
    def own_node(self) -> Node | None:
        return self._node

    @property
    def queues(self) -> list[str]:
        """Those whose tasks are run here."""
        return [] if self._service is None else self._service.queues

    async def store_subscriptions(self) -> None:
        """Those of `@app.on` that were declared while the app is open."""
        if self._service is not None:
            await self._service.store_subscriptions()

    async def stop_workers(self) -> None:
        """Claim nothing more, and let what runs finish. What that sends and starts is still taken."""
        if self._is_stopped:
            return
        self._is_stopped = True
        parts: list[Part] = [self._host.stop]
        if self._service is not None:
            parts.insert(0, self._service.stop)
        if self._reporter is not None:
            parts.append(self._reporter.stop)
        await close_all(*parts)
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    async def close(self) -> None:
        """All of it, also when a part of it fails: what failed first is raised at the end."""
        parts = [
            *self.before_close,
            self.stop_workers,
            self._host.end_streams,
            self._runner.close,
            self._provided.close,
        ]
        parts.append(self._client.close)
        if self._node is not None:
            parts.append(self._node.stop)
        try:
            await close_all(*parts)
        finally:
            self.executions.stop_waiting()
            self.is_open = False

    async def abandon(self) -> None:
        """Drop everything as a killed process would: nothing is released, leases lapse."""
        await self._client.close()
        if self._service is not None:
            await self._service.stop()
        if self._reporter is not None:
            await self._reporter.abandon()
        await self._host.abandon()
        self._stop_watching()
        await self._host.end_streams()
        await self._runner.close()
        await self._provided.close()

    @property
    def pid(self) -> str:
        return self._pid

    @property
    def is_idle(self) -> bool:
        """Is there a worker here that holds no execution?"""
        return self._workflows is not None and not self._host.count_of(self._workflows)

    @property
    def is_idle_for_tasks(self) -> bool:
        runner = None if self._service is None else self._service.runner
        return runner is not None and not self._host.count_of(runner)

    async def _connect(self) -> tuple[Client, Clock]:
        """A client, and the clock of its node."""
        if self._seams.client is not None:
            return self._seams.client, wall_clock
        url = self._settings.url
        retention_s = self._settings.retention_s
        if url.startswith(("http://", "https://")):
            if retention_s is not None:
                raise NoStoreHere(
                    "retention= cannot be used here: this app talks to a server, which has its own retention"
                )
            from holdfast.client.http import HttpClient

            tls = client_context(self._settings.certificate)
            self._far = far = HttpClient(url.split(","), token=self._settings.token, tls=tls)
            return far, far.now
        from holdfast.client.embedded import EmbeddedClient

        retention_ms = None if retention_s is None else round(retention_s * 1000)
        store = open_store(url)
        self._node = Node(store, retention_ms=retention_ms, sweeps=not self._settings.is_in_child)
        await self._node.start()
        await self._place.learn(store)
        self._node.watch_foreign_writes(partial(self._inbox.look, self._node.find_promises))
        return EmbeddedClient(self._node), self._node.now

    @property
    def knows_clock(self) -> bool:
        """Is `now` the node's clock? Far away it is a guess until the node has answered once."""
        return self._far is None or self._seams.now is not None or self._far.knows_clock

    async def learn_clock(self, promise_id: str) -> None:
        """Before an instant is computed from a duration: any answer of the node tells its clock."""
        if self._far is not None:
            await self._clock_turn.learn(
                lambda: self.knows_clock, lambda: self._client.request([ask(PromiseGet(promise_id))])
            )

    async def wait_for_clock(self) -> None:
        """Go behind those who learn the clock: what they ask for then was asked for before."""
        if self._far is not None:
            await self._clock_turn.go_behind()

    async def correct(self, orders: Sequence[SendRequest]) -> Sequence[SendRequest]:
        """Orders whose instants were reckoned before the node's clock was known."""
        if any(order.guess is not None for order in orders):
            await self.learn_clock(orders[0].creation.id)
        return self._corrected(orders)

    def _corrected(self, orders: Sequence[SendRequest]) -> Sequence[SendRequest]:
        now, count = self.now(), ticks()
        return [corrected(order, now, count) for order in orders]

    def worker_context(self) -> WorkerContext:
        return WorkerContext(
            client=self._client,
            payloads=self._payloads,
            runner=self._runner,
            inbox=self._inbox,
            address=self._address,
            group=self._settings.group,
            now=self.now,
            choose=self._seams.choose,
            known_errors=self._errors,
            report=tell_report,
            pid=self._pid,
            provided=self._provided,
            hooks=self._registry.hooks,
            observers=self._registry.hooks.observers,
            keep_generations=self._settings.keep_generations,
            transactions=StepTransactions(
                self._provided,
                self._payloads,
                self.now,
                None if self._node is None else self.callers_transactions,
            ),
            listen_again_s=None if isinf(self._seams.listen_again_s) else self._seams.listen_again_s,
        )

    # --- inside the caller's transaction ---------------------------------------------------------------

    def send_inside(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        """From any thread: the work is done on the caller's connection."""
        asked = [order.creation for order in self._corrected(orders)]
        replies = self.callers_transactions.request(connection, asked)
        return [answer(order, reply) for order, reply in zip(orders, replies, strict=True)]

    async def send_inside_async(self, connection: Any, orders: Sequence[SendRequest]) -> list[Sent]:
        asked = [order.creation for order in self._corrected(orders)]
        replies = await self.callers_transactions.request_async(connection, asked)
        return [answer(order, reply) for order, reply in zip(orders, replies, strict=True)]

    def start_inside(self, connection: Any, asked: Start) -> None:
        request = start_request(self.executions.creation(asked), asked)
        [reply] = self.callers_transactions.request(connection, [request])
        self.executions.started(asked, reply)

    async def start_inside_async(self, connection: Any, asked: Start) -> None:
        request = start_request(self.executions.creation(asked), asked)
        [reply] = await self.callers_transactions.request_async(connection, [request])
        self.executions.started(asked, reply)

    def _expect_write(self, due: Millis | None) -> None:
        """From any thread: somebody is about to commit to our store."""
        if self._node is not None:
            self._loop.call_soon_threadsafe(self._node.expect_foreign_write, due)
