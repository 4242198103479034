"""What ended long ago is forgotten, whole executions at a time; nothing that anybody may still need is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from holdfast.node import Node, janitor, retention
from holdfast.node.clock import wall_clock
from holdfast.node.retention import RetentionProgress, collect_page
from holdfast.protocol.messages import Execute
from holdfast.protocol.replies import AcquireReply, TaskReply
from holdfast.protocol.requests import (
    CreateAction,
    ExecutionFork,
    ExecutionRetry,
    ExecutionStart,
    PromiseCreate,
    PromiseSettle,
    TaskGet,
    TaskSuspend,
)
from holdfast.protocol.requests.promises import PromiseRegisterCallback, RegisterAction
from holdfast.protocol.tags import TARGET
from holdfast.store import urls as stores
from holdfast.store.interface import Store
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from tests.postgres import database_url, execute
from tests.requests import FAR, acquire, ask, create, get, promise_of, settle

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
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(request.param, tmp_path)


@pytest.fixture
async def node(store: Store) -> AsyncIterator[Node]:
    async with Node(store) as node:
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


async def test_what_is_only_kept_for_its_version_goes_with_its_tree(node: Node) -> None:
    """`a` had called two, and began anew; where it called the first, it had a step, and began anew again."""
    anew = ask(
        ExecutionStart(CreateAction(PromiseCreate("a", FAR, tags={TARGET: "poll://any@g"})), "replace")
    )
    await node.request([create(name, target="poll://any@g", origin="a") for name in ("a", "a:1", "a:2")])
    await node.request([anew, create("a:1", origin="a"), anew])
    assert await statuses(node, "a:1", "a:2") == [200, 200]
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 3
    assert await statuses(node, "a", "a:1", "a:2") == [404] * 3


async def test_a_background_task_that_has_ended_goes_and_one_that_waits_stays(node: Node) -> None:
    tags = {"resonate:target": "poll://any@queue.q", "holdfast:job": '{"unique":"u"}'}
    far = 9_000_000_000_000
    await node.request([ask(PromiseCreate("done", far, tags=tags)), settle("done")])
    await node.request([ask(PromiseCreate("open", far, tags=tags))])
    assert await node.collect_garbage(ANY_AGE) == 1
    assert await statuses(node, "done", "open") == [404, 200]
    [reply] = await node.request([ask(PromiseCreate("more", far, tags=tags))])
    assert promise_of(reply).id == "open", "it still holds its key"


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
    await node.request([ask(TaskSuspend("a", 1, [register("b", "a")]))])
    assert await node.collect_garbage(ANY_AGE) == 0
    assert await statuses(node, "a", "b") == [200, 200]


async def test_who_was_woken_by_what_is_forgotten_is_still_resumed(node: Node) -> None:
    await node.request([create("a", target="poll://any@g"), create("b"), acquire("a")])
    await node.request([ask(TaskSuspend("a", 1, [register("b", "a")])), settle("b")])
    assert await node.collect_garbage(ANY_AGE) == 1
    [reply] = await node.request([acquire("a", version=1)])
    assert isinstance(reply.data, AcquireReply)
    assert reply.data.kind == "resume"


@pytest.mark.parametrize("awaited", ["ext", "ab", "a-1"])
async def test_what_is_forgotten_waits_for_nothing_any_more(node: Node, awaited: str) -> None:
    """A new execution with its id is not woken by what the old one waited for."""
    wait = [register(awaited, "a"), register("b", "a")]
    await node.request([create("a", target="poll://any@g"), create(awaited), create("b")])
    await node.request([acquire("a"), ask(TaskSuspend("a", 1, wait)), settle("b"), settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 2
    await node.request([create("a", target="poll://any@g"), create("c"), acquire("a")])
    await node.request([ask(TaskSuspend("a", 1, [register("c", "a")])), settle(awaited)])
    assert await task_state(node, "a") == "suspended"
    await node.request([settle("c")])
    assert await task_state(node, "a") == "pending"


async def task_state(node: Node, task_id: str) -> str:
    [reply] = await node.request([ask(TaskGet(task_id))])
    assert isinstance(reply.data, TaskReply)
    return reply.data.task.state


def register(awaited: str, awaiter: str) -> RegisterAction:
    return RegisterAction("promise.register_callback", PromiseRegisterCallback(awaited, awaiter))


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


async def test_a_dry_run_counts_exactly_what_would_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "page_promises", 4)
    trees = {f"t{index}": [f"t{index}", *(f"t{index}:{n}" for n in range(index))] for index in range(9)}
    ownerless = [f"u:{index}" for index in range(9)]  # their root was never made
    names = [*ownerless, *(name for tree in trees.values() for name in tree)]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names if name != "t5:2"])
    counted = await passed(node, dry_run=True)
    assert (counted.trees, counted.forgotten) == (9, len(names) - len(trees["t5"]))
    assert await statuses(node, *names) == [200] * len(names)
    done = await passed(node)
    assert (done.trees, done.forgotten) == (counted.trees, counted.forgotten)
    assert await passed(node, dry_run=True) == RetentionProgress(None, looked=len(trees["t5"]))


async def passed(node: Node, *, dry_run: bool = False) -> RetentionProgress:
    progress = RetentionProgress()
    while progress.after is not None:
        progress = await node.collect_some(progress, ANY_AGE, dry_run=dry_run)
    return progress


async def test_a_large_tree_goes_in_several_transactions_its_root_last(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    names = ["a", *(f"a:{index}" for index in range(20)), "b", *(f"b:{index}" for index in range(14))]
    await node.request([create(name, origin="a") for name in names])
    await node.request([settle(name) for name in names])
    progress, left = RetentionProgress(), len(names)
    while progress.after is not None:
        progress = await node.collect_some(progress, ANY_AGE)
        there = [
            name for name, status in zip(names, await statuses(node, *names), strict=True) if status == 200
        ]
        assert left - len(there) <= 10
        left = len(there)
        assert not there or "a" in there
    assert (progress.trees, progress.forgotten, left) == (1, 36, 0)


async def failed_execution(node: Node, records: int) -> list[str]:
    names = ["a", *(f"a:{index}" for index in range(records))]
    await node.request([create("a", target="poll://any@g"), *(create(name) for name in names[1:])])
    await node.request([*(settle(name) for name in names[1:]), ask(PromiseSettle("a", "rejected"))])
    return names


async def test_an_execution_of_which_a_part_is_deleted_is_not_retried(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    await failed_execution(node, 30)
    await node.collect_some(RetentionProgress(), ANY_AGE)
    retried, forked = await node.request(
        [ask(ExecutionRetry("a")), ask(ExecutionFork("a", "b", before="step"))]
    )
    assert (retried.status, retried.code) == (forked.status, forked.code) == (409, "HF1706")
    assert (await passed(node)).forgotten == 21


async def test_an_execution_that_is_retried_while_it_is_judged_keeps_all_of_its_records(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    names = await failed_execution(node, 30)
    judged = RetentionProgress(judged="a")
    [reply] = await node.request([ask(ExecutionRetry("a"))])
    assert reply.status == 200
    await node.collect_some(judged, ANY_AGE)
    assert await statuses(node, *names) == [200] * 31


async def test_a_pass_that_was_cut_off_is_finished_by_the_next(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    names = ["a", *(f"a:{index}" for index in range(30))]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names])
    begun = await node.collect_some(RetentionProgress(), ANY_AGE)
    assert (begun.forgotten, begun.judged) == (10, "a")
    assert (await passed(node)).forgotten == 21


async def test_what_grows_back_in_a_half_forgotten_tree_keeps_the_rest(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    names = ["a", *(f"a:{index:02}" for index in range(30))]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names])
    begun = await node.collect_some(RetentionProgress(), ANY_AGE)
    await node.request([create("a:99")])
    while begun.after is not None:
        begun = await node.collect_some(begun, ANY_AGE)
    assert await statuses(node, "a", "a:99") == [200, 200]
    await node.request([settle("a:99")])
    await passed(node)
    assert await statuses(node, "a", "a:99") == [404, 404]


async def test_executions_that_name_each_other_as_origin_go_together(node: Node) -> None:
    await node.request([create("a", origin="b"), create("b", origin="a"), create("c", origin="b")])
    await node.request([settle("a"), settle("b")])
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("c")])
    assert await node.collect_garbage(ANY_AGE) == 3


async def test_what_a_running_execution_made_below_another_root_stays(node: Node) -> None:
    """`a` made `x:1`, so the tree of `x` holds something of it."""
    await node.request([create("a"), create("x"), create("x:1", origin="a")])
    await node.request([settle("x"), settle("x:1")])
    assert await node.collect_garbage(ANY_AGE) == 0
    await node.request([settle("a")])
    assert await node.collect_garbage(ANY_AGE) == 3


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_whoever_waits_for_a_lapsed_promise_is_told_before_it_goes(kind: str, tmp_path: Path) -> None:
    """Nobody was there at its deadline. Collecting on the store itself must not come before the sweep."""
    url = f"sqlite:///{tmp_path}/holdfast.db" if kind == "sqlite" else database_url()
    async with Node(stores.open_store(url)) as node:
        await node.request([create("a", target="poll://any@g"), create("b"), acquire("a")])
        await node.request([ask(TaskSuspend("a", 1, [register("b", "a")]))])
    lapses_at = wall_clock()
    lapse = f"UPDATE promises SET timeout_at = {lapses_at} WHERE id = 'b'"
    if kind == "postgres":
        execute(url, lapse)
    else:
        with closing(sqlite3.connect(tmp_path / "holdfast.db")) as raw:
            raw.execute(lapse)
            raw.commit()
    store = stores.open_store(url)
    await store.open()
    done = await store.transact(partial(collect_page, RetentionProgress(), ANY_AGE, lapses_at + 2))
    await store.close()
    assert done.forgotten == 0
    async with Node(stores.open_store(url)) as node:
        mailbox = node.connect("g", "w")
        [message] = await asyncio.wait_for(mailbox.receive(), 60)
        assert isinstance(message, Execute)
        assert message.task.id == "a"


async def test_a_node_with_a_retention_forgets_by_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "first_pass_s_max", 0.01)
    monkeypatch.setattr(janitor, "pass_rest_s_min", 0.01)
    async with Node(store, retention_ms=200) as node:
        await node.request([create("old"), create("old:1"), create("live"), create("live:1")])
        await node.request([settle("old"), settle("old:1"), settle("live:1")])
        async with asyncio.timeout(60):
            while await statuses(node, "old") == [200]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await statuses(node, "old", "old:1", "live", "live:1") == [404, 404, 200, 200]
        assert node.stats.forgotten == 2


DAY_MS = 24 * HOUR_MS


@pytest.fixture(params=["memory", "sqlite"])
def clockless(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that has no clock of its own: it believes whoever asks."""
    return open_store(request.param, tmp_path)


