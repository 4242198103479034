# pyright: reportPrivateUsage=false
"""Random workflows whose workers die at random points: every replay takes the same path.

1. No effect is begun on a path that a later incarnation does not take, and none is performed once recorded.
2. The execution ends: no replay ever finds itself at odds with what is recorded.
3. What is recorded at the end says everything: the code, run once more on it, comes to the same result by the
   same path, without performing or writing anything.
"""

import asyncio
import random
from collections.abc import Sequence
from random import Random
from typing import cast

import pytest
from msgspec import structs

from holdfast.client.interface import Client
from holdfast.payloads.error_values import KnownErrors
from holdfast.protocol.records import Promise, TaskView
from holdfast.protocol.replies import AcquireReply, Invoked, Reply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseSettle,
    Request,
    TaskFence,
    TaskFulfill,
)
from holdfast.runtime import Deadlock
from holdfast.testing.loop import JumpingLoop, run_jumping
from holdfast.workflow import functions as hf
from holdfast.workflow.execution import Execution
from holdfast.workflow.generations import BoundCall
from tests.counts import count_of
from tests.seeds import chosen_seed
from tests.workflow.random_workflow import Incarnation, Ledger, draw_body
from tests.workflow.world import WorkerProcess, World

PROGRAMS = count_of("HOLDFAST_PROGRAMS", quick=40, full=300)
SEED = chosen_seed()
CHUNKS = 4
ends_within_s = 5_000.0


class Storm:
    """Workers that die, freeze and come back, around one execution."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Random(seed + 1)
        self.ledger = Ledger(world, Random(seed + 2))
        self.program = draw_body(Random(seed), 3)
        self.incarnations: list[Incarnation] = []
        self.deaths = 0
        self.deaths_left = self.chance.choice((0, 1, 2, 5, 10))
        self.danger = self.chance.choice((0.02, 0.1, 0.3))
        self.warm_max = self.chance.choice((0, 1, 100))
        self._doomed: asyncio.Queue[WorkerProcess] = asyncio.Queue()

        async def flow() -> str:
            incarnation = Incarnation(self.program, self.ledger)
            if incarnation.root == "x":
                self.incarnations.append(incarnation)
            return await incarnation.run()

        async def child(digest: str, number: int) -> str:
            incarnation = Incarnation((), self.ledger)
            incarnation.see(digest)
            await hf.sleep(number / 2)
            incarnation.next_id()
            done = await hf.run(self.ledger.perform, incarnation.next_id(), digest, False)
            if number == 3:
                raise KeyError("child")
            return f"{digest[:8]} {done}"

        self.flow = world.workflow(flow)
        world.workflow(child)

    async def run(self) -> Promise:
        self._hire()
        undertaker = asyncio.create_task(self._bury())
        crowd = asyncio.create_task(self._settle_promises())
        try:
            await self.world.start(self.flow, id="x")
            return await asyncio.wait_for(self.world.settled("x"), ends_within_s)
        finally:
            for task in (undertaker, crowd):
                task.cancel()
            await asyncio.gather(undertaker, crowd, return_exceptions=True)

    def _hire(self) -> None:
        process = self.world.worker(lease_s=5, warm_max=self.warm_max)

        def may_die(_: Sequence[Request]) -> None:
            if self.deaths_left > 0 and not process.dead and self.chance.random() < self.danger:
                self.deaths_left -= 1
                self.deaths += 1
                process.wire.cut()
                self._doomed.put_nowait(process)

        process.wire.before = may_die
        process.wire.after = may_die

    async def _bury(self) -> None:
        """Of those that were cut off, some are dead; others come back when their lease is long over."""
        while True:
            process = await self._doomed.get()
            if self.chance.random() < 0.7:
                await process.die()
            else:
                self.world.loop.call_later(self.chance.choice((1, 4, 20)), process.thaw)
            self._hire()

    async def _settle_promises(self) -> None:
        while True:
            await asyncio.sleep(self.chance.choice((0.001, 0.1, 1)))
            waiting = [
                key
                for key, promise in self.world.store.promises.items()
                if promise.state == "pending" and promise.tags.get("resonate:external") == "true"
            ]
            if waiting and self.chance.random() < 0.5:
                await self.world.settle(self.chance.choice(waiting), self.chance.randrange(1_000_000))


class ReadOnly:
    """Answers questions about the store; everything else ends the replay."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.fulfilled: TaskFulfill | None = None
        self.refused: list[Request] = []

    async def request(self, requests: Sequence[Request]) -> list[Reply]:
        if all(request.kind == "promise.get" for request in requests):
            return await self._world.node.request(requests)
        [*others, last] = requests
        self.refused += others
        if isinstance(last.data, TaskFulfill):
            self.fulfilled = last.data
        else:
            self.refused.append(last)
        return [Reply(409, "read only")] * len(requests)


