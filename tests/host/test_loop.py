"""The worker loop: every statement of `tasks-and-the-worker-loop`, on a real node, in virtual time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from holdfast.protocol.messages import Execute
from holdfast.protocol.records import TaskRef
from holdfast.protocol.replies import ClaimReply, HeartbeatReply
from holdfast.protocol.requests import (
    Request,
    TaskAcquire,
    TaskContinue,
    TaskFulfill,
    TaskHalt,
    TaskRelease,
)
from holdfast.runtime import gather, race
from holdfast.runtime.step import step_signal
from holdfast.workflow import functions as hf
from holdfast.workflow.registry import Registry
from tests.workflow.world import WorkerProcess, World, virtual, workflow


class Ledger:
    """What steps did, in order, with who did it."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    async def note(self, entry: Any) -> Any:
        self.entries.append(entry)
        return entry

    async def slow(self, entry: Any, seconds: float) -> Any:
        self.entries.append(entry)
        await asyncio.sleep(seconds)
        return entry


def sent(process: WorkerProcess, kind: str) -> list[Any]:
    return [request.data for request in process.wire.sent if request.kind == kind]


# --- claiming -------------------------------------------------------------------------------------------


@virtual
async def test_a_started_workflow_is_claimed_run_and_fulfilled(world: World) -> None:
    @world.workflow
    async def double(n: int) -> int:
        return n * 2

    world.worker()
    assert await world.run(double, 21) == 42
    assert (await world.task("x")).state == "fulfilled"


