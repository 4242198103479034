"""In asyncio, what was asked for before and not awaited reaches the node before what is asked for later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.host.clock_turn import ClockTurn
from tests.processes import Server

WAIT_S = 60.0


@pytest.fixture(params=["embedded", "http"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hf.App]:
    """Not open: the first that is asked for may have to learn the clock of the node."""
    if request.param == "embedded":
        yield make_app(f"sqlite:///{tmp_path}/holdfast.db")
        return
    with Server(tmp_path) as server:
        yield make_app(server.url)


def make_app(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def listen(count: int) -> list[int]:
        seen: list[int] = []
        async for message in hf.mailbox(int):
            seen.append(message.value)
            message.answer(len(seen))
            if len(seen) == count:
                break
        return seen

    @app.workflow
    async def approval() -> bool:
        return await hf.promise(bool, name="approval")

    return app


async def test_a_question_goes_behind_a_start_that_nobody_has_awaited(app: hf.App) -> None:
    async with app, asyncio.timeout(WAIT_S):
        handle = app.start("listen", 1, id="l")
        assert await app.ask("l", 7) == 1
        assert await handle == [7]


async def test_a_question_goes_behind_messages_that_nobody_has_awaited(app: hf.App) -> None:
    async with app, asyncio.timeout(WAIT_S):
        handle = app.start("listen", 4, id="l")
        app.tell("l", 1)
        assert await app.ask("l", 2) == 2
        app.tell("l", 3)
        assert await app.ask("l", 4) == 4
        assert await handle == [1, 2, 3, 4]


async def test_what_is_told_once_a_start_was_awaited_comes_before_a_later_question() -> None:
    app = make_app("memory:")
    async with app, asyncio.timeout(WAIT_S):
        listen = app.registry.find("listen", 1)
        assert isinstance(listen, hf.types.Workflow)
        handle = await listen.with_options(id="l").start_and_tell(1, 3)
        app.tell("l", 2)
        assert await app.ask("l", 3) == 3
        assert await handle == [1, 2, 3]


@pytest.mark.parametrize("how", ["tell", "ask", "resolve"])
async def test_nothing_overtakes_a_start_that_learns_the_clock_first(app: hf.App, how: str) -> None:
    async with app, asyncio.timeout(WAIT_S):
        workflow = app.registry.find("approval" if how == "resolve" else "listen", 1)
        assert isinstance(workflow, hf.types.Workflow)
        begin = workflow.with_options(id="l", timeout="1h")
        handle = begin.start() if how == "resolve" else begin.start(1)
        if how == "tell":
            await app.tell("l", 5)
        elif how == "ask":
            await app.ask("l", 5)
        else:
            await app.resolve("l", True, name="approval")
        assert await handle == (True if how == "resolve" else [5])


async def test_those_who_wait_for_the_clock_go_on_in_their_order() -> None:
    turn, order, known = ClockTurn(), list[str](), list[bool]()
    may_answer = asyncio.Event()

    async def ask() -> None:
        await may_answer.wait()
        known.append(True)

    async def come(name: str) -> None:
        await turn.learn(lambda: bool(known), ask)
        order.append(name)

    async def follow() -> None:
        await turn.go_behind()
        order.append("behind")

    waiting = [asyncio.ensure_future(each) for each in (come("first"), come("second"), follow())]
    await asyncio.sleep(0)
    may_answer.set()
    waiting += [asyncio.ensure_future(come("later"))]
    await asyncio.gather(*waiting)
    assert order == ["first", "second", "behind", "later"]
    assert known == [True]


async def test_a_node_that_cannot_be_asked_for_its_clock_fails_all_who_waited_at_once() -> None:
    turn, asked = ClockTurn(), list[str]()
    may_fail = asyncio.Event()

    async def ask() -> None:
        asked.append("asked")
        await may_fail.wait()
        raise OSError("nobody there")

    waiting = [asyncio.ensure_future(turn.learn(lambda: False, ask)) for _ in range(3)]
    await asyncio.sleep(0)
    may_fail.set()
    failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(each) for each in failed] == ["nobody there"] * 3
    with pytest.raises(OSError, match="nobody there"):
        await turn.learn(lambda: False, ask)  # whoever comes later asks again
    assert asked == ["asked", "asked"]
