"""Every reply shape that the parsers of the official SDKs demand, over real HTTP, in both dialects.

A whole life of promises, tasks and schedules is played once per dialect; every reply on the way is held
against the strict rules: kind and corrId repeated, optional fields absent rather than null, `preload` where
it must be.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.server import Settings, running
from tests.server.http import Connection, connected, create, envelope

PROMISE_STATES = {"pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout"}
TASK_STATES = {"pending", "acquired", "suspended", "halted", "fulfilled"}


def no_nulls(node: Any) -> None:
    assert node is not None, "optional fields are left out, never null"
    if not isinstance(node, str | int):
        for item in node.values() if hasattr(node, "values") else node:
            no_nulls(item)


def is_value(value: Any, version: str) -> None:
    assert issubclass(type(value), dict)
    if version == "2025-01-15":
        assert {"headers", "data"} <= value.keys()
    assert isinstance(value.get("data", ""), str)
    assert all(isinstance(text, str) for text in value.get("headers", {}).values())


def is_promise(promise: Any, version: str) -> None:
    assert isinstance(promise["id"], str)
    assert promise["state"] in PROMISE_STATES
    is_value(promise["param"], version)
    is_value(promise["value"], version)
    assert all(isinstance(text, str) for text in promise["tags"].values())
    assert isinstance(promise["timeoutAt"], int)
    assert isinstance(promise["createdAt"], int)
    assert ("settledAt" in promise) == (promise["state"] != "pending")


def is_task(task: Any) -> None:
    assert isinstance(task["id"], str)
    assert task["state"] in TASK_STATES
    assert isinstance(task["version"], int)
    assert isinstance(task["resumes"], int)
    assert ("pid" in task) == ("ttl" in task) == (task["state"] == "acquired")


def is_schedule(schedule: Any, version: str) -> None:
    for name in ("id", "cron", "promiseId"):
        assert isinstance(schedule[name], str)
    for name in ("promiseTimeout", "createdAt", "nextRunAt"):
        assert isinstance(schedule[name], int)
    is_value(schedule["promiseParam"], version)
    assert isinstance(schedule["promiseTags"], dict)
    assert "lastRunAt" not in schedule or isinstance(schedule["lastRunAt"], int)


class Client:
    def __init__(self, connection: Connection, version: str) -> None:
        self.connection = connection
        self.version = version
        self.turns = 0

    async def ask(self, kind: str, data: Any, status: int = 200) -> Any:
        self.turns += 1
        corr_id = f"turn-{self.turns}"
        body = json.dumps(envelope(kind, data, self.version, corr_id)).encode()
        answer = await self.connection.request("POST", "/", body)
        assert answer.status == status, answer.body
        reply = answer.json
        assert reply["kind"] == kind
        code = reply["head"].pop("code", None)
        assert (code is not None) == (status >= 400)
        assert reply["head"] == {"corrId": corr_id, "status": status, "version": self.version}
        assert isinstance(reply["data"], str if status >= 400 else dict)
        no_nulls(reply)
        return reply["data"]


def acted(kind: str, data: Any) -> Any:
    return {"kind": kind, "head": {"corrId": "inner", "version": "2026-04-01"}, "data": data}


@pytest.mark.parametrize("version", ["2026-04-01", "2025-01-15"])
async def test_a_whole_life_is_answered_in_the_shapes_that_the_sdks_parse(version: str) -> None:
    register = "promise.register_callback" if version == "2026-04-01" else "promise.register"
    listen = "promise.register_listener" if version == "2026-04-01" else "promise.subscribe"
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        client = Client(connection, version)
        ask: Callable[..., Any] = client.ask
        target = "poll://any@g"
        tags = {"resonate:branch": "root", "resonate:scope": "global"}

        # promises
        is_promise((await ask("promise.create", create("p", param={"data": "eA=="})))["promise"], version)
        is_promise((await ask("promise.create", create("p")))["promise"], version)
        is_promise((await ask("promise.get", {"id": "p"}))["promise"], version)
        await ask("promise.get", {"id": "absent"}, 404)
        await ask("promise.get", {"id": ""}, 400)
        is_promise((await ask(listen, {"awaited": "p", "address": "poll://uni@g/w"}))["promise"], version)
        await ask(listen, {"awaited": "absent", "address": "poll://uni@g/w"}, 404)
        settled = await ask("promise.settle", {"id": "p", "state": "resolved", "value": {"data": "eA=="}})
        is_promise(settled["promise"], version)
        found = await ask("promise.search", {})
        assert "cursor" not in found
        for promise in found["promises"]:
            is_promise(promise, version)

        # a task made and acquired in one request
        made = await ask(
            "task.create",
            {"pid": "w", "ttl": 60_000, "action": acted("promise.create", create("root", target, tags=tags))},
        )
        is_promise(made["promise"], version)
        is_task(made["task"])
        assert made["preload"] == []
        assert (made["task"]["state"], made["task"]["version"]) == ("acquired", 1)

        # a durable step, through the fence
        fenced = await ask(
            "task.fence",
            {"id": "root", "version": 1, "action": acted("promise.create", create("root.1", tags=tags))},
        )
        assert fenced["preload"] == []
        assert fenced["action"]["kind"] == "promise.create"
        assert fenced["action"]["head"]["status"] == 200
        is_promise(fenced["action"]["data"]["promise"], version)
        settle = acted("promise.settle", {"id": "root.1", "state": "resolved", "value": {"data": "MQ=="}})
        fenced = await ask("task.fence", {"id": "root", "version": 1, "action": settle})
        is_promise(fenced["action"]["data"]["promise"], version)
        await ask("task.fence", {"id": "root", "version": 7, "action": settle}, 409)

        # heartbeat, then suspend: on something settled (300), then on something pending (200)
        assert await ask("task.heartbeat", {"pid": "w", "tasks": [{"id": "root", "version": 1}]}) == {}
        waits = {"awaited": "root.1", "awaiter": "root"}
        again = await ask(
            "task.suspend", {"id": "root", "version": 1, "actions": [acted(register, waits)]}, 300
        )
        assert [promise["id"] for promise in again["preload"]] == ["root.1"]
        await ask("promise.create", create("outside", tags={"resonate:external": "true"}))
        waits = {"awaited": "outside", "awaiter": "root"}
        parked = await ask("task.suspend", {"id": "root", "version": 1, "actions": [acted(register, waits)]})
        assert parked == {}
        is_task((await ask("task.get", {"id": "root"}))["task"])
        await ask("promise.settle", {"id": "outside", "state": "rejected"})

        # woken: acquire again; the reply is the union of both dialects
        grant = {"id": "root", "version": 1, "pid": "w", "ttl": 60_000}
        acquired = await ask("task.acquire", grant)
        is_task(acquired["task"])
        is_promise(acquired["promise"], version)
        assert [promise["id"] for promise in acquired["preload"]] == ["root.1"]
        assert acquired["kind"] == "resume"
        is_promise(acquired["data"]["invoked"], version)
        is_promise(acquired["data"]["awaited"], version)
        await ask("task.acquire", grant | {"version": 0}, 409)

        # let go, take up, halt, continue, fulfil
        assert await ask("task.release", {"id": "root", "version": 2}) == {}
        acquired = await ask("task.acquire", grant | {"version": 2})
        assert await ask("task.halt", {"id": "root"}) == {}
        assert await ask("task.continue", {"id": "root"}) == {}
        acquired = await ask("task.acquire", grant | {"version": 3})
        done = acted("promise.settle", {"id": "root", "state": "resolved", "value": {"data": "Mg=="}})
        finished = await ask("task.fulfill", {"id": "root", "version": 4, "action": done})
        is_promise(finished["promise"], version)
        for task in (await ask("task.search", {}))["tasks"]:
            is_task(task)

        # schedules
        schedule = {
            "id": "s",
            "cron": "0 0 1 1 *",
            "promiseId": "{{.id}}-{{.timestamp}}",
            "promiseTimeout": 1,
        }
        is_schedule((await ask("schedule.create", schedule))["schedule"], version)
        is_schedule((await ask("schedule.get", {"id": "s"}))["schedule"], version)
        for entry in (await ask("schedule.search", {}))["schedules"]:
            is_schedule(entry, version)
        assert await ask("schedule.delete", {"id": "s"}) == {}
        await ask("schedule.delete", {"id": "s"}, 404)

        # refusals
        await ask("task.create", {"pid": "w", "ttl": 1, "action": acted("promise.create", create("x"))}, 400)
        await ask("no.such.kind", {}, 400)
        await ask("debug.reset", {}, 403)
        await ask(register, {"awaited": "p", "awaiter": "absent"}, 422)


async def test_a_version_from_the_future_is_refused_in_the_callers_terms() -> None:
    async with running(Settings(port=0, store="memory:")) as server, connected(server.url) as connection:
        await Client(connection, "2099-01-01").ask("promise.get", {"id": "p"}, 400)
