"""The management API against a real server: everything that it shows and does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api, escaped
from tests.postgres import database_url
from tests.server.http import call, create, envelope, post


def charge(cents: int) -> str:
    if cents < 0:
        raise ValueError("too little")
    return f"paid {cents}"


def shop(url: str) -> hf.App:
    app = hf.App(url)

    @app.workflow
    async def checkout(cents: int, *, note: str = "") -> str:
        return await hf.run(charge, cents) + note

    @app.workflow
    async def approve() -> str:
        return await hf.promise(str, timeout="1h")

    @app.task(queue="mail")
    def send_mail(address: str) -> str:
        if "@" not in address:
            raise ValueError(address)
        return address

    return app


class Shop(Api):
    """The API of a server, and an app that works for it."""

    def __init__(self, url: str, app: hf.App) -> None:
        super().__init__(url)
        self.app = app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    stores = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/h.db"}
    store = stores[request.param] if request.param in stores else database_url()
    async with running(Settings(port=0, store=store)) as server:
        app = shop(server.url)
        async with app:
            yield Shop(server.url, app)


async def until(api: Api, execution: str, status: str, kind: str = "executions") -> Any:
    last = b""
    for _ in range(3_000):
        answer = await api.call("GET", f"{kind}/{escaped(execution)}")
        if answer.status == 200 and answer.json["status"] == status:
            return answer.json
        last = answer.body
        await asyncio.sleep(0.01)
    raise AssertionError(f"{execution} is not {status}: {last!r}")


async def test_a_workflow_is_started_with_plain_json_and_looked_at(api: Api) -> None:
    asked = {"workflow": "checkout", "args": [5], "kwargs": {"note": "!"}, "id": "a/b", "tags": {"c": "4"}}
    begun = await api.post("executions", asked)
    assert (begun["id"], begun["name"], begun["tags"]["c"]) == ("a/b", "checkout", "4")
    done = await until(api, "a/b", "completed")
    assert done["result"] == "paid 5!"
    assert done["call"] == {"workflow": "checkout", "version": 0, "args": [5], "kwargs": {"note": "!"}}
    [step] = (await api.get(f"executions/{escaped('a/b')}/steps", results="true"))["steps"]
    assert (step["kind"], step["name"], step["state"], step["value"]) == (
        "step",
        "charge",
        "completed",
        "paid 5",
    )
    history = await api.get(f"executions/{escaped('a/b')}/history")
    assert history["format"] == "holdfast-history-1"
    assert [record["id"] for record in history["records"]] == ["a/b:1"]


async def test_the_same_call_under_an_id_is_one_and_another_is_refused(api: Api) -> None:
    asked = {"workflow": "checkout", "args": [5], "id": "one"}
    await api.post("executions", asked)
    await until(api, "one", "completed")
    assert (await api.post("executions", asked))["status"] == "completed"
    assert await api.refused("POST", "executions", asked | {"args": [6]}) == (409, "HF3402")


async def test_a_fork_with_other_arguments_keeps_the_headers_of_the_call(api: Shop) -> None:
    @api.app.middleware("start")
    def traced(invocation: hf.types.Invocation) -> Generator[None, Any, None]:
        invocation.headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        yield

    seen: dict[str, str | None] = {}

    @api.app.middleware("workflow")
    def look(invocation: hf.types.Invocation) -> Generator[None, Any, None]:
        seen[invocation.id] = invocation.headers.get("traceparent")
        yield

    await api.app.start("checkout", 5, id="one")
    await api.post("executions/one/fork", {"before": "charge", "args": [6], "id": "two"})
    assert (await until(api, "two", "completed"))["result"] == "paid 6"
    assert seen["one"] == seen["two"] == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_what_is_not_there_is_said_to_be_no_execution(api: Api) -> None:
    for path in ("", "/steps", "/history", "/timeline"):
        answer = await api.call("GET", f"executions/nosuch{path}")
        assert (answer.status, answer.json["code"]) == (404, "HF1401"), path
        assert "There is no execution 'nosuch'" in answer.json["error"]
    for action in ("cancel", "halt", "resume", "retry"):
        assert await api.refused("POST", f"executions/nosuch/{action}") == (404, "HF1401"), action
    fork = {"before": "charge", "args": [1]}
    assert await api.refused("POST", "executions/nosuch/fork", fork) == (404, "HF1401")
    assert await api.refused("GET", "tasks/nosuch") == (404, "HF1102")
    assert await api.refused("POST", "tasks/nosuch/rerun") == (404, "HF1102")


async def test_another_fork_under_the_id_of_one_is_refused(api: Api) -> None:
    await api.post("executions", {"workflow": "checkout", "args": [5], "id": "c5"})
    await until(api, "c5", "completed")
    fork = {"before": "charge", "args": [6], "id": "c6"}
    assert (await api.post("executions/c5/fork", fork))["id"] == "c6"
    assert (await api.post("executions/c5/fork", fork))["id"] == "c6"
    assert await api.refused("POST", "executions/c5/fork", fork | {"args": [7]}) == (409, "HF3402")
    other = {"before": "c5:1", "id": "c6"}
    assert await api.refused("POST", "executions/c5/fork", other) == (409, "HF1701")


async def test_everything_is_changed_only_if_that_is_asked_for_by_name(api: Api) -> None:
    for action in ("cancel", "retry", "halt", "resume"):
        assert await api.refused("POST", "bulk", {"action": action}) == (400, "HF3401")
        assert await api.refused("POST", "bulk", {"action": action, "status": []}) == (400, "HF3401")
    begun = await api.post("bulk", {"action": "cancel", "all": True, "id": "everything"})
    assert begun["id"] == "everything"
    assert (await api.post("bulk", {"action": "cancel", "kind": "task"}))["action"] == "cancel"


async def test_executions_are_found_newest_first_and_counted(api: Api) -> None:
    for number in (1, -1, 2):
        await api.post("executions", {"workflow": "checkout", "args": [number], "id": f"c{number}"})
        await until(api, f"c{number}", "failed" if number < 0 else "completed")
    found = await api.get("executions", limit=2)
    assert [each["id"] for each in found["executions"]] == ["c2", "c-1"]
    rest = await api.get("executions", limit=2, cursor=found["cursor"])
    assert [each["id"] for each in rest["executions"]] == ["c1"]
    assert "cursor" not in rest
    failed = await api.get("executions", status="failed,cancelled", error="ValueError", name="checkout")
    assert [each["id"] for each in failed["executions"]] == ["c-1"]
    misspelt = await api.call("GET", "executions", None, None, status="completed,fialed")
    assert "status='fialed' is not one of pending, waiting" in misspelt.json["error"]
    assert (await api.get("executions/c-1"))["failure"]["message"] == "too little"
    counts = (await api.get("counts", name="checkout"))["executions"]["counts"]
    assert {status: number for status, number in counts.items() if number} == {"completed": 2, "failed": 1}


async def test_what_an_execution_waits_for_is_shown_and_settled_by_hand(api: Api) -> None:
    await api.post("executions", {"workflow": "approve", "id": "w"})
    waiting = await until(api, "w", "suspended")
    [wait] = waiting["waits"]
    assert (wait["id"], wait["what"], wait["file"].rpartition("/")[2]) == ("w:1", "promise", "test_api.py")
    [found] = (await api.get("promises", prefix="w:", state="pending"))["promises"]
    assert found["id"] == "w:1"
    settled = await api.post(f"promises/{escaped('w:1')}/resolve", {"value": "yes"})
    assert (settled["state"], settled["value"]) == ("resolved", "yes")
    assert (await until(api, "w", "completed"))["result"] == "yes"
    assert (await api.post(f"promises/{escaped('w:1')}/resolve", {"value": "yes"}))["value"] == "yes"
    assert await api.refused("POST", f"promises/{escaped('w:1')}/resolve", {"value": "no"}) == (409, "HF3404")
    assert await api.refused("POST", "promises/w/resolve", {"value": 1}) == (409, "HF3403")


async def test_a_promise_is_rejected_with_an_error(api: Api) -> None:
    await api.post("executions", {"workflow": "approve", "id": "w"})
    await until(api, "w", "suspended")
    await api.post(f"promises/{escaped('w:1')}/reject", {"message": "no budget", "name": "Refused"})
    failed = await until(api, "w", "failed")
    assert "no budget" in failed["failure"]["message"]


async def test_an_execution_is_halted_resumed_and_cancelled(api: Api) -> None:
    await api.post("executions", {"workflow": "approve", "id": "w"})
    await until(api, "w", "suspended")
    halted = await api.post("executions/w/halt", {"reason": "wait for the fix", "code": "BUG"})
    assert (halted["status"], halted["error"], halted["code"]) == ("halted", "wait for the fix", "BUG")
    await api.post("executions/w/resume")
    await until(api, "w", "suspended")
    await api.post("executions/w/cancel")
    await until(api, "w", "cancelled")


async def test_an_execution_is_ended_at_once(api: Api) -> None:
    await api.post("executions", {"workflow": "nobody knows it", "id": "w", "group": "nobody"})
    assert (await api.post("executions/w/cancel", {"now": True}))["status"] == "cancelled"


async def test_a_start_may_be_delayed_and_must_be_over_in_time(api: Api) -> None:
    asked = {"workflow": "checkout", "args": [1], "id": "late", "delay": 600, "timeout": 1_200}
    begun = await api.post("executions", asked)
    assert begun["status"] == "waiting"
    assert 599_000 < begun["dueAt"] - begun["createdAt"] < 601_000
    assert 1_229_000 < begun["timeoutAt"] - begun["createdAt"] < 1_231_000, "the grace is 30 s"
    ended = await api.post("executions", {**asked, "id": "at once", "grace": 0})
    assert 1_199_000 < ended["timeoutAt"] - ended["createdAt"] < 1_201_000


async def test_a_bulk_operation_is_what_its_id_was_first_asked_for(api: Api) -> None:
    await api.post("executions", {"workflow": "approve", "id": "a", "delay": 3600})
    halt = {"action": "halt", "name": "approve", "id": "stop"}
    for _ in range(2):
        await api.post("bulk", halt)
        assert (await until(api, "stop", "completed", "bulk"))["done"] == 1
    assert await api.refused("POST", "bulk", halt | {"action": "cancel"}) == (409, "HF3402")
    assert await api.refused("POST", "bulk", halt | {"id": "a"}) == (409, "HF3402")
    fork = {"action": "fork", "name": "approve", "status": ["halted"], "id": "forked"}
    assert await api.refused("POST", "bulk", fork) == (400, "HF3401")
    assert await api.refused("POST", "bulk", halt | {"id": "h", "before": "pay"}) == (400, "HF3401")
    await api.post("bulk", fork | {"before": "no such step"})
    assert (await until(api, "forked", "completed", "bulk"))["codes"] == {"HF1707": 1}


async def test_background_tasks_are_found_cancelled_and_run_again(api: Shop) -> None:
    task: Any = api.app.tasks.get("send_mail")
    good = await task.send_async("ada@example.org")
    bad = await task.send_async("ada")
    await until(api, good.id, "completed", "tasks")
    failed = await until(api, bad.id, "failed", "tasks")
    assert failed["job"]["attempts"][0]["outcome"] == "FAILED"
    assert failed["queue"] == "mail"
    found = (await api.get("tasks", status="failed"))["tasks"]
    assert [each["id"] for each in found] == [bad.id]
    again = await api.post(f"tasks/{escaped(bad.id)}/rerun")
    assert again["id"] != bad.id
    assert again["tags"]["holdfast:rerun-of"] == bad.id
    assert await api.refused("POST", f"tasks/{escaped(good.id)}/rerun") == (409, "HF3406")
    assert (await api.refused("POST", f"tasks/{escaped(good.id)}/cancel"))[0] == 409


async def test_a_list_of_what_failed_says_with_what(api: Shop) -> None:
    await api.post("executions", {"workflow": "checkout", "args": [-1], "id": "f1"})
    await until(api, "f1", "failed")
    await api.post("executions", {"workflow": "checkout", "args": [1], "id": "f2"})
    await until(api, "f2", "completed")
    found = {each["id"]: each for each in (await api.get("executions", prefix="f"))["executions"]}
    assert (found["f1"]["code"], found["f1"]["error"]) == ("ValueError", "too little")
    assert "error" not in found["f2"]
    sent = await api.post("tasks", {"task": "send_mail", "queue": "mail", "args": ["ada"]})
    await until(api, sent["id"], "failed", "tasks")
    [listed] = (await api.get("tasks", status="failed"))["tasks"]
    assert listed["error"] == "ada"


async def test_what_a_codec_has_written_of_an_error_stays_unread_in_a_list(api: Shop) -> None:
    target = "poll://any@nobody"
    await call(api.url, "promise.create", create("secret", target, tags={"holdfast:workflow": "w"}))
    value = {"headers": {"holdfast-code": "Declined"}, "data": "\u00ff not json"}
    await call(api.url, "promise.settle", {"id": "secret", "state": "rejected", "value": value})
    [listed] = (await api.get("executions", prefix="secret"))["executions"]
    assert listed["code"] == "Declined"
    assert "error" not in listed


async def test_an_attempt_that_another_one_follows_says_what_it_failed_with(api: Shop) -> None:
    """The page of a task showed the payload in which that is stored."""
    again = {"retries": 1, "delays": [3_600_000]}
    sent = await api.post("tasks", {"task": "send_mail", "queue": "mail", "args": ["ada"], "retry": again})
    found = await until(api, sent["id"], "waiting", "tasks")
    [attempt] = found["job"]["attempts"]
    assert attempt["error"] == "ada"
    assert "ValueError: ada" in attempt["traceback"]


async def test_queues_are_shown_limited_paused_and_resumed(api: Api) -> None:
    limits = await api.call("PUT", "queues/mail", {"concurrency": 2, "rate": {"count": 5, "perMs": 1_000}})
    assert limits.json["concurrency"] == 2
    assert (await api.post("queues/mail/pause"))["paused"] is True
    [queue] = (await api.get("queues"))["queues"]
    assert (queue["name"], queue["paused"], queue["rate"]["count"]) == ("mail", True, 5)
    assert (await api.post("queues/mail/resume"))["paused"] is False
    assert (await api.get("queues/mail"))["pending"] == 0


async def test_a_queue_shows_what_is_used_of_its_limits_by_key_and_the_age_of_the_oldest(api: Api) -> None:
    hour = {"count": 2, "perMs": 3_600_000}
    await api.call("PUT", "queues/mail", {"concurrency": 5, "rate": hour, "keyRate": {**hour, "count": 1}})
    first = await api.post(
        "tasks", {"task": "send_mail", "queue": "mail", "args": ["a@b"], "limitKey": "ada"}
    )
    await until(api, first["id"], "completed", "tasks")
    await api.post("queues/mail/pause")
    sent = {"task": "send_mail", "queue": "mail", "args": ["a@b"]}
    waiting = [
        await api.post("tasks", sent | more)
        for more in (
            {"limitKey": "bob"},
            {"limitKey": "ada"},
            {"limitKey": "bob"},
            {"limitKey": "bob", "delay": 3_600},
            {},
        )
    ]
    queue = await api.get("queues/mail")
    assert queue["used"] == {"begun": 1}
    assert queue["oldestAt"] == waiting[0]["createdAt"]
    assert not queue["moreKeys"]
    assert [(each.get("key"), each["pending"], each.get("begun", 0)) for each in queue["keys"]] == [
        ("bob", 3, 0),
        ("ada", 1, 1),
        (None, 1, 0),
    ]
    [listed] = (await api.get("queues"))["queues"]
    assert listed["oldestAt"] == waiting[0]["createdAt"]


async def test_what_a_worker_holds_is_counted_under_its_key(api: Api) -> None:
    await api.call("PUT", "queues/slow", {"concurrency": 5, "keyConcurrency": 1})
    for key in ("ada", "ada", "bob"):
        await api.post("tasks", {"task": "rest", "queue": "slow", "limitKey": key, "check": False})
    asked = {"groups": ["queue.slow"], "count": 5, "pid": "w", "ttl": 60_000}
    [reply] = (await post(api.url, [envelope("task.claim", asked)])).json
    assert len(reply["data"]["tasks"]) == 2
    queue = await api.get("queues/slow")
    assert queue["used"] == {"counted": 2, "claimed": 2}
    assert [(each["key"], each.get("pending", 0), each["counted"]) for each in queue["keys"]] == [
        ("ada", 1, 1),
        ("bob", 0, 1),
    ]


async def test_workers_are_shown_with_what_they_hold(api: Api) -> None:
    [worker] = (await api.get("workers"))["workers"]
    assert "default" in worker["groups"]
    assert worker["held"] == []


async def test_schedules_are_shown_and_deleted(tmp_path: Path) -> None:
    async with running(Settings(port=0, store="memory:")) as server:
        app = shop(server.url)

        @app.schedule(cron="0 3 * * *", timezone="Europe/Berlin", id="nightly", args=(7,))
        @app.workflow
        async def report(number: int) -> None: ...

        async with app:
            api = Api(server.url)
            [found] = (await api.get("schedules"))["schedules"]
            assert (found["id"], found["cron"], found["call"]["args"]) == ("nightly", "0 3 * * *", [7])
            assert (await api.call("DELETE", "schedules/nightly")).status == 200
            assert (await api.refused("GET", "schedules/nightly"))[0] == 404


async def test_a_payload_that_is_not_plain_json_is_shown_as_it_is(api: Api) -> None:
    answer = await api.get("promises", prefix="none")
    assert answer == {"promises": []}
    await post(api.url, envelope("promise.create", create("secret", param={"data": "c2VjcmV0"})))
    assert (await api.get("promises/secret"))["param"] == {"encoded": "c2VjcmV0"}