async def test_a_tree_is_kept_as_long_as_its_owner_says_shorter_or_longer_than_all(clockless: Store) -> None:
    clock = 1_800_000_000_000
    async with Node(clockless, clock=lambda: clock) as node:
        kept = {"brief": HOUR_MS, "long": 9 * DAY_MS, "plain": None}
        for name, keep_ms in kept.items():
            entries = {} if keep_ms is None else {"holdfast:keep": str(keep_ms)}
            await node.request([ask(PromiseCreate(name, FAR, tags=entries)), settle(name)])

        async def left(older_than_ms: int | None, age_ms: int) -> list[str]:
            await collect_all(clockless, clock + age_ms, older_than_ms)
            found = await statuses(node, *kept)
            return [name for name, status in zip(kept, found, strict=True) if status == 200]

        assert await left(None, HOUR_MS) == ["brief", "long", "plain"], "not longer ago than that"
        assert await left(None, HOUR_MS + 1) == ["long", "plain"]
        assert await left(DAY_MS, 2 * DAY_MS) == ["long"]
        assert await left(DAY_MS, 9 * DAY_MS + 1) == []


async def test_what_a_member_of_a_tree_says_does_not_shorten_its_life(clockless: Store) -> None:
    clock = 1_800_000_000_000
    brief = {"holdfast:keep": "1000"}
    async with Node(clockless, clock=lambda: clock) as node:
        await node.request([create("a"), ask(PromiseCreate("a:1", FAR, tags=brief))])
        await node.request([ask(PromiseCreate("b", FAR, tags=brief | {"resonate:origin": "a"}))])
        await node.request([ask(PromiseCreate("c:1", FAR, tags=brief)), create("c:2")])  # there is no "c"
        names = ["a", "a:1", "b", "c:1", "c:2"]
        await node.request([settle(name) for name in names])
        await collect_all(clockless, clock + HOUR_MS, HOUR_MS)
        assert await statuses(node, *names) == [200] * 5
        await collect_all(clockless, clock + HOUR_MS + 1, HOUR_MS)
        assert await statuses(node, *names) == [404] * 5


