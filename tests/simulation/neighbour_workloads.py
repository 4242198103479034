"""Tenants that ask for much at once: many deadlines at one instant, searches and pauses without end.

What they ask for must come out right, and everybody else's workloads go on beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from holdfast.client.errors import OutcomeUnknown
from holdfast.client.listening import listen
from holdfast.protocol import tags
from holdfast.protocol.messages import Execute, Message
from holdfast.protocol.records import Value
from holdfast.protocol.replies import PromiseReply, PromisesReply, Reply
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseSearch,
    PromiseSettle,
    QueueGet,
    QueuePause,
    RequestData,
)
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation

far_ms = 2**52


async def ask(simulation: Simulation, data: RequestData) -> Reply:
    """Until it is known to have been carried out; all of these may be repeated."""
    while True:
        try:
            reply = await simulation.ask(data)
        except OutcomeUnknown:
            reply = None
        if reply is not None and reply.status == 200:
            return reply
        await asyncio.sleep(0.5)


async def meet_deadlines(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """Promises that somebody watches, all due at one instant: more than one sweep takes."""
    count = chance.choice([10, 60, 120])
    due_at = simulation.loop.millis() + chance.choice([100, 3_000, 30_000])
    watched = {"resonate:external": "true"}
    ids = [f"{name}-{number}" for number in range(count)]
    creates = [PromiseCreate(key, due_at, Value(), watched) for key in ids]
    await asyncio.gather(*[ask(simulation, create) for create in creates])
    while True:
        stored = simulation.stored().promises
        if all(stored[key].state != "pending" for key in ids):
            break
        await asyncio.sleep(1)

    def look(store: MemoryStore) -> list[str]:
        found = [store.promises[key] for key in ids]
        wrong = [promise.id for promise in found if promise.state != "rejected_timedout"]
        late = [promise.id for promise in found if promise.settled_at != promise.timeout_at]
        return [f"{name}: {wrong} are not over, {late} not at their deadline"] if wrong or late else []

    expectation.looks[name] = look


async def look_everywhere(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    """A tenant that searches and pauses as fast as it is answered, and follows every cursor."""
    marks = {f"mark-{number}": name for number in range(chance.choice([1, 8, 64]))}
    ids = sorted(f"{name}-{number}" for number in range(chance.choice([5, 30])))
    await asyncio.gather(*[ask(simulation, PromiseCreate(key, far_ms, Value(), marks)) for key in ids])

    async def search(limit: int) -> None:
        found: list[str] = []
        cursor: str | None = None
        while True:
            reply = await ask(simulation, PromiseSearch(tags=marks, limit=limit, cursor=cursor))
            assert isinstance(reply.data, PromisesReply)
            found += [promise.id for promise in reply.data.promises]
            cursor = reply.data.cursor
            if cursor is None:
                break
        assert found == ids, f"{name} found {found}"

    async def pause(number: int) -> None:
        await ask(simulation, QueuePause(name, number % 2 == 0))
        await ask(simulation, QueueGet(name))

    limits: Sequence[int] = [chance.choice([1, 7, 100]) for _ in range(5)]
    await asyncio.gather(*[search(limit) for limit in limits], *[pause(number) for number in range(5)])


async def wait_to_be_invited(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    """A worker that never looks for work by itself: an invitation that was lost must be repeated."""
    group, invited = f"guests-{name}", asyncio.Event()

    def hear(message: Message) -> None:
        if isinstance(message, Execute):
            invited.set()

    client = simulation.caller_session.worker_context().client
    listening = asyncio.ensure_future(listen(client, group, name, hear))
    try:
        await asyncio.sleep(2)  # who connects later is told of everything that is there
        for number in range(chance.randint(4, 10)):
            key = f"{name}-{number}"
            created = await ask(
                simulation, PromiseCreate(key, far_ms, Value(), {tags.TARGET: f"poll://any@{group}"})
            )
            assert isinstance(created.data, PromiseReply)
            if created.data.promise.state == "pending":  # nobody has done all this before
                await invited.wait()
                invited.clear()
                await ask(simulation, PromiseSettle(key, "rejected_canceled"))  # it has no code to replay
    finally:
        listening.cancel()
        await asyncio.wait([listening])


NEIGHBOURS = {"deadlines": meet_deadlines, "looks": look_everywhere, "invited": wait_to_be_invited}
