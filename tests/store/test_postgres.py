"""PostgreSQL: durable, set-based, index by index, safe behind a pooler and while it is upgraded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from holdfast.engine import Rules
from holdfast.engine.newest import ExecutionStretch, execution_scan
from holdfast.node import Node
from holdfast.node.group import CommitContext, CommitOutcome, run_group, run_sweep
from holdfast.node.reads import read_offers
from holdfast.protocol.requests import (
    ExecutionSearch,
    PromiseCreate,
    PromiseSearch,
    PromiseSettle,
    Request,
    TaskClaim,
)
from holdfast.store import lines, postgres, postgres_bus, postgres_statements as sql, postgres_transaction
from holdfast.store.interface import NewerSchema, Work
from holdfast.store.migrations import migrations
from holdfast.store.newest_sql import newest_query, stretch_query
from holdfast.store.postgres import PostgresStore, TooManyConflicts
from holdfast.store.postgres_connection import Connector, MissingDriver
from holdfast.store.postgres_migrate import migrate
from holdfast.store.postgres_transaction import RunAgain
from holdfast.store.scan_sql import POSTGRES, find_query
from holdfast.store.urls import open_store
from tests.postgres import binaries, database_url, execute, shared_server
from tests.requests import FAR, acquire, ask, create, get, listen, promise_of, register, settle
from tests.store.test_sqlite import HERE, OLD_ROWS, scans_of_failed


async def opened(url: str, **options: Any) -> PostgresStore:
    store = PostgresStore(url, **options)
    await store.open()
    return store


async def commit(store: PostgresStore, *requests: Request) -> CommitOutcome:
    return await store.transact(lambda: run_group(requests, CommitContext(0, Rules(), debug=False)))


@pytest.fixture
def url() -> str:
    return database_url()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = await opened(url)
    yield store
    await store.close()


def schema_of(url: str) -> str:
    return execute(
        url,
        "SELECT table_name, column_name, data_type, is_nullable, collation_name "
        "FROM information_schema.columns "
        "WHERE table_schema = current_schema() ORDER BY 1, 2; "
        "SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes "
        "WHERE schemaname = current_schema() ORDER BY 1",
    )


async def test_an_upgraded_schema_equals_a_fresh_one(url: str) -> None:
    connection = await Connector(url).connect()
    for number, _ in migrations("postgres"):
        await migrate(connection, up_to=number)
    await connection.close()
    fresh = database_url()
    await (await opened(fresh)).close()
    assert schema_of(url) == schema_of(fresh)


async def test_what_an_older_version_stored_is_there_after_the_upgrade(url: str) -> None:
    connection = await Connector(url).connect()
    await migrate(connection, up_to=1)
    await connection.close()
    execute(url, OLD_ROWS)
    async with Node(PostgresStore(url)) as node:
        found = await node.request([get("old"), ask(TaskClaim(["g"], 5, "p", 1_000))])
    assert found[0].data.promise.tags == {"resonate:target": "poll://any@g"}  # type: ignore[union-attr]
    assert [item.task.id for item in found[1].data.tasks] == ["old"]  # type: ignore[union-attr]
    assert found[1].data.tasks[0].task.job is None  # type: ignore[union-attr]


async def test_an_upgrade_that_ends_in_a_deadlock_is_run_again(url: str) -> None:
    """A node that works meanwhile has read one table and wants another, in another order than the scripts."""
    upgrade, worker, brake, observer = [await Connector(url).connect() for _ in range(4)]
    await migrate(upgrade, up_to=1)
    await worker.execute("SET deadlock_timeout = '1h'; SET lock_timeout = 0; BEGIN; SELECT FROM schedules")
    await brake.execute("BEGIN; LOCK TABLE callbacks IN ROW EXCLUSIVE MODE")  # script 3 waits for it
    upgrading = asyncio.create_task(migrate(upgrade))
    await waits_for_a_lock(observer, upgrade)
    reading = asyncio.create_task(worker.execute("SELECT FROM tasks; ROLLBACK"))
    await waits_for_a_lock(observer, worker)
    await brake.execute("ROLLBACK")  # now script 10 waits for the worker, which waits for the upgrade
    async with asyncio.timeout(60):
        await asyncio.gather(upgrading, reading)
    fresh = database_url()
    await (await opened(fresh)).close()
    assert schema_of(url) == schema_of(fresh)
    for connection in (upgrade, worker, brake, observer):
        await connection.close()


async def waits_for_a_lock(observer: Any, connection: Any) -> None:
    query = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $1"
    async with asyncio.timeout(60):
        while await observer.fetchval(query, connection.get_server_pid()) != "Lock":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_newer_schema_is_refused_and_left_alone(url: str) -> None:
    await (await opened(url)).close()
    execute(url, "UPDATE schema_version SET version = 9999, compatible_from = 9999")
    with pytest.raises(NewerSchema, match="9999"):
        await opened(url)


async def test_a_node_of_the_last_version_goes_on_while_the_schema_is_upgraded(url: str) -> None:
    """Upgrades only add. What was prepared before is prepared again, and nobody notices."""
    async with Node(PostgresStore(url)) as node:
        await node.request([create("a"), create("b", target="poll://any@g")])
        await asyncio.to_thread(  # the node's own reads end on this loop, and the tables wait for them
            execute,
            url,
            "ALTER TABLE promises ADD COLUMN later TEXT; "
            "ALTER TABLE tasks ADD COLUMN later BIGINT DEFAULT 7; "
            "CREATE INDEX later ON promises (created_at); UPDATE schema_version SET version = 9999",
        )
        replies = await node.request([settle("a"), acquire("b"), create("c"), get("c")])
        assert {reply.status for reply in replies} == {200}


async def test_a_large_submission_has_the_time_it_takes_to_send_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sql.SETTINGS, "idle_in_transaction_session_timeout", "150")
    async with Node(PostgresStore(url)) as node:
        replies = await node.request([create(f"p{index}", data='"' * 1_048_576) for index in range(8)])
        assert {reply.status for reply in replies} == {200}
        [reply] = await node.request([settle("p0")])
        assert reply.status == 200


async def test_a_role_that_may_not_change_the_schema_is_enough() -> None:
    owner = database_url()
    await (await opened(owner)).close()
    schema = owner.rpartition("=")[2]
    execute(
        owner,
        f"DROP ROLE IF EXISTS plain_{schema}; CREATE ROLE plain_{schema} LOGIN; "
        f"GRANT USAGE ON SCHEMA {schema} TO plain_{schema}; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO plain_{schema}; "
        f"REVOKE INSERT, UPDATE, DELETE ON schema_version FROM plain_{schema};",
    )
    async with Node(PostgresStore(owner.replace("holdfast@", f"plain_{schema}@"))) as node:
        replies = await node.request([create("a", target="poll://any@g"), acquire("a"), settle("a")])
        assert {reply.status for reply in replies} == {200}
        assert await node.collect_garbage(-1) == 1


async def test_a_weaker_setting_of_the_server_is_not_accepted(url: str) -> None:
    store = await opened(url + "&synchronous_commit=off")
    seen: list[str] = []

    def look() -> Work[None]:
        yield from ()

    await store.transact(look)
    [connection] = idle_connections(store)
    seen.append(await connection.fetchval("SHOW synchronous_commit"))
    assert seen == ["on"]
    await store.close()


def idle_connections(store: PostgresStore) -> list[Any]:
    connections: list[Any] = vars(store)["_idle"]
    return connections


async def test_a_pooler_finds_no_prepared_statement_and_no_session_state(url: str) -> None:
    store = await opened(url + "&prepared=off", parallel_groups=1)
    for number in range(10):
        await commit(store, create(f"a{number}", target="poll://any@g"), acquire(f"a{number}"))
    [connection] = idle_connections(store)
    assert await connection.fetchval("SELECT count(*) FROM pg_prepared_statements") == 0
    assert await connection.fetchval("SHOW enable_seqscan") == "on"
    assert await connection.fetchval("SHOW lock_timeout") == "0"
    await store.close()


class Hopping(PostgresStore):
    """As behind a transaction pooler: every transaction finds itself in another session."""

    async def _take(self) -> Any:
        connection = await super()._take()
        await connection.close()
        return await Connector(self.url).connect()

    url = ""


async def test_every_transaction_may_be_in_another_session(url: str) -> None:
    store = Hopping(url + "&prepared=off")
    store.url = url + "&prepared=off"
    store.bus = None
    async with Node(store) as node:
        for number in range(5):
            replies = await node.request(
                [create(f"a{number}", target="poll://any@g"), acquire(f"a{number}"), settle(f"a{number}")]
            )
            assert {reply.status for reply in replies} == {200}


@pytest.mark.parametrize("size", [1, 64, 500])
async def test_a_group_takes_a_handful_of_statements_whatever_its_size(
    size: int, store: PostgresStore
) -> None:
    [connection] = idle_connections(store)
    asked: list[str] = []

    def note(query: Any) -> None:
        asked.append(query.query)

    connection.add_query_logger(note)
    await commit(store, *(create(f"p{index}", target="poll://any@g") for index in range(size)))
    assert len(asked) <= 5, asked
    asked.clear()
    await commit(store, *(acquire(f"p{index}") for index in range(size)))
    assert len(asked) <= 6, asked
    asked.clear()
    await commit(store, *(get(f"p{index}") for index in range(size)))
    assert len(asked) == 1, asked  # not even a transaction
    asked.clear()
    await commit(store, ask(PromiseSearch(limit=size)))
    await store.transact(lambda: read_offers("g", 1, 10))
    assert not any("BEGIN" in query for query in asked), asked
    asked.clear()
    await commit(store, ask(TaskClaim(["g"], size, "p", 1_000)))
    assert len(asked) <= 5, asked


@pytest.mark.parametrize("kind", ["callbacks", "listeners"])
async def test_who_waits_takes_a_handful_of_statements(kind: str, store: PostgresStore) -> None:
    made = [create(f"p{n}") for n in range(500)]
    await commit(store, create("w", target="poll://any@g"), acquire("w"), *made)
    [connection] = idle_connections(store)
    asked: list[str] = []

    def note(query: Any) -> None:
        asked.append(query.query)

    connection.add_query_logger(note)
    for wait in (
        [register(f"p{n}", "w") if kind == "callbacks" else listen(f"p{n}", HERE) for n in range(500)],
        [settle(f"p{n}") for n in range(500)],  # each is discharged
    ):
        asked.clear()
        assert {reply.status for reply in (await commit(store, *wait)).replies} == {200}
        assert len(asked) <= 8, asked


async def test_a_tag_longer_than_an_index_allows_is_found_again(store: PostgresStore, url: str) -> None:
    long = "".join(chr(0x4E00 + index * 7 % 20_000) for index in range(1_300))
    await commit(
        store,
        create("a", target="poll://any@g", branch=long, origin=long),
        create("a:1", branch=long, origin=long),
    )
    outcome = await commit(
        store, acquire("a"), ask(PromiseSearch(tags={"resonate:origin": long})), create("b", origin="x")
    )
    assert [each.id for each in outcome.replies[0].data.preload] == ["a:1"]  # type: ignore[union-attr]
    assert [each.id for each in outcome.replies[1].data.promises] == ["a", "a:1"]  # type: ignore[union-attr]


def searches_by_status() -> list[tuple[str, list[Any]]]:
    return [find_query(scan, POSTGRES) for scan in scans_of_failed()]


def plans() -> list[tuple[str, list[Any]]]:
    ids = [f"many{index}" for index in range(64)]
    return [
        (sql.LOCK, [ids]),
        (sql.LOCK_AWAITING, [ids, ids]),
        (sql.FETCH["records"], [ids]),
        (sql.FETCH["obligations"], [ids]),
        (sql.FETCH["branches"], [["x"]]),
        (sql.FETCH["uniques"], [ids]),
        (sql.FETCH["families"], [ids]),
        (sql.LOCK_QUEUES, [ids]),
        (sql.LOCK_GATES, [ids]),
        (sql.OFFERS, ["many", 1, 10, 0, []]),
        (sql.OFFERS, ["many", 1, 10, 0, ["full"]]),
        (sql.OFFERS_WITHIN, ["many", 1, 10, 0, [], 4, "many", 5]),
        (sql.FETCH["turns"], [['["queue.many", 0, "queue.many/"]']]),
        *((sql.numbered(statement), values) for statement, values in searches_by_status()),
        (sql.HELD, [["many"]]),
        (sql.COUNT_QUEUE, ["many", 10] * 4),
        (sql.DUE_PROMISES, [1, 100]),
        (sql.DUE_TASKS, [1, 100]),
        (sql.DUE_SCHEDULES, [1, 100]),
        (sql.FIRST, []),
        (sql.save_statement(("drop_waits",)), [ids]),
    ]


@pytest.mark.parametrize("stored", [0, 500])
async def test_every_statement_walks_an_index(store: PostgresStore, url: str, stored: int) -> None:
    """Whether its plan was made while the tables were full or empty: it is made once for a connection."""
    if stored:
        await commit(store, *(create(f"many{index}", target="poll://any@many") for index in range(stored)))
    [connection] = idle_connections(store)
    for number, (statement, parameters) in enumerate(plans()):
        await connection.execute(f"PREPARE plan{number} AS {statement}")
        nothing = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
        found = await connection.fetch(f"EXPLAIN EXECUTE plan{number}{nothing}")
        plan = "\n".join(row[0] for row in found)
        for table in ("promises", "tasks", "callbacks", "listeners", "schedules", "queues"):
            assert f"Seq Scan on {table}" not in plan, f"{statement}\n{plan}"
        assert "Sort" not in plan or "LIMIT" not in statement, f"{statement}\n{plan}"
        by_awaiter = "DELETE" in statement or statement == sql.FETCH["families"]
        assert not by_awaiter or "callbacks_outside" in plan, f"{statement}\n{plan}"


@pytest.mark.parametrize("stored", [0, 500])
async def test_what_leaves_keys_out_walks_the_index_of_lines(
    store: PostgresStore, url: str, stored: int
) -> None:
    """And no other: that of offers would lead through all that is left out."""
    if stored:
        await commit(store, *(create(f"m{n}", target="poll://any@queue.m") for n in range(stored)))
    [connection] = idle_connections(store)
    texts = {
        "heads": (lines.POSTGRES_HEADS, 8, "tasks_lines"),
        "deep": (lines.POSTGRES_DEEP, 8, "tasks_lines"),
        "turns": (sql.FETCH["turns"], 1, "tasks_lines"),
        "walk": (lines.POSTGRES_WALK, 9, "tasks_offers"),
        "among": (sql.OFFERS_AMONG, 5, "tasks_pkey"),
        "held": (sql.HELD, 1, "tasks_held"),
    }
    for name, (statement, places, index) in texts.items():
        await connection.execute(f"PREPARE {name} AS {statement}")
        found = await connection.fetch(f"EXPLAIN EXECUTE {name}({', '.join(['NULL'] * places)})")
        plan = "\n".join(row[0] for row in found)
        used = set(re.findall(r"using (tasks_\w+)", plan))
        assert used - {"tasks_offers"} == {index} - {"tasks_offers"}, f"{statement}\n{plan}"
        assert "tasks_offers" not in used or name in ("walk", "turns"), f"{statement}\n{plan}"
        assert "Seq Scan on tasks" not in plan, f"{statement}\n{plan}"


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"status": ["failed"], "kind": "execution"}, "tasks_newest"),
        ({}, "tasks_newest"),
        ({"cursor": "7/x"}, "tasks_newest"),
        ({"name": "pay", "status": ["running"]}, "tasks_named"),
        ({"code": "BROKEN"}, "tasks_failed"),
    ],
)
async def test_the_newest_are_read_from_the_end_of_an_index(
    store: PostgresStore, filters: dict[str, Any], index: str
) -> None:
    await commit(store, *(create(f"many{number}", target="poll://any@many") for number in range(200)))
    scan = execution_scan(ExecutionSearch(**filters, limit=50), 1)
    [connection] = idle_connections(store)
    end = ExecutionStretch(scan.wanted, None, 9)
    for statement, values in (newest_query(scan, POSTGRES), stretch_query(end, POSTGRES)):
        found = await connection.fetch(f"EXPLAIN {sql.numbered(statement)}", *values)
        plan = "\n".join(row[0] for row in found)
        reads = [line for line in plan.splitlines() if "Scan" in line and " on tasks" in line]
        assert reads, plan
        assert all(index in line and "Backward" in line for line in reads), plan
        assert plan.count("Sort Key: t.") == 0, plan


async def test_a_claim_reads_only_what_it_takes(store: PostgresStore, url: str) -> None:
    """However long the backlog, the pages that a claim touches stay about the same."""
    costs: list[int] = []
    for wave in range(4):
        await commit(store, *(create(f"w{wave}-{index}", target="poll://any@g") for index in range(500)))
        execute(url, "VACUUM ANALYZE tasks; VACUUM ANALYZE promises")
        [connection] = idle_connections(store)
        plan = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {sql.OFFERS}", "g", 1, 1, 0, [])
        hits = next(row[0] for row in plan if "Buffers:" in row[0])
        costs.append(
            sum(int(part.partition("=")[2]) for part in hits.split() if part.startswith(("hit=", "read=")))
        )
        await commit(store, ask(TaskClaim(["g"], 1, "p", 1_000)))
    assert max(costs) <= min(costs) + 15, costs


async def test_what_loses_a_race_runs_again_and_gives_up_in_the_end(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "attempts_max", 3)
    runs: list[int] = []

    def unlucky() -> Work[None]:
        runs.append(1)
        yield from run_group([create("a")], CommitContext(0, Rules(), debug=False))
        raise RunAgain(["a"])

    with pytest.raises(TooManyConflicts):
        await store.transact(unlucky)
    assert len(runs) == 3
    assert (await commit(store, get("a"))).replies[0].status == 404


async def test_a_database_that_is_away_is_not_taken_for_a_lost_race(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(postgres, "reconnect_rest_s", 0.0)
    monkeypatch.setattr(store, "_take", away)
    with pytest.raises(ConnectionRefusedError):
        await commit(store, create("a"))


async def test_a_failed_transaction_leaves_no_trace_and_no_lock(store: PostgresStore, url: str) -> None:
    await commit(store, create("b"))

    def broken() -> Work[None]:
        yield from run_group([create("a"), settle("b")], CommitContext(0, Rules(), debug=False))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.transact(broken)
    outcome = await asyncio.wait_for(commit(store, get("a"), settle("b", "x")), 60)
    assert [reply.status for reply in outcome.replies] == [404, 200]


async def test_a_caller_that_goes_away_leaves_no_lock_behind(store: PostgresStore, url: str) -> None:
    await commit(store, create("a"))
    gone = asyncio.ensure_future(commit(store, settle("a")))
    await asyncio.sleep(0.001)
    gone.cancel()
    await asyncio.wait([gone])
    outcome = await asyncio.wait_for(commit(store, settle("a", "x")), 60)
    assert outcome.replies[0].status == 200


async def test_locks_out_of_order_are_taken_at_once_or_the_work_runs_again(url: str) -> None:
    """Two groups settle each other's awaited promises, with awaiters that neither of them names."""
    async with Node(PostgresStore(url)) as one, Node(PostgresStore(url)) as other:
        for number in range(15):
            a, b = f"a{number}", f"b{number}"
            await one.request([create(name, target="poll://any@g") for name in (a, b)])
            await one.request([create(f"x{number}"), create(f"y{number}")])
            await one.request([listen(f"x{number}", "poll://any@l")])
            asked = [
                one.request([settle(f"x{number}"), acquire(b), settle(a)]),
                other.request([settle(f"y{number}"), acquire(a), settle(b)]),
            ]
            for replies in await asyncio.wait_for(asyncio.gather(*asked), 60):
                assert {reply.status for reply in replies} <= {200, 409}