async def test_a_node_without_retention_deletes_what_says_how_long_it_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "first_pass_s_max", 0.01)
    monkeypatch.setattr(janitor, "pass_rest_s_min", 0.01)
    entries = {"resonate:target": "poll://any@queue.q", "holdfast:job": "{}"}
    settled_at: dict[str, int] = {}
    async with Node(store) as node:
        for name, kept in (("brief", {"holdfast:keep": "1000"}), ("plain", {})):
            await node.request([ask(PromiseCreate(name, FAR, tags=entries | kept))])
            [settled] = await node.request([settle(name)])
            settled_at[name] = promise_of(settled).settled_at
        async with asyncio.timeout(60):
            while await statuses(node, "brief") == [200]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        [clock] = await node.request([create("clock")])
        assert promise_of(clock).created_at > settled_at["brief"] + 1_000
        assert await statuses(node, "plain") == [200]


@pytest.mark.parametrize("keep", ["0", "999", "-1", "soon", ""])
def test_a_time_to_keep_that_is_none_is_refused(keep: str) -> None:
    with pytest.raises(ValueError, match="holdfast:keep must be"):
        PromiseCreate("a", FAR, tags={"holdfast:keep": keep})


async def collect_all(store: Store, reading: int, older_than_ms: int | None) -> None:
    progress = RetentionProgress()
    while progress.after is not None:
        progress = await store.transact(partial(collect_page, progress, older_than_ms, reading))


