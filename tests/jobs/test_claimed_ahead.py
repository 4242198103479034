"""Tasks that a worker has claimed and not begun: a pause and a rate hold for them as for all others."""

import asyncio
from datetime import datetime, timedelta

from msgspec.structs import replace

import holdfast as hf
from holdfast.host.slots import TaskSettings
from holdfast.testing import World


def app_with(prefetch: int) -> hf.App:
    app = hf.App()
    app.settings = replace(app.settings, tasks=TaskSettings(concurrency=1, prefetch=prefetch))
    return app


def test_what_is_claimed_ahead_does_not_begin_while_its_queue_is_paused() -> None:
    app, begun = app_with(prefetch=5), list[int]()
    queue = app.queue("mail")

    @app.task(queue="mail")
    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(10)

    with World(app) as world:
        handles = work.send_many([(number,) for number in range(6)])
        world.elapse(5)
        states = [handle.info().status.value for handle in handles]
        assert states == ["RUNNING", *["CLAIMED"] * 5]
        queue.pause()
        world.elapse(60)
        assert begun == [0]
        states = [handle.info().status.value for handle in handles]
        assert states == ["COMPLETED", *["PENDING"] * 5]
        queue.resume()
        for handle in handles:
            assert handle.get().is_ok
        assert begun == [0, 1, 2, 3, 4, 5]
        assert all(len(handle.info().attempts) == 1 for handle in handles)


def test_no_more_begin_in_any_stretch_than_the_rate_says_though_many_are_claimed_ahead() -> None:
    app, begun = app_with(prefetch=20), list[datetime]()
    app.queue("mail", rate="2/s")

    @app.task(queue="mail")
    async def work(seconds: float) -> None:
        begun.append(world.now)
        await asyncio.sleep(seconds)

    with World(app) as world:
        sent = work.send_many([(4.0,), *[(0.0,)] * 9])
        assert all(each.get().is_ok for each in sent)
    assert len(begun) == 10
    for first in begun:
        assert len([at for at in begun if first <= at < first + timedelta(seconds=1)]) <= 2
    assert begun[-1] - begun[0] < timedelta(seconds=10), "and it does not dawdle"