@pytest.mark.parametrize("reading", [0, FAR - 1])
async def test_the_clock_of_the_database_decides_whatever_the_node_reads(
    store: PostgresStore, url: str, reading: int
) -> None:
    before = int(execute(url, sql.NOW))
    made = await store.transact(
        lambda: run_group([create("a")], CommitContext(reading, Rules(), debug=False))
    )
    assert before <= promise_of(made.replies[0]).created_at <= int(execute(url, sql.NOW))


async def test_the_clock_never_goes_back_even_if_the_servers_does(store: PostgresStore, url: str) -> None:
    await commit(store, create("a"))
    execute(url, f"UPDATE clock SET now = {FAR}")
    await commit(store, create("b"))
    first: Callable[[], Work[CommitOutcome]] = lambda: run_sweep(CommitContext(0, Rules(), debug=False))  # noqa: E731
    assert (await store.transact(first)).now >= FAR


def test_a_url_names_the_store() -> None:
    assert isinstance(open_store("postgresql://db/holdfast"), PostgresStore)


async def test_a_missing_driver_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingDriver, match=r"holdfast\[postgres\]"):
        await PostgresStore("postgresql://nowhere/x").open()


def test_the_binaries_are_there() -> None:
    assert asyncpg.__version__
    assert (binaries() / "pg_basebackup").exists()
    assert shared_server().url()


