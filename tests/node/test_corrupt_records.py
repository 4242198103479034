"""A record that cannot be read stops whoever needs it, and nobody else; on every store that can hold one."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.engine import Rules
from holdfast.node import Node, retention, unreadable
from holdfast.node.clock import wall_clock
from holdfast.protocol.messages import Unblock
from holdfast.protocol.requests import PromiseSearch, TaskClaim
from holdfast.store.interface import CorruptRecord, Store
from holdfast.store.postgres import PostgresStore
from holdfast.store.sqlite import SqliteStore
from tests.postgres import database_url, execute
from tests.requests import acquire, ask, create, get, listen, settle

HERE = "poll://uni@g/me"
BAD_VALUE = "UPDATE promises SET value = '{' WHERE id = 'bad'"


class Database:
    def __init__(self, name: str, folder: Path) -> None:
        self._path = folder / "holdfast.db"
        self._url = database_url() if name == "postgres" else None

    def store(self) -> Store:
        return SqliteStore(self._path) if self._url is None else PostgresStore(self._url)

    def harm(self, statement: str) -> None:
        if self._url is not None:
            execute(self._url, statement)
            return
        raw = sqlite3.connect(self._path, timeout=60)
        raw.execute(statement)
        raw.commit()
        raw.close()

    def make_due(self, *names: str, in_ms: int = 0) -> None:
        """In the store, while no node is there: how long the machine took to make them does not matter."""
        for name in names:
            self.harm(f"UPDATE promises SET timeout_at = {wall_clock() + in_ms} WHERE id = '{name}'")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return Database(request.param, tmp_path)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "HF2002" in record.getMessage()]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came about")


async def test_what_else_is_due_goes_on(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with Node(database.store(), sweeps=False) as node:
        for name in ("bad", "good", "later"):
            await node.request([create(name), listen(name, HERE)])
    database.harm(BAD_VALUE)
    database.make_due("bad", "good")
    database.make_due("later", in_ms=400)
    async with Node(database.store()) as node:
        mailbox = node.connect("g", "me")
        seen: list[str] = []
        async with asyncio.timeout(60):
            while len(seen) < 2:
                seen += [each.promise.id for each in await mailbox.receive() if isinstance(each, Unblock)]
        assert seen == ["good", "later"]
        sweeps = node.stats.sweeps
        await asyncio.sleep(0.3)
        assert node.stats.sweeps - sweeps <= 1, "it does not spin on what it cannot read"
    [line] = told(caplog)
    assert "'bad'" in line


async def test_what_cannot_be_read_is_tried_again_after_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreadable, "unreadable_rest_ms", 100)
    monkeypatch.setattr("holdfast.node.group.unreadable_rest_ms", 100)
    async with Node(database.store(), sweeps=False) as node:
        await node.request([create("bad"), listen("bad", HERE)])
    database.harm(BAD_VALUE)
    database.make_due("bad")
    async with Node(database.store()) as node:
        mailbox = node.connect("g", "me")
        await until(lambda: node.stats.sweeps >= 3)
        database.harm("UPDATE promises SET value = '{}' WHERE id = 'bad'")
        [message] = await asyncio.wait_for(mailbox.receive(), 60)
        assert isinstance(message, Unblock)


async def test_only_what_needs_the_record_is_refused_and_told_its_name(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with Node(database.store(), sweeps=False) as node:
        await node.request([create("bad"), create("good"), create("other"), listen("other", HERE)])
        database.harm(BAD_VALUE)
        replies = await asyncio.gather(
            node.request([get("good")]),
            node.request([get("bad"), create("beside")]),
            node.request([settle("other")]),
            node.request([settle("bad")]),
            node.request([create("new")]),
            node.request([ask(PromiseSearch())]),
        )
        statuses = [[reply.status for reply in each] for each in replies]
        assert statuses == [[200], [500, 200], [200], [500], [200], [500]]
        refused = replies[1][0].data
        assert refused == replies[3][0].data
        assert "'bad'" in str(refused)
        assert "[HF2002]" in str(refused)
        assert "Nothing was changed" in str(refused)
        found = await node.request([get("new"), get("beside"), get("other")])
        assert [each.data.promise.state for each in found] == ["pending", "pending", "resolved"]  # type: ignore[union-attr]
        assert node.stats.store_healthy
        assert [promise.id for promise in await node.find_promises(["bad", "good"])] == ["good"]
    assert len(told(caplog)) == 1


async def test_a_caller_is_told_no_name_that_he_may_not_see(database: Database) -> None:
    async with Node(database.store(), sweeps=False) as node:
        await node.request([create("bad")])
        database.harm(BAD_VALUE)
        [own] = await node.request([replace(get("bad"), scope="bad")])
        [foreign] = await node.request([replace(get("bad"), scope="mine")])
        assert "'bad'" in str(own.data)
        assert "bad" not in str(foreign.data)
        assert "[HF2002]" in str(foreign.data)


async def test_who_waits_and_cannot_be_read_keeps_only_its_own_promise_from_settling(
    database: Database,
) -> None:
    async with Node(database.store(), sweeps=False) as node:
        made = [create("bad", target="poll://any@g"), acquire("bad"), create("awaited"), create("free")]
        await node.request(made)
        database.harm("INSERT INTO callbacks VALUES ('awaited', 'bad')")
        database.harm("UPDATE promises SET watched = TRUE WHERE id = 'awaited'")
        database.harm("UPDATE tasks SET state = 'lost' WHERE id = 'bad'")
        refused, fine = await node.request([settle("awaited"), settle("free")])
        assert (refused.status, fine.status) == (500, 200)
        assert "The task 'bad' cannot be read" in str(refused.data)
        [seen] = await node.request([get("awaited")])
        assert seen.data.promise.state == "pending"  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [1, 5])
async def test_a_task_that_cannot_be_read_does_not_keep_others_from_being_claimed(
    database: Database, count: int
) -> None:
    async with Node(database.store(), rules=Rules(retry_ms=60_000)) as node:
        for name in ("bad", "worse", "one", "two"):
            await node.request([create(name, target="poll://any@g")])
        database.harm("UPDATE tasks SET dialect = 'Z' WHERE id = 'worse'")
        database.harm(BAD_VALUE)
        [offers] = [await node.offers("g", 10)]
        # An offer reads no promise; whoever takes this one up is told.
        assert sorted(offer.task.id for offer in offers) == ["bad", "one", "two"]
        claims = [ask(TaskClaim(["g"], count, f"p{index}", 60_000)) for index in range(2)]
        replies: list[Any] = await node.request(claims)
        assert sorted(item.task.id for each in replies for item in each.data.tasks) == ["one", "two"]


async def test_what_cannot_be_read_is_kept_and_the_rest_is_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "page_promises", 2)
    async with Node(database.store(), sweeps=False) as node:
        for name in ("a", "bad", "c", "c:1", "d"):
            await node.request([create(name), settle(name)])
        database.harm(BAD_VALUE)
        database.harm("UPDATE promises SET tags = '7' WHERE id = 'c:1'")
        await asyncio.sleep(0.02)
        assert await node.collect_garbage(1) == 2
        statuses = [reply.status for reply in await node.request([get(name) for name in ("a", "c", "d")])]
        assert statuses == [404, 200, 404]


def test_what_is_told_and_left_out_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unreadable, "unreadable_max", 3)
    kept = unreadable.Unreadable()
    caplog.set_level(logging.ERROR)
    unread = [(get(f"p{n}").data, CorruptRecord("promise", f"p{n}", "no JSON")) for n in range(9)]
    for now in (0, 1, 59_999):
        kept.note(unread, now)
        kept.leave_out(unread, now)
    assert len(told(caplog)) == len(kept.left_out(59_999)) == 3
    kept.note(unread[5:], 60_000)
    assert len(told(caplog)) == 6
    assert not kept.left_out(60_000)
