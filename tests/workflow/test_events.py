"""Events in workflows and from outside: awaited by name and match, sent once, starting executions."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Struct

import holdfast as hf
from holdfast.testing import Ledger, World as App_World, crash_everywhere


def test_an_event_wakes_whoever_waits_for_a_match_and_gives_its_attributes() -> None:
    app = hf.App()

    @app.workflow
    async def onboarding(user: str) -> dict[str, Any]:
        return await hf.event("user.verified", user=user, timeout="7d")

    with App_World(app) as world:
        ada, bob = (app.start(onboarding, name, id=f"o-{name}") for name in ("ada", "bob"))
        world.elapse("1m")
        app.event("user.verified", user="ada", score=3)
        assert ada.result() == {"user": "ada", "score": 3}
        assert bob.info().state == "suspended"
        assert bob.info().waits[0].what == "event user.verified"
        app.event("user.verified", user="bob", score=4)
        assert bob.result()["score"] == 4


class Verified(Struct):
    user: str
    score: int


def test_an_early_event_is_found_by_looking_back_and_typed() -> None:
    app = hf.App()

    @app.workflow
    async def late(user: str) -> int:
        found = await hf.event("user.verified", user=user, look_back="1h", returns=Verified)
        return found.score

    with App_World(app) as world:
        app.event("user.verified", user="ada", score=7)
        world.elapse("10m")
        assert app.start(late, "ada").result() == 7


def test_a_wait_for_an_event_times_out_and_loses_races() -> None:
    app = hf.App()

    @app.workflow
    async def impatient() -> str:
        with suppress(hf.TimedOut):
            await hf.event("never", timeout="1m")

        async def slow() -> str:
            await hf.sleep("1m")
            return "slept"

        return str(await hf.race(hf.event("never"), slow()))

    with App_World(app):
        assert app.start(impatient).result() == "slept"


def test_work_is_cancelled_on_an_event() -> None:
    app = hf.App()

    @app.workflow
    async def until_cancelled(order: str) -> str:
        async def work() -> str:
            await hf.sleep("30d")
            return "shipped"

        async def cancelled() -> str:
            await hf.event("order.cancelled", order=order)
            return "cancelled"

        return await hf.race(work(), cancelled())

    with App_World(app) as world:
        handle = app.start(until_cancelled, "o-1")
        world.elapse("1d")
        app.event("order.cancelled", order="o-2")
        app.event("order.cancelled", order="o-1")
        assert handle.result() == "cancelled"


def test_a_workflow_sends_an_event_once_and_another_hears_of_it() -> None:
    app = hf.App()

    @app.workflow
    async def sender() -> None:
        await hf.send_event("done", what="report")

    @app.workflow
    async def hearer() -> str:
        return str((await hf.event("done", what="report"))["what"])

    with App_World(app) as world:
        handle = app.start(hearer)
        world.elapse("1s")
        app.start(sender, id="s").result()
        assert handle.result() == "report"


def test_each_event_starts_a_workflow_once_by_its_id() -> None:
    app = hf.App()
    greeted: list[str] = []

    def greet(name: str) -> None:
        greeted.append(name)

    @app.on("user.signed_up")
    @app.workflow
    async def welcome(event: Verified) -> str:
        await hf.run(greet, event.user)
        return event.user

    with App_World(app) as world:
        for _ in range(3):
            app.event("user.signed_up", user="ada", score=1, id="evt-1")
        app.event("user.signed_up", user="bob", score=1, id="evt-2")
        world.elapse("1m")
        assert sorted(greeted) == ["ada", "bob"]
        assert app.handle("welcome-evt-1").result() == "ada"


def test_events_in_a_workflow_of_asyncio() -> None:
    app = hf.App()

    @app.workflow(loop="asyncio")
    async def both() -> list[Any]:
        first, second = await asyncio.gather(hf.event("a"), hf.event("b"))
        return [first["n"], second["n"]]

    with App_World(app) as world:
        handle = app.start(both)
        world.elapse("1s")
        app.event("b", n=2)
        app.event("a", n=1)
        assert handle.result() == [1, 2]


def test_a_worker_killed_anywhere_misses_no_event() -> None:
    app = hf.App()
    ledger = Ledger()

    def enter(what: str) -> None:
        ledger.enter(what)

    @app.workflow
    async def careful() -> str:
        await hf.send_event("ready", who="me")
        found = await hf.event("ready", who="me", look_back="1h")
        await hf.run(enter, f"heard {found['who']}")
        try:
            await hf.event("never", timeout="1s")
        except hf.TimedOut:
            return "done"
        return "?"

    proof = crash_everywhere(careful, app=app, ledger=ledger)
    assert proof.result == "done"
    assert ledger.entries == ["heard me"]


def test_many_waits_are_all_woken_by_a_node_in_portions() -> None:
    app = hf.App()

    @app.workflow
    async def many(count: int) -> int:
        found = await hf.gather(*[hf.event("start") for _ in range(count)])
        return len(found)

    with App_World(app) as world:
        handles = [app.start(many, 40, id=f"m{number}") for number in range(20)]
        world.elapse("1m")
        app.event("start", n=1)
        assert [handle.result() for handle in handles] == [40] * 20


def test_what_cannot_be_an_event_is_refused_at_once() -> None:
    app = hf.App()
    with App_World(app):
        with pytest.raises(hf.errors.BadEvent):
            app.event("")
        attributes: dict[str, Any] = {f"a{number}": number for number in range(33)}
        with pytest.raises(hf.errors.BadEvent):
            app.event("x", **attributes)
