"""What looks through records, or loads some that nobody named, has a budget in every commit.

What is over it waits for a later one, and holds nobody up who only writes.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.engine.scans import QueueCountScan
from holdfast.node import Node, budget, queue
from holdfast.protocol import limits
from holdfast.protocol.records import Value
from holdfast.protocol.replies import Reply
from holdfast.protocol.requests import (
    EventSearch,
    EventSend,
    PromiseRegisterCallback,
    PromiseSearch,
    QueueGet,
    QueuePause,
    QueueSearch,
    QueueSet,
    RegisterAction,
    Request,
    StreamAppend,
    StreamRead,
    TaskClaim,
    TaskSuspend,
)
from holdfast.store.interface import Find
from holdfast.store.memory import MemoryStore
from tests.backends import BACKENDS, open_backend
from tests.node.test_group_commit import GatedStore, opened, settle_down
from tests.node.test_searches import creation, envelope
from tests.requests import acquire, ask, create, get, heartbeat, settle

nothing = PromiseSearch(tags={"no": "such"})
pause = QueuePause("long", True)


def within(scope: str, request: Request) -> Request:
    return replace(request, scope=scope)


def statuses(replies: Sequence[Reply]) -> list[int]:
    return [reply.status for reply in replies]


def job(name: str, queue_name: str = "long") -> dict[str, Any]:
    tags = {"resonate:target": f"poll://any@queue.{queue_name}", "holdfast:job": "{}"}
    return envelope("promise.create", {"id": name, "timeoutAt": 2**52, "tags": tags})


class CountingStore(GatedStore):
    def __init__(self) -> None:
        super().__init__()
        self.counts = 0

    def _perform(self, step: Any) -> Any:
        self.counts += isinstance(step, Find) and isinstance(step.scan, QueueCountScan)
        return super()._perform(step)


async def all_at_once(
    node: Node, store: GatedStore, *asked: Sequence[Request]
) -> list["asyncio.Future[Any]"]:
    """While a commit is under way all of these come, each by itself."""
    first = node.submit([get("x")])
    await settle_down()
    futures = [node.submit(requests) for requests in asked]
    store.groups.clear()
    store.gate.set()
    await first
    return futures


@pytest.mark.parametrize(
    "scanning",
    [
        lambda: ask(nothing),
        lambda: ask(QueueSearch()),
        lambda: ask(QueueGet("long")),
        lambda: ask(pause),
        lambda: ask(QueueSet("long", concurrency=1)),
        lambda: ask(TaskClaim(["g"], 5, "p", 1_000)),
        lambda: acquire("t", 0),
    ],
)
async def test_whoever_only_writes_is_in_the_next_commit_whatever_waits_in_front(
    scanning: Callable[[], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 0)
    monkeypatch.setattr(budget, "request_steps", 0)
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    await node.request([create("t", target="poll://any@g", branch="t"), create("t:1", branch="t")])
    store.gate.clear()
    heavy = [[scanning()] for _ in range(600)]
    futures = await all_at_once(node, store, *heavy, [create("bystander")])
    await futures[-1]
    assert len(store.groups) == 1
    assert sum(future.done() for future in futures) <= 1 + queue.flow_requests_max["claim"]
    replies = [reply for future in futures for reply in await future]
    assert len(replies) == 601, "all are answered in the end"
    await node.stop()


async def test_whoever_came_first_on_an_id_is_first_though_it_must_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 0)
    monkeypatch.setattr(budget, "request_steps", 0)
    store = GatedStore()
    node = await opened(store)
    store.gate.set()
    await node.request([create(name, target="poll://any@g", branch=name) for name in ("a", "b")])
    store.gate.clear()
    futures = await all_at_once(
        node, store, [acquire("a")], [acquire("b")], [settle("b:1"), settle("b")], [settle("c")]
    )
    replies = [(await future)[-1] for future in futures]
    assert [reply.status for reply in replies] == [200, 200, 200, 404], "b was acquired before it was settled"
    assert store.groups == [2, 3]
    await node.stop()


async def test_each_tenant_goes_on_in_every_commit_and_so_do_its_claims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 0)
    monkeypatch.setattr(budget, "request_steps", 0)
    store = GatedStore()
    node = await opened(store)
    loud = [[within("loud", ask(nothing))] for _ in range(500)]
    claim = ask(TaskClaim(["g"], 5, "p", 1_000))
    quiet = [[within("quiet", ask(nothing))], [within("loud", claim)], [within("quiet", claim)]]
    futures = await all_at_once(node, store, *loud, *quiet)
    await asyncio.gather(*futures[-3:])
    assert store.groups == [4], "one search of the loud one, and all others"
    assert sum(future.done() for future in futures) == 4
    await node.stop()


async def test_a_queue_is_counted_once_in_a_commit_until_a_task_is_written() -> None:
    store = CountingStore()
    store.gate.set()
    async with Node(store) as node:
        replies = await node.request([ask(pause)] * 1_000)
        assert statuses(replies) == [200] * 1_000
        assert store.counts == 1
        task = create("t", target="poll://any@queue.long")
        task = replace(task, data=replace(task.data, tags=task.data.tags | {"holdfast:job": "{}"}))  # type: ignore[attr-defined]
        before, _, after = await node.request([ask(QueueGet("long")), task, ask(QueueGet("long"))])
        assert store.counts == 3
        assert [each.data.queue.pending for each in (before, after)] == [0, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", BACKENDS)
def test_tasks_of_a_queue_are_counted_up_to_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "queue_count_max", 3)
    backend = open_backend(name)
    try:
        backend.handle(envelope("debug.reset", {}))
        for n in range(5):
            backend.handle(job(f"j{n}"))
            view = backend.handle(envelope("queue.get", {"name": "long"}))["data"]["queue"]
            assert view["pending"] == min(n + 1, 3)
    finally:
        backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_search_for_queues_ends_when_it_has_counted_enough_and_its_cursor_goes_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "commit_steps_max", 0)
    backend = open_backend(name)
    found: list[str] = []
    pages = 0
    more: dict[str, Any] = {}
    try:
        backend.handle(envelope("debug.reset", {}))
        for n in range(12):
            backend.handle(job(f"j{n}", f"q{n:02}"))
        backend.handle(envelope("queue.set", {"name": "q03", "concurrency": 1}))
        backend.handle(envelope("queue.set", {"name": "z", "concurrency": 1}))
        while True:
            data = backend.handle(envelope("queue.search", {"prefix": "q"} | more))["data"]
            found += [each["name"] for each in data["queues"]]
            assert all(each["pending"] == 1 for each in data["queues"])
            pages += 1
            if "cursor" not in data:
                break
            more = {"cursor": data["cursor"]}
        assert found == [f"q{n:02}" for n in range(12)]
        assert pages > 1
    finally:
        backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_search_looks_at_fewer_records_the_more_tags_it_compares_and_in_trees_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "search_steps_max", 8)
    backend = open_backend(name)

    def pages(tags: dict[str, str]) -> list[list[str]]:
        found: list[list[str]] = []
        more: dict[str, Any] = {}
        while True:
            data = backend.handle(envelope("promise.search", {"tags": tags} | more))["data"]
            found.append([each["id"] for each in data["promises"]])
            if "cursor" not in data:
                return found
            more = {"cursor": data["cursor"]}

    try:
        backend.handle(envelope("debug.reset", {}))
        for n in range(8):
            colour = "red" if n in (0, 7) else "blue"
            backend.handle(creation(f"p:{n}", colour=colour, size="one", resonate_origin="p"))
        assert pages({"colour": "red"}) == [["p:0", "p:7"]]
        assert pages({"colour": "red", "size": "one"}) == [["p:0"], ["p:7"]]
        assert pages({"resonate:origin": "p", "colour": "red"}) == [["p:0"], ["p:7"]]
        assert pages({"resonate:origin": "p"}) == [[f"p:{n}" for n in range(8)]], "nothing is passed over"
        assert pages({"colour": "red", "size": "two"}) == [[], []]
    finally:
        backend.close()


async def holding(node: Node, count: int) -> list[str]:
    """So many leases of one process."""
    names = [f"t{number}" for number in range(count)]
    await node.request([create(name, target="poll://any@g") for name in names])
    await node.request([acquire(name) for name in names])
    return names


async def test_a_commit_takes_few_requests_that_name_very_many_records() -> None:
    """Heartbeats and suspensions may each name thousands; what comes beside them does not wait for all."""
    store = GatedStore()
    store.gate.set()
    async with Node(store) as node:
        names = await holding(node, 3_000)
        store.gate.clear()
        large = [[heartbeat("p", *((name, 1) for name in names))] for _ in range(20)]
        futures = await all_at_once(node, store, *large, [create("x")])
        await futures[-1]
        assert sum(future.done() for future in futures[:-1]) < 6
        assert {reply.status for replies in await asyncio.gather(*futures) for reply in replies} == {200}


@pytest.mark.parametrize("kind", ["heartbeat", "suspend"])
async def test_requests_that_name_very_many_records_do_not_load_them_all_at_once(kind: str) -> None:
    """A group loads what it names before any step is counted, so few such requests go together."""
    waiting = queue.RequestQueue()
    for number in range(10):
        names = [f"t{number}.{each}" for each in range(3_000)]
        if kind == "heartbeat":
            request = heartbeat("p", *((name, 1) for name in names))
        else:
            actions = [
                RegisterAction("promise.register_callback", PromiseRegisterCallback(name, "t"))
                for name in names
            ]
            request = ask(TaskSuspend("t", 1, actions))
        waiting.put(queue.Submission([request], asyncio.get_running_loop().create_future()))
    assert [len(waiting.take_group()) for _ in range(4)] == [3, 3, 3, 1]


async def test_of_an_array_of_large_heartbeats_the_first_are_carried_out() -> None:
    async with Node(MemoryStore()) as node:
        names = await holding(node, 3_000)
        beats = [heartbeat("p", *((name, 1) for name in names)) for _ in range(20)]
        found = statuses(await node.request(beats))
        assert found == sorted(found)
        assert found[0] == 200
        assert found.count(429) > 15
        small = [heartbeat("p", *((name, 1) for name in names[:20])) for _ in range(200)]
        assert set(statuses(await node.request(small))) == {200}


@pytest.mark.parametrize("kind", ["event.search", "stream.read"])
async def test_of_an_array_of_pages_that_are_named_the_first_are_carried_out(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names one thing and shows very many: that takes the time of everybody else."""
    async with Node(MemoryStore()) as node:
        await node.request([create("x", target="poll://any@g")])
        await node.request([ask(EventSend("e")) for _ in range(50)])
        await node.request([ask(StreamAppend("x", "in", key=str(number))) for number in range(50)])
        monkeypatch.setattr(budget, "commit_steps_max", 700)
        monkeypatch.setattr(budget, "request_steps", 1)
        page = EventSearch("e") if kind == "event.search" else StreamRead("x", "in")
        *pages, last = statuses(await node.request([*(ask(page) for _ in range(40)), get("x")]))
    assert pages == sorted(pages)
    assert 2 < pages.count(200) < 10, "fifty steps each, besides the records that the first has loaded"
    assert (pages[-1], last) == (429, 200)


async def test_records_that_requests_ask_for_one_after_the_other_fill_a_commit_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is needed turns out only when a request is carried out: there is no load of all of it before."""
    monkeypatch.setattr(limits, "commit_bytes_max", 20_000)
    async with Node(MemoryStore()) as node:
        for name in ("a", "b", "c", "d"):
            for _ in range(3):
                await node.request([ask(EventSend(name, value=Value(None, "x" * 5_000)))])
        replies = await node.request([ask(EventSearch(name)) for name in ("a", "b", "c", "d")])
        assert statuses(replies) == [200, 200, 503, 503]
        again = await node.request([ask(EventSearch(name)) for name in ("c", "d")])
        assert statuses(again) == [200, 200]
