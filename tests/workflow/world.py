"""A node, workers and a clock, all driven by the test.

The clock jumps (testing/loop.py), so a lease of a minute and a sleep of a month take no time. `WorkerProcess`
is one worker process as a node sees it: it can freeze (nothing it sends arrives until it thaws) and die
(nothing it sends ever arrives, and nothing it holds is given back).
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from itertools import count
from typing import Any, Self

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.interface import MessageStream
from holdfast.client.listening import Settlements
from holdfast.host.host import Host
from holdfast.host.slots import workflow_slots
from holdfast.node import Node
from holdfast.node.end_tasks import end_tasks
from holdfast.payloads.error_values import KnownErrors
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import limits, tags
from holdfast.protocol.messages import Unblock
from holdfast.protocol.records import Promise
from holdfast.protocol.replies import PromiseReply, Reply, TaskReply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseGet,
    PromiseRegisterListener,
    PromiseSettle,
    Request,
    RequestData,
    TaskGet,
)
from holdfast.runtime import Report
from holdfast.steps.runner import StepRunner
from holdfast.store.memory import MemoryStore
from holdfast.testing.loop import JumpingLoop, run_jumping
from holdfast.workflow.context import WorkerContext
from holdfast.workflow.registry import Registry, WorkflowDefinition
from holdfast.workflow.runner import WorkflowRunner
from tests.requests import ask

patience_s = 10_000_000.0  # on the jumping clock
group = "default"


class Wire:
    """A client that remembers what was sent, and can be cut."""

    def __init__(self, node: Node) -> None:
        self._client = EmbeddedClient(node)
        self._open = asyncio.Event()
        self._open.set()
        self.sent: list[Request] = []
        self.answered: list[Reply] = []
        self.before: Callable[[Sequence[Request]], None] | None = None
        self.after: Callable[[Sequence[Request]], None] | None = None

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if self.before is not None:
            self.before(requests)
        await self._open.wait()
        self.sent += requests
        replies = await self._client.request(requests)
        if self.after is not None:
            self.after(requests)
        await self._open.wait()
        self.answered += replies
        return replies

    def messages(self, group: str, member: str) -> AbstractAsyncContextManager[MessageStream]:
        return self._client.messages(group, member)

    async def close(self) -> None:
        await self._client.close()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def kinds(self) -> list[str]:
        return [request.kind for request in self.sent]


class WorkerProcess:
    """One worker process."""

    def __init__(
        self,
        world: "World",
        registry: Registry,
        name: str,
        *,
        lease_s: float = 20.0,
        concurrency: int = 100,
        warm_max: int = 1_000,
    ) -> None:
        self.world = world
        self.name = name
        self.reports: list[tuple[str, Report]] = []
        self.wire = Wire(world.node)
        self.inbox = Settlements()
        self.runner = StepRunner()
        self.address = f"poll://uni@{group}/{name}"
        self.worker = Host(
            self.wire, pid=name, lease_s=lease_s, now=world.loop.millis, polls=False, inbox=self.inbox
        )
        self.workflows = WorkflowRunner(self._worker_context(), registry, warm_max=warm_max)
        self.dead = False
        self.worker.listen_in(group)
        self.worker.serve(workflow_slots(group, concurrency), self.workflows)

    def _worker_context(self) -> WorkerContext:
        return WorkerContext(
            client=self.wire,
            payloads=self.world.payloads,
            runner=self.runner,
            inbox=self.inbox,
            address=self.address,
            group=group,
            now=self.world.loop.millis,
            known_errors=KnownErrors(),
            pid=self.name,
            report=lambda execution, report: self.reports.append((execution, report)),
        )

    def freeze(self) -> None:
        """A pause that the process does not notice: what it sends arrives when it thaws."""
        self.wire.cut()

    def thaw(self) -> None:
        self.wire.mend()

    async def die(self) -> None:
        """kill -9: nothing is given back, nothing more arrives. The fibers go with the process."""
        if self.dead:
            return
        self.dead = True
        self.wire.cut()
        await self.worker.abandon()
        await self.worker.end_streams()
        await end_tasks(self.runner.sending)

    async def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM."""
        if not self.dead:
            self.dead = True
            await self.worker.stop(grace_s)
            await self.worker.end_streams()
            await self.runner.close()


