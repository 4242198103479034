"""Schedules over the management API, on every store: created, looked at, steered, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.management.test_api import shop, until
from tests.postgres import database_url

NIGHTLY = {
    "id": "nightly",
    "cron": "0 3 * * *",
    "timezone": "Europe/Berlin",
    "workflow": "checkout",
    "args": [7],
}
DAY_MS = 86_400_000


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as server, shop(server.url):
        yield Api(server.url)


async def declared(api: Api) -> None:
    """Until the worker has told what it can run."""
    for _ in range(3_000):
        if (await api.get("declarations"))["declarations"]:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no worker has told anything")


async def test_a_schedule_is_created_once_and_shows_its_next_five_runs(api: Api) -> None:
    made = await api.post("schedules", NIGHTLY)
    assert (made["cron"], made["timezone"], made["call"]["args"]) == ("0 3 * * *", "Europe/Berlin", [7])
    assert await api.post("schedules", NIGHTLY) == made
    assert await api.refused("POST", "schedules", NIGHTLY | {"args": [8]}) == (409, "HF3402")
    shown = await api.get("schedules/nightly")
    assert shown["nextRuns"][0] == shown["nextRunAt"]
    assert len(shown["nextRuns"]) == 5
    gaps = {later - sooner for sooner, later in zip(shown["nextRuns"], shown["nextRuns"][1:], strict=False)}
    assert gaps <= {DAY_MS, DAY_MS - 3_600_000, DAY_MS + 3_600_000}
    assert shown["lastRuns"] == []


async def test_a_run_is_triggered_and_is_among_the_last_ones(api: Api) -> None:
    await api.post("schedules", NIGHTLY)
    run = (await api.post("schedules/nightly/trigger"))["id"]
    assert (await until(api, run, "completed"))["result"] == "paid 7"
    shown = await api.get("schedules/nightly")
    assert [each["id"] for each in shown["lastRuns"]] == [run]
    assert [each["id"] for each in (await api.get("executions", schedule="nightly"))["executions"]] == [run]
    assert (await api.get("executions", schedule="weekly"))["executions"] == []
    assert (await api.get("counts", schedule="nightly"))["executions"]["counts"]["completed"] == 1
    assert shown["lastRunAt"] > 0


async def test_a_background_task_is_run_on_schedule(api: Api) -> None:
    mail = {"id": "mail", "every": 3600, "task": "send_mail", "queue": "mail", "args": ["a@b"]}
    assert (await api.post("schedules", mail | {"retry": {"delays": [1000]}}))["cron"] == "@every 3600s"
    run = (await api.post("schedules/mail/trigger"))["id"]
    assert (await until(api, run, "completed", "tasks"))["result"] == "a@b"


async def test_runs_wait_in_a_queue_with_a_key_and_a_priority(api: Api) -> None:
    place = {"queue": "mail", "limitKey": "acme", "priority": 3}
    await api.post("schedules", NIGHTLY | place)
    run = (await api.post("schedules/nightly/trigger"))["id"]
    assert (await until(api, run, "completed"))["queue"] == "mail"
    mail = {"id": "mail", "every": 3600, "task": "send_mail", "args": ["a@b"], **place}
    await api.post("schedules", mail)
    sent = (await api.post("schedules/mail/trigger"))["id"]
    assert (await until(api, sent, "completed", "tasks"))["job"]["key"] == "acme"
    both = {"id": "both", "queue": "mail", "group": "default"}
    assert await api.refused("POST", "schedules", NIGHTLY | both) == (400, "HF3401")
    lone = {"id": "lone", "limitKey": "acme"}
    assert await api.refused("POST", "schedules", NIGHTLY | lone) == (400, "HF3401")


async def test_a_paused_schedule_has_no_next_run_until_it_is_resumed(api: Api) -> None:
    await api.post("schedules", NIGHTLY)
    paused = await api.post("schedules/nightly/pause")
    assert paused["pausedAt"] > 0
    assert "nextRunAt" not in paused
    assert (await api.get("schedules/nightly"))["nextRuns"] == []
    resumed = await api.post("schedules/nightly/resume")
    assert "pausedAt" not in resumed
    assert resumed["nextRunAt"] > paused["pausedAt"]


async def test_past_runs_are_made_once_and_some_at_a_time(api: Api) -> None:
    made = await api.post("schedules", NIGHTLY | {"cron": "0 * * * *", "timezone": "UTC"})
    until_ms = made["createdAt"]
    since = until_ms - 200 * 3_600_000
    first = await api.post("schedules/nightly/backfill", {"since": since, "until": until_ms})
    assert len(first["ids"]) == 100
    rest = await api.post("schedules/nightly/backfill", {"since": first["nextAt"], "until": until_ms})
    assert len(rest["ids"]) in (100, 101)
    again = await api.post("schedules/nightly/backfill", {"since": since, "until": until_ms})
    assert again["ids"] == []
    assert len((await api.get("schedules/nightly"))["lastRuns"]) == 5


async def test_what_is_given_is_changed_and_the_rest_stays(api: Api) -> None:
    await api.post("schedules", NIGHTLY)
    answer = await api.call("PUT", "schedules/nightly", {"cron": "30 4 * * *", "catchUp": 0})
    changed = answer.json
    assert (changed["cron"], changed["catchUp"], changed["timezone"]) == ("30 4 * * *", 0, "Europe/Berlin")
    assert changed["call"]["args"] == [7]
    answer = await api.call("PUT", "schedules/nightly", {"workflow": "checkout", "args": [9]})
    assert answer.json["call"]["args"] == [9]
    run = (await api.post("schedules/nightly/trigger"))["id"]
    assert (await until(api, run, "completed"))["result"] == "paid 9"


@pytest.mark.parametrize("field", [{"args": [9]}, {"queue": "mail"}, {"tags": {"a": "b"}}, {"check": False}])
async def test_a_change_of_what_is_run_that_does_not_name_it_is_refused(
    field: dict[str, object], api: Api
) -> None:
    made = await api.post("schedules", NIGHTLY)
    answer = await api.call("PUT", "schedules/nightly", field)
    assert (answer.status, answer.json["code"]) == (400, "HF3401")
    assert "give workflow or task, too" in answer.json["error"]
    shown = await api.get("schedules/nightly")
    assert (shown["call"], shown["tags"]) == (made["call"], made["tags"])


async def test_a_schedule_with_arguments_that_do_not_fit_is_refused(api: Api) -> None:
    await declared(api)
    wrong = NIGHTLY | {"args": ["seven"]}
    answer = await api.call("POST", "schedules", wrong)
    assert (answer.status, answer.json["code"]) == (400, "HF3422")
    assert "cents must be of type integer" in answer.json["error"]
    assert (await api.post("schedules", wrong | {"check": False}))["call"]["args"] == ["seven"]


async def test_a_background_task_runs_in_the_queue_that_it_declares(api: Api) -> None:
    await declared(api)
    await api.post("schedules", {"id": "mail", "every": 3600, "task": "send_mail", "args": ["a@b"]})
    run = (await api.post("schedules/mail/trigger"))["id"]
    assert (await until(api, run, "completed", "tasks"))["queue"] == "mail"


async def test_a_deleted_schedule_fires_no_more_and_its_runs_go_on(api: Api) -> None:
    await api.post("schedules", NIGHTLY | {"workflow": "approve", "args": []})
    run = (await api.post("schedules/nightly/trigger"))["id"]
    assert (await api.call("DELETE", "schedules/nightly")).json["id"] == "nightly"
    assert (await api.refused("POST", "schedules/nightly/trigger"))[0] == 404
    await until(api, run, "suspended")


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"cron": "* *"},
        {"every": 60},
        {"task": "send_mail"},
        {"workflow": None},
        {"timezone": "Mars"},
        {"overlap": "often"},
        {"catchUp": -1},
        {"tags": {"resonate:target": "x"}},
        {"retry": {"delays": [0]}, "workflow": None, "task": "t"},
        {"retry": {"retries": 3}},
        {"group": "shop", "workflow": None, "task": "t"},
        {"version": 2, "workflow": None, "task": "t"},
    ],
)
async def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        api = Api(server.url)
        assert (await api.refused("POST", "schedules", NIGHTLY | wrong))[0] == 400
        assert (await api.get("schedules"))["schedules"] == []
