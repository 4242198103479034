"""What the node does on its own checks its own condition: early, twice or too late, it does no harm."""

import asyncio

import pytest

from holdfast.engine import Rules
from holdfast.engine.sweep import Due, sweep_requests
from holdfast.node import Node
from holdfast.node.group import CommitContext, CommitOutcome, run_group
from holdfast.protocol.requests import DebugStart, DebugStop, Request, ScheduleCreate
from holdfast.store.memory import MemoryStore
from tests.requests import acquire, ask, create, listen

MINUTE = 60_000
EVERYTHING = sweep_requests(Due(["p"], ["p", "t", "held"], ["s"], None))


@pytest.fixture
def store() -> MemoryStore:
    """At 0: `p` is open until 30 s; `t` waits to be offered again at 5 s; `held` has a lease until 10 s."""
    store = MemoryStore()
    requests = [
        create("p", 30_000, target="poll://any@g"),
        listen("p", "poll://any@h"),
        create("t", target="poll://any@g"),
        create("held", target="poll://any@g"),
        acquire("held", ttl=10_000),
        ask(ScheduleCreate("s", "* * * * *", "s.{{.timestamp}}", 1_000)),
    ]
    carried_out(store, requests, 0)
    return store


def carried_out(store: MemoryStore, requests: list[Request], now: int) -> CommitOutcome:
    return store.run(lambda: run_group(requests, CommitContext(now, Rules(retry_ms=5_000), debug=True)))


def state(store: MemoryStore) -> tuple[object, ...]:
    return dict(store.promises), dict(store.tasks), dict(store.schedules)


def test_what_is_fired_early_changes_nothing(store: MemoryStore) -> None:
    before = state(store)
    assert carried_out(store, EVERYTHING, 4_999).messages == []
    assert state(store) == before


@pytest.mark.parametrize("now", [5_000, 10_000, 30_000, MINUTE])
def test_what_is_fired_twice_is_done_once(store: MemoryStore, now: int) -> None:
    before = state(store)
    assert carried_out(store, EVERYTHING, now).messages
    after = state(store)
    assert after != before
    assert carried_out(store, EVERYTHING, now).messages == []
    assert state(store) == after


def test_the_timer_of_a_task_past_its_promises_deadline_does_nothing(store: MemoryStore) -> None:
    before = state(store)
    assert carried_out(store, sweep_requests(Due([], ["p"], [], None)), 30_000).messages == []
    assert state(store) == before


async def test_what_was_paused_for_debugging_goes_on_afterwards() -> None:
    now = 1_000
    async with Node(MemoryStore(), debug=True, clock=lambda: now) as node:
        mailbox = node.connect("g", "w")
        await node.request([ask(DebugStart())])
        await node.request(
            [create("t", target="poll://any@g"), create("p", 2_000), listen("p", "poll://any@g")]
        )
        now = 2_000
        await asyncio.sleep(0)
        assert mailbox.take() == []
        await node.request([ask(DebugStop())])
        heard: list[str] = []
        async with asyncio.timeout(60):
            while len(heard) < 2:
                heard += [message.key[1] for message in await mailbox.receive()]
        assert sorted(heard) == ["p", "t"]