async def test_a_node_that_stops_does_not_wait_for_a_pass(store: Store) -> None:
    node = Node(store, retention_ms=1_000)
    await node.start()
    await node.request([create(f"p{index}") for index in range(300)])
    async with asyncio.timeout(60):
        await node.stop()


async def test_a_tree_that_cannot_be_seen_whole_goes_in_portions_its_root_last(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An execution with very many messages: more than one transaction may look at."""
    monkeypatch.setattr(retention, "forgotten_max", 10)
    monkeypatch.setattr(retention, "tree_promises_max", 40)
    names = ["a", *(f"a:in.{index}" for index in range(75)), "b"]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names])
    counted = await passed(node, dry_run=True)
    assert (counted.trees, counted.forgotten, counted.too_large) == (2, 77, 0)
    progress, left, transactions = RetentionProgress(), len(names), 0
    while progress.after is not None:
        progress = await node.collect_some(progress, ANY_AGE)
        transactions += 1
        there = [
            name for name, status in zip(names, await statuses(node, *names), strict=True) if status == 200
        ]
        assert left - len(there) <= 10
        left = len(there)
        assert "a" in there or not any(name.startswith("a:") for name in there)
    assert (progress.trees, progress.forgotten, progress.too_large, left) == (2, 77, 0, 0)
    assert transactions < 30  # it comes to an end, and does not begin again with each page


@pytest.mark.parametrize("late", ["a:00", "a:40", "a:74"])
async def test_a_tree_that_cannot_be_seen_whole_stays_while_anything_of_it_is_pending(
    late: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    monkeypatch.setattr(retention, "tree_promises_max", 40)
    names = ["a", *(f"a:{index:02}" for index in range(75))]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names if name != late])
    assert (await passed(node)).forgotten == 0
    await node.request([settle(late)])
    assert (await passed(node)).forgotten == 76


async def test_a_large_tree_of_several_roots_stays_and_is_counted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    monkeypatch.setattr(retention, "tree_promises_max", 40)
    names = ["a", *(f"a:{index:02}" for index in range(50)), "b"]
    await node.request([create(name, origin="a") for name in names])
    await node.request([settle(name) for name in names])
    done = await passed(node)
    assert (done.forgotten, done.too_large) == (0, 1)


async def test_a_pass_that_was_cut_off_in_a_large_tree_is_finished_by_the_next(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "forgotten_max", 10)
    monkeypatch.setattr(retention, "tree_promises_max", 40)
    names = ["a", *(f"a:{index:02}" for index in range(75))]
    await node.request([create(name) for name in names])
    await node.request([settle(name) for name in names])
    progress = RetentionProgress()
    while not progress.forgotten:
        progress = await node.collect_some(progress, ANY_AGE)
    await node.request([create("a:99")])  # what grows back keeps the rest, in the end
    while progress.after is not None:
        progress = await node.collect_some(progress, ANY_AGE)
    assert await statuses(node, "a", "a:99") == [200, 200]
    await node.request([settle("a:99")])
    await passed(node)
    assert await statuses(node, "a", "a:99", "a:74") == [404, 404, 404]
