"""Whoever waits has a turn: after one sweep however much is due, and after a moment beside a slow group.

All of it also with the timers of uvloop, on which a server runs.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.node import Node, group, patience
from holdfast.protocol.requests import ScheduleCreate
from holdfast.store.interface import Result, Work
from holdfast.store.memory import MemoryStore
from holdfast.testing.loop import JumpingLoop, run_jumping
from tests.requests import ask, create, promise_of

loops = pytest.mark.parametrize("like_uvloop", [False, True])
commit_s = 0.001


class NotedStore(MemoryStore):
    """Every commit takes a moment. Remembers which were sweeps and which were groups."""

    def __init__(self, lanes: int = 1) -> None:
        super().__init__()
        self.parallel_groups = lanes
        self.commits: list[str] = []
        self.slow: asyncio.Event | None = None

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        result = self.run(work)
        replies = getattr(result, "replies", None)
        self.commits.append("group" if replies else "sweep")
        if replies and self.slow is not None:
            slow, self.slow = self.slow, None
            await slow.wait()
        else:
            await asyncio.sleep(commit_s)
        return result


def play(
    store: NotedStore, like_uvloop: bool, scenario: Callable[[JumpingLoop, Node], Awaitable[None]]
) -> None:
    loop = JumpingLoop(like_uvloop=like_uvloop)

    async def main() -> None:
        async with Node(store, clock=loop.millis, stopwatch=loop.time) as node:
            await asyncio.sleep(0.01)
            await scenario(loop, node)

    run_jumping(main(), loop)


@loops
def test_a_request_waits_for_one_sweep_however_many_deadlines_fall_on_one_instant(like_uvloop: bool) -> None:
    store = NotedStore()

    async def scenario(loop: JumpingLoop, node: Node) -> None:
        for start in range(0, 3_000, 500):
            await node.request([create(f"p{n}", 1_000, external="true") for n in range(start, start + 500)])
        await asyncio.sleep(1.0 - loop.time() + commit_s / 2)
        store.commits.clear()
        for n in range(4):
            await node.request([create(f"bystander{n}")])
        assert store.commits[:7] == ["group", "sweep"] * 3 + ["group"], "they take turns"
        await asyncio.sleep(1)
        assert not store.watched, "all of it is carried out all the same"

    play(store, like_uvloop, scenario)


@loops
def test_creates_are_answered_beside_more_schedules_than_can_be_fired(
    like_uvloop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "sweep_steps_max", 500)  # a few schedules a sweep
    store = NotedStore()

    async def scenario(loop: JumpingLoop, node: Node) -> None:
        schedules = [
            ask(ScheduleCreate(f"s{n}", "* * * * * *", "{{.id}}-{{.timestamp}}", 60_000)) for n in range(500)
        ]
        await node.request(schedules)
        await asyncio.sleep(1.0)
        for n in range(20):
            began = len(store.commits)
            [reply] = await node.request([create(f"bystander{n}")])
            assert promise_of(reply).id == f"bystander{n}"
            assert len(store.commits) - began <= 2, store.commits[began:]

    play(store, like_uvloop, scenario)


def test_a_sweep_ends_after_so_much_work_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "sweep_steps_max", 1)
    store = NotedStore()

    async def scenario(loop: JumpingLoop, node: Node) -> None:
        await node.request([create(f"p{n}", 1_000, external="true") for n in range(30)])
        await asyncio.sleep(0.9)
        store.commits.clear()
        await asyncio.sleep(1)
        assert not store.watched
        assert store.commits[:30] == ["sweep"] * 30, "one each"

    play(store, False, scenario)


def test_a_sweep_ends_after_so_much_time_and_the_next_one_goes_on() -> None:
    store = NotedStore()
    looks = iter(range(1_000))
    loop = JumpingLoop()

    async def main() -> None:
        slow = Node(store, clock=loop.millis, stopwatch=lambda: float(next(looks)))
        async with slow as node:
            await node.request([create(f"p{n}", 1_000, external="true") for n in range(30)])
            await asyncio.sleep(0.9)
            store.commits.clear()
            await asyncio.sleep(1)
            assert not store.watched
            assert store.commits[:30] == ["sweep"] * 30, "each takes too long after the first"

    run_jumping(main(), loop)


def test_what_is_due_of_each_kind_has_its_turn_in_every_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "sweep_part", 2)
    monkeypatch.setattr(group, "sweep_steps_max", 200)
    store = NotedStore()

    async def scenario(loop: JumpingLoop, node: Node) -> None:
        await node.request([create(f"p{n}", 1_000, external="true") for n in range(400)])
        await node.request([ask(ScheduleCreate("s", "* * * * * *", "{{.id}}-{{.timestamp}}", 60_000))])
        await asyncio.sleep(1.0 - loop.time() + 3.5 * commit_s)
        assert "s-1000" in store.promises
        assert len(store.watched) > 300

    play(store, False, scenario)


@loops
def test_whoever_waited_long_enough_beside_a_slow_group_begins(like_uvloop: bool) -> None:
    """The timer says that it is over; nothing is compared that could be off by a rounding."""
    store = NotedStore(lanes=3)

    async def scenario(loop: JumpingLoop, node: Node) -> None:
        slow = store.slow = asyncio.Event()
        first = asyncio.ensure_future(node.request([create("slow")]))
        await asyncio.sleep(0.01)
        began = loop.time()
        await asyncio.wait_for(node.request([create("small")]), timeout=60)
        assert loop.time() - began < patience.patience_s + 3 * commit_s
        assert not first.done()
        slow.set()
        await first

    play(store, like_uvloop, scenario)
