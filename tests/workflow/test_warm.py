"""A worker that keeps a long execution in memory is not given all its records again with every claim."""

import asyncio

import pytest

from holdfast.protocol.replies import ClaimReply
from holdfast.protocol.requests import ExecutionCancel
from holdfast.runtime import Cancelled
from holdfast.workflow import functions as hf
from holdfast.workflow.messages import mailbox
from holdfast.workflow.progress_end import many_records
from tests.workflow.talk import ask, tell
from tests.workflow.world import WorkerProcess, World, virtual


def preloads(process: WorkerProcess) -> list[int]:
    """How many records came with each task that it was granted."""
    replies = [reply.data for reply in process.wire.answered if isinstance(reply.data, ClaimReply)]
    return [len(claim.preload) for reply in replies for claim in reply.tasks]


def nothing() -> None:
    pass


async def clerk() -> int:
    count = 0
    async for message in mailbox(str):
        if message.value == "stop":
            return count
        message.answer(count)
        count += 1
    raise AssertionError


@virtual
async def test_a_long_conversation_is_not_preloaded_again_for_every_message(world: World) -> None:
    process = world.worker()
    await world.start(world.workflow(clerk), id="x")
    for number in range(3 * many_records):
        assert await world.result(await ask(world, "x", "hello")) == number
        await asyncio.sleep(1)
    await tell(world, "x", "stop")
    assert await world.result("x") == 3 * many_records
    found = preloads(process)
    assert len(found) > 2 * many_records
    assert max(found) <= many_records + 1
    assert not any(found[-many_records:])


@virtual
async def test_whoever_takes_over_a_long_execution_reads_all_of_it(world: World) -> None:
    first = world.worker(warm_max=1)
    await world.start(world.workflow(clerk), id="x")
    for number in range(2 * many_records):
        assert await world.result(await ask(world, "x", "hello")) == number
        await asyncio.sleep(1)
    assert preloads(first)[-1] == 0
    await first.die()
    second = world.worker()
    await tell(world, "x", "stop")
    assert await world.result("x") == 2 * many_records
    assert preloads(second)[0] >= 2 * many_records


@virtual
@pytest.mark.parametrize("when_s", [5.0, 15.0])
async def test_what_settles_beside_the_message_that_woke_it_is_seen(world: World, when_s: float) -> None:
    """It waits for two things, and is told of one: it looks at the other."""

    async def busy() -> list[str]:
        for _ in range(many_records + 1):
            await hf.run(nothing)
        timer = hf.sleep(10)
        message = mailbox(str).next()
        first = (await message).value
        await timer
        return [first]

    world.worker()
    await world.start(world.workflow(busy), id="x")
    await world.until_state("x", "suspended")
    await asyncio.sleep(when_s)
    await tell(world, "x", "hello")
    assert await world.result("x") == ["hello"]


@virtual
async def test_a_long_execution_is_cancelled_though_a_message_has_woken_it(world: World) -> None:
    async def busy() -> str:
        for _ in range(many_records + 1):
            await hf.run(nothing)
        try:
            async for _ in mailbox(str):
                pass
        except Cancelled:
            return "cancelled"
        raise AssertionError

    process = world.worker()
    await world.start(world.workflow(busy), id="x")
    await world.until_state("x", "suspended")
    process.freeze()
    await tell(world, "x", "hello")
    await world.ask(ExecutionCancel("x"))
    await asyncio.sleep(1)
    process.thaw()
    assert await world.result("x") == "cancelled"


@virtual
async def test_a_long_execution_that_was_cancelled_does_nothing_for_the_message_that_woke_it(
    world: World,
) -> None:
    """It is told of the message alone. That it was asked to cancel before, it finds out before it goes on."""
    handled: list[str] = []

    async def pass_by() -> None:
        pass

    async def handle(message: str) -> None:
        handled.append(message)

    async def busy() -> str:
        for _ in range(many_records + 1):
            await hf.run(pass_by)
        message = await mailbox(str).next()
        await hf.run(handle, message.value)
        return "done"

    process = world.worker()
    await world.start(world.workflow(busy), id="x")
    await world.until_state("x", "suspended")
    process.freeze()
    await tell(world, "x", "hello")
    await world.ask(ExecutionCancel("x"))
    await asyncio.sleep(1)
    process.thaw()
    assert (await world.settled("x")).state == "rejected_canceled"
    assert not handled
