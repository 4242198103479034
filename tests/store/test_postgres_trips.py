"""How often PostgreSQL is asked. Work that only creates needs no transaction around its one statement, and
whom a promise owes its end is read with its record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.engine import Rules
from holdfast.node.group import CommitContext, CommitOutcome, run_group
from holdfast.protocol.executions import Wait
from holdfast.protocol.requests import (
    LockAcquire,
    PromiseCreate,
    PromiseRegisterCallback,
    PromiseSearch,
    RegisterAction,
    Request,
    TaskClaim,
    TaskFence,
    TaskSuspend,
)
from holdfast.protocol.requests.locks import AcquireAction
from holdfast.store.interface import Work
from holdfast.store.postgres import CommitUnknown, PostgresStore
from holdfast.store.postgres_connection import Connector, may_have_committed
from tests.postgres import database_url, execute
from tests.requests import FAR, acquire, ask, create, get, listen, promise_of, register, settle
from tests.store.test_postgres import commit, idle_connections, opened

BLOCKED = "SELECT pid FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
OURS = (
    "INSERT INTO promises (id, state, param, value, tags, timeout_at, created_at, watched) "
    f"VALUES ('a', 'pending', '{{\"data\":\"theirs\"}}', '{{}}', '{{}}', {FAR}, 1, false)"
)


@pytest.fixture
def url() -> str:
    return database_url()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = await opened(url)
    yield store
    await store.close()


def statements_of(store: PostgresStore) -> list[str]:
    """The first words of each statement from now on."""
    [connection] = idle_connections(store)
    asked: list[str] = []

    def note(query: Any) -> None:
        asked.append(str(query.query).partition(" ")[0])

    connection.add_query_logger(note)
    return asked


def sent(name: str) -> Request:
    entries = {"resonate:target": "poll://any@queue.q", "holdfast:job": '{"sentAt":1}'}
    return ask(PromiseCreate(name, FAR, tags=entries))


async def blocked_by(connection: Any) -> int:
    """The process of the statement that waits for this connection."""
    async with asyncio.timeout(60):
        while (found := await connection.fetchval(BLOCKED)) is None:
            pass
    return int(found)


async def committed(store: PostgresStore, *requests: Request) -> CommitOutcome:
    """And its last statement is noted, which the driver does in the next turn of the loop."""
    outcome = await commit(store, *requests)
    assert all(reply.status in (200, 201) for reply in outcome.replies), outcome.replies
    await asyncio.sleep(0)
    return outcome


async def test_what_is_only_created_takes_a_look_and_a_write(store: PostgresStore) -> None:
    await commit(store, create("first"))
    asked = statements_of(store)
    await committed(store, create("a"), create("b", target="poll://any@g"))
    assert asked == ["SELECT", "WITH"]
    asked.clear()
    await committed(store, sent("c"), sent("d"))
    assert asked == ["SELECT", "SELECT", "WITH"], "the queue is looked at, too"
    assert {reply.status for reply in (await commit(store, *map(get, "abcd"))).replies} == {200}


async def test_what_exists_is_locked_before_it_is_read(store: PostgresStore) -> None:
    await commit(store, create("a", data="mine"))
    asked = statements_of(store)
    outcome = await committed(store, create("a", data="another"), create("b"))
    assert asked[:2] == ["SELECT", "BEGIN"]
    assert asked[-1] == "COMMIT"
    assert [promise_of(reply).param.data for reply in outcome.replies] == ["mine", None]


async def test_a_create_that_loses_the_race_finds_what_the_other_made(store: PostgresStore, url: str) -> None:
    other = await Connector(url).connect()
    async with other.transaction():
        await other.execute(OURS)
        creating = asyncio.create_task(commit(store, create("a", data="mine")))
        await blocked_by(other)
    await other.close()
    outcome = await asyncio.wait_for(creating, 60)
    assert promise_of(outcome.replies[0]).param.data == "theirs"


async def test_a_create_whose_connection_breaks_may_have_happened(store: PostgresStore, url: str) -> None:
    """It was sent once, and is not sent again: whoever asked learns that nobody knows."""
    other = await Connector(url).connect()
    async with other.transaction():
        await other.execute(OURS)
        creating = asyncio.create_task(commit(store, create("a")))
        await other.fetchval("SELECT pg_terminate_backend($1)", await blocked_by(other))
        with pytest.raises(CommitUnknown):
            await asyncio.wait_for(creating, 60)
    await other.close()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (asyncpg.ConnectionDoesNotExistError("closed in the middle"), True),
        (asyncpg.AdminShutdownError("ended"), True),
        (OSError("broken"), True),
        (asyncpg.ReadOnlySQLTransactionError("a replica"), False),
        (asyncpg.DiskFullError("full"), False),
        (asyncpg.UniqueViolationError("taken"), False),
    ],
)
def test_what_the_server_refused_has_not_happened(error: Exception, *, expected: bool) -> None:
    assert may_have_committed(error) is expected


async def test_what_follows_a_create_is_in_one_transaction_with_it(store: PostgresStore) -> None:
    def broken(*requests: Request) -> Work[None]:
        yield from run_group(requests, CommitContext(0, Rules(), debug=False))
        raise ZeroDivisionError

    claim = ask(TaskClaim(["g"], 1, "p", 60_000))
    for requests in ([create("a")], [create("a", target="poll://any@g"), claim]):
        asked = statements_of(store)
        with pytest.raises(ZeroDivisionError):
            await store.transact(partial(broken, *requests))
        await asyncio.sleep(0)
        assert "COMMIT" not in asked
        assert (await commit(store, get("a"))).replies[0].status == 404
    outcome = await commit(store, create("a", target="poll://any@g"), claim, acquire("a"), settle("a"))
    assert [reply.status for reply in outcome.replies] == [200, 200, 409, 200]
    assert [each.task.id for each in outcome.replies[1].data.tasks] == ["a"]  # type: ignore[union-attr]


async def test_the_clock_is_stored_with_what_is_created(store: PostgresStore, url: str) -> None:
    """Whatever the node and the database believe: after a restart it goes on from there."""
    execute(url, "UPDATE clock SET now = 0")
    before = (await commit(store, create("a"))).now
    assert int(execute(url, "SELECT now FROM clock")) == before


async def test_whom_a_promise_owes_its_end_is_read_with_its_record(store: PostgresStore) -> None:
    await commit(store, create("a"), create("b"), create("w", target="poll://any@g"), acquire("w"))
    await commit(store, register("a", "w"), listen("a", "poll://uni@w/1"), listen("a", "poll://uni@w/2"))
    asked = statements_of(store)
    outcome = await committed(store, settle("a"), settle("b"))
    assert asked == ["BEGIN", "WITH", "SELECT", "SELECT", "WITH", "COMMIT"], "the second is of who awaits"
    told = {message.address for message in outcome.messages}
    assert told == {"poll://uni@w/1", "poll://uni@w/2"}
    await committed(store, create("c", target="poll://any@g"))
    asked.clear()
    await committed(store, settle("c"))
    assert asked == ["BEGIN", "WITH", "SELECT", "WITH", "COMMIT"]


async def test_whoever_begins_to_wait_beside_a_record_that_cannot_be_read_is_woken(
    url: str, store: PostgresStore
) -> None:
    """The load fails, and the work goes on: what the promise owed before is not taken for what it owes."""
    await commit(
        store, create("P"), listen("P", "poll://uni@g/me"), create("bad"), create("a", target="poll://any@w")
    )
    await commit(store, acquire("a"))
    execute(url, "UPDATE promises SET value = '{' WHERE id = 'bad'")
    await commit(store, register("P", "a"), ask(PromiseSearch()), settle("P"), settle("bad"))
    assert execute(url, "SELECT state FROM promises WHERE id = 'P'") == "resolved"
    assert execute(url, "SELECT resumes FROM tasks WHERE id = 'a'") == "1"


async def test_a_suspension_looks_at_what_is_awaited_and_no_further_where_nothing_is_stuck(
    store: PostgresStore,
) -> None:
    children, target = [f"C{number}" for number in range(20)], "poll://any@w"
    await committed(store, *(create(name, target=target) for name in ("P", *children)))
    await committed(store, *(create(f"{name}.g", target=target) for name in children))
    await committed(store, *(acquire(name) for name in ("P", *children)))
    for name in children:
        await committed(store, suspended(name, f"{name}.g"))
    asked = statements_of(store)
    await committed(store, suspended("P", *children))
    assert len(asked) <= 8, asked


async def test_whoever_asks_for_a_permit_reads_all_its_holders_at_once(store: PostgresStore) -> None:
    holders = [f"H{number}" for number in range(20)]
    await committed(store, *(create(name, target="poll://any@w") for name in ("W", *holders)))
    await committed(store, *(acquire(name) for name in ("W", *holders)))
    for name in holders:
        await committed(store, wanting(name, len(holders)))
    asked = statements_of(store)
    await committed(store, wanting("W", len(holders)))
    assert len(asked) <= 12, asked


def wanting(name: str, limit: int) -> Request:
    return ask(TaskFence(name, 1, AcquireAction(LockAcquire(f"{name}:1", "gpu", FAR, limit))))


def suspended(name: str, *awaited: str) -> Request:
    actions = [
        RegisterAction("promise.register_callback", PromiseRegisterCallback(each, name)) for each in awaited
    ]
    return ask(TaskSuspend(name, 1, actions, waits=[Wait(awaited[0])]))
