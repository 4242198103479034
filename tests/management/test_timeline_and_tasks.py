"""What a console asks for: timelines, tasks sent with plain JSON, types of what is waited for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.test_api import until
from tests.postgres import database_url

day_s = 86_400


@dataclass
class Decision:
    approved: bool
    reason: Literal["late", "broken"] = "late"


def double(number: int) -> int:
    if number < 0:
        raise ValueError("it is negative")
    return 2 * number


def shop(url: str) -> hf.App:
    app = hf.App(url)
    app.queue("sums")

    @app.workflow
    async def child(number: int) -> int:
        return await hf.run(double, number)

    @app.workflow
    async def parent(number: int) -> int:
        first = await hf.run(double, number)
        await hf.sleep(0.01)
        return await hf.call(child, first)

    @app.workflow
    async def many(count: int) -> int:
        for number in range(count):
            await hf.run(double, number)
        return count

    @app.workflow
    async def again(number: int) -> int:
        found = await hf.run(double, number)
        if number < 2:
            hf.continue_as_new(number + 1)
        await hf.promise(name="end")
        return found

    @app.workflow
    async def stubborn(delay: float) -> int:
        for number in range(3):
            await hf.run(double, number)
        return await hf.run(double, -1, retry=hf.Retry(attempts=3, delay=delay, jitter=0))

    @app.workflow
    async def decide() -> bool:
        return (await hf.promise(Decision, name="decision")).approved

    @app.workflow
    async def hear() -> bool:
        decision = await hf.receive(Decision)
        await hf.emit("log", "heard")
        return decision.approved

    @app.workflow
    async def anything() -> object:
        return await hf.promise(name="thing")

    @app.task(queue="sums")
    def add(one: int, other: int = 0) -> int:
        return one + other

    return app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as server, shop(server.url):
        yield Api(server.url)


async def test_a_timeline_has_a_row_for_each_operation_with_its_times(api: Api) -> None:
    began = time.time() * 1000 - 60_000
    await api.post("executions", {"workflow": "parent", "args": [3], "id": "p"})
    await until(api, "p", "completed")
    found = await api.get("executions/p/timeline")
    assert found["execution"]["status"] == "completed"
    assert [(row["kind"], row["name"], row["state"]) for row in found["rows"]] == [
        ("step", "double", "completed"),
        ("sleep", "", "completed"),
        ("call", "child", "completed"),
    ]
    step, sleep, call = found["rows"]
    assert began < step["startedAt"] <= step["endedAt"]
    assert step["endedAt"] <= sleep["endedAt"] <= call["endedAt"]
    assert step["worker"]
    assert "child" not in step
    assert call["child"] == "p:3"
    [inner] = (await api.get("executions/p:3/timeline"))["rows"]
    assert inner["name"] == "double"


async def test_a_failed_step_says_what_its_error_said(api: Api) -> None:
    await api.post("executions", {"workflow": "child", "args": [-1], "id": "bad"})
    await until(api, "bad", "failed")
    [row] = (await api.get("executions/bad/timeline"))["rows"]
    assert (row["state"], row["error"]) == ("failed", "it is negative")


@pytest.mark.parametrize("limit", [None, 4], ids=["one page", "two pages"])
async def test_a_row_tells_of_the_attempts_that_failed(api: Api, limit: int | None) -> None:
    await api.post("executions", {"workflow": "stubborn", "args": [0.01], "id": "tries"})
    await until(api, "tries", "failed")
    asked = {} if limit is None else {"limit": limit}
    *_, row = (await api.get("executions/tries/timeline", **asked))["rows"]
    assert (row["attempts"], row["state"]) == (3, "failed")
    told = [(each["attempt"], each["code"], each["message"]) for each in row["failures"]]
    assert told == [(1, "ValueError", "it is negative"), (2, "ValueError", "it is negative")]
    first, second = (each["at"] for each in row["failures"])
    assert row["startedAt"] <= first <= second
    assert "resumesAt" not in row


async def test_a_step_that_waits_for_its_next_attempt_says_when_that_is(api: Api) -> None:
    await api.post("executions", {"workflow": "stubborn", "args": [3_600], "id": "rests"})
    found = await until(api, "rests", "suspended")
    *_, row = (await api.get("executions/rests/timeline"))["rows"]
    assert (row["state"], row["attempts"], len(row["failures"])) == ("running", 1, 1)
    assert row["resumesAt"] == found["waits"][0]["resumesAt"]


async def test_a_timeline_is_of_the_generation_that_goes_on(api: Api) -> None:
    await api.post("executions", {"workflow": "again", "args": [0], "id": "ever"})
    found = await until(api, "ever", "suspended")
    assert found["generation"] == 2
    rows = (await api.get("executions/ever/timeline"))["rows"]
    assert [(row["kind"], row["state"]) for row in rows] == [("step", "completed"), ("promise", "running")]


async def test_a_sleep_that_goes_on_says_when_it_ends(api: Api) -> None:
    await api.post("executions", {"workflow": "decide", "id": "waits"})
    await until(api, "waits", "suspended")
    [row] = (await api.get("executions/waits/timeline"))["rows"]
    assert (row["kind"], row["state"]) == ("promise", "running")
    assert "endedAt" not in row


@pytest.mark.slow
async def test_a_timeline_comes_in_large_pages(api: Api) -> None:
    await api.post("executions", {"workflow": "many", "args": [1_200], "id": "m"})
    await until(api, "m", "completed")
    rows: list[Any] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        given: dict[str, str] = {"cursor": cursor} if cursor else {}
        page = await api.get("executions/m/timeline", limit=5_000, **given)
        rows += page["rows"]
        cursor = page.get("cursor")
        pages += 1
    assert len({row["id"] for row in rows}) == len(rows) == 1_200
    assert await api.refused("GET", "executions/m/timeline", limit=5_001) == (400, "HF3401")
    assert await api.refused("GET", "executions/nobody/timeline") == (404, "HF1101")


async def test_a_task_is_sent_with_plain_json_under_an_id_that_is_an_agreement(api: Api) -> None:
    asked = {
        "task": "add",
        "queue": "sums",
        "args": [1],
        "kwargs": {"other": 2},
        "id": "t",
        "tags": {"a": "b"},
    }
    sent = await api.post("tasks", asked)
    assert (sent["id"], sent["kind"], sent["name"], sent["queue"]) == ("t", "task", "add", "sums")
    done = await until(api, "t", "completed", "tasks")
    assert (done["result"], done["tags"]["a"]) == (3, "b")
    assert (await api.post("tasks", asked))["status"] == "completed"
    assert await api.refused("POST", "tasks", asked | {"args": [2]}) == (409, "HF3402")


async def test_a_delayed_task_is_let_begin_now(api: Api) -> None:
    await api.post("tasks", {"task": "add", "queue": "sums", "args": [1, 1], "delay": day_s, "id": "d"})
    assert (await api.get("tasks/d"))["status"] == "waiting"
    await api.post("tasks/d/promote")
    assert (await until(api, "d", "completed", "tasks"))["result"] == 2
    assert (await api.refused("POST", "tasks/d/promote"))[0] == 409


async def test_a_wait_tells_the_type_that_is_declared_for_it(api: Api) -> None:
    await api.post("executions", {"workflow": "decide", "id": "w"})
    [wait] = (await until(api, "w", "suspended"))["waits"]
    schema = wait["schema"]
    decision = schema["$defs"]["Decision"] if "$ref" in schema else schema
    assert decision["properties"]["approved"] == {"type": "boolean"}
    assert decision["required"] == ["approved"]
    await api.post("promises/w:decision/resolve", {"value": {"approved": True}})
    assert (await until(api, "w", "completed"))["result"] is True


async def test_a_wait_for_a_message_tells_the_type_of_the_mailbox(api: Api) -> None:
    await api.post("executions", {"workflow": "hear", "id": "h"})
    [wait] = (await until(api, "h", "suspended"))["waits"]
    assert wait["what"] == "message 1"
    schema = wait["schema"]
    decision = schema["$defs"]["Decision"] if "$ref" in schema else schema
    assert decision["properties"]["approved"] == {"type": "boolean"}
    await api.post("executions/h/messages", {"approved": True})
    assert (await until(api, "h", "completed"))["result"] is True


async def test_messages_are_rows_by_their_number_and_what_is_emitted_is_none(api: Api) -> None:
    await api.post("executions", {"workflow": "hear", "id": "m1"})
    await until(api, "m1", "suspended")
    await api.post("executions/m1/messages", {"approved": True})
    await until(api, "m1", "completed")
    rows = (await api.get("executions/m1/timeline"))["rows"]
    named = [(row["kind"], row["name"]) for row in rows]
    assert named.count(("message", "message 1")) == 1
    assert ("note", "emit out.log") in named
    assert not [row["id"] for row in rows if "~" in row["id"] or row["id"].startswith("m1:out.")]


async def test_executions_are_found_by_the_version_that_they_were_started_for(api: Api) -> None:
    for version in (1, 2, 1):
        asked = {"workflow": "elsewhere", "version": version, "check": False}
        await api.post("executions", asked | {"group": "nobody"})
    found = await api.get("executions", name="elsewhere", version=1)
    assert len(found["executions"]) == 2
    [second] = (await api.get("executions", name="elsewhere", version=2))["executions"]
    assert (await api.get(f"executions/{second['id']}"))["call"]["version"] == 2
    assert (await api.get("executions", name="elsewhere", version=3))["executions"] == []


async def test_a_wait_for_anything_tells_no_type(api: Api) -> None:
    await api.post("executions", {"workflow": "anything", "id": "any"})
    [wait] = (await until(api, "any", "suspended"))["waits"]
    assert "schema" not in wait
