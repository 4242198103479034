"""Background tasks whose every end is known beforehand, as far as luck leaves it open.

A function may run more than once: its worker may die, freeze, be cut off or stopped, and nobody knows how far
it came. So its effects are had as the documents say: known by the task's id, and fenced by its token. What
must hold: a result is had once, and once only; the effect of what completed is there, once; what never began
has none.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random

import holdfast as hf
from holdfast.jobs.errors import CannotCancel
from holdfast.jobs.handle import TaskHandle
from holdfast.jobs.options import OnConflict
from holdfast.jobs.result import Err, TaskError
from holdfast.jobs.sending import Prepared
from holdfast.protocol.jobs import Job
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation, app, ledger

CRASHED = "WORKER_CRASHED"
narrow_slots = 2
stubborn = hf.Retry(delay=0.5, attempts=100, delay_max="3s", retry_for=["BROKEN"])
app.queue("narrow", concurrency=narrow_slots)
app.queue("shared", concurrency=6, per_key=2, fair_by="limit_key", weights={"tenant-0": 3})


class BrokenTask(Exception):
    pass


codes: dict[type[BaseException], str] = {BrokenTask: "BROKEN"}


@app.task(queue="wide", retry=stubborn)
async def job_call(what: str, seconds: float) -> str:
    """Something that takes its time and has an effect in the end."""
    await asyncio.sleep(seconds)
    ledger.enter(what)
    return what


@app.task(queue="narrow", retry=stubborn)
async def narrow_errand(what: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    ledger.enter(what)
    return what


@app.task(queue="wide", retry=stubborn, exception_codes=codes)
def patient(what: str, failures: int) -> int:
    """Fails so many times, and then succeeds: it may be tried very often."""
    attempt = hf.current().attempt
    if attempt <= failures:
        raise BrokenTask(what)
    ledger.enter(what)
    return failures


@app.task(
    queue="wide",
    retry=hf.Retry.fixed([0.5, 1.0], jitter=0, retry_for=["BROKEN"], retry_crashes=False),
    exception_codes=codes,
)
def impatient(what: str, failures: int) -> int:
    """The same, but it is tried three times, and not at all after a crash."""
    if hf.current().attempt <= failures:
        raise BrokenTask(what)
    ledger.enter(what)
    return failures


@app.task(queue="wide", retry=hf.Retry.fixed([1], retry_for=["BROKEN"]))
def hopeless(what: str) -> hf.TaskResult[str, hf.TaskError]:
    ledger.enter(what)
    return hf.TaskResult(err=hf.TaskError("REFUSED", what))


@app.workflow
async def run_errands(name: str, failures: list[int]) -> int:
    calls = [hf.call(patient, f"{name} {number}", count) for number, count in enumerate(failures)]
    results = await hf.gather(calls)
    last = await hf.call(job_call, f"{name} last", 0.5)
    return sum(result.ok_value for result in results) + (last.ok_value == f"{name} last")


def job_of(store: MemoryStore, task_id: str) -> Job:
    job = store.tasks[task_id].job
    assert job is not None
    return job


def codes_of(job: Job) -> list[str | None]:
    """The codes of the attempts, without those that crashed: which those were is up to the world."""
    return [attempt.code for attempt in job.attempts if attempt.code != CRASHED]


async def send(
    expectation: Expectation, calls: dict[str, Prepared]
) -> dict[str, TaskHandle[object, TaskError]]:
    """Send them in one round trip, each by an id, under which its only effect is known."""
    expectation.tasks.update(dict.fromkeys(calls))
    sent = await app.send_many_async(calls.values())
    return dict(zip(calls, sent, strict=True))


async def run_errand(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    seconds = chance.choice([0.0, 0.2, 1.0, 4.0])
    expectation.tasks[name] = None
    sent = await job_call.with_options(id=name, priority=chance.randint(-2, 2)).send_async(name, seconds)
    result = await sent
    assert result.ok_value == name, f"{name} is {result}"
    info = await sent.info_async()
    assert info.status is hf.TaskStatus.COMPLETED, f"{name} is {info.status}"


async def send_many(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    names = [f"{name}-{number}" for number in range(chance.randint(2, 8))]
    seconds = chance.choice([0.0, 0.5, 2.0])
    calls = {each: job_call.with_options(id=each).prepare(each, seconds) for each in names}
    for each, handle in (await send(expectation, calls)).items():
        assert (await handle).ok_value == each


async def try_again(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    failures = chance.randint(0, 4)
    handles = await send(expectation, {name: patient.with_options(id=name).prepare(name, failures)})
    result = await handles[name]
    assert result.ok_value == failures, f"{name} is {result}"

    def look(store: MemoryStore) -> list[str]:
        job = job_of(store, name)
        wanted = ["BROKEN" if attempt.number <= failures else None for attempt in job.attempts]
        found = [attempt.code for attempt in job.attempts]
        fits = all(code in (want, CRASHED) for code, want in zip(found, wanted, strict=True))
        return [] if fits and len(found) > failures else [f"{name} failed {failures} times by {found}"]

    expectation.looks[name] = look


async def give_up(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    failures = chance.randint(0, 4)
    handles = await send(expectation, {name: impatient.with_options(id=name).prepare(name, failures)})
    result = await handles[name]
    wanted = ["BROKEN"] * min(failures, 3) + [None] * (failures < 3)
    if result.is_ok:
        assert result.ok_value == failures < 3, f"{name} is {result}"
    else:
        assert result.err_value.error_code in ("BROKEN", CRASHED), f"{name} is {result}"

    def look(store: MemoryStore) -> list[str]:
        found = [attempt.code for attempt in job_of(store, name).attempts]
        crashed = CRASHED in found
        fits = found == ([*wanted[: len(found) - 1], CRASHED] if crashed else wanted)
        return [] if fits else [f"{name} failed {failures} times by {found}"]

    expectation.looks[name] = look


async def be_refused(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    handles = await send(expectation, {name: hopeless.with_options(id=name).prepare(name)})
    result = await handles[name]
    assert result.err_value.error_code in ("REFUSED", CRASHED), f"{name} is {result}"

    def look(store: MemoryStore) -> list[str]:
        job = job_of(store, name)
        found = [attempt.code for attempt in job.attempts]
        fits = found in ([job.code], [CRASHED, job.code])
        return [] if fits else [f"{name} is {job}"]

    expectation.looks[name] = look


async def hurry_up(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """Several with a deadline for the start, one after another in a narrow queue."""
    names = [f"{name}-{number}" for number in range(chance.randint(1, 5))]
    seconds = chance.choice([0.5, 2.0])
    deadlines = [simulation.now + timedelta(seconds=chance.choice([0, 0.1, 2, 6])) for _ in names]
    calls = {
        each: narrow_errand.with_options(id=each, good_until=deadline).prepare(each, seconds)
        for each, deadline in zip(names, deadlines, strict=True)
    }
    for each, handle in (await send(expectation, calls)).items():
        result = await handle
        code = None if result.is_ok else result.err_value.error_code
        assert code in (None, "TASK_EXPIRED", CRASHED), f"{each} is {result}"


async def squeeze(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    names = [f"{name}-{number}" for number in range(chance.randint(3, 7))]
    seconds = chance.choice([0.2, 1.0, 3.0])
    calls = {each: narrow_errand.with_options(id=each).prepare(each, seconds) for each in names}
    for each, handle in (await send(expectation, calls)).items():
        assert (await handle).ok_value == each


async def come_later(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    delay_s = chance.choice([0.5, 3.0, 12.0])
    timeout_s = chance.choice([None, delay_s + 0.4, delay_s + 3, delay_s + 20])
    options = job_call.with_options(id=name, delay=delay_s, timeout=timeout_s)
    result = await (await send(expectation, {name: options.prepare(name, 0.5)}))[name]
    if timeout_s is None:
        assert result.ok_value == name, f"{name} is {result}"
        return
    code = None if result.is_ok else result.err_value.error_code
    assert code in (None, "TASK_TIMED_OUT", CRASHED), f"{name} is {result}"

    def look(store: MemoryStore) -> list[str]:
        promise, job = store.promises[name], job_of(store, name)
        settled_at = promise.settled_at or 0
        in_time = settled_at < promise.timeout_at
        fits = in_time if promise.state != "rejected_timedout" else settled_at == promise.timeout_at
        return [] if fits and settled_at == job.finished_at else [f"{name} ended at {settled_at}: {job}"]

    expectation.looks[name] = look


async def call_it_off(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    delay_s, seconds, pause_s = chance.choice([0.01, 5.0]), chance.choice([0.5, 20.0]), chance.uniform(0, 8)
    force = chance.random() < 0.5
    options = job_call.with_options(id=name, delay=delay_s)
    handle = (await send(expectation, {name: options.prepare(name, seconds)}))[name]
    await asyncio.sleep(pause_s)
    with suppress(CannotCancel):  # it runs, or is over
        await handle.cancel_async(force=force)
    result = await handle
    code = None if result.is_ok else result.err_value.error_code
    assert code in (None, "TASK_CANCELLED"), f"{name} is {result}"

    def look(store: MemoryStore) -> list[str]:
        stopped = [attempt for attempt in job_of(store, name).attempts if attempt.code == "TASK_CANCELLED"]
        return [f"{name} was stopped while it ran, without force"] if stopped and not force else []

    expectation.looks[name] = look


async def share_a_key(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    policies: list[OnConflict] = ["existing", "existing", "replace", "reject"]
    policy = chance.choice(policies)
    seconds, pauses = chance.choice([0.2, 2.0]), [chance.uniform(0, 4) for _ in range(chance.randint(2, 5))]

    async def send_one(number: int) -> None:
        await asyncio.sleep(pauses[number])
        task_id = f"{name}-{number}"
        expectation.tasks[task_id] = None
        options = job_call.with_options(id=task_id, key=name, on_conflict=policy)
        sent = await options.try_send_async(task_id, seconds)
        if isinstance(sent, Err):
            assert sent.error.code == "KEY_TAKEN", f"{task_id} was not sent: {sent.error}"
            assert policy != "existing", f"{task_id} found the key taken"
            return
        result, found = await sent.value, sent.value.id
        code = None if result.is_ok else result.err_value.error_code
        assert found == task_id or policy == "existing", f"{task_id} is {found}"
        assert result.ok == found or (policy == "replace" and code == "TASK_CANCELLED"), f"{found}: {result}"

    await asyncio.gather(*map(send_one, range(len(pauses))))


async def delegate(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    failures = [chance.randint(0, 2) for _ in range(chance.randint(1, 4))]
    expectation.exactly[name] = [f"{name} {number}" for number in range(len(failures))] + [f"{name} last"]
    found = await app.start(run_errands, name, failures, id=name)
    assert found == sum(failures) + 1, f"{name} is {found}"


@app.task(queue="shared", retry=stubborn)
async def shared_errand(what: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    ledger.enter(what)
    return what


@app.workflow
async def shared_flow(what: str, seconds: float) -> str:
    """It waits in the middle, and counts in its queue meanwhile."""
    await hf.sleep(seconds)
    return await hf.run(enter, what)


def enter(what: str) -> str:
    ledger.enter(what)
    return what


async def many_tenants(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    """Tasks and executions of many keys in one fair queue with limits: none waits forever."""
    seconds = chance.choice([0.0, 0.3, 1.0])
    tenants = [f"tenant-{min(chance.randint(0, 3), chance.randint(0, 3))}" for _ in range(8)]
    calls = {
        f"{name}-t{number}": shared_errand.with_options(id=f"{name}-t{number}", limit_key=tenant)
        for number, tenant in enumerate(tenants[:5])
    }
    flows = {
        f"{name}-w{number}": shared_flow.with_options(
            id=f"{name}-w{number}", queue="shared", limit_key=tenant, priority=chance.choice([0, 0, 1])
        )
        for number, tenant in enumerate(tenants[5:])
    }
    expectation.exactly[name] = [*flows]
    handles = await send(expectation, {each: call.prepare(each, seconds) for each, call in calls.items()})
    started = [flow.start(each, seconds) for each, flow in flows.items()]
    for each, handle in handles.items():
        assert (await handle).ok_value == each
    assert [await flow for flow in started] == [*flows]


TASK_WORKLOADS = {
    "tenants": many_tenants,
    "errand": run_errand,
    "bulk": send_many,
    "again": try_again,
    "impatient": give_up,
    "refused": be_refused,
    "deadline": hurry_up,
    "narrow": squeeze,
    "later": come_later,
    "off": call_it_off,
    "key": share_a_key,
    "delegate": delegate,
}