@pytest.mark.parametrize("targets", [["poll://any@g"] * 4, ["poll://any@g", "poll://any@h", "http://h", ""]])
async def test_rows_come_back_whether_they_are_alike_or_not(store: PostgresStore, targets: list[str]) -> None:
    """What all rows of a save have in common travels once; what they have not, row by row."""
    names = [f"p{index}" for index in range(4)]
    made = [
        create(name, target=target) if target else create(name)
        for name, target in zip(names, targets, strict=True)
    ]
    await commit(store, *made)
    claimed = await commit(store, ask(TaskClaim(["g", "h"], 4, "p", 60_000)))
    held = [each.task.id for each in claimed.replies[0].data.tasks]  # type: ignore[union-attr]
    assert held == [f"p{index}" for index, target in enumerate(targets) if target.startswith("poll")]
    odd = ask(PromiseSettle("p0", "rejected")) if len({*targets}) > 1 else settle("p0")
    await commit(store, odd, *(settle(f"p{index}", str(index)) for index in range(1, 4)))
    seen = [promise_of(reply) for reply in (await commit(store, *map(get, names))).replies]
    assert [promise.state for promise in seen] == [odd.data.state, *["resolved"] * 3]  # type: ignore[attr-defined]
    assert [promise.value.data for promise in seen[1:]] == ["1", "2", "3"]
    assert [promise.tags.get("resonate:target", "") for promise in seen] == targets


