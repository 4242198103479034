"""What a step follows from is on disk before the step begins."""

import asyncio

from holdfast.workflow import functions as hf
from tests.workflow.world import World, virtual


@virtual
async def test_a_step_begins_only_after_the_choices_that_led_to_it_are_durable(world: World) -> None:
    performed: list[float] = []
    process = world.worker()

    async def step(chosen: float) -> None:
        performed.append(chosen)

    @world.workflow
    async def flow() -> None:
        chosen = await hf.random()
        if not performed:
            process.freeze()  # from here on nothing that this worker writes arrives
        await hf.run(step, chosen)

    await world.start(flow, id="x")
    await asyncio.sleep(1)
    assert performed == []
    process.thaw()
    await world.result("x")
    assert len(performed) == 1
