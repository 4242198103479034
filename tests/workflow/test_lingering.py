"""An execution keeps its claim while messages come one right after the other, and only then."""

import asyncio
from collections.abc import Sequence

from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import Request
from holdfast.workflow.lingering import Lingering, executions_max, moment_s_max
from holdfast.workflow.messages import mailbox
from tests.workflow.talk import tell
from tests.workflow.world import WorkerProcess, World, virtual

write_s = 0.01


def slow(process: WorkerProcess) -> WorkerProcess:
    """Every write of this worker takes a while."""
    request = process.wire.request

    async def later(requests: Sequence[Request]) -> list[Reply]:
        await asyncio.sleep(write_s)
        return await request(requests)

    process.wire.request = later  # type: ignore[method-assign]
    return process


async def converse(world: World, pause_s: float, messages: int = 20) -> list[str]:
    """What a worker asks of the node while it is told so many, each so long after it has seen the last."""
    seen: list[int] = []

    async def listener() -> list[int]:
        async for message in mailbox(int):
            seen.append(message.value)
            if message.value == messages:
                return seen
        raise AssertionError

    process = slow(world.worker())
    await world.start(world.workflow(listener), id="x")
    for number in range(1, messages + 1):
        await tell(world, "x", number)
        await world.until(lambda number=number: len(seen) >= number, 0.001)
        await asyncio.sleep(pause_s)
    assert await world.result("x") == [*range(1, messages + 1)]
    return process.wire.kinds()


@virtual
async def test_messages_that_come_one_right_after_the_other_need_no_claim_each(world: World) -> None:
    asked = await converse(world, pause_s=2 * write_s)
    assert asked.count("task.claim") <= 5
    assert asked.count("task.suspend") <= 2


@virtual
async def test_messages_that_come_slowly_cost_no_write_more(world: World) -> None:
    asked = await converse(world, pause_s=60.0)
    assert asked.count("promise.register_listener") == 0


def test_a_moment_is_as_long_as_a_few_writes_and_never_long() -> None:
    lingering = Lingering()
    assert not lingering.pays(1, is_entity=False)
    assert lingering.pays(1, is_entity=True)
    assert not lingering.pays(executions_max + 1, is_entity=True)
    lingering.suspended(began_s=10.0, now_s=10.01)
    assert 0.03 < lingering.moment_s < 0.05
    lingering.resumed(10.03)
    assert lingering.pays(1, is_entity=False)
    lingering.suspended(began_s=11.0, now_s=11.01)
    lingering.resumed(11.07)
    assert not lingering.pays(1, is_entity=False)
    lingering.wrote(20.0, 30.0)
    assert lingering.moment_s == moment_s_max


def test_a_moment_in_which_nothing_came_is_the_last() -> None:
    lingering = Lingering()
    lingering.ended(has_changes=True)
    assert lingering.pays(1, is_entity=False)
    lingering.ended(has_changes=False)
    assert not lingering.pays(1, is_entity=False)