async def test_a_task_can_be_claimed_while_somebody_begins_to_listen(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_transaction, "passed_over_rests_s", ())
    await commit(store, create("a", target="poll://any@g"))
    listening = await Connector(url).connect()
    async with listening.transaction():
        await listening.fetch(sql.LOCK_LISTENED, ["a"])
        claimed = await commit(store, ask(TaskClaim(["g"], 1, "p", 60_000)))
    await listening.close()
    assert [each.task.id for each in claimed.replies[0].data.tasks] == ["a"]  # type: ignore[union-attr]


async def test_who_begins_to_listen_while_a_claim_finds_the_task_expired_is_told(
    store: PostgresStore, url: str
) -> None:
    entries = {"resonate:target": "poll://any@queue.q", "holdfast:job": f'{{"goodUntil":{FAR - 1}}}'}
    await commit(store, ask(PromiseCreate("a", FAR, tags=entries)))
    execute(url, f"UPDATE tasks SET job = replace(job, '{FAR - 1}', '1')")
    listening = await Connector(url).connect()
    async with listening.transaction():
        await listening.fetch(sql.LOCK_LISTENED, ["a"])
        await listening.execute("INSERT INTO listeners VALUES ('a', 'poll://uni@w/1', 'A')")
        claim = asyncio.create_task(commit(store, ask(TaskClaim(["queue.q"], 1, "p", 60_000))))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        async with asyncio.timeout(60):
            while not claim.done() and not await listening.fetchval(waiting):
                pass
        assert not claim.done()
    outcome = await claim
    await listening.close()
    assert outcome.replies[0].data.tasks == []  # type: ignore[union-attr]
    assert [message.address for message in outcome.messages] == ["poll://uni@w/1"]


async def test_listening_and_claiming_in_one_commit_see_the_same_task(store: PostgresStore, url: str) -> None:
    """The listener's share is not enough for the claim of the same task: all of it is done once more."""
    await commit(store, create("a", target="poll://any@g"))
    outcome = await commit(store, listen("a", "poll://uni@w/1"), ask(TaskClaim(["g"], 1, "p", 60_000)))
    assert [each.task.version for each in outcome.replies[1].data.tasks] == [1]  # type: ignore[union-attr]
    done = await commit(store, settle("a"))
    assert [message.address for message in done.messages] == ["poll://uni@w/1"]


async def test_a_bus_whose_connections_break_at_once_rests_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_bus, "reconnect_s", 0.2)
    clock, connected_at = asyncio.get_running_loop().time, list[float]()
    enough = asyncio.Event()
    bus = postgres_bus.PostgresBus(Connector(database_url()))

    def missed() -> None:
        connected_at.append(clock())
        bus.reconnect()
        if len(connected_at) == 3:
            enough.set()

    await bus.start(lambda text: None, missed)
    bus.reconnect()
    await asyncio.wait_for(enough.wait(), 60)
    await bus.stop()
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(connected_at))
