"""Conversations: no message is lost, doubled or seen in two orders, and no chunk of a stream is."""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random
from typing import Any

import holdfast as hf
from holdfast.payloads.payloads import Payloads
from holdfast.protocol.records import Promise
from holdfast.protocol.requests import StreamAppend
from holdfast.protocol.streams import ATTEMPT_HEADER, element_id
from holdfast.store.memory import MemoryStore
from holdfast.testing.simulation import Simulation
from tests.simulation.expectation import Expectation, app, ledger
from tests.simulation.neighbour_workloads import ask

LAST = "last"


def pack(name: str, item: str) -> str:
    ledger.enter(f"{name} {item}")
    return item


@app.workflow
async def shopping_basket(name: str, steps: bool, patience_s: float) -> list[str]:
    items: list[str] = []
    while True:
        try:
            item = await hf.receive(str, timeout=patience_s)
        except hf.TimedOut:
            await hf.emit("idle", len(items))
            continue
        if item == LAST:
            return items
        items.append(await hf.run(pack, name, item) if steps else item)
        await hf.publish("size", len(items))


@app.workflow
async def auction(bidders: int) -> list[Any]:
    """Several fibers receive; each bid goes to one of them and is answered."""
    best: list[Any] = ["nobody", 0]
    done = 0

    async def take_bids() -> None:
        nonlocal best, done
        async for message in hf.mailbox(list[Any]):
            who, bid = message.value
            if who == LAST:
                done += 1
                message.answer(best)
                return
            if bid > best[1]:
                best = [who, bid]
                message.answer("leading")
            else:
                message.refuse(f"{bid} is not enough")

    await hf.gather([take_bids() for _ in range(bidders)])
    return best


@app.workflow
async def bidder(other: str, bids: list[int], pause_s: float) -> list[str]:
    heard: list[str] = []
    for bid in bids:
        try:
            heard.append(await hf.ask(other, [hf.current().id, bid], returns=str))
        except hf.errors.MessageRefused:
            heard.append("refused")
        await hf.sleep(pause_s)
    await hf.ask(other, [LAST, 0])
    return heard


@app.workflow
async def talker(other: str, rounds: int, pause_s: float) -> list[list[Any]]:
    """Asks another one, and answers what that one asks meanwhile: what it heard, and what it was asked."""
    asked: list[Any] = []

    async def listen() -> None:
        async for message in hf.mailbox(int):
            asked.append(message.value)
            message.answer([hf.current().id, message.value, len(asked)])
            if len(asked) == rounds:
                return

    listening = hf.spawn(listen)
    heard: list[Any] = []
    for number in range(rounds):
        heard.append(await hf.ask(other, number, returns=list[Any]))
        if pause_s:
            await hf.sleep(pause_s)
    await listening
    return [heard, asked]


async def say(name: str, chunks: int, pause_s: float) -> int:
    for number in range(chunks):
        await hf.emit("tokens", f"{name} {number}")
        if pause_s:
            await asyncio.sleep(pause_s)
    return chunks


@app.workflow
async def chat(name: str, chunks: int, pause_s: float) -> int:
    await hf.emit("tokens", "begins")
    said = await hf.run(say, name, chunks, pause_s, retry=hf.Retry(attempts=None, delay=1))
    await hf.emit("tokens", "ends")
    return said


