"""A whole installation in one thread and in virtual time: nodes, workers, callers, and everything that can
happen to them, from one seed.

    async def orders(simulation: Simulation) -> None:
        handle = app.start(checkout, "4242", id="order-17")
        assert await handle == "charged 4242"

    simulate(app, orders, seeds=200, ledger=ledger)

The engine, the node, the server's handlers, the HTTP client, the session, the worker and the runtime are the
real ones. The clock, the network below HTTP, the disk below the store and death are simulated.

1. Everything follows from the seed: the same seed gives the same events, in every process and every version.
2. For a while things go wrong (`faults`); then everything is mended, and what was begun must come to its end.
3. In the end nothing that was acknowledged is lost, every record leads where its execution went, and nobody
   has left a task behind.
"""

import asyncio
import gc
import logging
import tempfile
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from holdfast.app import App, bridge_of
from holdfast.client.caller import ask
from holdfast.client.embedded import EmbeddedClient
from holdfast.client.http import HttpClient
from holdfast.client.overlap import always
from holdfast.engine import Rules
from holdfast.host.session import Seams, Session
from holdfast.node import Node
from holdfast.node.clock import far_clock
from holdfast.protocol.bulk import ADDRESS as BULK
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import RequestData
from holdfast.runtime import Deadlock
from holdfast.store.memory import MemoryStore
from holdfast.testing.adversary import Adversary
from holdfast.testing.beginnings import Beginnings, WatchedRunner
from holdfast.testing.disk import Disk, view_of
from holdfast.testing.faults import EventLog, Faults, Plan
from holdfast.testing.histories import check_histories
from holdfast.testing.idleness import Idleness
from holdfast.testing.loop import JumpingLoop, Process, Stuck
from holdfast.testing.network import Network, SimulatedServer
from holdfast.testing.places import HostPlace
from holdfast.testing.replay import check_replay
from holdfast.testing.witness import Witness, WitnessedClient, WitnessedEmbeddedClient
from holdfast.testing.world import EPOCH, choose
from holdfast.workflow.context import WorkerContext

patience_s: Final = 86_400.0  # after the trouble, for everything to come to its end
events_max: Final = 1_000_000  # in one run, which has some hundreds
look_s: Final = 1.0
idle_s: Final = 20.0
turns_still_max: Final = 200_000  # at one instant
leave_s: Final = 1.0  # what a server leaves its last answers to be written
caller_patience_s: Final = 3_600.0
aftermath_s: Final = 60.0  # for requests that are still on their way when the trouble is over

Scenario = Callable[["Simulation"], Coroutine[Any, Any, Any]]
Life = Callable[[HostPlace, Process], Coroutine[Any, Any, None]]


class SimulationFailure(AssertionError):
    """Something went wrong that no fault excuses."""

    code = "HF7101"

    def __init__(self, what: str, plan: Plan, lines: list[str]) -> None:
        super().__init__(what)
        self.what = what
        self.plan = plan
        self.lines = lines


