"""Where and when what is started or sent over `/v1` begins: queue, key, priority, delay; a unique key."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.postgres import database_url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    where = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=where)) as server:
        yield Api(server.url)


async def test_an_execution_is_started_in_a_queue_with_a_key_and_a_priority(api: Api) -> None:
    started = await api.post(
        "executions", {"workflow": "build", "id": "b1", "queue": "builds", "limitKey": "main", "priority": 7}
    )
    assert (started["queue"], started["status"]) == ("builds", "pending")
    promise = await api.get("promises/b1")
    assert promise["tags"]["holdfast:queue"] == '{"key":"main"}'
    assert promise["tags"]["holdfast:priority"] == "7"


async def test_overlap_holds_for_executions_that_are_started_so(api: Api) -> None:
    body = {"workflow": "build", "queue": "builds", "limitKey": "main"}
    await api.post("executions", body | {"id": "b1"})
    refused = await api.refused("POST", "executions", body | {"id": "b2", "overlap": "reject"})
    assert refused == (409, "HF1209")
    await api.post("executions", body | {"id": "b3", "overlap": "replace"})
    assert (await api.get("executions/b1"))["status"] == "cancelled"
    assert (await api.get("executions/b3"))["status"] == "pending"


async def test_an_execution_and_a_task_begin_at_an_instant(api: Api) -> None:
    at = round(time.time() * 1000) + 3_600_000
    started = await api.post("executions", {"workflow": "build", "at": at})
    sent = await api.post("tasks", {"task": "mail", "at": at})
    assert (started["status"], started["dueAt"]) == ("waiting", at)
    assert (sent["status"], sent["dueAt"]) == ("waiting", at)


async def test_a_task_is_sent_once_under_a_key_and_limits_go_by_another(api: Api) -> None:
    body = {"task": "mail", "key": "welcome-17", "limitKey": "acme"}
    first = await api.post("tasks", body | {"args": ["a"]})
    again = await api.post("tasks", body | {"args": ["b"]})
    assert again["id"] == first["id"], "the one that is open has the key"
    job = (await api.get(f"tasks/{first['id']}"))["job"]
    assert (job["unique"], job["key"]) == ("welcome-17", "acme")
    status, _ = await api.refused("POST", "tasks", body | {"onConflict": "reject"})
    assert status == 409
    newer = await api.post("tasks", body | {"args": ["c"], "onConflict": "replace"})
    assert newer["id"] != first["id"]
    assert (await api.get(f"tasks/{first['id']}"))["status"] == "cancelled"


async def test_a_task_has_its_limits_and_is_kept_as_long_as_is_said(api: Api) -> None:
    good_until = round(time.time() * 1000) + 3_600_000
    sent = await api.post(
        "tasks", {"task": "mail", "timeLimit": 2.5, "keep": 60, "goodUntil": good_until, "delay": 60}
    )
    found = (await api.get(f"promises/{sent['id']}"))["tags"]
    assert (found["holdfast:time-limit"], found["holdfast:keep"]) == ("2500", "60000")
    assert (await api.get(f"tasks/{sent['id']}"))["job"]["goodUntil"] == good_until


async def test_a_task_that_waits_is_rescheduled(api: Api) -> None:
    sent = await api.post("tasks", {"task": "mail", "delay": 3_600})
    at = round(time.time() * 1000) + 7_200_000
    moved = await api.post(f"tasks/{sent['id']}/reschedule", {"at": at})
    assert (moved["status"], moved["dueAt"]) == ("waiting", at)
    assert (await api.refused("POST", f"tasks/{sent['id']}/reschedule", {}))[0] == 400
    await api.post(f"tasks/{sent['id']}/cancel")
    assert (await api.refused("POST", f"tasks/{sent['id']}/reschedule", {"at": at}))[0] == 409


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("executions", {"limitKey": "a"}, "give queue"),
    ("executions", {"overlap": "reject"}, "give queue"),
    ("executions", {"queue": "q", "overlap": "reject"}, "needs a key"),
    ("executions", {"queue": "q", "limitKey": "a", "overlap": "never"}, "overlap must be one of"),
    ("executions", {"queue": "q", "group": "g"}, "give one of them"),
    ("executions", {"queue": "a/b"}, "queue"),
    ("executions", {"delay": 1, "at": 5}, "give one of them"),
    ("executions", {"delay": "soon"}, "delay must be a number"),
    ("executions", {"timeout": -1}, "timeout must be a number of seconds"),
    ("tasks", {"onConflict": "reject"}, "give key"),
    ("tasks", {"key": "k", "onConflict": "maybe"}, "onConflict must be one of"),
    ("tasks", {"delay": 1, "at": 5}, "give one of them"),
    ("tasks", {"keep": 0.5}, "holdfast:keep"),
]


@pytest.mark.parametrize(("kind", "given", "says"), WRONG)
async def test_what_makes_no_sense_is_refused_and_starts_nothing(
    kind: str, given: dict[str, Any], says: str
) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        body = {"workflow" if kind == "executions" else "task": "w", "id": "x"} | given
        refused = await api.call("POST", kind, body)
        assert (refused.status, says in refused.json["error"]) == (400, True), refused.body
        assert (await api.refused("GET", f"{kind}/x"))[0] == 404