async def fill_a_basket(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    steps = chance.random() < 0.5
    senders, each = chance.randint(1, 3), chance.randint(1, 5)
    pauses = [[chance.choice((0.0, 1.0, 8.0)) for _ in range(each)] for _ in range(senders)]
    sent = [f"{sender}.{number}" for sender in range(senders) for number in range(each)]
    expectation.exactly[name] = [f"{name} {item}" for item in sent] if steps else []
    handle = app.start(shopping_basket, name, steps, chance.choice((0.5, 5.0, 600.0)), id=name)
    await handle.started()

    async def send(sender: int) -> None:
        for number, pause_s in enumerate(pauses[sender]):
            await asyncio.sleep(pause_s)
            await tell(simulation, name, f"{sender}.{number}")

    await asyncio.gather(*[send(sender) for sender in range(senders)])
    await tell(simulation, name, LAST)
    found = await handle
    assert sorted(found) == sorted(sent), f"{name} received {found}"
    for sender in range(senders):
        own = [item for item in found if item.startswith(f"{sender}.")]
        assert own == sorted(own), f"{name} saw the messages of one sender as {own}"

    def look(store: MemoryStore) -> list[str]:
        told = texts(store, name, "in")
        sizes = texts(store, name, "value.size")
        wrong = [] if told == [*found, LAST] else [f"{name} was told {told} and saw {found}"]
        return wrong if sizes == [*range(1, len(found) + 1)] else [*wrong, f"{name} published {sizes}"]

    expectation.looks[name] = look


async def hold_an_auction(
    simulation: Simulation, expectation: Expectation, name: str, chance: Random
) -> None:
    bidders = chance.randint(1, 3)
    bids = [[chance.randint(1, 50) for _ in range(chance.randint(1, 4))] for _ in range(bidders)]
    sale = app.start(auction, bidders, id=name)
    await sale.started()
    starts = [
        app.start(bidder, name, own, chance.choice((0.0, 2.0)), id=f"{name}-{number}")
        for number, own in enumerate(bids)
    ]
    heard = await asyncio.gather(*starts)
    best = await sale
    assert best[1] == max(bid for own in bids for bid in own), f"{name} went to {best}"
    assert [len(each) for each in heard] == [len(own) for own in bids]

    def look(store: MemoryStore) -> list[str]:
        leading, highest = 0, 0
        for _, bid in texts(store, name, "in"):
            leading += bid > highest
            highest = max(highest, bid)
        told = sum(each.count("leading") for each in heard)
        return [] if told == leading else [f"{name}: {told} were told that they lead, {leading} did"]

    expectation.looks[name] = look


async def ask_each_other(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    rounds = chance.randint(1, 6)
    pauses = [chance.choice((0.0, 0.5, 5.0)) for _ in range(2)]
    names = [f"{name}-a", f"{name}-b"]
    handles = [
        app.start(talker, other, rounds, pause_s, id=each)
        for each, other, pause_s in zip(names, reversed(names), pauses, strict=True)
    ]
    await asyncio.gather(*[handle.started() for handle in handles])
    found = await asyncio.gather(*handles)
    whole = [*range(rounds)]
    for (heard, asked), other in zip(found, reversed(names), strict=True):
        assert heard == [[other, number, number + 1] for number in whole], f"{name} heard {heard}"
        assert asked == whole, f"{name} was asked {asked}"

    def look(store: MemoryStore) -> list[str]:
        told = [texts(store, each, "in") for each in names]
        return [] if told == [whole, whole] else [f"{name} was told {told}, not {whole} twice"]

    expectation.looks[name] = look


async def have_a_chat(simulation: Simulation, expectation: Expectation, name: str, chance: Random) -> None:
    chunks, pause_s = chance.randint(0, 30), chance.choice((0.0, 0.1, 1.0))
    assert await app.start(chat, name, chunks, pause_s, id=name) == chunks

    def look(store: MemoryStore) -> list[str]:
        found = elements(store, name, "out.tokens")
        said = [Payloads().decode(each.value) for each in found]
        attempts: dict[str, list[Any]] = {}
        for element, text in zip(found[1:-1], said[1:-1], strict=True):
            attempts.setdefault((element.value.headers or {})[ATTEMPT_HEADER], []).append(text)
        whole = [f"{name} {number}" for number in range(chunks)]
        wrong = [f"{name} said {said}"] if not said or [said[0], said[-1]] != ["begins", "ends"] else []
        wrong += [f"{name} said {each}" for each in attempts.values() if each != whole[: len(each)]]
        last = [*attempts.values()][-1] if attempts else []
        return wrong if last == whole else [*wrong, f"{name} said {last} at last, not {whole}"]

    expectation.looks[name] = look


async def tell(simulation: Simulation, execution: str, message: str) -> None:
    """Under a key: whatever is lost on the way, it is there once."""
    await ask(simulation, StreamAppend(execution, "in", Payloads().encode(message), key=f"key {message}"))


def elements(store: MemoryStore, execution: str, stream: str) -> list[Promise]:
    """All that were appended; the next one may be awaited."""
    found: list[Promise] = []
    for number in count(1):
        element = store.promises.get(element_id(execution, stream, number))
        if element is None or element.state != "resolved":
            break
        found.append(element)
    return found


def texts(store: MemoryStore, execution: str, stream: str) -> list[Any]:
    return [Payloads().decode(each.value) for each in elements(store, execution, stream)]


TALKS = {
    "basket": fill_a_basket,
    "auction": hold_an_auction,
    "chat": have_a_chat,
    "dialogue": ask_each_other,
}
