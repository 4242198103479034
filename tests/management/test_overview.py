"""The overview: counts, rates, failures, the oldest, queues, schedules, workers, the node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.node.rates import Tally, buckets, failures_max, minute_ms
from holdfast.protocol import limits
from holdfast.server.management import overview, problems
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.server.http import call


def shop(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def pay(ok: bool) -> str:
        if not ok:
            raise ValueError("no money")
        return "paid"

    @app.workflow
    async def wait() -> str:
        return await hf.promise(str, timeout="1h")

    @app.task(queue="mail")
    def send_mail(address: str) -> str:
        raise ValueError(address)

    return app


async def test_everything_is_told_in_one_answer(api: Api) -> None:
    async with shop(api.url) as app:
        for number in range(3):
            await app.start("pay", True, id=f"good-{number}")
        for number in range(2):
            with pytest.raises(ValueError, match="no money"):
                await app.start("pay", False, id=f"bad-{number}")
        for number in range(12):
            await app.start("wait", id=f"waits-{number:02d}").started()
        await api.post("queues/mail/pause")
        await api.post("schedules", {"id": "nightly", "cron": "0 3 * * *", "workflow": "pay", "args": [True]})
        found: Any = {}
        for _ in range(2_000):
            found = await api.get("overview")
            if found["counts"]["executions"]["counts"].get("suspended") == 12:
                break
            await asyncio.sleep(0.02)
    assert found["counts"]["executions"]["counts"] | {"running": 0} == {
        **dict.fromkeys(found["counts"]["executions"]["counts"], 0),
        "completed": 3,
        "failed": 2,
        "suspended": 12,
    }
    rates = found["rates"]
    assert (sum(rates["started"]), sum(rates["completed"]), sum(rates["failed"])) == (17, 3, 2)
    assert len(rates["started"]) == 60
    assert [(each["name"], each["count"]) for each in found["failures"]["byName"]] == [("pay", 2)]
    assert [(each["code"], each["count"]) for each in found["failures"]["byCode"]] == [("ValueError", 2)]
    assert [each["name"] for each in found["queues"]] == ["mail"]
    assert [each["id"] for each in found["schedules"]] == ["nightly"]
    assert found["workers"]["running"] == 1
    node = found["node"]
    assert node["healthy"]
    assert node["commitMs"]["p99"] >= node["commitMs"]["p50"] > 0
    assert node["commitMs"]["groupSize"] >= 1
    if node["store"] != "memory":
        assert node["dbBytes"] > 0


async def test_the_oldest_that_wait_are_those_that_were_created_first(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "slow_holds_s", 0.0)
    monkeypatch.setattr(overview, "holds_s", 0.0)
    assert (await api.get("overview"))["oldest"] == []
    ids = [f"e{number:02d}" for number in range(25)]
    for count, name in enumerate(ids, 1):
        await api.post("executions", {"workflow": "wait", "id": name})
        await asyncio.sleep(0.002)
        if count in (1, 10, 11):
            found = (await api.get("overview"))["oldest"]
            assert [each["id"] for each in found][:5] == ids[: min(count, 5)], count
    found = [each["id"] for each in (await api.get("overview"))["oldest"]]
    assert found == ids[: len(found)]
    assert 1 <= len(found) <= 10


async def test_rates_survive_a_restart_and_add_up_over_nodes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/h.db"
    for number in range(2):
        async with running(Settings(port=0, store=store)) as server:
            await Api(server.url).post("executions", {"workflow": "wait", "id": f"e{number}"})
    async with running(Settings(port=0, store=store)) as server:
        found = await Api(server.url).get("overview", minutes=120, buckets=2)
    assert sum(found["rates"]["started"]) == 2
    assert len(found["rates"]["started"]) == 2


async def test_an_error_says_whether_executions_or_background_tasks_failed_with_it(api: Api) -> None:
    async with shop(api.url) as app:
        with pytest.raises(ValueError, match="no money"):
            await app.start("pay", False, id="bad")
        sent = (
            await api.post("tasks", {"task": "send_mail", "queue": "mail", "args": ["x"], "check": False})
        )["id"]
        for _ in range(2_000):
            if (await api.get(f"tasks/{sent}"))["status"] == "failed":
                break
            await asyncio.sleep(0.02)
    failures = (await api.get("overview"))["failures"]
    assert {(each["kind"], each["name"]) for each in failures["byName"]} == {
        ("execution", "pay"),
        ("task", "send_mail"),
    }
    assert {(each["kind"], each["code"]) for each in failures["byCode"]} == {
        ("execution", "ValueError"),
        ("task", "UNHANDLED_EXCEPTION"),
    }
    last = [each["last"] for cause in failures.values() for each in cause]
    assert all(last)


async def test_a_prefix_token_is_told_of_its_prefix_alone() -> None:
    settings = Settings(port=0, store="memory:", tokens=("admin-token", "acme acme-token"))
    async with running(settings) as server:
        admin, tenant = Api(server.url, "admin-token"), Api(server.url, "acme-token")
        await admin.post("executions", {"workflow": "x", "id": "other-1"})
        await admin.post("executions", {"workflow": "x", "id": "acme-1", "group": "acme"})
        assert [each["id"] for each in (await admin.get("overview"))["oldest"]] == ["other-1", "acme-1"]
        found = await tenant.get("overview")
        assert [each["id"] for each in found["oldest"]] == ["acme-1"]
        assert found["counts"]["executions"]["counts"]["pending"] == 1
        assert "rates" not in found
        assert "node" not in found


async def test_stretches_of_time_that_make_no_sense_are_refused(api: Api) -> None:
    for wrong in (
        {"minutes": 0},
        {"minutes": -1},
        {"minutes": 99_999_999},
        {"minutes": 5, "buckets": 6},
        {"buckets": 0},
    ):
        if wrong not in ({"minutes": 0}, {"buckets": 0}):  # as if they were not given
            assert await api.refused("GET", "overview", **wrong) == (400, "HF3401"), wrong


def test_failures_that_are_told_apart_are_bounded() -> None:
    found = Tally()
    for number in range(failures_max * 2):
        found.add(Tally(codes={f"code {number}": 1}))
    assert len(found.codes) == failures_max + 1
    assert sum(found.codes.values()) == failures_max * 2


def test_minutes_fall_into_their_buckets() -> None:
    minute = Tally({"execution started": 2, "task failed": 1})
    shown = buckets({10: minute, 11: minute, 14: minute, 15: minute}, 10 * minute_ms, 2 * minute_ms, 2)
    assert shown["started"] == [4, 0]
    assert shown["tasks"]["failed"] == [2, 0]
    shown = buckets({10: minute, 11: minute, 14: minute, 15: minute}, 10 * minute_ms, 2 * minute_ms, 3)
    assert shown["started"] == [4, 0, 4]


async def test_what_needs_attention_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "unserved_ms", 0)
    monkeypatch.setattr(overview, "slow_holds_s", 0.0)
    assert (await api.get("overview"))["problems"] == []
    async with shop(api.url) as app:
        await app.start("wait", id="rests").started()
        await api.post("executions/rests/halt", {"reason": "look at this"})
        await api.post("executions", {"workflow": "pay", "group": "nobody", "check": False})
        await api.post("queues/mail/pause")
        await api.post("tasks", {"task": "send_mail", "args": ["a"], "queue": "mail"})
        for name in ("pay", "gone"):
            await api.post(
                "schedules", {"id": f"s-{name}", "cron": "0 3 * * *", "workflow": name, "args": [True]}
            )

        async def told() -> dict[str, Any]:
            return {each["kind"]: each for each in (await api.get("overview"))["problems"]}

        found = await told()
        for _ in range(600):
            if {*found} == {"halted", "unserved", "paused", "orphan"}:
                break
            await asyncio.sleep(0.1)
            found = await told()
    assert (found["halted"]["id"], found["halted"]["error"]) == ("rests", "look at this")
    assert (found["unserved"]["group"], found["unserved"]["pending"]) == ("nobody", 1)
    assert (found["paused"]["queue"], found["paused"]["pending"]) == ("mail", 1)
    assert (found["orphan"]["schedule"], found["orphan"]["name"]) == ("s-gone", "gone")


async def test_an_execution_that_loses_its_workers_needs_attention(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "holds_s", 0.0)
    monkeypatch.setattr(limits, "crash_rest_ms", 0)
    await api.post("executions", {"workflow": "pay", "id": "poor", "check": False, "group": "nobody"})
    for count in range(10):
        asked = {"id": "poor", "version": count, "pid": f"w{count}", "ttl": 60_000}
        await call(api.url, "task.acquire", asked)
        told = (await api.get("overview"))["problems"]
        is_told = any(each.get("id") == "poor" for each in told)
        assert is_told == (count > 1), "one crash is ordinary once another worker has it"
        given = {"id": "poor", "version": count + 1, "retry": {"delay": 0, "error": "no such code"}}
        await call(api.url, "task.release", given)
        told = (await api.get("overview"))["problems"]
        [found] = [each for each in told if each.get("id") == "poor"]
        assert found["kind"] == ("crashing" if count < 9 else "stuck")
        assert found["error"].endswith("no such code")