async def replay_once_more(world: World, storm: Storm) -> tuple[Incarnation, ReadOnly, Execution]:
    """The code on the finished journal, by a worker that may only read."""
    records = [
        promise for promise in world.store.promises.values() if promise.tags.get("resonate:branch") == "x"
    ]
    root = world.store.promises["x"]
    task = (await world.task("x")).version
    reader = ReadOnly(world)
    worker_context = structs.replace(world.processes[0]._worker_context(), client=cast(Client, reader))
    claim = AcquireReply(
        TaskView("x", "acquired", task, 0),
        root,
        [record for record in records if record.id != "x"],
        "invoke",
        Invoked(root),
    )
    execution = Execution(claim, BoundCall("flow", storm.flow.function, (), {}), worker_context)
    await execution.drive()
    execution.close()
    return storm.incarnations[-1], reader, execution


async def weather(world: World, seed: int) -> Storm:
    storm = Storm(world, seed)
    settled = await storm.run()
    assert storm.ledger.faults == []
    for process in [*world.processes]:
        await process.die()
    performed = storm.ledger.performed
    again, reader, execution = await replay_once_more(world, storm)
    assert execution.fault is None, execution.fault
    assert storm.ledger.faults == []
    reader.refused = [request for request in reader.refused if not _is_asked_again(world, request)]
    if settled.state == "resolved" or not _is_deadlock(world, settled):
        assert storm.ledger.performed == performed, "the last replay performed an effect"
        assert reader.refused == [], "the last replay had something to write"
    # Else: a deadlock is found when the code waits, after what it asked for has begun. It may now see what
    # had not completed then, and begin again the steps that were under way, which nobody waits for:
    # nothing of that may be recorded already (`faults` has the steps that were).
    for request in reader.refused:
        assert isinstance(request.data, TaskFence), request
        stored = world.store.promises.get(request.data.action.data.id or "")
        assert stored is None or stored.state == "pending", request
    if reader.refused and reader.fulfilled is None:
        return storm
    assert reader.fulfilled is not None
    lived = storm.incarnations[:-1]
    assert any(_same_path(again, each) for each in lived), "no worker took the path that is recorded"
    fulfilled = reader.fulfilled.action.data
    assert fulfilled.state == settled.state
    if settled.state == "resolved":
        assert fulfilled.value.data == settled.value.data
    return storm


def _is_asked_again(world: World, request: Request) -> bool:
    """A call that nobody wants any more is asked to cancel itself, and on every replay again."""
    if not isinstance(request.data, PromiseCreate | PromiseRegisterCallback | PromiseSettle):
        return False
    data = request.data
    asked = data.awaited if isinstance(data, PromiseRegisterCallback) else data.id
    return asked.endswith("cancel") and world.store.promises[asked].state == "resolved"


def _is_deadlock(world: World, settled: Promise) -> bool:
    return isinstance(world.payloads.decode_error(settled.value, KnownErrors()), Deadlock)


def _same_path(one: Incarnation, other: Incarnation) -> bool:
    """When the fibers are taken down their last words come after the end; they are not part of the path."""
    shorter = min(len(one.trace), len(other.trace))
    rest = [*one.trace[shorter:], *other.trace[shorter:]]
    return one.trace[:shorter] == other.trace[:shorter] and all(text.endswith("left") for text in rest)


def run_one(seed: int) -> Storm:
    loop = JumpingLoop()
    random.seed(seed)  # what hf.random() draws

    async def main() -> Storm:
        async with World(loop) as world:
            return await weather(world, seed)

    return run_jumping(main(), loop)


@pytest.mark.sized
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_replay_of_a_random_workflow_takes_the_same_path(chunk: int) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    deaths = performed = incarnations = 0
    for number in range(chunk, PROGRAMS, CHUNKS):
        try:
            storm = run_one(SEED + number)
        except BaseException as error:
            error.add_note(f"with HOLDFAST_SEED={SEED + number} HOLDFAST_PROGRAMS=1")
            raise
        deaths += storm.deaths
        performed += storm.ledger.performed
        incarnations += len(storm.incarnations)
    if PROGRAMS >= 300:
        assert deaths > PROGRAMS / CHUNKS / 4, "hardly anybody died"
        assert performed > PROGRAMS / CHUNKS, "hardly anything was done"
        assert incarnations > PROGRAMS / CHUNKS, "hardly anything was rebuilt"
