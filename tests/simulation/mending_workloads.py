"""Executions that are retried, forked, halted, resumed and cancelled, one by one and in bulk, while faults
happen: no completed step is performed again, and everybody comes to the end that was asked for last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import holdfast as hf
from holdfast.client.errors import OutcomeUnknown, Refused
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation, app, ledger, repaired


class OutOfOrder(Exception):
    pass


def prepare(what: str) -> str:
    ledger.enter(what)
    return what


def deliver(name: str, what: str) -> str:
    """Fails until somebody has repaired what it needs."""
    if name not in repaired:
        raise OutOfOrder(name)
    ledger.enter(what)
    return what


@app.workflow
async def fragile(name: str, label: str, steps: int, called: bool) -> str:
    for number in range(steps):  # a fork has another id, so these must not tell it
        await hf.run(prepare, f"{label} {number}")
    if called:
        return await hf.call(delivery, name)
    return await hf.run(deliver, name, f"{hf.current().id} delivered")


@app.workflow
async def delivery(name: str) -> str:
    return await hf.run(deliver, name, f"{hf.current().id} delivered")


@app.workflow
async def errand(name: str, rests: int, rest_s: float) -> int:
    mine = hf.current().id
    for number in range(rests):
        await hf.run(prepare, f"{mine} {number}")
        await hf.sleep(rest_s)
    return rests


async def until_known(act: Callable[[], Awaitable[Any]]) -> Any:
    """Each of these may be asked for again; what cannot be done any more need not be."""
    while True:
        try:
            return await act()
        except OutcomeUnknown:
            await asyncio.sleep(0.5)
        except Refused:
            return None


def effects_of(execution: str, steps: int, called: bool) -> list[str]:
    last = f"{execution}:{steps + 1}" if called else execution
    return [f"{execution} {number}" for number in range(steps)] + [f"{last} delivered"]


async def mend_one(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """It fails, is repaired and retried; perhaps a fork goes on beside it."""
    steps, called = chance.randint(0, 3), chance.random() < 0.5
    forked = not called and chance.random() < 0.5
    expectation.exactly[name] = effects_of(name, steps, called)
    simulation.witness.expect_retries(name)
    handle = app.start(fragile, name, name, steps, called, id=name)
    if chance.random() < 0.5:
        await handle.started()
        await asyncio.sleep(chance.choice((0.0, 0.5, 4.0)))
        await until_known(handle.halt)
        await asyncio.sleep(chance.choice((0.0, 3.0)))
        await until_known(handle.resume)
    with suppress(OutOfOrder):
        await handle
    repaired.add(name)
    if forked:
        other = f"{name}-fork"
        fork = handle.fork("deliver", id=other)
        with suppress(OutcomeUnknown):
            await fork.started()
        # What lies before the step is not performed again: only the rest is its own.
        expectation.exactly[other] = [f"{other} delivered"]
        assert await app.handle(other) == f"{other} delivered"
    while True:
        await until_known(app.handle(name).retry)
        with suppress(OutOfOrder):  # whoever asked before may be told of the failure
            found = await app.handle(name)
            break
    assert found == expectation.exactly[name][-1], f"{name} is {found}"


async def mend_many(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """All that failed are retried by one bulk operation."""
    count, steps = chance.randint(2, 12), chance.randint(0, 2)
    ids = [f"{name}-{number}" for number in range(count)]
    for each in ids:
        expectation.exactly[each] = effects_of(each, steps, called=False)
        simulation.witness.expect_retries(each)
    handles = [app.start(fragile, name, each, steps, False, id=each) for each in ids]
    for handle in handles:
        with suppress(OutOfOrder):
            await handle
    repaired.add(name)
    found = app.find(fragile, prefix=f"{name}-", status="failed")
    bulk = await until_known(lambda: found.retry_async(id=f"{name}.retry"))
    assert (await bulk.wait_async()).is_over
    for each in ids:
        assert await app.handle(each) == f"{each} delivered"


async def steer_many(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """All are halted by one bulk operation, resumed by another, and perhaps cancelled by a third."""
    count, rests = chance.randint(2, 12), chance.randint(1, 4)
    cancelled, now = chance.random() < 0.5, chance.random() < 0.5
    ids = [f"{name}-{number}" for number in range(count)]
    handles = [app.start(errand, name, rests, chance.choice((0.5, 5.0)), id=each) for each in ids]
    for handle in handles:
        await handle.started()
    await asyncio.sleep(chance.choice((0.0, 2.0, 8.0)))
    found = app.find(errand, prefix=f"{name}-")
    halt = await until_known(lambda: found.halt_async("for a while", id=f"{name}.halt"))
    await halt.wait_async()
    await asyncio.sleep(chance.choice((0.0, 3.0)))
    resume = await until_known(lambda: found.resume_async(id=f"{name}.resume"))
    await resume.wait_async()
    if cancelled:
        cancel = await until_known(lambda: found.cancel_async(now=now, id=f"{name}.cancel"))
        await cancel.wait_async()
    ended: dict[str, int] = {}
    for each in ids:
        try:
            ended[each] = await app.handle(each)
        except hf.errors.ExecutionCancelled:
            assert cancelled, f"{each} was cancelled, and nobody asked for it"
    for each in ids:
        whole = [f"{each} {number}" for number in range(rests)]
        if each in ended:
            assert ended[each] == rests
            expectation.exactly[each] = whole
        else:  # it came so far, and no further
            expectation.exactly[each] = [effect for effect in whole if effect in ledger.entries]

    def look(store: MemoryStore) -> list[str]:
        halted = [each for each in ids if store.tasks[each].state == "halted"]
        return [f"{name}: {halted} are halted forever"] if halted else []

    expectation.looks[name] = look


MENDING = {"mended": mend_one, "mendedmany": mend_many, "steered": steer_many}
