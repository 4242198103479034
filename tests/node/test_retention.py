"""What ended long ago is forgotten, whole executions at a time; nothing that anybody may still need is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.node import Node, retention
from holdfast.protocol.requests import TaskSuspend
from holdfast.protocol.requests.promises import PromiseRegisterCallback, RegisterAction
from holdfast.store.interface import Store
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from tests.postgres import database_url
from tests.requests import acquire, ask, create, get, promise_of, settle

ANY_AGE = -1  # even what was settled in this millisecond
HOUR_MS = 3_600_000


def open_store(name: str, folder: Path) -> Store:
    match name:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SqliteStore(folder / "holdfast.db")
        case _:
            return PostgresStore(database_url())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Node]:
    async with Node(open_store(request.param, tmp_path)) as node:
        yield node


async def statuses(node: Node, *names: str) -> list[int]:
    return [reply.status for reply in await node.request([get(name) for name in names])]


async def test_a_tree_that_is_over_goes_with_everything_in_it(node: Node) -> None:
    names = ["a", "a:1", "a:2.1", "a.x", "a."]
    await node.request([create(name, target="poll://any@g") for name in names])
    await node.request([settle(name) for name in names])
    assert await node.collect_garbage(ANY_AGE) == 5
    assert await statuses(node, *names) == [404] * 5
    [reply] = await node.request([create("a", data="anew")])
    assert reply.data.promise.param.data == "anew"  # type: ignore[union-attr]


async def test_what_is_young_stays(node: Node) -> None:
    await node.request([create("a"), settle("a")])
    assert await node.collect_garbage(HOUR_MS) == 0
    assert await statuses(node, "a") == [200]


async def test_a_tree_with_anything_pending_stays_whole(node: Node) -> None:
    await node.request([create("a"), settle("a"), create("a:1"), create("a:2"), settle("a:2")])
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("a:1")])
    assert await node.collect_garbage(ANY_AGE) == 3


async def test_what_a_running_execution_started_elsewhere_stays_with_it(node: Node) -> None:
    """`a` started `b` under a name of its own, and may ask for it again when it replays."""
    await node.request(
        [create("a", origin="a"), create("b", origin="a"), create("b:1"), create("c", origin="b")]
    )
    await node.request([settle("b"), settle("b:1"), settle("c")])
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 4


async def test_what_is_awaited_stays(node: Node) -> None:
    await node.request([create("a", target="poll://any@g"), create("b")])
    await node.request([acquire("a")])
    register = RegisterAction("promise.register_callback", PromiseRegisterCallback("b", "a"))
    await node.request([ask(TaskSuspend("a", 1, [register]))])
    assert await node.collect_garbage(ANY_AGE) == 0
    assert await statuses(node, "a", "b") == [200, 200]


async def test_a_name_that_only_begins_alike_is_another_tree(node: Node) -> None:
    await node.request([create(name) for name in ("a", "a1", "a-1", "a;1", "a/1")])
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 1
    assert await statuses(node, "a", "a1", "a-1", "a;1", "a/1") == [404, 200, 200, 200, 200]


async def test_a_lapsed_promise_that_nobody_settled_goes_too(node: Node) -> None:
    [reply] = await node.request([create("far")])
    now = promise_of(reply).created_at
    await node.request([create("a", now + 5)])
    while promise_of((await node.request([get("a")]))[0]).state == "pending":
        pass
    assert await node.collect_garbage(ANY_AGE) == 1
    assert await statuses(node, "a", "far") == [404, 200]


async def test_a_pass_works_in_small_pages_and_stops_at_its_limit(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "page_promises", 7)
    monkeypatch.setattr(retention, "forgotten_max", 5)
    names = [f"p{number}{suffix}" for number in range(20) for suffix in ("", ":1", ":2")]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names if not name.startswith("p1")])
    some = await node.collect_garbage(ANY_AGE, limit=6)
    assert 6 <= some <= 11
    rest = await node.collect_garbage(ANY_AGE)
    assert some + rest == 27
    assert await statuses(node, *(name for name in names if name.startswith("p1"))) == [200] * 33