class Simulation:
    """One run. What a scenario may use: `plan`, `chance`, `now`, and the app, which is open in it."""

    def __init__(
        self,
        app: App,
        plan: Plan,
        *,
        restartable: bool = False,
        leftovers: bool = False,
        patience_s: float = patience_s,
    ) -> None:
        self.app = app
        self.leftovers = leftovers
        self.patience_s = patience_s
        self.events_max = events_max
        self.plan = plan
        self.restartable = restartable
        self.loop = JumpingLoop(round(EPOCH.timestamp() * 1000), like_uvloop=plan.like_uvloop)
        self.loop.tasks = []
        self.loop.turns_still_max = turns_still_max
        self.log = EventLog(self.loop.millis)
        self.faults = Faults(plan, Random(f"faults {plan.seed}"), self.log)  # noqa: S311
        self.network = Network(self.loop, self.faults)
        self.witness = Witness(self.log)
        self.begun = Beginnings(self, Random(f"looks {plan.seed}").random)  # noqa: S311
        self.chance = Random()  # noqa: S311
        self.places = [
            HostPlace(f"n{number}", has_node=True, has_worker=plan.workers_inside)
            for number in range(plan.nodes)
        ]
        if not plan.workers_inside:
            self.places += [HostPlace(f"w{number}", has_worker=True) for number in range(plan.workers)]
        self.caller = HostPlace("caller")
        self.troubles: list[str] = []
        self._idleness = Idleness(plan.retry_ms / 1000 + plan.lease_s + idle_s)
        self.peeks: list[Callable[[MemoryStore, int], list[str]]] = []  # what must hold at any time
        self.looks: list[Callable[[MemoryStore, int], list[str]]] = []
        self.is_ending = False
        self._is_given_up = False  # something went wrong when the scenario was over
        self._scenario: Scenario | None = None
        self._finished: asyncio.Future[None] | None = None

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return datetime.fromtimestamp(self.loop.millis() / 1000, UTC)

    async def ask(self, data: RequestData) -> Reply:
        """Ask a node for anything the protocol has, as the caller."""
        [reply] = await self.caller_session.worker_context().client.request([ask(data)])
        return reply

    def stored(self) -> MemoryStore:
        """Everything that is stored, whichever store it is in."""
        return self.disk.read()

    # --- one run ---------------------------------------------------------------------------------------

    def run(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.log.lines += self.plan.lines()
        self.loop.set_exception_handler(self._unhandled)
        logging.disable(logging.CRITICAL)
        gc.disable()  # what is collected when would be up to the interpreter
        try:
            with tempfile.TemporaryDirectory(prefix="holdfast-", dir=_scratch()) as folder:
                self.disk = Disk(self.loop, self.faults, Path(folder))
                self.loop.run_until_complete(self._main())
        except SimulationFailure:
            raise
        except Stuck as error:
            raise self.failure(str(error)) from error
        except Exception as error:
            raise self.failure(f"{type(error).__name__}: {error}") from error
        finally:
            bridge_of(self.app).use_session(None, None, None)
            self.loop.set_exception_handler(_ignore)
            self.loop.bury()
            gc.enable()
            logging.disable(logging.NOTSET)

    def failure(self, what: str) -> SimulationFailure:
        return SimulationFailure(what, self.plan, self.log.lines)

    async def _main(self) -> None:
        self._finished = self.loop.create_future()
        for place in self.places:
            self.start(place)
        self.start(self.caller)
        adversary = self.loop.create_task(Adversary(self).live())
        self.loop.create_task(self._watch())
        try:
            async with asyncio.timeout(self.plan.trouble_s + self.patience_s):
                await self._finished
                adversary.cancel()
                await asyncio.wait([adversary])
                await self._settle_down()
        except TimeoutError:
            raise self.failure(f"stuck: {self._open_work() or 'the scenario does not end'}") from None
        await self._stop_all()
        await self._check()

    async def _settle_down(self) -> None:
        """What was started and not awaited comes to its end, too."""
        while self._open_work() and not self._is_given_up:  # noqa: ASYNC110 (nothing tells us)
            await asyncio.sleep(look_s)

    def _open_work(self) -> list[str]:
        over = ("fulfilled", "suspended") if self.leftovers else ("fulfilled",)
        tasks = self.stored().tasks
        return [f"{key} is {task.state}" for key, task in tasks.items() if task.state not in over]

    async def _stop_all(self) -> None:
        self.is_ending = True
        for place in (self.caller, *reversed(self.places)):
            await self.stop(place)

    def _note_leaks(self, process: Process) -> None:
        me = asyncio.current_task()
        for task, owner in self.loop.tasks or ():
            if owner is process and task is not me and not task.done():
                self.troubles.append(f"{process.name} left a task behind: {task.get_coro()}")

    async def _check(self) -> None:
        store = self.stored()
        wrong = [*self.troubles, *self.witness.compare(store)]
        wrong += check_histories(store, self.begun.attempts, self.witness.given_back, self._crashes_until)
        for look in self.looks:
            wrong += look(store, self._latest_now)
        if wrong:
            raise self.failure("; ".join(wrong[:5]))
        worker_context = self.caller_session.worker_context()
        store = view_of(store, self._latest_now)
        for key, task in store.tasks.items():
            root = store.promises[key]
            if task.job is not None or task.target == BULK:  # run once an attempt, or by the node: no replay
                continue
            if root.state == "resolved" or (
                root.state == "rejected" and not _is_deadlock(root, worker_context)
            ):
                await check_replay(root, store, self.app.registry, worker_context, self.begun.performed)

    async def _watch(self) -> None:
        """Look at the store now and then; and when nothing goes wrong any more, that no work lies about."""
        while not self.is_ending:
            await asyncio.sleep(self.plan.trouble_s / 5)
            store, now = self.stored(), self._latest_now
            for peek in self.peeks:
                self.troubles += peek(store, now)
            if len(self.log.lines) > self.events_max:
                self.troubles.append(f"round in circles: more than {self.events_max} events")
            if wrong := [*self.troubles, *self.witness.contradictions]:
                self._give_up(AssertionError("; ".join(wrong[:5])))
            if self.faults.is_over and not self.is_ending:
                node_now = max(self._clock(place) for place in self.places if place.has_node)
                sessions = [place.session for place in self.places if place.session is not None]
                self.troubles += self._idleness.note(
                    store,
                    now,
                    self.loop.time(),
                    for_executions=node_now >= now and any(each.is_idle for each in sessions),
                    for_tasks=node_now >= now and any(each.is_idle_for_tasks for each in sessions),
                )

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.troubles.append(f"{context['message']}: {error!r}")

    # --- processes -------------------------------------------------------------------------------------

    def start(self, place: HostPlace) -> None:
        process = place.begin_life()
        process.on_death.append(partial(self._died, place, process))
        self.log.note(process.name, "starts")
        live = self._call if place is self.caller else self._live
        self.loop.create_task(self._guard(live, place, process), context=process.context)

    async def _guard(self, life: Life, place: HostPlace, process: Process) -> None:
        """An error that nobody expects ends the run."""
        try:
            await life(place, process)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        assert self._finished is not None
        if not self._finished.done():
            self._finished.set_exception(error)
        elif not self._is_given_up:
            self._is_given_up = True
            self.troubles.append(f"{type(error).__name__}: {error}")

    async def stop(self, place: HostPlace) -> None:
        """In good order, unless it dies on the way."""
        process = place.process
        if not process.is_dead:
            gone = asyncio.Event()
            process.on_death.append(gone.set)
            if not place.is_leaving:
                place.is_leaving = True
                self.loop.create_task(self._guard(self._leave, place, process), context=process.context)
            await gone.wait()

    def _died(self, place: HostPlace, process: Process) -> None:
        self.log.note(process.name, "is gone")
        server = self.network.servers.get(place.name)
        if server is not None and server.process is process:
            del self.network.servers[place.name]
        self.network.break_links(process)

    async def _live(self, place: HostPlace, process: Process) -> None:
        if place.has_node:
            node = place.node = Node(
                self.disk.attach(process),
                rules=Rules(retry_ms=self.plan.retry_ms),
                clock=partial(self._clock, place),
                chance=self._chance(process),
                stopwatch=self.loop.time,
            )
            await node.start()
            place.server = self.network.servers[place.name] = SimulatedServer(
                process, node, self._chance(process)
            )
        if place.has_worker:
            client = self._connect(place, process) if place.node is None else EmbeddedClient(place.node)
            place.session = self._session(place, process, client, worker=True)
            await place.session.open()
        place.is_ready.set()

    async def _leave(self, place: HostPlace, process: Process) -> None:
        try:
            await place.is_ready.wait()
            if place.session is not None:
                await place.session.close()
            if place.node is not None and place.server is not None:
                self.network.servers.pop(place.name, None)
                place.server.stop()
                await place.node.stop()
            await asyncio.sleep(leave_s)
            if self.is_ending:
                self._note_leaks(process)
        finally:
            process.die()

    async def _call(self, place: HostPlace, process: Process) -> None:
        """The caller's process: the app is open in it, and the scenario runs."""
        assert self._scenario is not None
        assert self._finished is not None
        session = self._session(
            place, process, self._connect(place, process, caller_patience_s), worker=False
        )
        self.caller_session = place.session = session
        await session.open()
        bridge_of(self.app).use_session(None, None, None)
        bridge_of(self.app).use_session(session, self.loop, None)
        place.is_ready.set()
        self.chance = Random(f"scenario {self.plan.seed}")  # noqa: S311
        await self._scenario(self)
        if not self._finished.done():
            self._finished.set_result(None)

    def _session(
        self, place: HostPlace, process: Process, client: EmbeddedClient | HttpClient, *, worker: bool
    ) -> Session:
        plan, own = self.plan, self.app.settings
        tasks = replace(own.tasks, concurrency=plan.concurrency, prefetch=plan.prefetch, drain_s=plan.drain_s)
        settings = replace(
            own, worker=worker, lease_s=plan.lease_s, concurrency=plan.concurrency, tasks=tasks
        )
        chance, ids = self._chance(process), Random(f"ids {process.name} {plan.seed}")  # noqa: S311
        seams = Seams(
            client=(
                WitnessedEmbeddedClient(client, self.witness, process)
                if isinstance(client, EmbeddedClient)
                else WitnessedClient(client, self.witness, process)
            ),
            now=client.now,
            runner=lambda: WatchedRunner(
                self.begun.performed, chance.random, partial(self.begun.note, process)
            ),
            choose=choose,
            fresh=lambda: f"{ids.getrandbits(56):014x}",
            pid=process.name,
            chance=chance,
            loses_messages=True,
        )
        return Session(settings, self.app.registry, self.app.providers, seams, self.app.tasks)

    def _connect(self, place: HostPlace, process: Process, patience_s: float = 30.0) -> HttpClient:
        urls = [f"http://{place.name}" for place in self.places if place.has_node]
        connect, chance = partial(self.network.connect, process), self._chance(process)
        clock = far_clock(partial(self._clock, place), self.loop.millis)
        return HttpClient(
            urls, limit_s=patience_s, connect=connect, chance=chance, clock=clock, overlap=always
        )

    def _clock(self, place: HostPlace) -> int:
        return self.loop.millis() + place.skew_ms

    @property
    def _latest_now(self) -> int:
        """No node has committed at a later instant: one whose clock goes back waits for its own past."""
        return max(self.disk.latest, self.loop.millis())

    @property
    def _crashes_until(self) -> int | None:
        """What began later than this ran in peace; None when clocks cannot tell."""
        if self.plan.time_jumps:
            return None
        if not self.plan.rates and not self.plan.weights:
            return 0
        over_at = self.faults.over_at
        return None if over_at is None else over_at + round(aftermath_s * 1000)

    def _chance(self, process: Process) -> Random:
        return Random(f"{process.name} {self.plan.seed}")  # noqa: S311


def _is_deadlock(root: Promise, worker_context: WorkerContext) -> bool:
    """When one is noticed depends on what else is under way at that moment, which no record tells."""
    return isinstance(worker_context.payloads.decode_error(root.value, worker_context.known_errors), Deadlock)


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """It is over: what is taken down now tells nobody."""


def _scratch() -> str | None:
    """In memory where the machine offers it: nothing of it is meant to last."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
