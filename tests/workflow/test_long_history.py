"""A claim has room for so much of what an execution recorded. The worker reads the rest before it goes on."""

import pytest

from holdfast.protocol import limits
from holdfast.protocol.cancelling import ask_to_cancel
from holdfast.workflow import functions as hf
from tests.counts import rest_slow
from tests.requests import ask
from tests.seeds import chosen_seed
from tests.workflow.test_replay import run_one
from tests.workflow.world import World, virtual

SEED = chosen_seed()


@virtual
async def test_no_step_is_performed_again_because_its_record_did_not_fit_into_the_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "preload_bytes_max", 1_500)
    performed: list[int] = []

    async def perform(number: int) -> None:
        performed.append(number)

    async def flow() -> int:
        for number in range(30):
            await hf.run(perform, number)
        await hf.sleep(3_600)
        return len(performed)

    made = world.workflow(flow)
    first = world.worker()
    await world.start(made, id="x")
    await world.until_state("x", "suspended")
    await first.die()
    second = world.worker()
    assert await world.result("x") == 30
    assert performed == [*range(30)]
    assert "promise.search" in second.wire.kinds()


@pytest.mark.parametrize("warm", [True, False])
def test_a_request_to_cancel_that_is_not_preloaded_is_seen(
    warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "preload_bytes_max", 600)

    @virtual
    async def run(world: World) -> None:
        async def step() -> None:
            pass

        async def flow() -> None:
            await hf.run(step)
            await hf.promise(int)
            await hf.sleep(3_600)

        made = world.workflow(flow)
        process = world.worker(warm_max=1 if warm else 0)
        await world.start(made, id="x")
        await world.until_state("x", "suspended")
        before = world.loop.millis()
        process.freeze()
        await world.settle("x:2", 1)  # wakes it: the claim names this one alone
        await world.node.request([ask(data) for data in ask_to_cancel("x", "x")])
        process.thaw()
        assert (await world.settled("x")).state == "rejected_canceled"
        assert world.loop.millis() - before < 1_000

    run()


@pytest.mark.parametrize("bytes_max", rest_slow([700, 0, 2_000], quick=1))
def test_random_workflows_replay_alike_however_much_is_preloaded(
    bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "preload_bytes_max", bytes_max)
    print(f"HOLDFAST_SEED={SEED}")
    for number in range(25):
        run_one(SEED + number)