@virtual
async def test_work_that_was_there_before_the_worker_is_done(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        return "done"

    await world.start(flow, id="x")
    world.worker()
    assert await world.result("x") == "done"


@virtual
async def test_two_workers_never_drive_one_task(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow(n: int) -> int:
        await hf.run(ledger.note, n)
        return n

    workers = [world.worker(), world.worker()]
    for n in range(50):
        await world.start(flow, n, id=f"x{n}")
    assert [await world.result(f"x{n}") for n in range(50)] == [*range(50)]
    assert sorted(ledger.entries) == [*range(50)]
    claimed = [
        [
            task.task.id
            for reply in process.wire.answered
            if isinstance(reply.data, ClaimReply)
            for task in reply.data.tasks
        ]
        for process in workers
    ]
    assert len(claimed[0]) + len(claimed[1]) == 50
    assert not {*claimed[0]} & {*claimed[1]}


@virtual
async def test_a_worker_claims_only_what_it_has_a_free_slot_for(world: World) -> None:
    running, most = 0, 0

    async def busy() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    @world.workflow
    async def flow() -> None:
        await hf.run(busy)

    for n in range(20):
        await world.start(flow, id=f"x{n}")
    world.worker(concurrency=3)
    for n in range(20):
        await world.result(f"x{n}")
    assert most == 3


@virtual
async def test_slots_are_refilled_one_by_one_not_in_batches(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow(n: int, seconds: float) -> None:
        await hf.run(ledger.slow, n, seconds)

    await world.start(flow, 0, 100.0, id="x0")
    for n in range(1, 10):
        await world.start(flow, n, 1.0, id=f"x{n}")
    world.worker(concurrency=2)
    for n in range(1, 10):
        await world.result(f"x{n}")
    assert world.loop.time() < 20, "the long one held up the others"
    assert (await world.promise("x0")).state == "pending"


@virtual
async def test_a_suspended_execution_holds_no_slot(world: World) -> None:
    @world.workflow
    async def waits() -> None:
        await hf.promise()

    @world.workflow
    async def quick() -> int:
        return 1

    process = world.worker(concurrency=1)
    for n in range(5):
        await world.start(waits, id=f"w{n}")
        await world.until_state(f"w{n}", "suspended")
    assert process.worker.held_count == 0
    assert await world.run(quick) == 1


# --- the lease ------------------------------------------------------------------------------------------


@virtual
async def test_heartbeats_keep_the_lease_through_a_long_step(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        return await hf.run(ledger.slow, "once", 1_000)

    first, second = world.worker(lease_s=20), world.worker(lease_s=20)
    assert await world.run(flow) == "once"
    assert ledger.entries == ["once"]
    assert (await world.task("x")).version == 1
    assert not (sent(first, "task.fence") and sent(second, "task.fence"))


@virtual
async def test_a_heartbeat_is_sent_at_half_the_lease(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> None:
        await hf.run(ledger.slow, 1, 100)

    process = world.worker(lease_s=20)
    await world.run(flow)
    assert len(sent(process, "task.heartbeat")) in (9, 10)


@virtual
async def test_a_process_that_holds_forty_tasks_sends_one_heartbeat(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow(n: int) -> None:
        await hf.run(ledger.slow, n, 15)

    process = world.worker(lease_s=20)
    for n in range(40):
        await world.start(flow, n, id=f"x{n}")
    for n in range(40):
        await world.result(f"x{n}")
    [beat] = sent(process, "task.heartbeat")
    assert len(beat.tasks) == 40
    assert {(await world.task(f"x{n}")).version for n in range(40)} == {1}


@virtual
async def test_one_missed_heartbeat_costs_nothing(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        return await hf.run(ledger.slow, "once", 60)

    process = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await asyncio.sleep(9)
    process.freeze()
    await asyncio.sleep(8)
    process.thaw()
    assert await world.result("x") == "once"
    assert (await world.task("x")).version == 1


@virtual
async def test_a_dead_workers_claim_lapses_and_another_takes_over_where_it_was(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> list[str]:
        first = await hf.run(ledger.note, "first")
        return [first, await hf.run(ledger.slow, "second", 5)]

    dying = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await world.until(lambda: ledger.entries == ["first", "second"])
    await dying.die()
    world.worker()
    assert await world.result("x") == ["first", "second"]
    assert ledger.entries == ["first", "second", "second"], "what was recorded is not repeated"
    assert (await world.task("x")).version == 2
    assert world.loop.time() < 60


# --- the version ----------------------------------------------------------------------------------------


@virtual
async def test_a_frozen_worker_that_wakes_up_late_can_write_nothing(world: World) -> None:
    """A acquires and freezes past its lease; B acquires at the next version and finishes; A is told 409."""
    done_by: list[str] = []
    signals: list[Any] = []
    registries = {name: Registry() for name in "ab"}

    def flow_of(name: str) -> None:
        async def effect() -> str:
            signals.append(step_signal())
            await asyncio.sleep(5)
            done_by.append(name)
            return name

        async def flow() -> list[str]:
            one = await hf.run(effect)
            return [one, await hf.run(effect)]

        workflow(flow, registries[name])

    flow_of("a")
    flow_of("b")
    a = world.worker(registries["a"], lease_s=20)
    await world.start("flow", id="x")
    await world.until(lambda: len(signals) == 1)
    a.freeze()
    b = world.worker(registries["b"], lease_s=20)
    assert await world.result("x") == ["b", "b"]
    before = dict(world.store.promises)
    a.thaw()
    await asyncio.sleep(100)
    assert 409 in [reply.status for reply in a.wire.answered]
    assert world.store.promises == before, "the late worker changed something"
    assert done_by.count("a") == 1, "it went on after it had lost its claim"
    assert a.worker.held_count == 0
    assert b.worker.held_count == 0


@virtual
async def test_the_signal_of_a_running_step_is_set_when_the_claim_is_lost(world: World) -> None:
    signals: list[Any] = []

    async def effect() -> None:
        signals.append(step_signal())
        await asyncio.sleep(500 if len(signals) == 1 else 1)

    @world.workflow
    async def flow() -> int:
        await hf.run(effect)
        return 1

    a = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await asyncio.sleep(5)  # the step takes long, and that was written down
    await world.ask(TaskHalt("x"))
    await asyncio.sleep(4)
    assert not signals[0].is_set
    await asyncio.sleep(2)
    lost = [reply.data.lost for reply in a.wire.answered if isinstance(reply.data, HeartbeatReply)]
    assert any(lost), "the heartbeat names the lease that is lost"
    assert signals[0].is_set
    await world.ask(TaskContinue("x"))
    assert await world.result("x") == 1
    assert len(sent(a, "task.fulfill")) == 1


@virtual
async def test_a_lease_that_is_over_by_our_own_clock_is_lost_though_the_node_is_silent(world: World) -> None:
    stopped: list[float] = []

    async def effect() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert step_signal().is_set
            stopped.append(world.loop.time() - frozen_at)
            raise
        return "done"

    @world.workflow
    async def flow() -> str:
        return await hf.run(effect)

    a = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await asyncio.sleep(11)  # one heartbeat was answered
    a.freeze()
    frozen_at = world.loop.time()
    await asyncio.sleep(100)
    assert stopped == [pytest.approx(19, abs=0.1)]
    world.worker()
    assert await world.result("x") == "done"
    assert len(stopped) == 1
    assert (await world.task("x")).version == 2


@virtual
async def test_what_a_step_returns_that_was_told_to_stop_is_not_recorded(world: World) -> None:
    """The node hears our heartbeats and we do not hear its answers: it would take what we write."""
    stopped: list[float] = []

    async def effect() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(world.loop.time())
            return "stopped"
        return "done"

    @world.workflow
    async def flow() -> str:
        return await hf.run(effect)

    def lose_the_answer(requests: Sequence[Request]) -> None:
        if not stopped and requests[0].kind == "task.heartbeat":
            raise ConnectionError

    a = world.worker(lease_s=20)
    a.wire.after = lose_the_answer
    await world.start(flow, id="x")
    assert await world.result("x") == "done"
    assert stopped == [pytest.approx(20, abs=0.1)]
    assert (await world.task("x")).version == 2


@virtual
async def test_a_worker_that_reclaims_its_own_lapsed_task_stops_its_older_self(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        return await hf.run(ledger.slow, "effect", 100)

    a = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await world.until(lambda: len(ledger.entries) == 1)
    a.freeze()
    await asyncio.sleep(30)
    a.thaw()
    assert await world.result("x") == "effect"
    assert (await world.task("x")).version == 2, "the second claim was kept to the end"
    assert len(ledger.entries) == 2
    assert a.worker.held_count == 0


@virtual
async def test_a_write_that_is_refused_stops_the_execution_before_its_next_effect(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> None:
        await hf.run(ledger.slow, "one", 5)
        await hf.run(ledger.note, "two")

    world.worker(lease_s=60)  # the next heartbeat comes long after the write
    await world.start(flow, id="x")
    await world.until(lambda: ledger.entries == ["one"])
    await world.ask(TaskHalt("x"))
    await asyncio.sleep(20)
    assert ledger.entries == ["one"]


# --- the fence ------------------------------------------------------------------------------------------


@virtual
async def test_every_write_of_an_execution_is_fenced(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def child() -> int:
        return 1

    @world.workflow
    async def flow() -> None:
        await hf.run(ledger.note, 1)
        await hf.now()
        await hf.sleep(1)
        await hf.call(child)
        await gather(hf.run(ledger.note, 2), hf.run(ledger.note, 3))

    process = world.worker()
    await world.run(flow)
    allowed = {
        "task.claim",
        "task.fence",
        "task.fulfill",
        "task.suspend",
        "task.heartbeat",
        "promise.get",
        "promise.search",
    }
    assert {*process.wire.kinds()} <= allowed


@virtual
async def test_the_token_grows_from_one_holder_to_the_next_and_is_known_inside_a_step(world: World) -> None:
    tokens: list[int] = []

    async def effect() -> int:
        tokens.append(hf.current().token)
        await asyncio.sleep(5)
        return tokens[-1]

    @world.workflow
    async def flow() -> int:
        return await hf.run(effect)

    a = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await world.until(lambda: len(tokens) == 1)
    await a.die()
    world.worker(lease_s=20)
    assert await world.result("x") == 2
    assert tokens == [1, 2]


@virtual
async def test_a_write_guarded_by_the_token_refuses_a_worker_that_was_replaced(world: World) -> None:
    """A ledger that remembers the highest token it saw: a late holder cannot act after the new one."""
    highest = 0
    written: list[int] = []
    refused: list[int] = []

    async def guarded() -> None:
        nonlocal highest
        token = hf.current().token
        until = world.loop.time() + 50
        while world.loop.time() < until:
            with suppress(asyncio.CancelledError):  # it takes no notice that it was told to stop
                await asyncio.sleep(until - world.loop.time())
        if token < highest:
            refused.append(token)
        else:
            highest = token
            written.append(token)

    @world.workflow
    async def flow() -> None:
        await hf.run(guarded)

    a = world.worker(lease_s=20)
    await world.start(flow, id="x")
    await asyncio.sleep(1)
    a.freeze()
    await asyncio.sleep(25)
    highest = 2  # the new holder announced itself
    world.worker(lease_s=20)
    await world.result("x")
    assert refused == [1]
    assert written == [2]


# --- suspend, fulfil, release ---------------------------------------------------------------------------


@virtual
async def test_an_execution_that_waits_suspends_and_holds_neither_slot_nor_lease(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        await hf.sleep("30d")
        return "later"

    process = world.worker(lease_s=20_000)
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    assert process.worker.held_count == 0
    assert await world.result("x") == "later"
    assert world.loop.time() >= 30 * 86_400
    assert [beat.tasks for beat in sent(process, "task.heartbeat") if beat.tasks] == []


@virtual
async def test_three_hundred_means_go_on(world: World) -> None:
    """Something settled between the look and the suspension: the node answers 300, and the worker goes on."""

    @world.workflow
    async def flow() -> str:
        return await hf.promise(str)

    process = world.worker()

    def settle_first(requests: Any) -> None:
        if requests[0].kind == "task.suspend" and not settling:
            settling.append(asyncio.create_task(world.settle("x:1", "in time")))

    settling: list[Any] = []
    original = process.wire.request

    async def request(requests: Any) -> Any:
        settle_first(requests)
        if settling:
            await settling[0]
        return await original(requests)

    process.wire.request = request  # type: ignore[method-assign]
    assert await world.run(flow) == "in time"
    assert 300 in [reply.status for reply in process.wire.answered]
    assert (await world.task("x")).version == 1, "it was never let go"


@virtual
async def test_a_result_is_settled_and_the_task_completed_in_one_request(world: World) -> None:
    @world.workflow
    async def flow() -> int:
        return 1

    process = world.worker()
    await world.run(flow)
    [fulfil] = sent(process, "task.fulfill")
    assert isinstance(fulfil, TaskFulfill)
    assert fulfil.action.data.id == "x"
    assert "promise.settle" not in process.wire.kinds()


@virtual
async def test_the_error_of_a_workflow_is_its_result(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        raise ValueError("no", 7)

    world.worker()
    with pytest.raises(ValueError, match="no") as caught:
        await world.run(flow)
    assert caught.value.args == ("no", 7)
    assert (await world.task("x")).state == "fulfilled"


@virtual
async def test_a_workflow_that_is_not_registered_is_given_back_with_a_growing_delay(world: World) -> None:
    process = world.worker()
    await world.start("nowhere", id="x")
    await asyncio.sleep(200)
    delays = [release.retry.delay for release in sent(process, "task.release")]
    assert delays[:6] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]
    assert max(delays) == 60_000
    task = await world.task("x")
    assert task.state == "pending"
    assert "nowhere" in task.error


@virtual
async def test_what_one_worker_cannot_run_another_can(world: World) -> None:
    able = Registry()

    async def flow() -> str:
        return "here"

    workflow(flow, able)
    world.worker(Registry())
    await world.start("flow", id="x")
    await asyncio.sleep(0.5)
    world.worker(able)
    assert await world.result("x") == "here"


@virtual
async def test_a_node_that_cannot_be_reached_ends_no_execution(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> list[int]:
        return [await hf.run(ledger.slow, n, 1) for n in range(5)]

    process = world.worker(lease_s=20)
    failing = 0

    def fail_some(requests: Any) -> None:
        nonlocal failing
        if requests[0].kind == "task.fence":
            failing += 1
            if failing in (2, 3):
                raise ConnectionError("the node is away")

    process.wire.before = fail_some
    assert await world.run(flow) == [0, 1, 2, 3, 4]


# --- stopping -------------------------------------------------------------------------------------------


@virtual
async def test_stop_lets_what_runs_finish(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        return await hf.run(ledger.slow, "finished", 5)

    process = world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: ledger.entries == ["finished"])
    await process.stop(grace_s=10)
    assert (await world.promise("x")).state == "resolved"
    assert sent(process, "task.release") == []


@virtual
async def test_stop_claims_nothing_more(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        pass

    process = world.worker()
    await asyncio.sleep(1)
    await process.stop()
    await world.start(flow, id="x")
    await asyncio.sleep(5)
    assert (await world.task("x")).state == "pending"


@virtual
async def test_stop_releases_what_does_not_finish_in_time_and_another_worker_takes_it_at_once(
    world: World,
) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        await hf.run(ledger.note, "recorded")
        return await hf.run(ledger.slow, "long", 60)

    process = world.worker(lease_s=60)
    await world.start(flow, id="x")
    await world.until(lambda: "long" in ledger.entries)
    await process.stop(grace_s=2)
    [release] = sent(process, "task.release")
    assert isinstance(release, TaskRelease)
    assert (await world.task("x")).state == "pending"
    before = world.loop.time()
    world.worker()
    assert await world.result("x") == "long"
    assert world.loop.time() - before < 70, "the lease did not have to lapse"
    assert ledger.entries == ["recorded", "long", "long"]


@virtual
async def test_stop_releases_everything_in_one_request(world: World) -> None:
    ledger = Ledger()
    arrays: list[int] = []

    @world.workflow
    async def flow(n: int) -> str:
        return await hf.run(ledger.slow, n, 60)

    def count(requests: Sequence[Request]) -> None:
        if requests[0].kind == "task.release":
            arrays.append(len(requests))

    process = world.worker()
    process.wire.before = count
    for n in range(10):
        await world.start(flow, n, id=f"x{n}")
    await world.until(lambda: len(ledger.entries) == 10)
    await process.stop(grace_s=2)
    assert arrays == [10]
    assert {(await world.task(f"x{n}")).state for n in range(10)} == {"pending"}


@pytest.mark.parametrize("step_s", [60, 5], ids=["a step", "a write"])
@virtual
async def test_stop_does_not_wait_long_for_a_node_that_is_away(world: World, step_s: float) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow(n: int) -> str:
        return await hf.run(ledger.slow, n, step_s)

    process = world.worker()
    for n in range(3):
        await world.start(flow, n, id=f"x{n}")
    await world.until(lambda: len(ledger.entries) == 3)
    process.freeze()
    await asyncio.sleep(6)
    before = world.loop.time()
    await process.stop(grace_s=2)
    assert world.loop.time() - before < 2 + 6
    assert process.worker.held_count == 0
    world.worker()
    assert [await world.result(f"x{n}") for n in range(3)] == [0, 1, 2]


@virtual
async def test_what_a_claim_brings_that_was_on_its_way_when_the_worker_was_told_to_stop_is_given_back(
    world: World,
) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow(name: str) -> str:
        return await hf.run(ledger.slow, name, 5)

    process = world.worker(lease_s=60)
    await world.start(flow, "x", id="x")
    await world.until(lambda: ledger.entries == ["x"])
    process.wire.after = lambda requests: process.freeze() if requests[0].kind == "task.claim" else None
    await world.start(flow, "y", id="y")
    await world.until_state("y", "acquired")
    stopping = asyncio.create_task(process.stop(grace_s=10))
    await asyncio.sleep(1)
    process.thaw()
    await stopping
    assert ledger.entries == ["x"], "y was not begun"
    assert [release.id for release in sent(process, "task.release")] == ["y"]
    assert (await world.task("y")).state == "pending"


@virtual
async def test_what_a_claim_brings_is_given_back_also_by_a_worker_that_stops_while_it_drives_nothing(
    world: World,
) -> None:
    @world.workflow
    async def flow() -> str:
        return "done"

    process = world.worker(lease_s=60)
    await asyncio.sleep(1)
    process.wire.after = lambda requests: process.freeze() if requests[0].kind == "task.claim" else None
    await world.start(flow, id="x")
    await world.until_state("x", "acquired")
    stopping = asyncio.create_task(process.stop())
    await asyncio.sleep(1)
    process.thaw()
    await stopping
    assert (await world.task("x")).state == "pending"


@virtual
async def test_a_worker_that_stops_does_not_wait_long_for_a_node_that_does_not_answer(world: World) -> None:
    process = world.worker()
    await asyncio.sleep(1)
    process.freeze()
    process.worker.hear(Execute("poll://any@default", TaskRef("x", 0), "A", woken=False))
    await asyncio.sleep(1)
    before = world.loop.time()
    await process.stop(grace_s=10)
    assert world.loop.time() - before < 5


@virtual
async def test_a_step_that_ends_because_its_process_ends_is_not_recorded(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> str:
        return await hf.run(ledger.slow, "done", 5)

    process = world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: ledger.entries == ["done"])
    await process.runner.close()
    await asyncio.sleep(5)
    assert "x:1" not in world.store.promises
    await process.die()
    world.worker()
    assert await world.result("x") == "done", "another worker has performed it again"


@virtual
async def test_what_is_warm_is_no_loss_when_the_worker_stops(world: World) -> None:
    @world.workflow
    async def flow() -> str:
        return await hf.promise(str)

    process = world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    await process.stop()
    world.worker()
    await world.settle("x:1", "rebuilt")
    assert await world.result("x") == "rebuilt"


# --- waiting while steps run ----------------------------------------------------------------------------


@virtual
async def test_a_promise_settled_while_a_step_runs_is_seen_at_once(world: World) -> None:
    ledger = Ledger()

    @world.workflow
    async def flow() -> Any:
        winner = await race([hf.promise(str), hf.run(ledger.slow, "slow", 1_000)])
        return winner, (await hf.now()).timestamp()

    world.worker()
    await world.start(flow, id="x")
    await world.until(lambda: ledger.entries == ["slow"])
    await asyncio.sleep(5)
    await world.settle("x:1", "quick")
    winner, at = await world.result("x")
    assert winner == "quick"
    assert at < 10


@virtual
async def test_the_acquire_of_a_stale_offer_is_refused(world: World) -> None:
    @world.workflow
    async def flow() -> None:
        await hf.promise()

    world.worker()
    await world.start(flow, id="x")
    await world.until_state("x", "suspended")
    reply = await world.ask(TaskAcquire("x", 0, "other", 1_000))
    assert reply.status == 409
