"""Conversations in the testing kit: a world tells, asks and reads; a crash at any write changes nothing."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.protocol.errors import ExecutionOver, NoSuchExecution
from holdfast.runtime import TimedOut, race, spawn
from holdfast.testing import Simulation, World, crash_everywhere, simulate
from holdfast.testing.ledger import Ledger
from holdfast.workflow.emitting import emit, publish
from holdfast.workflow.messages import ask, attach, mailbox, receive, tell

app = hf.App("sqlite:///unused.db")
ledger = Ledger()


def pack(item: str) -> str:
    ledger.enter(f"packed {item}")
    emit("packing", item)
    return item.upper()


@app.workflow
async def basket(count: int) -> list[str]:
    items: list[str] = []
    async for message in mailbox(str):
        if message.value == "?":
            message.answer(len(items))
            continue
        items.append(await hf.run(pack, message.value))
        message.answer(items[-1])
        await publish("size", len(items))
        if len(items) == count:
            return items
    raise AssertionError


@app.workflow
async def impatient() -> list[Any]:
    seen: list[Any] = []

    async def tick() -> None:
        for number in range(3):
            await hf.sleep(10)
            seen.append(f"tick {number}")
            emit("ticks", number)

    ticking = spawn(tick)
    while len(seen) < 6:
        try:
            seen.append(await receive(int, timeout=4))
        except TimedOut:
            seen.append("late")
        if await race(hf.sleep(1), receive(int), cancel_losers=True) is not None:
            seen.append("raced")
    await ticking
    return seen


@app.workflow
async def pinger(other: str) -> list[int]:
    replies = [await ask(other, number, returns=int) for number in range(3)]
    await tell(other, -1)
    return [*replies, await attach(other, returns=int)]


@app.workflow
async def ponger() -> int:
    count = 0
    async for message in mailbox(int):
        if message.value < 0:
            return count
        count += 1
        message.answer(message.value * 10)
    raise AssertionError


def test_a_world_tells_asks_and_reads() -> None:
    with World(app) as world:
        handle = app.start(basket, 2, id="b")
        world.tell("b", "tea", key="evt-1")
        world.tell("b", "tea", key="evt-1")
        assert world.ask("b", "?", returns=int, timeout="1m") == 1
        assert world.published("b", "size") == 1
        assert world.ask("b", "milk") == "MILK"
        assert handle.result() == ["TEA", "MILK"]
        assert world.stream("b", "packing") == ["tea", "milk"]
        assert world.published("b", "size", returns=int) == 2
        with pytest.raises(KeyError):
            world.published("b", "nothing")
        with pytest.raises(ExecutionOver):
            world.tell("b", "late")
        with pytest.raises(NoSuchExecution):
            world.ask("c", "?")


async def fill() -> None:
    # In the world of the run: by requests of the app's own session.
    from holdfast.client.caller import Caller
    from holdfast.payloads.messages import encode_message
    from holdfast.payloads.payloads import Payloads
    from holdfast.protocol.replies import StreamAppendReply
    from holdfast.protocol.requests import StreamAppend

    caller = Caller(app.session._client)  # pyright: ignore[reportPrivateUsage]
    for number, word in enumerate(("tea", "?", "milk")):
        value = encode_message(Payloads(), word)
        await caller.ask(StreamAppend("crash-test", "in", value, f"k{number}"), StreamAppendReply)
        await asyncio.sleep(5)


def test_a_workflow_that_receives_survives_a_crash_at_every_write() -> None:
    proof = crash_everywhere(basket, 2, app=app, ledger=ledger, outside=fill)
    assert proof.result == ["TEA", "MILK"]
    assert proof.crashes > 10


async def numbers() -> None:
    from holdfast.client.caller import Caller
    from holdfast.payloads.payloads import Payloads
    from holdfast.protocol.replies import StreamAppendReply
    from holdfast.protocol.requests import StreamAppend

    caller = Caller(app.session._client)  # pyright: ignore[reportPrivateUsage]
    for number in range(4):
        await asyncio.sleep(6.5)
        value = Payloads().encode(number)
        await caller.ask(StreamAppend("crash-test", "in", value, f"k{number}"), StreamAppendReply)


@pytest.mark.slow
def test_a_workflow_that_receives_beside_timers_survives_a_crash_at_every_write() -> None:
    proof = crash_everywhere(impatient, app=app, outside=numbers, check=lambda seen: len(seen) >= 6)
    assert proof.crashes > 20


async def converse(simulation: Simulation) -> None:
    handle = app.start(basket, 2, id="b")
    await handle.started()
    await app.tell("b", "tea", key="evt-1")
    await app.tell("b", "tea", key="evt-1")
    assert await app.ask("b", "?", timeout="1d", returns=int) == 1
    assert await app.ask("b", "milk", timeout="1d") == "MILK"
    assert await handle == ["TEA", "MILK"]
    packed = [item async for item in handle.stream("packing")]
    assert [number for number, _ in packed] == [*range(1, len(packed) + 1)]
    assert {item for _, item in packed} == {"tea", "milk"}


def test_a_user_simulates_a_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SEED", raising=False)
    report = simulate(app, converse, seeds=10, ledger=ledger)
    assert report.seeds == 10
    assert sum(report.faults.values()) > 50


def test_executions_that_ask_each_other_survive_a_crash_at_every_write() -> None:
    async def start_other() -> None:
        await app.start(ponger, id="ponger")

    proof = crash_everywhere(
        pinger, "ponger", app=app, outside=start_other, check=lambda seen: seen == [0, 10, 20, 3]
    )
    assert proof.result == [0, 10, 20, 3]


@app.workflow
async def last_word(fails: bool) -> int:
    word = await receive(int)
    if fails and not mended:
        raise ValueError(word)
    return word


mended: list[str] = []


async def ask_for_the_last_word() -> None:
    assert await app.ask("crash-test", 7, timeout="1d") is None


def test_a_question_that_is_received_last_survives_a_crash_at_every_write() -> None:
    proof = crash_everywhere(last_word, False, app=app, outside=ask_for_the_last_word)
    assert proof.result == 7


def test_an_execution_that_fails_on_what_it_was_asked_can_be_retried() -> None:
    mended.clear()
    with World(app) as world:
        handle = app.start(last_word, True, id="w")
        assert world.ask("w", 7) is None
        with pytest.raises(ValueError, match="7"):
            handle.result()
        mended.append("deployed")
        handle.retry()
        assert handle.result() == 7
