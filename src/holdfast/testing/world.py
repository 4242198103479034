"""A world in virtual time: a node on a memory store, workers that can be killed, and a clock that jumps.

    with World(app) as world:
        handle = app.start(remind, "Ada", id="r1")
        world.elapse("29d")
        app.resolve("r1:2", True)
        assert handle.result() == "reminded"

Inside the block the app's own methods work on this world, unchanged; nothing is read from or written to its
real store. Time moves only while somebody waits, and then at once to the next timer: a sleep of 30 days takes
none. Sync steps run on the loop itself, and take no time; `await asyncio.sleep(5)` in an async step takes 5
virtual seconds. `World(app, provide={Database: FakeDatabase()})` has other providers than the app.

1. Everything happens on one thread in one order: the same test does the same thing again.
2. `hf.random()` and `hf.uuid()` depend on the operation's id only, so that runs can be compared.
3. A killed worker writes nothing more. Its leases lapse at once, so a crash moves no clock.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

from msgspec.structs import replace

from holdfast.app import App, bridge_of
from holdfast.client.caller import ask
from holdfast.client.embedded import EmbeddedClient
from holdfast.host.session import Seams, Session
from holdfast.node import Node
from holdfast.payloads.durations import Duration, duration_s
from holdfast.payloads.error_values import repr_of
from holdfast.payloads.errors import AnotherLoop
from holdfast.payloads.messages import encode_message
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits
from holdfast.protocol.errors import ExecutionOver, NoSuchExecution
from holdfast.protocol.generations import base_of, generation_of
from holdfast.protocol.jobs import CODE_HEADER, WORKER_CRASHED, WORKER_HEADER
from holdfast.protocol.records import Promise, Task, Value
from holdfast.protocol.replies import StreamAppendReply
from holdfast.protocol.requests import StreamAnswer, StreamAppend, TaskFail, TaskRelease
from holdfast.protocol.streams import MAILBOX, element_id
from holdfast.steps.providers import Key
from holdfast.steps.runner import StepRunner
from holdfast.steps.step_run import StepCall, StepOutcome
from holdfast.store.memory import MemoryStore
from holdfast.testing.fakes import Fakes, Replaced
from holdfast.testing.loop import JumpingLoop, check_no_other_loop
from holdfast.testing.mortal import CrashPoint, Fuse, MortalClient
from holdfast.testing.replay import Performed
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.guard import guard
from holdfast.workflow.journal import cancellation_id
from holdfast.workflow.operations import Note

T = TypeVar("T")

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)


class World:
    """`provide`: instead of what the app provides. `replace`: fakes for steps and tasks, by their function.

    >>> with World(app, replace={charge: lambda card, cents: Receipt("fake")}) as world: ...
    """

    def __init__(
        self,
        app: App,
        *,
        crashes: Sequence[CrashPoint] = (),
        provide: Mapping[Key, Any] | None = None,
        replace: Fakes | None = None,
    ) -> None:
        self.app = app
        self._replaced = Replaced(replace)
        self.provide = dict(provide or {})  # instead of what the app provides, from the next worker on
        self.loop = JumpingLoop(round(EPOCH.timestamp() * 1000))
        self.store = MemoryStore()
        self.fuse = Fuse(crashes)
        self.deaths = 0
        self._ids = 0
        self.performed: list[Performed] = []  # every attempt to perform a step, in order
        self.on_death: Callable[[], None] | None = None
        self._worker: Session | None = None
        self._funerals: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._entered = 0
        self.troubles: list[str] = []  # why workers could not run what they were to run
        self._ear = _Ear(self.troubles)

    # --- what a test does ------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return datetime.fromtimestamp(self.loop.millis() / 1000, UTC)

    def elapse(self, duration: Duration) -> None:
        """Let time pass, and everything that is due in it happen."""
        self.run(asyncio.sleep(duration_s(duration)))

    def kill(self) -> None:
        """kill -9 the worker; another one starts."""
        self.run(self._replace_worker())

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in this world's time: `world.run(asyncio.sleep(3))`."""
        try:
            check_no_other_loop()
        except AnotherLoop:
            work.close()
            raise
        result = self.loop.run_until_complete(asyncio.wait_for(work, timeout_s))
        self._raise_failure()
        return result

    def journal(self, execution: str) -> list[Promise]:
        """What an execution has recorded, oldest id first."""
        number = generation_of(self.store.promises[execution]).number
        found = self.store.branches.get(base_of(execution, number), {})
        return [self.store.promises[key] for key in found if key != execution]

    # --- talking to an execution -----------------------------------------------------------------------

    def tell(self, execution: str, message: Any, *, key: str | None = None) -> None:
        """Send a message to an execution. Raises `ExecutionOver` or `NoSuchExecution`."""
        self.run(self._append(execution, message, key))

    def ask(
        self, execution: str, message: Any, *, returns: Any = Any, timeout: Duration | None = None
    ) -> Any:
        """Send a message and wait, in this world's time, for its answer."""
        limit_s = None if timeout is None else duration_s(timeout)
        return self.run(self._ask(execution, message, returns, limit_s))

    def stream(self, execution: str, name: str, *, returns: Any = Any) -> list[Any]:
        """What an execution, its steps and tasks have emitted under a name."""
        found = self._elements(execution, "out", name)
        return [self._payloads.decode(promise.value, returns) for promise in found]

    def published(self, execution: str, name: str, *, returns: Any = Any) -> Any:
        """The last value that was published under a name. KeyError if there is none."""
        found = self._elements(execution, "value", name)
        if not found:
            raise KeyError(f"{execution} has published nothing as {name}")
        return self._payloads.decode(found[-1].value, returns)

    def _elements(self, execution: str, kind: str, name: str) -> list[Promise]:
        streams = self.store.streams.get(execution)
        count = 0 if streams is None else streams.count(f"{kind}.{name}")
        ids = (element_id(execution, f"{kind}.{name}", number) for number in range(1, count + 1))
        return [self.store.promises[key] for key in ids if key in self.store.promises]

    async def _append(
        self, execution: str, message: Any, key: str | None, answer: StreamAnswer | None = None
    ) -> StreamAppendReply:
        value = encode_message(self._payloads, message)
        [reply] = await self.node.request([ask(StreamAppend(execution, MAILBOX, value, key, answer))])
        if isinstance(reply.data, StreamAppendReply):
            return reply.data
        for refusal in (NoSuchExecution, ExecutionOver):
            if reply.code == refusal.code:
                raise refusal(execution)
        raise AssertionError(f"{execution} could not be told: {reply.data}")

    async def _ask(self, execution: str, message: Any, returns: Any, limit_s: float | None) -> Any:
        limit = limits.instant_ms_max if limit_s is None else self.loop.millis() + round(1000 * limit_s)
        reply = await self._append(execution, message, None, StreamAnswer(limit))
        assert reply.answer is not None
        return await self._caller.executions.result(reply.answer.id, returns)

    @property
    def _payloads(self) -> Payloads:
        return self._caller.worker_context().payloads

    # --- what has happened -----------------------------------------------------------------------------

    def is_over(self, execution: str) -> bool:
        """Whether an execution has ended."""
        return self.store.promises[execution].state != "pending"

    def ended(self) -> list[Promise]:
        """Every execution that came to an end of its own, also by being cancelled. No plain tasks."""
        return [
            self.store.promises[key]
            for key, task in self.store.tasks.items()
            if task.job is None and self._has_ended(key)
        ]

    def _has_ended(self, execution: str) -> bool:
        state = self.store.promises[execution].state
        number = generation_of(self.store.promises[execution]).number
        saw_it = cancellation_id(base_of(execution, number)) in self.store.promises
        return state in ("resolved", "rejected") or (state == "rejected_canceled" and saw_it)

    def settle_down(self) -> None:
        """Let what was started and not awaited come to its end, as far as it can without help."""
        for funeral in [*self._funerals]:
            self.run(_over(funeral))
        for _ in range(10_000):
            if not any(task.state in ("pending", "acquired") for task in self.store.tasks.values()):
                return
            self.elapse(1)

    def worker_context(self) -> WorkerContext:
        """Those of the worker, which knows the app's workflows and providers."""
        return (self._worker or self._caller).worker_context()

    # --- life ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """An open world may be entered again, and is closed when it is left as often."""
        if self._entered:
            self._entered += 1
            return self
        if self.loop.is_closed():
            raise RuntimeError("This World is closed: open another one.")
        try:
            check_no_other_loop()
            self.loop.run_until_complete(self._open())
        except BaseException:
            self.loop.bury()  # what was open by then has nobody else to end it
            raise
        logging.getLogger("holdfast.worker").addHandler(self._ear)
        self._entered = 1
        guard.open(strict=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered -= 1
        if self._entered:
            return
        logging.getLogger("holdfast.worker").removeHandler(self._ear)
        guard.close(strict=True)
        try:
            self.loop.run_until_complete(self._close())
        finally:
            self.loop.bury()

    async def __aenter__(self) -> NoReturn:
        """Says what to write instead of `async with`."""
        if not self._entered:
            self.loop.close()
        raise AnotherLoop("A World was entered with `async with`, and it has an event loop of its own")

    async def __aexit__(self, *left: object) -> None:
        """Never called: nobody gets in. Python wants it all the same."""

    async def _open(self) -> None:
        self.node = Node(
            self.store,
            clock=self.loop.millis,
            stopwatch=self.loop.time,
            timer_sleep_s_max=float("inf"),  # a clock that nobody sets needs no second look
        )
        await self.node.start()
        self._caller = Session(
            replace(self.app.settings, worker=False),
            self.app.registry,
            seams=self._seams(EmbeddedClient(self.node)),
            tasks=self.app.tasks,
        )
        await self._caller.open()
        await self._hire()
        bridge_of(self.app).use_session(self._caller, self.loop, self.run)

    async def _close(self) -> None:
        await bridge_of(self.app).tracked_calls.finish(self.app.settings.grace_s)
        bridge_of(self.app).use_session(None, None, None)
        for funeral in [*self._funerals]:
            await funeral
        if self._worker is not None:
            await self._worker.abandon()
        await self._caller.close()
        await self.node.stop()
        self._raise_failure()

    async def _hire(self) -> None:
        client = MortalClient(EmbeddedClient(self.node), self.fuse, self._on_death)
        settings = replace(self.app.settings, worker=True)
        seams = self._seams(client)
        self._worker = Session(settings, self.app.registry, self.app.providers, seams, self.app.tasks)
        await self._worker.open()

    def _seams(self, client: Any) -> Seams:
        return Seams(
            client=client,
            now=self.loop.millis,
            runner=lambda: VirtualRunner(self.performed, replaced=self._replaced),
            choose=choose,
            fresh=self._fresh,
            listen_again_s=float("inf"),
            provide=self.provide,
        )

    def _fresh(self) -> str:
        """The ends of ids: the same in every run of a test."""
        self._ids += 1
        return f"{self._ids:014x}"

    def _on_death(self) -> None:
        funeral = asyncio.ensure_future(self._replace_worker())
        self._funerals.add(funeral)
        funeral.add_done_callback(self._after_funeral)

    def _after_funeral(self, funeral: asyncio.Task[None]) -> None:
        self._funerals.discard(funeral)
        if not funeral.cancelled() and funeral.exception() is not None:
            self._failure = funeral.exception()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _replace_worker(self) -> None:
        self.deaths += 1
        dead, self._worker = self._worker, None
        if self.on_death is not None:
            self.on_death()
        if dead is not None:
            await dead.abandon()
            held = [task for task in self.store.tasks.values() if task.pid == dead.pid]
            if held:
                await self.node.request([ask(_given_up(task)) for task in held])
        await self._hire()


async def _over(funeral: asyncio.Task[None]) -> None:
    await asyncio.wait([funeral])


def _given_up(task: Task) -> TaskRelease | TaskFail:
    """What the node would do by itself once the lease has lapsed."""
    if task.job is None or task.started_at is None:
        return TaskRelease(task.id, task.version)
    value = Value({CODE_HEADER: WORKER_CRASHED, WORKER_HEADER: task.pid or ""})
    return TaskFail(task.id, task.version, WORKER_CRASHED, value)


class _Ear(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event in ("step failed", "failed") or (record.levelno < logging.ERROR and event != "given back"):
            return  # the code of the test failed, which its outcome tells; or nothing that keeps it from one
        error = record.exc_info[1] if record.exc_info else None
        self._heard.append(
            record.getMessage() if error is None else f"{record.getMessage()}: {repr_of(error)}"
        )


class VirtualRunner(StepRunner):
    """Performs sync steps at once, on the loop: a thread would live in real time."""

    def __init__(
        self,
        performed: list[Performed],
        random: Callable[[], float] = random.random,
        replaced: Replaced | None = None,
    ) -> None:
        super().__init__(random=random)
        self._performed = performed
        self._replaced = replaced or Replaced()

    def start(self, call: StepCall, done: Callable[[StepOutcome], None]) -> None:
        self._performed.append(Performed.of(call.step, Payloads()))
        self._replaced.put_into(call.step)
        if not iscoroutinefunction(call.step.function):
            call.mode = "inline"
        super().start(call, done)


def choose(promise_id: str, note: Note) -> Any:
    """What `hf.random()` and `hf.uuid()` give here: the same for the same operation, whoever asks."""
    source = random.Random(promise_id)  # noqa: S311
    if note.name == "random":
        return source.random()
    if note.name == "uuid":
        return uuid.UUID(int=source.getrandbits(128), version=4)
    return note.choose()
