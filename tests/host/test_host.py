"""One host for workflows and background tasks: one heartbeat, one way to claim, one order of stopping."""

import asyncio
from collections.abc import Sequence

import holdfast as hf
from holdfast.client.errors import OutcomeUnknown
from holdfast.host.slots import SlotGroup
from holdfast.jobs.runner import JobRunner
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request, TaskHeartbeat
from tests.jobs.test_lease import sent
from tests.workflow.world import WorkerProcess, World, virtual


def serve_tasks(process: WorkerProcess, app: hf.App, grace_s: float = 60.0) -> None:
    """From now on this worker runs the background tasks of an app too."""
    runner = JobRunner(process.world.payloads, app.tasks, process.runner, pid=process.name, grace_s=grace_s)
    process.worker.listen_in("queue.default")
    process.worker.serve(SlotGroup(["queue.default"], 10), runner)


async def rest(seconds: float, result: str) -> str:
    await asyncio.sleep(seconds)
    return result


@virtual
async def test_executions_of_a_claim_whose_reply_was_lost_are_driven_without_waiting_for_the_lease(
    world: World,
) -> None:
    @world.workflow
    async def flow() -> str:
        return "done"

    process = world.worker(lease_s=600)
    await asyncio.sleep(1)
    lost = 0

    def lose_one(requests: Sequence[Request]) -> None:
        nonlocal lost
        if not lost and requests[0].kind == "task.claim":
            lost += 1
            raise OutcomeUnknown("The connection broke")

    process.wire.after = lose_one
    await world.start(flow, id="x")
    assert await world.result("x") == "done"
    assert lost == 1
    assert world.loop.time() < 60
    assert (await world.task("x")).version == 2


@virtual
async def test_a_claim_that_is_refused_is_made_again_after_a_rest(world: World) -> None:
    process = world.worker()
    original, claims = process.wire.request, 0

    async def refuse(requests: Sequence[Request]) -> list[Reply]:
        nonlocal claims
        if requests[0].kind != "task.claim":
            return await original(requests)
        claims += 1
        return [Reply(403, "not yours")]

    process.wire.request = refuse  # type: ignore[method-assign]
    await asyncio.sleep(10)
    assert 5 <= claims <= 11


@virtual
async def test_one_heartbeat_is_for_executions_and_background_tasks(world: World) -> None:
    app = hf.App("memory:")

    @app.task
    async def work() -> str:
        return await rest(25, "worked")

    @world.workflow
    async def flow() -> str:
        return await hf.run(rest, 25, "flowed")

    process = world.worker(lease_s=20)
    serve_tasks(process, app)
    task = await sent(world, work)
    await world.start(flow, id="x")
    assert await world.result("x") == "flowed"
    assert "worked" in await world.result(task)
    beats = [each.data for each in process.wire.sent if isinstance(each.data, TaskHeartbeat)]
    assert [sorted(ref.id for ref in beat.tasks) for beat in beats] == [sorted(["x", task])] * 2


@virtual
async def test_stop_gives_back_executions_in_time_though_background_tasks_may_take_longer(
    world: World,
) -> None:
    app = hf.App("memory:")

    @app.task
    async def work() -> str:
        return await rest(30, "worked")

    @world.workflow
    async def flow() -> str:
        return await hf.run(rest, 1_000, "flowed")

    process = world.worker(lease_s=60)
    process.workflows.grace_s = 5.0
    serve_tasks(process, app, grace_s=60.0)
    task = await sent(world, work)
    await world.start(flow, id="x")
    await asyncio.sleep(1)
    began_s = world.loop.time()
    stopping = asyncio.create_task(process.worker.stop())
    await world.until_state("x", "pending")
    assert 5 <= world.loop.time() - began_s < 7
    await stopping
    assert 28 <= world.loop.time() - began_s < 32, "as long as the task took, and no longer"
    assert (await world.task("x")).version == 1
    assert "worked" in await world.result(task)
    assert process.worker.held_count == 0