class World:
    def __init__(self, loop: JumpingLoop) -> None:
        self.loop = loop
        self.payloads = Payloads()
        self.registry = Registry()
        self.store = MemoryStore()
        self.node = Node(self.store, clock=loop.millis)
        self.processes: list[WorkerProcess] = []
        self._inbox = Settlements()
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        await self.node.start()
        self._mailbox = self.node.connect("test", "test")
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            await process.die()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self.node.stop()

    async def _read(self) -> None:
        while True:
            for message in await self._mailbox.receive():
                if isinstance(message, Unblock):
                    self._inbox.tell(message.promise)

    # --- what a test does ------------------------------------------------------------------------------

    def worker(self, registry: Registry | None = None, **settings: Any) -> WorkerProcess:
        process = WorkerProcess(self, registry or self.registry, f"w{next(self._numbers)}", **settings)
        self.processes.append(process)
        return process

    def workflow(self, function: Callable[..., Any], **options: Any) -> WorkflowDefinition[..., Any]:
        return workflow(function, self.registry, **options)

    async def start(
        self,
        flow: WorkflowDefinition[..., Any] | str,
        *args: Any,
        id: str,  # noqa: A002
        timeout_at: int = 0,
    ) -> str:
        name, version = (flow, 0) if isinstance(flow, str) else (flow.name, flow.version)
        entries: dict[str, str] = dict.fromkeys((tags.ORIGIN, tags.BRANCH, tags.PARENT), id)
        entries[tags.TARGET] = f"poll://any@{group}"
        param = self.payloads.encode_call(name, args, {}, version)
        await self.ask(PromiseCreate(id, timeout_at or limits.instant_ms_max, param, entries))
        return id

    async def settled(self, promise_id: str) -> Promise:
        future: asyncio.Future[Promise] = self.loop.create_future()
        withdraw = self._inbox.hear(promise_id, future.set_result)
        reply = await self.ask(PromiseRegisterListener(promise_id, "poll://uni@test/test"))
        assert isinstance(reply.data, PromiseReply), reply
        if reply.data.promise.state != "pending":
            withdraw()
            return reply.data.promise
        return await asyncio.wait_for(future, patience_s)

    async def result(self, promise_id: str, returns: Any = Any) -> Any:
        promise = await self.settled(promise_id)
        if promise.state == "resolved":
            return self.payloads.decode(promise.value, returns)
        if promise.state == "rejected":
            raise self.payloads.decode_error(promise.value, KnownErrors())
        raise AssertionError(f"{promise_id} ended as {promise.state}")

    async def run(self, flow: WorkflowDefinition[..., Any] | str, *args: Any, id: str = "x") -> Any:  # noqa: A002
        return await self.result(await self.start(flow, *args, id=id))

    async def settle(self, promise_id: str, value: Any = None) -> None:
        await self.ask(PromiseSettle(promise_id, "resolved", self.payloads.encode(value)))

    async def ask(self, data: RequestData) -> Reply:
        [reply] = await self.node.request([ask(data)])
        return reply

    async def promise(self, promise_id: str) -> Promise:
        reply = await self.ask(PromiseGet(promise_id))
        assert isinstance(reply.data, PromiseReply), reply
        return reply.data.promise

    async def task(self, task_id: str) -> Any:
        reply = await self.ask(TaskGet(task_id))
        assert isinstance(reply.data, TaskReply), reply
        return reply.data.task

    async def until(
        self, look: Callable[[], Awaitable[bool]] | Callable[[], bool], step_s: float = 0.01
    ) -> None:
        """Let time pass until something holds."""
        for _ in range(100_000):
            found = look()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(step_s)
        raise AssertionError("it never came about")

    async def until_state(self, task_id: str, state: str) -> None:
        async def look() -> bool:
            return bool((await self.task(task_id)).state == state)

        await self.until(look)

    def journal(self, root: str) -> dict[str, str]:
        """What is recorded below an execution: id -> label, observations left out."""
        found = {
            key: (promise.param.headers or {}).get("holdfast:op", "")
            for key, promise in self.store.promises.items()
            if key.startswith(f"{root}:") and "~" not in key
        }
        return dict(sorted(found.items()))


def workflow(
    function: Callable[..., Any], registry: Registry, name: str | None = None, **options: Any
) -> WorkflowDefinition[..., Any]:
    made = WorkflowDefinition(function, name or function.__name__, 1, None, None, **options)
    registry.add(made)
    return made


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is given a world, and runs on the clock of that world."""

    @wraps(test)
    def run(**given: Any) -> None:
        loop = JumpingLoop()

        async def main() -> None:
            async with World(loop) as world:
                await test(world, **given)

        run_jumping(main(), loop)

    signature = inspect.signature(test)
    parameters = [*signature.parameters.values()][1:]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
