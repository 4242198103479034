"""A request that names one thing may read and write very many: those have a part of a commit, like searches.

One commit takes so many steps; the rest of an array is refused, and what came by itself waits for the next.
"""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.node import Node, budget
from holdfast.node.budget import ArrayBudget
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    AcquireAction,
    AwaitAction,
    EventAwait,
    EventSend,
    EventSubscribe,
    LockAcquire,
    LockGet,
    LockRelease,
    Request,
    ScheduleBackfill,
    ScheduleCreate,
    TaskFence,
    TaskRestart,
)
from holdfast.store.memory import MemoryStore
from tests.node.test_budget import all_at_once, holding, statuses
from tests.node.test_group_commit import GatedStore
from tests.requests import FAR, ask, create, get, register, settle

long_ago = 1_700_000_000_000


async def prepare(node: Node) -> None:
    await holding(node, 40)
    await node.request([ask(EventSend("seen", match={"n": "1"})) for _ in range(60)])
    tags = {"resonate:target": "poll://any@g"}
    for number in range(16):
        await node.request([ask(EventSubscribe("told", f"s{number}", "w", tags, 1_000))])
    await node.request([ask(ScheduleCreate("s", "* * * * * *", "{{.id}}-{{.timestamp}}", 1_000))])
    held = ["x" * 1_000] * 4
    for number in range(40):
        action = AcquireAction(LockAcquire(f"t{number}:lock", "lock", FAR, holding=held))
        assert statuses(await node.request([ask(TaskFence(f"t{number}", 1, action))])) == [200]


def look_back(number: int) -> Request:
    wait = EventAwait(f"t0:{number}", "seen", FAR, {"n": "2"}, look_back=10**12)
    return ask(TaskFence("t0", 1, AwaitAction(wait)))


def backfill(number: int) -> Request:
    since = long_ago + number * 100_000
    return ask(ScheduleBackfill("s", since, since + 40_000))


def enter(number: int) -> Request:
    """The queue of a lock that is hard to enter: its record is read and written whole."""
    return ask(TaskFence("t0", 1, AcquireAction(LockAcquire(f"t0:{number}", "lock", FAR))))


def restart(number: int) -> Request:
    return ask(TaskRestart("t0", 1, number, forget=[f"t0:{each}" for each in range(300)]))


WIDE: list[Callable[[int], Request]] = [
    look_back,
    backfill,
    enter,
    restart,
    lambda number: ask(EventSend("told")),
    lambda number: ask(LockGet("lock")),
    lambda number: ask(LockRelease("lock", f"t{number + 1}", "stuck")),
]


@pytest.mark.parametrize("make", WIDE)
async def test_of_an_array_of_wide_requests_the_first_are_carried_out_and_plain_ones_all(
    make: Callable[[int], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Node(MemoryStore()) as node:
        await prepare(node)
        monkeypatch.setattr(budget, "commit_steps_max", 1_000)
        monkeypatch.setattr(budget, "request_steps", 1)
        *wide, last = statuses(await node.request([*map(make, range(39)), get("t0")]))
        assert wide == sorted(wide)
        assert 0 < wide.count(200) < 39
        assert (wide[-1], last) == (429, 200)


async def test_whoever_only_writes_does_not_wait_for_wide_requests_that_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = GatedStore()
    store.gate.set()
    async with Node(store) as node:
        await prepare(node)
        monkeypatch.setattr(budget, "commit_steps_max", 1_000)
        monkeypatch.setattr(budget, "request_steps", 1)
        store.gate.clear()
        events = [[ask(EventSend("told", value=Value(None, str(number))))] for number in range(30)]
        futures = await all_at_once(node, store, *events, [create("bystander")])
        await futures[-1]
        assert sum(future.done() for future in futures[:-1]) < 10
        replies = await asyncio.gather(*futures)
        assert {reply.status for [reply] in replies} == {200}, "the others come in later commits"


async def test_a_commit_that_is_far_over_its_budget_takes_nothing_more_whatever_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of these wakes many: nobody can tell beforehand from what a settlement names."""
    async with Node(MemoryStore()) as node:
        names = await holding(node, 300)
        await node.request([create(f"p{number}") for number in range(10)])
        for number in range(10):
            await node.request([register(f"p{number}", name) for name in names])
        monkeypatch.setattr(budget, "ceiling_steps", 20_000)
        monkeypatch.setattr(budget, "ceiling_request_steps", 1)
        found = statuses(await node.request([settle(f"p{number}") for number in range(10)]))
        assert found == sorted(found)
        assert 0 < found.count(200) < 10
        assert found[-1] == 429
        alone = statuses(await node.request([settle(f"p{found.count(200)}")]))
        assert alone == [200], "by itself each is carried out"


async def test_what_comes_by_itself_waits_for_the_next_commit_when_one_is_far_over_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = GatedStore()
    store.gate.set()
    async with Node(store) as node:
        names = await holding(node, 300)
        await node.request([create(f"p{number}") for number in range(10)])
        for number in range(10):
            await node.request([register(f"p{number}", name) for name in names])
        monkeypatch.setattr(budget, "ceiling_steps", 20_000)
        monkeypatch.setattr(budget, "ceiling_request_steps", 1)
        store.gate.clear()
        futures = await all_at_once(node, store, *([settle(f"p{number}")] for number in range(10)))
        assert {reply.status for [reply] in await asyncio.gather(*futures)} == {200}
        assert len(store.groups) > 2, "a few in each commit"


def test_what_is_plain_has_several_times_the_budget_of_what_is_wide() -> None:
    of_array = ArrayBudget(1_000, 0)
    spent = budget.commit_steps_max + budget.request_steps * 1_000 + 1
    assert of_array.refuses(EventSend("e"), spent)
    assert not of_array.refuses(create("x").data, spent)
    assert of_array.refuses(create("x").data, 5 * spent)
