"""The record of a step says when it began, how long it took, in how many attempts and where."""

import asyncio

import holdfast as hf
from holdfast.protocol.operations import Ran
from holdfast.protocol.records import NOTHING, Promise, Value
from holdfast.testing import World

app = hf.App()


async def work(seconds: float) -> None:
    await asyncio.sleep(seconds)
    if hf.current().attempt < 3:
        raise ConnectionError


@app.workflow
async def order() -> None:
    await hf.sleep("1m")
    await hf.run(work, 5, retry=hf.Retry(attempts=3, delay=0.5, factor=1, jitter=0))


def test_a_step_is_recorded_with_its_beginning_duration_attempts_and_worker() -> None:
    with World(app) as world:
        began_at = world.loop.millis() + 60_000
        app.start(order, id="o").result()
        step = next(each for each in world.journal("o") if each.id == "o:2")
        ran = Ran.of(step)
        assert ran is not None
        assert (ran.began_at, ran.took_ms, ran.attempts) == (began_at, 16_000, 3)
        assert ran.worker == world.worker_context().address.rpartition("/")[2]
        assert step.settled_at == began_at + 16_000


def test_what_others_wrote_there_is_not_believed() -> None:
    for text in ("", "1", "a b c d", "1 nan 1 w", "1 2 x w", f"{'9' * 5_000} 1 1 w"):
        promise = Promise("p", "resolved", NOTHING, Value({"holdfast:ran": text}), {}, 1, 0, 0)
        assert Ran.of(promise) is None
    assert Ran.of(Promise("p", "resolved", NOTHING, NOTHING, {}, 1, 0, 0)) is None
