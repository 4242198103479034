"""A store that takes several groups at once gets those that do not meet, and few of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.node import Node, patience as limits
from holdfast.node.queue import RequestQueue, Submission
from holdfast.protocol.ids import root_of
from holdfast.protocol.records import Value
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    CreateAction,
    PromiseCreate,
    PromiseSettle,
    Request,
    RequestData,
    ScheduleCreate,
    Settle,
    SettleAction,
    TaskCreate,
    TaskFail,
    TaskFence,
    TaskFulfill,
)
from holdfast.protocol.sizes import payload_bytes
from holdfast.store.interface import Result, Work
from holdfast.store.memory import MemoryStore
from tests.requests import FAR, create, get, settle


def submission(*requests: Request) -> Submission:
    future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
    return Submission(list(requests), future)


def ids(group: list[Submission]) -> list[str]:
    return [request.data.id for each in group for request in each.requests]  # type: ignore[attr-defined]


def queue_of(*submissions: Submission) -> RequestQueue:
    queue = RequestQueue()
    for each in submissions:
        queue.put(each)
    return queue


@pytest.mark.parametrize(
    ("record_id", "root"), [("a", "a"), ("a:1", "a"), ("a.b", "a"), ("a.b:1", "a"), ("a:1.2", "a"), (":", "")]
)
def test_an_id_begins_with_its_root(record_id: str, root: str) -> None:
    assert root_of(record_id) == root


async def test_what_meets_a_group_under_way_waits_and_keeps_its_place() -> None:
    queue = queue_of(
        submission(create("a:1")),
        submission(create("b")),
        submission(create("b:1"), create("a:2")),
        submission(create("b:2")),
        submission(create("c")),
    )
    assert ids(queue.take_group_beside({"a"})) == ["b", "c"]
    assert queue.request_count == 4
    assert ids(queue.take_group_beside(set())) == ["a:1", "b:1", "a:2", "b:2"]
    assert not queue


async def test_what_is_only_looked_at_meets_nobody() -> None:
    queue = queue_of(submission(get("a")), submission(settle("a")))
    assert ids(queue.take_group_beside({"a"})) == ["a"]
    assert queue.request_count == 1


async def test_the_bound_of_a_group_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.node.queue.group_requests_max", 3)
    queue = queue_of(*(submission(create(f"p{index}"), create(f"q{index}")) for index in range(3)))
    assert [len(queue.take_group_beside(set())) for _ in range(4)] == [1, 1, 1, 0]


def take_beside(queue: RequestQueue) -> list[Submission]:
    return queue.take_group_beside(set())


@pytest.mark.parametrize("take", [RequestQueue.take_group, take_beside])
async def test_a_group_carries_only_so_much_and_what_is_larger_goes_alone(
    take: Callable[[RequestQueue], list[Submission]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.node.queue.group_weight_max", 100)
    queue = queue_of(
        submission(create("a", data="-" * 60)),
        submission(settle("b", data="-" * 40)),
        submission(create("c", data="-")),
        submission(create("d", data="-" * 60), create("e", data="-" * 60)),
        submission(get("f")),
        submission(create("g", data="-" * 50, note="-" * 60)),
        submission(create("h")),
    )
    assert [ids(take(queue)) for _ in range(5)] == [["a", "b"], ["c"], ["d", "e"], ["f"], ["g"]]
    assert (ids(take(queue)), queue.request_count) == (["h"], 0)


@pytest.mark.parametrize(
    "data",
    [
        PromiseCreate("a", FAR, Value({"ab": "cd"}, "1234"), {"tag": "t"}),
        PromiseCreate("a", FAR, settle=Settle("resolved", Value(data="123456789012"))),
        PromiseSettle("a", "resolved", Value({"ab": "cd"}, "12345678")),
        TaskCreate("p", 1, CreateAction(PromiseCreate("a", FAR, Value(data="123456789012")))),
        TaskFulfill("a", 1, SettleAction(PromiseSettle("a", "resolved", Value(data="123456789012")))),
        TaskFence("a", 1, CreateAction(PromiseCreate("b", FAR, Value(data="123456789012")))),
        TaskFail("a", 1, "code", Value(data="123456789012")),
        ScheduleCreate("s", "* * * * *", "x", 1, Value(data="1234"), {"tags": "what"}),
    ],
)
def test_a_request_weighs_what_it_carries(data: RequestData) -> None:
    assert payload_bytes(data) == 12


class SlowStore(MemoryStore):
    """Commits at once, answers when the test says so, and takes several groups."""

    parallel_groups = 3

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Event] = []
        self.sizes: list[int] = []

    async def transact(self, work: Callable[[], Work[Result]]) -> Result:
        result = self.run(work)
        replies = getattr(result, "replies", [])
        if replies:
            self.sizes.append(len(replies))
            self.answers.append(asyncio.Event())
            await self.answers[-1].wait()
        return result


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_slow_group_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "patience_s", 0.0)
    store = SlowStore()
    async with Node(store) as node:
        slow = asyncio.ensure_future(node.request([create("a")]))
        await turns()
        meets = asyncio.ensure_future(node.request([settle("a")]))
        other = asyncio.ensure_future(node.request([create("b")]))
        await turns(50)
        assert store.sizes == [1, 1], "the one that meets it waits"
        store.answers[1].set()
        await other
        assert not slow.done()
        assert not meets.done()
        store.answers[0].set()
        await slow
        await turns()
        store.answers[2].set()
        [reply] = await meets
        assert reply.status == 200


async def test_a_second_group_is_begun_only_for_a_crowd_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "patience_s", 3_600.0)
    monkeypatch.setattr(limits, "crowd_requests", 10)
    store = SlowStore()
    async with Node(store) as node:
        asked = [asyncio.ensure_future(node.request([create("a")]))]
        await turns()
        asked += [asyncio.ensure_future(node.request([create(f"b{index}")])) for index in range(9)]
        await turns()
        assert store.sizes == [1]
        asked.append(asyncio.ensure_future(node.request([create("c")])))
        await turns()
        assert store.sizes == [1, 10]
        for answer in store.answers:
            answer.set()
        await asyncio.gather(*asked)
