"""A worker that stops gives back what would run on and on: at the end of a generation, between two calls."""

import asyncio

import pytest

import holdfast as hf
from holdfast.protocol import limits
from holdfast.protocol.generations import generation_of
from holdfast.protocol.records import Value
from holdfast.protocol.replies import StreamAppendReply
from holdfast.protocol.requests import StreamAnswer, StreamAppend
from holdfast.workflow.entities import body_of, creation_of, declare_entity, encode_request
from holdfast.workflow.registry import WorkflowDefinition
from tests.workflow.world import World, group, virtual

grace_s = 1_000.0


async def pause() -> None:
    await asyncio.sleep(1)


async def until(world: World, generation: int, name: str) -> None:
    while generation_of(world.store.promises[name]).number < generation:  # noqa: ASYNC110  # virtual time
        await asyncio.sleep(1)


async def ask(world: World, execution: str, call: Value) -> str:
    """The id of the promise of the answer."""
    reply = await world.ask(StreamAppend(execution, "in", call, answer=StreamAnswer(limits.instant_ms_max)))
    assert isinstance(reply.data, StreamAppendReply), reply
    assert reply.data.answer is not None
    return reply.data.answer.id


@virtual
@pytest.mark.parametrize("drain_ends", [False, True], ids=["", "though its drain ends"])
async def test_an_execution_that_continues_as_new_is_given_back_by_a_worker_that_stops(
    world: World, drain_ends: bool
) -> None:
    async def spin(number: int = 0) -> int:
        await hf.run(pause)
        if number < 20:
            hf.continue_as_new(number + 1)
        return number

    first = world.worker()
    await world.start(world.workflow(spin), id="x")
    await until(world, 3, "x")
    began_s = world.loop.time()
    stopping = asyncio.ensure_future(first.stop(grace_s))
    await asyncio.sleep(0)
    if drain_ends:  # as the node tells it with its answer to a report
        first.worker.drain(on=False)
    await stopping
    assert world.loop.time() - began_s < 10
    assert world.store.tasks["x"].state == "pending"
    assert generation_of(world.store.promises["x"]).number < 10
    world.worker()
    assert await world.result("x") == 20


@virtual
async def test_an_entity_under_constant_calls_is_given_back_between_two_of_them(world: World) -> None:
    class Tally(hf.Entity):
        count: int = 0

        async def add(self) -> int:
            await hf.run(pause)
            self.count += 1
            return self.count

    entity = declare_entity(Tally)
    world.registry.add(WorkflowDefinition(body_of(entity), "Tally", 1, None, None, is_kept_warm=False))
    creation = creation_of(entity, "t", group, world.payloads)
    await world.ask(creation)
    call = encode_request(entity, "add", (), {}, world.payloads)
    answers = [await ask(world, creation.id, call) for _ in range(20)]
    first = world.worker()
    await until(world, 3, creation.id)
    began_s = world.loop.time()
    await first.stop(grace_s)
    assert world.loop.time() - began_s < 10
    assert world.store.tasks[creation.id].state == "pending"
    world.worker()
    await until(world, 20, creation.id)
    settled = [world.store.promises[each].value for each in answers]
    assert [world.payloads.decode(value, int) for value in settled] == [*range(1, 21)]
