"""Locks that executions share, in the code of workflows: held, waited for, given up, over crashes."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import holdfast as hf
from holdfast.protocol.locks import Lock
from holdfast.protocol.replies import LockReply
from holdfast.protocol.requests import LockGet, LockRelease
from holdfast.testing import Ledger, crash_everywhere
from tests.workflow.world import World, virtual


async def lock_named(world: World, name: str) -> Lock:
    reply = await world.ask(LockGet(name))
    assert isinstance(reply.data, LockReply), reply
    return reply.data.lock


@virtual
async def test_one_execution_at_a_time_is_in_the_block(world: World) -> None:
    inside: list[str] = []
    most: list[int] = []

    async def enter(name: str) -> None:
        inside.append(name)
        most.append(len(inside))

    async def leave(name: str) -> None:
        inside.remove(name)

    async def printing(name: str) -> int:
        async with hf.lock("printer") as lock:
            await hf.run(enter, name)
            await hf.sleep(60)
            await hf.run(leave, name)
            return lock.token

    world.worker()
    world.worker()
    flow = world.workflow(printing)
    for number in range(6):
        await world.start(flow, f"x{number}", id=f"x{number}")
    tokens = [await world.result(f"x{number}") for number in range(6)]
    assert max(most) == 1
    assert len(set(tokens)) == 6
    assert (await lock_named(world, "printer")).is_idle


@virtual
async def test_the_lock_is_granted_in_the_order_of_asking(world: World) -> None:
    async def printing() -> int:
        async with hf.lock("printer") as lock:
            await hf.sleep(10)
            return lock.token

    world.worker()
    flow = world.workflow(printing)
    for number in range(5):
        await world.start(flow, id=f"x{number}")
        await world.until_state(f"x{number}", "suspended")
    tokens = [await world.result(f"x{number}") for number in range(5)]
    assert tokens == sorted(tokens)


@virtual
async def test_permits_let_so_many_in(world: World) -> None:
    inside: set[str] = set()
    most: list[int] = []

    async def enter(name: str) -> None:
        inside.add(name)
        most.append(len(inside))

    async def leave(name: str) -> None:
        inside.discard(name)

    async def compute(name: str, count: int) -> None:
        async with hf.permits("gpu", 4, count=count):
            for _ in range(count):
                await hf.run(enter, f"{name} {_}")
            await hf.sleep(5)
            for _ in range(count):
                await hf.run(leave, f"{name} {_}")

    world.worker()
    flow = world.workflow(compute)
    for number in range(8):
        await world.start(flow, f"x{number}", 1 + number % 3, id=f"x{number}")
    for number in range(8):
        await world.result(f"x{number}")
    assert 2 <= max(most) <= 4


@virtual
async def test_generators_acquire_and_release(world: World) -> None:
    def flow() -> Any:
        lock = yield from hf.lock("printer").acquire()
        token = lock.token
        lock.release()
        again = yield from hf.lock("printer").acquire()
        return token < again.token

    world.worker()
    assert await world.run(world.workflow(flow)) is True
    assert (await lock_named(world, "printer")).is_idle


@virtual
async def test_a_failing_and_a_cancelled_holder_release(world: World) -> None:
    async def failing() -> None:
        async with hf.lock("printer"):
            raise ValueError("torn page")

    async def hanging() -> None:
        async with hf.lock("printer"):
            await hf.sleep("1d")

    world.worker()
    await world.start(world.workflow(failing), id="f")
    await world.settled("f")
    assert (await lock_named(world, "printer")).is_idle
    await world.start(world.workflow(hanging), id="h")
    await world.until_state("h", "suspended")
    await world.settle("h")  # ended by somebody else
    assert (await lock_named(world, "printer")).is_idle


@virtual
async def test_whoever_waits_too_long_is_told_and_others_go_on(world: World) -> None:
    async def hold() -> None:
        async with hf.lock("printer"):
            await hf.sleep("1h")

    async def impatient() -> str:
        try:
            async with hf.lock("printer", timeout="1m"):
                return "held"
        except hf.TimedOut:
            return "gave up"

    async def interrupted() -> str:
        try:
            async with hf.timeout("2m"), hf.lock("printer"):
                return "held"
        except hf.TimedOut:
            return "interrupted"

    async def patient() -> str:
        async with hf.lock("printer"):
            return "held"

    world.worker()
    for name, flow in (("a", hold), ("b", impatient), ("c", interrupted), ("d", patient)):
        await world.start(world.workflow(flow), id=name)
        await world.until_state(name, "suspended")
    assert await world.result("b") == "gave up"
    assert await world.result("c") == "interrupted"
    await world.until_state("d", "suspended")
    assert [ticket.execution for ticket in (await lock_named(world, "printer")).waiters] == ["d"]
    assert await world.result("d") == "held"


@virtual
async def test_the_loser_of_a_race_gives_its_ticket_up(world: World) -> None:
    async def hold() -> None:
        async with hf.lock("printer"):
            await hf.sleep("1h")

    async def racing() -> str:
        async def print_it() -> str:
            async with hf.lock("printer"):
                return "printed"

        async def wait() -> str:
            await hf.sleep(30)
            return "waited"

        return await hf.race(print_it(), wait())

    world.worker()
    await world.start(world.workflow(hold), id="a")
    await world.until_state("a", "suspended")
    assert await world.run(world.workflow(racing)) == "waited"
    assert (await lock_named(world, "printer")).waiters == []


@virtual
async def test_a_ring_is_named_to_the_one_that_closes_it(world: World) -> None:
    async def two(first: str, second: str, rest: float) -> str:
        async with hf.lock(first):
            await hf.sleep(rest)
            try:
                async with hf.lock(second):
                    return "both"
            except hf.errors.LockDeadlock as error:
                return str(error)

    world.worker()
    flow = world.workflow(two)
    await world.start(flow, "a", "b", 10.0, id="x")
    await world.start(flow, "b", "a", 20.0, id="y")
    told = await world.result("y")
    assert "'y' waits for 'a', which 'x' holds; 'x' waits for 'b', which 'y' holds" in told
    assert "HF1503" in told
    assert await world.result("x") == "both"


async def wanting(name: str, rest: float) -> str:
    await hf.sleep(rest)
    try:
        async with hf.lock(name):
            return "held"
    except hf.errors.LockDeadlock as error:
        return str(error)


@virtual
@pytest.mark.parametrize("slow", ["parent", "child"])
async def test_a_child_that_wants_a_lock_of_its_parent_is_told(world: World, slow: str) -> None:
    wants = world.workflow(wanting)

    async def calling(rest: float, child_rest: float) -> str:
        async with hf.lock("printer"):
            child = await hf.start(wants, "printer", child_rest)
            await hf.sleep(rest)
            return f"{child} {await hf.attach(child, returns=str)}"

    world.worker()
    rest, child_rest = (20.0, 10.0) if slow == "parent" else (10.0, 20.0)
    told = await world.run(world.workflow(calling), rest, child_rest, id="parent")
    child = told.split()[0]
    assert f"{child!r} waits for 'printer', which 'parent' holds" in told
    assert f"'parent' waits for {child!r}" in told
    assert told.endswith("[HF1503]")
    lock = await lock_named(world, "printer")
    assert (lock.holders, lock.waiters) == ([], [])


@virtual
async def test_a_called_child_that_waits_for_a_grandparent_is_told(world: World) -> None:
    wants = world.workflow(wanting)

    async def between() -> str:
        return await hf.call(wants, "printer", 1.0)

    middle = world.workflow(between)

    async def holding() -> str:
        async with hf.lock("printer"):
            return await hf.call(middle)

    world.worker()
    told = await world.run(world.workflow(holding), id="top")
    assert "which 'top' holds; 'top' waits for" in told
    assert "[HF1503]" in told


@virtual
async def test_a_parent_that_does_not_wait_forever_closes_no_ring(world: World) -> None:
    wants = world.workflow(wanting)

    async def patient() -> str:
        async with hf.lock("printer"):
            child = await hf.start(wants, "printer", 1.0)
            with suppress(hf.TimedOut):
                async with hf.timeout(30):
                    await hf.attach(child)
        return await hf.attach(child, returns=str)

    world.worker()
    assert await world.run(world.workflow(patient)) == "held"


@virtual
@pytest.mark.parametrize("limited", ["the lock", "the call"])
async def test_a_wait_with_a_timeout_of_its_own_ends_by_that_and_closes_no_ring(
    world: World, limited: str
) -> None:
    async def wanting_for_a_while() -> str:
        try:
            async with hf.lock("printer", timeout="2s" if limited == "the lock" else None):
                return "held"
        except hf.TimedOut:
            return "the lock took too long"

    wants = world.workflow(wanting_for_a_while)
    called = wants.with_options(timeout="2s") if limited == "the call" else wants

    async def holding() -> str:
        async with hf.lock("printer"):
            try:
                return await hf.call(called)
            except hf.TimedOut:
                return "the call took too long"

    world.worker()
    assert await world.run(world.workflow(holding)) == f"{limited} took too long"


@virtual
async def test_fibers_that_wait_side_by_side_close_no_ring(world: World) -> None:
    async def one(name: str, rest: float) -> None:
        await hf.sleep(rest)
        async with hf.lock(name):
            await hf.sleep(60)

    async def both(first: str, second: str) -> str:
        await hf.gather(one(first, 1.0), one(second, 2.0))
        return "both"

    world.worker()
    flow = world.workflow(both)
    await world.start(flow, "a", "b", id="x")
    await world.start(flow, "b", "a", id="y")
    assert [await world.result("x"), await world.result("y")] == ["both", "both"]


@virtual
async def test_a_fiber_holds_what_the_one_that_started_it_holds(world: World) -> None:
    async def again() -> None:
        async with hf.lock("a"):
            pass

    async def outer() -> str:
        async with hf.lock("a"):
            try:
                await hf.gather(again())
            except hf.errors.LockDeadlock:
                return "found"
        return "stuck"

    world.worker()
    assert await world.run(world.workflow(outer)) == "found"


@virtual
async def test_another_limit_under_the_same_name_is_an_error(world: World) -> None:
    async def hold() -> None:
        async with hf.permits("gpu", 2):
            await hf.sleep("1h")

    async def differ() -> str:
        try:
            async with hf.permits("gpu", 3):
                return "held"
        except hf.errors.LimitDiffers as error:
            return str(error)

    world.worker()
    await world.start(world.workflow(hold), id="a")
    await world.until_state("a", "suspended")
    assert "has 2 permit(s), not 3" in await world.run(world.workflow(differ))


@virtual
async def test_a_forced_release_lets_the_next_one_in_and_the_token_tells_them_apart(world: World) -> None:
    async def hold(rest: float) -> int:
        async with hf.lock("printer") as lock:
            await hf.sleep(rest)
            return lock.token

    world.worker()
    flow = world.workflow(hold)
    await world.start(flow, 3600.0, id="a")
    await world.until_state("a", "suspended")
    await world.start(flow, 1.0, id="b")
    await world.until_state("b", "suspended")
    await world.ask(LockRelease("printer", "a", "its machine burnt"))
    later = await world.result("b")
    assert await world.result("a") < later
    assert (await lock_named(world, "printer")).is_idle


@virtual
async def test_a_lock_in_a_workflow_of_asyncio(world: World) -> None:
    async def flow(name: str) -> list[str]:
        seen: list[str] = []

        async def use(each: str) -> None:
            async with hf.lock("printer") as lock:
                await asyncio.sleep(1)
                seen.append(f"{each} {lock.token > 0}")

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(use(f"{name}{number}"))
        try:
            async with asyncio.timeout(5):
                async with hf.lock("busy"):
                    seen.append("busy")
        except TimeoutError:
            seen.append("late")
        return seen

    async def busy() -> None:
        async with hf.lock("busy"):
            await hf.sleep("1h")

    world.worker()
    await world.start(world.workflow(busy), id="b")
    await world.until_state("b", "suspended")
    found = world.workflow(flow, loop="asyncio")
    assert await world.run(found, "n") == ["n0 True", "n1 True", "n2 True", "late"]
    assert (await lock_named(world, "busy")).waiters == []


def test_a_worker_killed_anywhere_changes_nothing() -> None:
    app = hf.App("memory://")
    ledger = Ledger()

    def enter(what: str) -> None:
        ledger.enter(what)

    @app.workflow
    async def careful(name: str) -> str:
        async with hf.lock("printer") as lock:
            await hf.run(enter, f"print {name}")
            assert lock.token
        async with hf.permits("gpu", 2, count=2):
            await hf.run(enter, f"compute {name}")
        try:
            async with hf.timeout("1s"), hf.lock("a"), hf.lock("b"):
                await hf.sleep("1h")
        except hf.TimedOut:
            pass
        async with hf.lock("a", timeout="1s"):
            return "done"

    proof = crash_everywhere(careful, "x", app=app, ledger=ledger)
    assert proof.result == "done"
    assert ledger.entries == ["print x", "compute x"]


@virtual
async def test_what_cannot_be_asked_for_is_refused_at_once(world: World) -> None:
    with pytest.raises(hf.errors.BadLock):
        hf.lock("")
    with pytest.raises(hf.errors.BadLock):
        hf.permits("x", 0)
    with pytest.raises(hf.errors.BadLock):
        hf.permits("x", 2, count=3)
    with pytest.raises(hf.errors.BadLock):
        _ = hf.lock("x").token
    with pytest.raises(hf.errors.BadLock):
        hf.lock("x").release()
