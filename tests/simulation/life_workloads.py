"""Long lives and what executions share: generations, entities, locks and events."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, cast

import holdfast as hf
from holdfast.client.errors import OutcomeUnknown
from holdfast.protocol.events import topic_id
from holdfast.protocol.locks import TOKEN_HEADER, lock_id, read_lock
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation, app, ledger
from tests.simulation.mending_workloads import prepare, until_known

SIGNED_UP = "simulated.signed_up"


# --- generations -------------------------------------------------------------------------------------------


@app.workflow
async def countdown(name: str, left: int, total: int, rest_s: float, messages: int) -> int:
    """One generation a number. Some read a message first, which none may miss or see twice."""
    if left <= messages:
        total += await hf.receive(int)
    await hf.run(prepare, f"{name} {left}")
    if rest_s:
        await hf.sleep(rest_s)
    await hf.publish("left", left)
    if left > 1:
        hf.continue_as_new(name, left - 1, total, rest_s, messages)
    return total


async def count_down(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    generations = chance.randint(1, 9)
    messages = chance.randint(0, generations)
    expectation.exactly[name] = [f"{name} {number + 1}" for number in range(generations)]
    rest_s = chance.choice((0.0, 0.5, 3.0))
    handle = app.start(countdown, name, generations, 0, rest_s, messages, id=name)
    await handle.started()
    for number in range(messages):
        await until_known(partial(app.tell, name, 10**number, key=f"m{number}"))
        await asyncio.sleep(chance.choice((0.0, 2.0)))
    wanted = sum(10**number for number in range(messages))
    found = await handle
    assert found == wanted, f"{name} read {found}, was told {wanted}"


# --- entities ----------------------------------------------------------------------------------------------


@app.entity
class Tally:
    count: int = 0

    async def add(self, name: str, number: int, with_step: bool) -> int:
        self.count += 1
        if with_step:
            await hf.run(prepare, f"{name} {number}")
        return self.count

    async def refuse(self) -> None:
        self.count += 1_000  # a call that raises changes nothing
        raise ValueError("not so")

    @hf.read
    async def show(self) -> int:
        return self.count


async def keep_a_tally(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """Several callers, one instance: each call is applied once, one after the other."""
    callers, each = chance.randint(1, 4), chance.randint(1, 5)
    steps = [[chance.random() < 0.4 for _ in range(each)] for _ in range(callers)]
    pauses = [[chance.choice((0.0, 0.0, 1.0, 6.0)) for _ in range(each)] for _ in range(callers)]
    expectation.exactly[name] = [
        f"{name} {caller * each + number}"
        for caller in range(callers)
        for number in range(each)
        if steps[caller][number]
    ]
    heard: dict[int, list[int]] = {}

    async def call(caller: int) -> None:
        heard[caller] = []
        for number in range(each):
            await asyncio.sleep(pauses[caller][number])
            mark = caller * each + number
            entity: Any = app.entity(Tally, name, call_id=f"call {mark}")
            heard[caller].append(await repeated(entity.add, name, mark, steps[caller][number]))
            if number == 0:
                faulty: Any = app.entity(Tally, name, call_id=f"fault {mark}")
                try:
                    await repeated(faulty.refuse)
                except ValueError:
                    continue
                raise AssertionError(f"{name} took a call that raises")

    await asyncio.gather(*[call(caller) for caller in range(callers)])
    # As if they had come one after the other: every caller's in its order, each number told once.
    for own in heard.values():
        assert own == sorted(own), f"{name} told one caller {own}"
    told = sorted(number for own in heard.values() for number in own)
    assert told == [*range(1, callers * each + 1)], f"{name} told {told}"
    assert await repeated(app.entity(Tally, name).show) == callers * each
    await repeated(app.entities(Tally).delete, name)


async def repeated(call: Any, *args: Any) -> Any:
    """Under one id, until it is answered."""
    while True:
        try:
            return await call(*args)
        except OutcomeUnknown:
            await asyncio.sleep(0.5)


# --- locks -------------------------------------------------------------------------------------------------


@app.workflow
async def use_permit(name: str, turns: int, permits: int, use_s: float) -> list[int]:
    tokens: list[int] = []
    mine = hf.current().id
    for number in range(turns):
        lock = hf.lock(name) if permits == 1 else hf.permits(name, permits)
        async with lock as held:
            tokens.append(held.token)
            await hf.run(use, f"{mine} {number}", use_s)
        await hf.sleep(0.1)
    return tokens


async def use(what: str, use_s: float) -> str:
    await asyncio.sleep(use_s)
    ledger.enter(what)
    return what


@app.workflow
async def use_permit_and_fail(name: str, permits: int) -> None:
    lock = hf.lock(name) if permits == 1 else hf.permits(name, permits)
    await lock.acquire()  # and never lets go by itself
    await hf.sleep(1)
    raise ValueError("lost it")


@app.workflow
async def borrow_and_go_on(name: str, permits: int, left: int) -> None:
    """Each generation leaves its hold behind. If that stayed, the next one would find itself in its way."""
    lock = hf.lock(name) if permits == 1 else hf.permits(name, permits, count=permits)
    await lock.acquire()
    await hf.sleep(0.5)
    if left:
        hf.continue_as_new(name, permits, left - 1)


@app.workflow
async def want(name: str) -> str:
    try:
        async with hf.lock(name):
            return "held"
    except hf.errors.LockDeadlock:
        return "told"


@app.workflow
async def hold_and_call(name: str) -> str:
    """Its child waits for a lock that it holds: whoever suspends last closes the ring."""
    async with hf.lock(name):
        return await hf.call(want, name)


@app.entity
class Borrower:
    async def want(self, name: str) -> str:
        try:
            async with hf.lock(name):
                return "held"
        except hf.errors.LockDeadlock:
            return "told"


@app.workflow
async def hold_and_call_an_entity(name: str) -> str:
    """The same, with a call of an entity."""
    async with hf.lock(name):
        entity: Any = cast(Any, Borrower)(name)
        return cast(str, await entity.want(name))


async def share_a_lock(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    count, turns = chance.randint(2, 5), chance.randint(1, 3)
    permits, use_s = chance.choice((1, 1, 2)), chance.choice((0.0, 0.5, 3.0))
    ids = [f"{name}-{number}" for number in range(count)]
    for each in ids:
        expectation.exactly[each] = [f"{each} {number}" for number in range(turns)]
    careless = chance.random() < 0.5
    handles = [app.start(use_permit, name, turns, permits, use_s, id=each) for each in ids]
    if careless:
        with suppress(ValueError):
            await app.start(use_permit_and_fail, name, permits, id=f"{name}-careless")
            raise AssertionError(f"{name}-careless did not fail")
    going_on = app.start(borrow_and_go_on, name, permits, count % 3, id=f"{name}-goes-on")
    ring = app.start(hold_and_call, f"{name}-ring", id=f"{name}-calls")
    through_entity = app.start(hold_and_call_an_entity, f"{name}-entity", id=f"{name}-asks")
    tokens = await asyncio.gather(*handles)
    await going_on
    assert await through_entity == "told", f"{name}: an entity had a lock beside its caller"
    await repeated(app.entities(Borrower).delete, f"{name}-entity")
    assert await ring == "told", f"{name}: a child had a lock beside its parent"
    for own in tokens:
        assert own == sorted(set(own)), f"{name}: one holder had the tokens {own}"
    every = [token for own in tokens for token in own]
    assert len(set(every)) == len(every), f"{name}: two holders had one token: {tokens}"

    def look(store: MemoryStore) -> list[str]:
        lock = read_lock(store.promises[lock_id(name)])
        wrong = [f"{name}: {lock.holders} and {lock.waiters} are left"] if not lock.is_idle else []
        return wrong + _overlaps(store, name, ids, permits, clocks=not simulation.plan.time_jumps)

    expectation.looks[name] = look


def _overlaps(store: MemoryStore, name: str, ids: list[str], permits: int, *, clocks: bool) -> list[str]:
    """With one permit: in the order of their tokens, each hold ended before the next one began."""
    if permits > 1 or not clocks:
        return []
    holds: list[tuple[int, int, int]] = []
    for execution in ids:
        records = [store.promises[key] for key in store.promises if key.startswith(f"{execution}:")]
        tickets = [each for each in records if TOKEN_HEADER in (each.value.headers or {})]
        released = sorted(
            each.created_at
            for each in records
            if (each.param.headers or {}).get("holdfast:op") == f"note release {name}"
        )
        tickets.sort(key=lambda each: int((each.value.headers or {})[TOKEN_HEADER]))
        if len(released) != len(tickets):
            return [f"{execution} took {name} {len(tickets)} times and let it go {len(released)} times"]
        for ticket, until in zip(tickets, released, strict=True):
            assert ticket.settled_at is not None
            holds.append((int((ticket.value.headers or {})[TOKEN_HEADER]), ticket.settled_at, until))
    holds.sort()
    return [
        f"{name} was granted with token {second[0]} before {first[0]} was released"
        for first, second in pairwise(holds)
        if second[1] < first[2]
    ]


# --- events ------------------------------------------------------------------------------------------------


@app.workflow
async def await_signal(name: str, rounds: int) -> list[Any]:
    """Looks back: an event that was sent before it asked counts, once."""
    found: list[Any] = []
    for number in range(rounds):
        told = await hf.event(f"{name}.{number}", stage="last", look_back="30d")
        found.append(told["mark"])
    return found


@app.on(SIGNED_UP)
async def welcome(event: dict[str, Any]) -> str:
    return await hf.run(prepare, f"welcome {event['who']}")


async def send_signals(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    count, rounds, guests = chance.randint(1, 4), chance.randint(1, 3), chance.randint(0, 3)
    handles = [app.start(await_signal, name, rounds, id=f"{name}-{number}") for number in range(count)]
    pauses = [chance.choice((0.0, 1.0, 8.0)) for _ in range(rounds + guests)]
    for number in range(rounds):
        await asyncio.sleep(pauses[number])
        for stage in ("first", "last"):
            for _ in range(2):  # the same event, sent twice
                await send(f"{name}.{number}", f"{name} {number} {stage}", stage=stage, mark=number)
        await send(f"{name}.{number}", f"{name} {number} again", stage="last", mark=-1)
    while True:  # until a worker has subscribed
        if topic_id(SIGNED_UP) in simulation.stored().promises:
            break
        await asyncio.sleep(1)
    expectation.exactly[name] = [f"welcome {name} {guest}" for guest in range(guests)]
    for guest in range(guests):
        await asyncio.sleep(pauses[rounds + guest])
        for _ in range(2):
            await send(SIGNED_UP, f"{name} {guest}", who=f"{name} {guest}")
    for handle in handles:
        found = await handle
        assert found == [*range(rounds)], f"{handle.id} was woken by {found}"


async def send(event: str, event_id: str, **attributes: Any) -> None:
    while True:
        try:
            await app.event(event, id=event_id, **attributes)
        except OutcomeUnknown:
            await asyncio.sleep(0.5)
        else:
            return


LIVES = {
    "countdown": count_down,
    "tally": keep_a_tally,
    "lock": share_a_lock,
    "signals": send_signals,
}
