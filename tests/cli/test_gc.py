"""`holdfast gc` through a server and on a store itself: the same executions go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import App
from holdfast.node import Node
from holdfast.payloads.errors import NoStoreHere
from holdfast.server import Settings, running
from holdfast.store import open_store
from tests.postgres import database_url
from tests.processes import Outcome, holdfast
from tests.requests import create, get, settle
from tests.server.http import connected

Run = Callable[..., Outcome]


async def fill(node: Node) -> None:
    """Three executions that are over, one that runs on with a step that is done."""
    names = [f"{root}{suffix}" for root in ("x", "y", "z") for suffix in ("", ":1", ":2")]
    await node.request([create(name) for name in [*names, "live", "live:1"]])
    await node.request([settle(name) for name in [*names, "live:1"]])


async def left(node: Node) -> list[int]:
    replies = await node.request([get(name) for name in ("x", "y:1", "z:2", "live", "live:1")])
    return [reply.status for reply in replies]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/holdfast.db" if request.param == "sqlite" else database_url()


def test_on_a_store_a_dry_run_counts_and_a_real_one_forgets(url: str, run: Run) -> None:
    async def prepare() -> None:
        async with Node(open_store(url)) as node:
            await fill(node)

    async def look() -> list[int]:
        async with Node(open_store(url)) as node:
            return await left(node)

    asyncio.run(prepare())
    young = run("gc", "--older-than", "1d", "-S", url, "--json")
    assert young.json == {"looked": 11, "executions": 0, "promises": 0, "tooLarge": 0, "dryRun": False}
    counted = run("gc", "--older-than", "0s", "--dry-run", "-S", url, "--json")
    assert counted.json == {"looked": 11, "executions": 3, "promises": 9, "tooLarge": 0, "dryRun": True}
    assert asyncio.run(look()) == [200] * 5
    done = run("gc", "--older-than", "0s", "-S", url)
    assert done.out.startswith("3 executions with 9 promises forgotten"), done
    assert asyncio.run(look()) == [404, 404, 404, 200, 200]


async def test_through_a_server_that_goes_on_working(url: str) -> None:
    async with running(Settings(port=0, store=url, tokens=("all-of-it", "team the-teams"))) as server:
        await fill(server.node)
        words = ("gc", "--older-than", "0s", "-S", f"http://127.0.0.1:9,{server.url}", "--json")
        refused = await asyncio.to_thread(holdfast, *words, "-T", "the-teams")
        assert refused.code == 1
        assert "admin" in json.loads(refused.err)["error"]
        assert await left(server.node) == [200] * 5
        done = await asyncio.to_thread(holdfast, *words, "-T", "all-of-it")
        assert done.json == {"looked": 11, "executions": 3, "promises": 9, "tooLarge": 0, "dryRun": False}
        assert await left(server.node) == [404, 404, 404, 200, 200]
        assert server.node.stats.forgotten == 9


async def test_a_server_with_a_retention_needs_nobody_to_ask(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.node.janitor.first_pass_s_max", 0.01)
    async with running(Settings(port=0, store=url, retention="1s")) as server:
        await fill(server.node)
        async with asyncio.timeout(60):
            while await left(server.node) != [404, 404, 404, 200, 200]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"olderThanMs": -1}',
        b'{"olderThanMs": "30d"}',
        b'{"olderThanMs": 1, "surprise": 1}',
        b'{"olderThanMs": 1, "progress": {"after": 1}}',
        b'{"olderThanMs": 1, "progress": {"after": "\\u0000"}}',
        b'{"olderThanMs": 1, "progress": {"judged": "\\u0000"}}',
        b'\xff{"olderThanMs": 1}',
    ],
)
async def test_an_order_that_makes_no_sense_is_refused_and_changes_nothing(body: bytes) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        await fill(server.node)
        async with connected(server.url) as connection:
            answer = await connection.request("POST", "/collect", body)
            assert answer.status == 400, answer.body
            assert answer.json["code"] == "HF1001"
        assert await left(server.node) == [200] * 5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "--older-than"),
        (["--older-than", "soon"], "not a duration"),
        (["--older-than", "1d", "-S", "mysql://db"], "names no store"),
        (["--older-than", "1d", "--most", "0"], "0 is less than 1"),
        (["--older-than", "1d", "--most=-3"], "-3 is less than 1"),
        (["--older-than", "1d", "--most", "few"], "not a whole number"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(words: list[str], says: str, run: Run) -> None:
    outcome = run("gc", *words)
    assert outcome.code in (2, 3)
    assert says in outcome.err


def test_a_server_away_is_said_so(run: Run) -> None:
    outcome = run("gc", "--older-than", "1d", "-S", "http://127.0.0.1:9", "--json")
    assert outcome.code == 3
    assert "HF4001" in json.loads(outcome.err)["error"]


async def test_an_app_of_a_server_has_no_retention() -> None:
    with pytest.raises(NoStoreHere, match="HF5210"):
        async with App("http://127.0.0.1:9", retention="30d"):
            pass


async def test_an_app_with_a_retention_forgets_by_itself(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.node.janitor.first_pass_s_max", 0.01)
    monkeypatch.setattr("holdfast.node.janitor.pass_rest_s_min", 0.05)
    app = App(url, retention="300ms")

    @app.workflow
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with app:
        assert await app.start(greet, "Ada", id="greeting") == "hello Ada"
    async with app:
        async with asyncio.timeout(60):
            while (await app.session._client.request([get("greeting")]))[0].status == 200:  # noqa: ASYNC110  # pyright: ignore
                await asyncio.sleep(0.05)
