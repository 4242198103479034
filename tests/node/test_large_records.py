"""A commit reads so many bytes of the records that its requests name; the rest waits, or is refused."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from holdfast.node import Node
from holdfast.protocol import limits
from holdfast.protocol.records import Value
from holdfast.protocol.requests import (
    PromiseCreate,
    PromiseSearch,
    PromiseSettle,
    QueueSearch,
    QueueSet,
    Request,
    ScheduleCreate,
    ScheduleSearch,
    SettleAction,
    TaskFulfill,
)
from holdfast.store.interface import Store
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from tests.backends import BACKENDS
from tests.postgres import database_url
from tests.requests import FAR, acquire, ask, ask_before_due, create, get

COUNT = 60
NAMES = [f"p{number:02}" for number in range(COUNT)]


def opened(name: str, folder: Path) -> Store:
    if name == "memory":
        return MemoryStore()
    return SqliteStore(folder / "store.db") if name == "sqlite" else PostgresStore(database_url())


@pytest.fixture(params=BACKENDS)
async def node(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Node]:
    async with Node(opened(request.param, tmp_path)) as node:
        await node.request([create(name, data="x" * 40_000, target="poll://any@g") for name in NAMES])
        monkeypatch.setattr(limits, "commit_bytes_max", 1_000_000)
        yield node


async def test_an_array_is_answered_as_far_as_its_records_fit(node: Node) -> None:
    replies = await node.request([get(name) for name in NAMES])
    statuses = [reply.status for reply in replies]
    assert statuses == sorted(statuses)
    assert 20 < statuses.count(200) < 30
    assert all("HF1905" in str(reply.data) for reply in replies if reply.status == 503)
    assert [reply.status for reply in await node.request([get(name) for name in NAMES[-20:]])] == [200] * 20


async def test_what_may_not_be_repeated_is_refused_for_now_and_has_changed_nothing(node: Node) -> None:
    for name in NAMES:
        await node.request([acquire(name)])
    ends = [
        ask(TaskFulfill(name, 1, SettleAction(PromiseSettle(name, "resolved", Value())))) for name in NAMES
    ]
    replies = await node.request(ends)
    refused = [number for number, reply in enumerate(replies) if reply.status == 429]
    assert refused
    assert {reply.status for reply in replies} == {200, 429}
    again = await node.request([ends[number] for number in refused[:20]])
    assert {reply.status for reply in again} == {200}


async def test_whoever_comes_behind_is_put_off_and_not_refused(node: Node) -> None:
    waiting = [asyncio.ensure_future(node.request([get(name)])) for name in NAMES]
    settled = asyncio.ensure_future(node.request([ask(PromiseSettle("p59", "resolved", Value(None, "v")))]))
    seen = asyncio.ensure_future(node.request([get("p59")]))
    assert [reply.status for [reply] in await asyncio.gather(*waiting)] == [200] * COUNT
    await settled
    assert (await seen)[0].data.promise.state == "resolved"  # type: ignore[union-attr]


async def test_what_is_due_is_settled_a_few_at_a_time_where_it_is_large(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "sweep_bytes_max", 200_000)
    swept = node.stats.sweeps

    def forty(mark: str, due: int) -> list[Request]:
        nonlocal swept
        swept = node.stats.sweeps
        return [
            create(f"{mark}{number:02}", due, data="x" * 20_000, target="poll://any@g")
            for number in range(40)
        ]

    mark = await ask_before_due(node, forty)
    async with asyncio.timeout(60):
        while True:
            [found] = await node.request([ask(PromiseSearch("rejected_timedout", prefix=mark))])
            if len(found.data.promises) == 40 and node.stats.sweeps - swept >= 4:  # type: ignore[union-attr]
                break
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", BACKENDS)
async def test_tags_and_headers_count_like_payloads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {f"tag-{number}": "x" * 4_000 for number in range(10)}
    async with Node(opened(name, tmp_path)) as node:
        await node.request([ask(PromiseCreate(each, FAR, tags=tags)) for each in NAMES])
        monkeypatch.setattr(limits, "commit_bytes_max", 1_000_000)
        statuses = [reply.status for reply in await node.request([get(each) for each in NAMES])]
        assert statuses == sorted(statuses)
        assert 20 < statuses.count(200) < 30


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKENDS)
async def test_searches_for_schedules_count_what_they_read(name: str, tmp_path: Path) -> None:
    schedules = [
        ask(
            ScheduleCreate(
                id=f"s{number:03}",
                cron="0 0 1 1 *",
                promise_id="{{.id}}.{{.timestamp}}",
                promise_timeout=60_000,
                promise_tags={"tag": "x" * 4_000},
            )
        )
        for number in range(500)
    ]
    async with Node(opened(name, tmp_path)) as node:
        assert {reply.status for reply in await node.request(schedules)} == {200}
        searches = [ask(ScheduleSearch(limit=1_000)) for _ in range(100)]
        statuses = [reply.status for reply in await node.request(searches)]
        assert 1 <= statuses.count(200) < 10, "the others would be held until all of them are answered"
        assert set(statuses) == {200, 429}
        alone = [node.request([search]) for search in searches]
        assert {reply.status for [reply] in await asyncio.gather(*alone)} == {200}


@pytest.mark.parametrize("name", BACKENDS)
async def test_searches_for_queues_count_what_they_look_up(name: str, tmp_path: Path) -> None:
    async with Node(opened(name, tmp_path)) as node:
        await node.request([ask(QueueSet(f"q{number:03}")) for number in range(600)])
        found = [
            reply.status for reply in await node.request([ask(QueueSearch(limit=1_000)) for _ in range(100)])
        ]
        assert found[0] == 200
        assert found.count(200) < 10
        names: list[str] = []
        cursor: str | None = None
        while not names or cursor is not None:
            [page] = await node.request([ask(QueueSearch(limit=1_000, cursor=cursor))])
            names += [queue.name for queue in page.data.queues]  # type: ignore[union-attr]
            cursor = cast("str | None", page.data.cursor)  # type: ignore[union-attr]
        assert names == [f"q{number:03}" for number in range(600)]
