"""Workflows whose every result and every effect is known beforehand, whatever happens to their workers.

Each workload is what one caller does. It may be done again from the start: everything has an id of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import holdfast as hf
from holdfast.client.errors import OutcomeUnknown, Refused
from holdfast.errors import AlreadySettled
from holdfast.payloads.payloads import Payloads
from holdfast.protocol import tags
from holdfast.protocol.replies import ScheduleReply
from holdfast.protocol.requests import ScheduleCreate, ScheduleDelete, ScheduleGet
from holdfast.steps.here import current_attempt
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation, app, ledger
from tests.simulation.life_workloads import LIVES
from tests.simulation.mending_workloads import MENDING
from tests.simulation.neighbour_workloads import NEIGHBOURS
from tests.simulation.talk_workloads import TALKS
from tests.simulation.task_workloads import TASK_WORKLOADS
from tests.testing.random_workflow import parent

minute_ms = 60_000
catch_up_ms = 2_000  # what a node that is well needs for it
_far = 2**53


class Broken(Exception):
    pass


async def effect(what: str, seconds: float) -> str:
    if seconds:
        await asyncio.sleep(seconds)
    ledger.enter(what)
    return what


def effect_now(what: str) -> str:
    ledger.enter(what)
    return what


def refuse(what: str) -> str:
    raise Broken(what)


def flaky(what: str, failures: int) -> int:
    if current_attempt() <= failures:
        raise Broken(what)
    ledger.enter(what)
    return failures


async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@app.workflow
async def tree(name: str, width: int, depth: int, seconds: float) -> int:
    if depth == 0:
        await hf.run(effect, f"{name} {hf.current().id}", seconds)
        return 1
    calls = [hf.call(tree, name, width, depth - 1, seconds) for _ in range(width)]
    return sum(await hf.gather(*calls))


@app.workflow
async def saga(name: str, steps: int, breaks_at: int, seconds: float) -> str:
    done: list[int] = []
    try:
        for number in range(steps):
            if number == breaks_at:
                await hf.run(refuse, name)
            await hf.run(effect, f"{name} do {number}", seconds)
            done.append(number)
    except Broken:
        for number in reversed(done):
            await hf.run(effect, f"{name} undo {number}", 0.0)
        return "undone"
    return "done"


@app.workflow
async def fan_out(name: str, failures: list[int], seconds: float) -> int:
    retry = hf.Retry(attempts=4, delay=seconds)
    steps = [hf.run(flaky, f"{name} {n}", count, retry=retry) for n, count in enumerate(failures)]
    slow = [hf.run(effect, f"{name} slow {n}", seconds * n) for n in range(3)]
    total = sum(await hf.gather(*steps))
    return total + len(await hf.gather(*slow))


@app.workflow
async def race(name: str, step_s: float, timer_s: float, deadline_s: float) -> str:
    word: str
    try:
        async with hf.timeout(deadline_s):
            word, _ = await hf.select(
                step=hf.run(wait, step_s), timer=hf.sleep(timer_s), call=hf.call(doze, timer_s)
            )
    except hf.TimedOut:
        word = "late"
    await hf.run(effect_now, f"{name} {word}")
    return word


@app.workflow
async def doze(seconds: float) -> float:
    await hf.sleep(seconds)
    return seconds


@app.workflow
async def plod(seconds: float) -> float:
    """As long, at work."""
    for _ in range(10):
        await hf.run(wait, min(seconds / 10, 4.0))
    return seconds


@app.workflow
async def approval(name: str, patience_s: float) -> str:
    answer = hf.promise(str, timeout=patience_s)
    try:
        word = await answer
    except hf.TimedOut:
        word = "nobody"
    await hf.run(effect_now, f"{name} {word}")
    return word


@app.workflow
async def sleeper(name: str, naps: list[float]) -> int:
    for number, nap in enumerate(naps):
        await hf.sleep(nap)
        await hf.run(effect_now, f"{name} nap {number}")
    return len(naps)


@app.workflow
async def shepherd(name: str, count: int) -> list[str]:
    flock = [await hf.start(sheep, f"{name} {number}") for number in range(count)]
    hf.start(sheep, f"{name} last")
    return flock


@app.workflow
async def sheep(what: str) -> None:
    await hf.run(effect, what, 0.5)


@app.workflow(timeout=8)
async def hurried(name: str, steps: int, seconds: float) -> int:
    for _ in range(steps):
        await hf.run(wait, seconds)
    return steps


@app.workflow
async def occurrence(name: str) -> None:
    await hf.run(effect_now, f"{name} at {hf.current().id}")


Workload = Callable[[Simulation, Expectation, str, Random], Coroutine[Any, Any, None]]


async def grow_a_tree(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    width, depth = chance.choice([(2, 1), (2, 2), (3, 1), (3, 2), (1, 3), (2, 3)])
    seconds = chance.choice([0.0, 0.3, 3.0])
    leaves = [name]
    for level in range(depth):
        mark = "." if level else ":"
        leaves = [f"{leaf}{mark}{number + 1}" for leaf in leaves for number in range(width)]
    expectation.exactly[name] = [f"{name} {leaf}" for leaf in leaves]
    found = await app.start(tree, name, width, depth, seconds, id=name)
    assert found == width**depth, f"{name} grew {found} leaves"


async def book_a_trip(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    steps = chance.randint(1, 5)
    breaks_at = chance.randint(0, steps + 2)
    done = range(min(breaks_at, steps))
    expectation.exactly[name] = [f"{name} do {number}" for number in done]
    if breaks_at < steps:
        expectation.exactly[name] += [f"{name} undo {number}" for number in done]
    seconds = chance.choice([0.0, 1.0, 4.0])
    found = await app.start(saga, name, steps, breaks_at, seconds, id=name)
    assert found == ("undone" if breaks_at < steps else "done"), f"{name} is {found}"


async def spread_out(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    failures = [chance.randint(0, 3) for _ in range(chance.randint(1, 8))]
    effects = [f"{name} {number}" for number in range(len(failures))]
    expectation.exactly[name] = effects + [f"{name} slow {number}" for number in range(3)]
    seconds = chance.choice([0.2, 1.0, 2.5])
    found = await app.start(fan_out, name, failures, seconds, id=name)
    assert found == sum(failures) + 3, f"{name} is {found}"


async def run_a_race(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    step_s, timer_s, deadline_s = (chance.choice([0.5, 2.0, 2.0, 6.0]) for _ in range(3))
    found = await app.start(race, name, step_s, timer_s, deadline_s, id=name)
    assert found in ("step", "timer", "call", "late"), f"{name} is {found}"
    expectation.exactly[name] = [f"{name} {found}"]


async def ask_for_approval(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    patience_s = chance.choice([2.0, 20.0, 600.0])
    pauses = [chance.uniform(0, 6) for _ in range(2)]
    handle = app.start(approval, name, patience_s, id=name)

    async def answer(word: str, pause_s: float) -> str | None:
        """The word, if this is the answer that counts."""
        await asyncio.sleep(pause_s)
        while True:
            try:
                await app.resolve(f"{name}:1", word)
            except Refused:  # it has not asked yet
                await asyncio.sleep(0.5)
            except AlreadySettled:
                return None
            else:
                return word

    answers = asyncio.gather(answer("yes", pauses[0]), answer("no", pauses[1]))
    found = await handle
    counted = [word for word in await answers if word is not None]
    assert counted == ([] if found == "nobody" else [found]), f"{name} is {found}, and {counted} were told so"
    assert found in ("yes", "no", "nobody"), f"{name} is {found}"
    expectation.exactly[name] = [f"{name} {found}"]

    def look(store: MemoryStore) -> list[str]:
        promise = store.promises[f"{name}:1"]
        told = "nobody" if promise.state != "resolved" else Payloads().decode(promise.value, str)
        return [] if told == found else [f"{name} was answered {told} and heard {found}"]

    expectation.looks[name] = look


async def take_naps(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    naps = [chance.choice([0.1, 1.0, 10.0]) for _ in range(chance.randint(1, 4))]
    expectation.exactly[name] = [f"{name} nap {number}" for number in range(len(naps))]
    assert await app.start(sleeper, name, naps, id=name) == len(naps)
    plan = simulation.plan
    # A sleep ends at an instant by the node's clock, whatever the worker's own shows.
    clocks_agree = not (plan.workers_inside and "node clock jumps" in plan.weights)
    least_ms = round(sum(naps) * 1000) if clocks_agree else 0

    def look(store: MemoryStore) -> list[str]:
        promise = store.promises[name]
        slept_ms = (promise.settled_at or 0) - promise.created_at
        return (
            []
            if simulation.plan.time_jumps or slept_ms >= least_ms
            else [f"{name} slept {slept_ms} ms, not {least_ms}"]
        )

    expectation.looks[name] = look


async def send_a_flock(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    count = chance.randint(0, 3)
    expectation.exactly[name] = [f"{name} {number}" for number in range(count)] + [f"{name} last"]
    found = await app.start(shepherd, name, count, id=name)
    assert found == [f"{name}:{number + 1}" for number in range(count)], f"{name} is {found}"


async def hurry(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    steps, seconds = chance.randint(1, 16), chance.choice([0.5, 1.0, 2.0, 4.0])
    with suppress(hf.TimedOut):
        assert await app.start(hurried, name, steps, seconds, id=name) == steps


async def change_your_mind(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    pause_s = chance.uniform(0, 10)
    seconds = chance.choice([1.0, 5.0, 300.0])
    handle = app.start(chance.choice([doze, plod]), seconds, id=name)
    await asyncio.sleep(pause_s)
    await simulation.caller_session.executions.cancel(name, now=chance.random() < 0.5)
    with suppress(hf.errors.ExecutionCancelled):
        await handle


async def write_a_program(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    with suppress(hf.errors.Deadlock):  # some of them are so
        await app.start(parent, chance.randrange(10_000), id=name)


async def keep_hours(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """A schedule that runs every minute, for a while."""
    minutes = chance.uniform(1, 3)
    param = Payloads().encode_call("occurrence", (name,), {}, 1)
    target = {tags.TARGET: f"poll://any@{app.settings.group}"}
    week_ms = 7 * 86_400_000
    created = await simulation.ask(
        ScheduleCreate(name, "* * * * *", name + "-{{.timestamp}}", week_ms, param, target)
    )
    seen_at = simulation.loop.millis()
    if isinstance(created.data, ScheduleReply):
        await asyncio.sleep(minutes * 60)
    due_until = _due_until(simulation, created.data, seen_at)
    while (await simulation.ask(ScheduleGet(name))).status != 404:
        try:
            await simulation.ask(ScheduleDelete(name))
        except OutcomeUnknown:
            await asyncio.sleep(1)
    expectation.exactly[name] = _effects_of_schedule(simulation.stored(), name)
    assert isinstance(created.data, ScheduleReply)
    gone_at = _far if simulation.plan.time_jumps else simulation.loop.millis()
    first = created.data.schedule.created_at // minute_ms * minute_ms + minute_ms

    def look(store: MemoryStore) -> list[str]:
        fired = sorted(int(run.rpartition("-")[2]) for run in _runs_of_schedule(store, name))
        due = range(first, due_until + 1, minute_ms)
        wanted = [first + number * minute_ms for number in range(max(len(fired), len(due)))]
        if fired == wanted and max(fired, default=0) <= gone_at:
            return []
        return [f"{name} fired at {fired}, not {wanted}, and was gone at {gone_at}"]

    expectation.looks[name] = look


def _due_until(simulation: Simulation, created: object, seen_at: int) -> int:
    """What was due by then has been fired when the schedule is deleted, whatever went wrong before."""
    now, over_at = simulation.loop.millis(), simulation.faults.over_at
    if not isinstance(created, ScheduleReply) or over_at is None or now < over_at + catch_up_ms:
        return 0  # the node may be away, and meet the deletion before it meets what is due
    if simulation.plan.time_jumps:  # a clock that was set back goes on at half pace
        return created.schedule.created_at + (now - seen_at) // 2 - catch_up_ms
    return now - catch_up_ms


def _effects_of_schedule(store: MemoryStore, name: str) -> list[str]:
    return [f"{name} at {run}" for run in _runs_of_schedule(store, name)]


def _runs_of_schedule(store: MemoryStore, name: str) -> list[str]:
    return [key for key in store.promises if key.startswith(f"{name}-") and ":" not in key]


WORKLOADS: dict[str, Workload] = {
    "tree": grow_a_tree,
    "saga": book_a_trip,
    "fan": spread_out,
    "race": run_a_race,
    "approval": ask_for_approval,
    "naps": take_naps,
    "flock": send_a_flock,
    "hurry": hurry,
    "mind": change_your_mind,
    "program": write_a_program,
    "hours": keep_hours,
}


every: dict[str, Workload] = WORKLOADS | TASK_WORKLOADS | NEIGHBOURS | TALKS | LIVES | MENDING


def scenario_of(expectation: Expectation) -> Callable[[Simulation], Coroutine[Any, Any, None]]:
    """A few workloads side by side, each beginning at its own time."""

    async def scenario(simulation: Simulation) -> None:
        chance, expectation.begun = simulation.chance, simulation.begun.tasks
        kinds = [kind for kind in WORKLOADS if kind != "hours" or chance.random() < 0.3]
        chosen = [chance.choice(kinds) for _ in range(chance.choice((1, 2, 4, 7, 11)))]
        chosen += [chance.choice([*TASK_WORKLOADS]) for _ in range(chance.randint(0, 5))]
        beside = Random(f"neighbours {simulation.plan.seed}")
        chosen += [kind for kind in NEIGHBOURS if beside.random() < (0.35 if kind == "invited" else 0.1)]
        talks = Random(f"talks {simulation.plan.seed}")
        chosen += [kind for kind in TALKS if talks.random() < 0.15]
        lives = Random(f"lives {simulation.plan.seed}")
        chosen += [kind for kind in LIVES | MENDING if lives.random() < 0.15]
        pauses = [chance.choice((0.0, 1.0, 5.0, 20.0)) * chance.random() for _ in chosen]

        async def begin(number: int) -> None:
            await asyncio.sleep(pauses[number])
            name = f"{chosen[number]}{number}"
            own = Random(f"{name} {simulation.plan.seed}")  # the same after a restart
            await every[chosen[number]](simulation, expectation, name, own)

        await asyncio.gather(*[begin(number) for number in range(len(chosen))])

    return scenario
