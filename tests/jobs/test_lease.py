"""A task is run only as long as its lease lasts, by the worker's own clock too: in virtual time."""

import asyncio

import pytest

import holdfast as hf
from holdfast.host.host import Host
from holdfast.host.slots import SlotGroup
from holdfast.jobs.options import SendOptions
from holdfast.jobs.runner import JobRunner
from holdfast.jobs.send_request import SendRequest, make_orders
from holdfast.jobs.task import AnyTask
from holdfast.runtime.step import step_signal
from holdfast.steps.runner import StepRunner
from tests.workflow.world import Wire, World, virtual


async def sent(world: World, task: AnyTask) -> str:
    [order] = make_orders(
        task,
        SendOptions(),
        [((), {})],
        sent_at=world.loop.millis(),
        queue_priority=None,
        payloads=world.payloads,
        fresh=lambda: "1",
    )
    assert isinstance(order, SendRequest)
    await world.ask(order.creation)
    return order.creation.id


def worker_on(world: World, app: hf.App, wire: Wire) -> Host:
    host = Host(wire, pid="w1", lease_s=20, now=world.loop.millis)
    host.serve(
        SlotGroup(["queue.default"], 100), JobRunner(world.payloads, app.tasks, StepRunner(), pid="w1")
    )
    return host


@virtual
async def test_a_task_whose_lease_is_over_by_our_own_clock_is_stopped_though_the_node_is_silent(
    world: World,
) -> None:
    app = hf.App("memory:")
    stopped: list[float] = []

    @app.task(retry=hf.Retry.fixed([1]))
    async def work() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert step_signal().is_set
            stopped.append(world.loop.time() - cut_at)
            return "stopped"
        return "done"

    wire = Wire(world.node)
    task_id = await sent(world, work)
    worker = worker_on(world, app, wire)
    await asyncio.sleep(11)  # one heartbeat was answered
    wire.cut()
    cut_at = world.loop.time()
    await asyncio.sleep(100)
    assert stopped == [pytest.approx(19, abs=0.1)]
    wire.mend()
    assert "done" in await world.result(task_id)
    assert len(stopped) == 1
    await worker.stop()
