"""What a worker remembers is bounded, and keeps nothing of users alive."""

import asyncio
import gc
import weakref

import holdfast as hf
from holdfast.workflow import runner
from tests.workflow.world import World, virtual


class Large:
    """What a closure captures."""


@virtual
async def test_a_step_that_is_a_closure_is_let_go_of_once_its_execution_is_over(world: World) -> None:
    captured: list[weakref.ref[Large]] = []

    @world.workflow
    async def flow() -> None:
        large = Large()
        captured.append(weakref.ref(large))

        async def step() -> str:
            return type(large).__name__

        await hf.run(step)

    world.worker()
    await world.run(flow)
    await asyncio.sleep(1)
    gc.collect()
    assert [each() for each in captured] == [None]


@virtual
async def test_a_worker_remembers_only_the_latest_of_what_it_could_not_run(world: World) -> None:
    process = world.worker()
    for number in range(runner.failures_max + 50):
        await world.start("unheard of", id=f"x-{number}")
    await asyncio.sleep(1)
    failures = process.workflows._failures  # pyright: ignore[reportPrivateUsage]
    assert 0 < len(failures) <= runner.failures_max
