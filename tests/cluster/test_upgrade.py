"""Two versions of a node on one database: an older one goes on working while a newer one changes the schema.

The older one is this project's own source of an earlier day, taken from its history.
"""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.http import HttpClient
from holdfast.node import Node
from holdfast.protocol.messages import Execute, Unblock
from holdfast.protocol.requests import PromiseSearch, TaskSearch
from holdfast.store import postgres_migrate
from holdfast.store.interface import NewerSchema
from holdfast.store.migrations import migrations
from holdfast.store.postgres import PostgresStore
from tests.cluster.clients import play
from tests.cluster.linearizability import check
from tests.postgres import database_url, execute
from tests.requests import ask, create, get, listen, promise_of, settle
from tests.seeds import chosen_seed
from tests.server.process import ServerProcess, start_process

OLD = "334ed995484f5586e3310acb3583157fe2693276"  # the last commit that knows schema 1 alone
SEED = chosen_seed()
ROUNDS = int(os.environ.get("HOLDFAST_UPGRADE_ROUNDS", "4"))
LATEST = migrations("postgres")[-1][0]


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the older version, unpacked."""
    if given := os.environ.get("HOLDFAST_OLD_SOURCE"):
        return Path(given)
    here = Path(__file__).parents[2]
    packed = subprocess.run(["git", "archive", OLD, "src"], cwd=here, capture_output=True, check=False)
    if packed.returncode != 0:  # a source archive, or a shallow clone
        pytest.skip(
            f"The older version is not in this clone's history: {packed.stderr.decode()}. Fetch all of it "
            "(git fetch --unshallow), or set HOLDFAST_OLD_SOURCE to its unpacked src folder."
        )
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


async def start_old(source: Path, url: str) -> ServerProcess:
    return await start_process({"PYTHONPATH": str(source)}, store=url)


@asynccontextmanager
async def both(source: Path, url: str) -> AsyncGenerator[tuple[HttpClient, HttpClient]]:
    """Clients of an older node, and of a newer one that was started after it."""
    servers = [await start_old(source, url)]
    try:
        assert execute(url, "SELECT version FROM schema_version") == "1", "that is no older version"
        servers.append(await start_process(store=url))
        assert execute(url, "SELECT version FROM schema_version") == str(LATEST)
        async with HttpClient([servers[0].url]) as old, HttpClient([servers[1].url]) as new:
            yield old, new
    finally:
        for server in servers:
            await server.kill()


async def everything(client: HttpClient) -> list[Any]:
    """All promises and tasks, as this client's node shows them."""
    found: list[Any] = []
    for search in (PromiseSearch, TaskSearch):
        cursor: str | None = None
        while True:
            [reply] = await client.request([ask(search(limit=1_000, cursor=cursor))])
            data: Any = reply.data
            found += data.promises if search is PromiseSearch else data.tasks
            cursor = data.cursor
            if cursor is None:
                break
    return found


async def test_an_older_node_goes_on_while_a_newer_one_changes_the_schema(old_source: Path) -> None:
    """The change comes in the middle of its callers' work, and takes nothing from them."""
    print(f"HOLDFAST_SEED={SEED}")
    url = database_url()
    older = await start_old(old_source, url)
    newer: ServerProcess | None = None
    try:
        async with HttpClient([older.url]) as old:
            await old.request(
                [create(f"before{index}", data=f"{index}", target="poll://any@g") for index in range(50)]
            )
            changed = asyncio.Event()
            playing = asyncio.create_task(play([old], SEED, rounds=ROUNDS, callers=8, until=changed))
            newer = await start_process(store=url)
            assert not playing.done()
            assert execute(url, "SELECT version FROM schema_version") == str(LATEST)
            changed.set()
            histories = await playing
            async with HttpClient([newer.url]) as new:
                replies = await new.request([get(f"before{index}") for index in range(50)])
                assert [promise_of(reply).param.data for reply in replies] == [
                    f"{index}" for index in range(50)
                ]
                assert await everything(old) == await everything(new)
    finally:
        await older.kill()
        if newer is not None:
            await newer.kill()
    unknown = sum(operation.result is None for history in histories.values() for operation in history)
    assert unknown == 0, "callers of the older node were told that nobody knows"
    results = Counter(check(history) for history in histories.values())
    assert results == {"linearizable": len(histories)}, f"seed {SEED}"


async def test_callers_of_both_see_one_history(old_source: Path) -> None:
    print(f"HOLDFAST_SEED={SEED}")
    async with both(old_source, database_url()) as (old, new):
        histories = await play([old, new], SEED, rounds=ROUNDS, callers=4)
        assert await everything(old) == await everything(new)
    results = Counter(check(history) for history in histories.values())
    assert results == {"linearizable": len(histories)}, f"seed {SEED}"


@pytest.mark.parametrize("worker_at", ["old", "new"])
async def test_work_and_news_travel_between_versions(worker_at: str, old_source: Path) -> None:
    async with both(old_source, database_url()) as (old, new):
        there, here = (old, new) if worker_at == "old" else (new, old)
        async with there.messages("g", "w") as messages:
            await here.request([create("t", target="poll://any@g")])
            message = await asyncio.wait_for(anext(messages), 60)
            assert isinstance(message, Execute)
            [reply] = await here.request([create("now")])
            due = promise_of(reply).created_at + 300
            await there.request([create("p", due, timer="true"), listen("p", "poll://any@g")])
            await here.request([create("q"), listen("q", "poll://any@g"), settle("q", "x")])
            told: set[str] = set()
            while told != {"p", "q"}:
                message = await asyncio.wait_for(anext(messages), 60)
                if isinstance(message, Unblock):
                    told.add(message.promise.id)


async def test_an_older_node_that_cannot_know_is_refused_at_its_start(old_source: Path) -> None:
    url = database_url()
    async with Node(PostgresStore(url)):
        pass
    with pytest.raises(AssertionError, match=r"schema version .*knows only 1"):
        await start_old(old_source, url)


ADDS = "-- Something new.\n-- compatible from {since}\nALTER TABLE promises ADD COLUMN later TEXT DEFAULT 'x'"


@pytest.mark.parametrize(("since", "starts"), [(LATEST, True), (LATEST + 1, False)])
async def test_a_newer_schema_says_from_which_version_on_nodes_may_start(
    since: int, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database_url()
    steps = [*migrations("postgres"), (LATEST + 1, ADDS.format(since=since))]
    with monkeypatch.context() as newer:
        newer.setattr(postgres_migrate, "migrations", lambda _: steps)  # pyright: ignore
        async with Node(PostgresStore(url)) as node:
            await node.request([create("a", data="old")])
    if not starts:
        with pytest.raises(NewerSchema, match="Upgrade"):
            await PostgresStore(url).open()
        return
    async with Node(PostgresStore(url)) as node:
        [reply] = await node.request([settle("a")])
        assert promise_of(reply).param.data == "old"
        await node.request([create("b", target="poll://any@g")])
    assert execute(url, "SELECT later FROM promises ORDER BY id") == "x\nx"
