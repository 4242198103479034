"""Why an open execution or background task does not go on, as the page of it says at 3 a.m.

Workers here are what they tell of themselves, so that each of their states is there without waiting for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.server.serving import running
from holdfast.server.settings import Settings
from tests.management.client import Api
from tests.server.http import call, streaming

HOUR_MS = 3_600_000


async def tell(api: Api, name: str = "w", *, group: str = "default", **more: Any) -> None:
    """A worker of the queue `mail`, unless it says otherwise, that knows to run `send`."""
    known = {"declared": "d", "declarations": [{"kind": "task", "name": "send"}]}
    await api.post(f"workers/{name}", {"group": group, "startedAt": 1, "queues": ["mail"], **known, **more})


async def send(api: Api, task: str, name: str = "send", queue: str = "mail", **more: Any) -> Any:
    await api.post("tasks", {"task": name, "queue": queue, "id": task, **more})
    return (await api.get(f"tasks/{task}")).get("obstacle")


async def start(api: Api, execution: str, **more: Any) -> Any:
    await api.post("executions", {"workflow": "pay", "id": execution, **more})
    return (await api.get(f"executions/{execution}")).get("obstacle")


async def claim(api: Api, group: str, pid: str = "w") -> None:
    """As a worker does."""
    wanted = {"groups": [group], "count": 1, "pid": pid, "ttl": HOUR_MS, "start": True}
    granted = await call(api.url, "task.claim", wanted)
    assert len(granted["tasks"]) == 1


async def test_a_paused_queue(api: Api) -> None:
    await tell(api)
    await api.post("queues/mail/pause")
    assert await send(api, "t") == {"kind": "paused", "queue": "mail"}


async def test_nobody_serves_the_group_or_the_queue(api: Api) -> None:
    await tell(api)
    assert await start(api, "e", group="nobody") == {"kind": "unserved", "group": "nobody"}
    assert await send(api, "t", queue="letters") == {"kind": "unserved", "queue": "letters"}
    assert (await api.get("queues/letters"))["served"] is False
    assert (await api.get("queues/mail"))["served"] is True


async def test_no_worker_of_the_queue_has_declared_the_task(api: Api) -> None:
    await tell(api)
    assert await send(api, "known") is None
    assert await send(api, "unknown", "burn") == {
        "kind": "undeclared", "queue": "mail", "name": "burn", "workers": 1,
    }  # fmt: skip


async def test_whoever_only_listens_may_know_everything(api: Api) -> None:
    """A worker in another language, which tells nothing of itself."""
    async with streaming(api.url, "other", "pid-7"):
        assert await start(api, "e", group="other") is None


@pytest.mark.parametrize(
    ("limits", "obstacle"),
    [
        ({"concurrency": 1}, {"limit": "concurrency", "used": 1, "most": 1}),
        ({"keyConcurrency": 1}, {"limit": "keyConcurrency", "key": "ada", "used": 1, "most": 1}),
        (
            {"rate": {"count": 1, "perMs": HOUR_MS}},
            {"limit": "rate", "used": 1, "most": 1, "perMs": HOUR_MS},
        ),
        (
            {"keyRate": {"count": 1, "perMs": HOUR_MS}},
            {"limit": "keyRate", "key": "ada", "used": 1, "most": 1, "perMs": HOUR_MS},
        ),
        ({"running": 1}, {"limit": "running", "used": 1, "most": 1}),
    ],
)
async def test_a_limit_that_is_used_up(api: Api, limits: Any, obstacle: Any) -> None:
    await tell(api)
    await api.call("PUT", "queues/mail", limits)
    await send(api, "first", limitKey="ada")
    await claim(api, "queue.mail")
    assert await send(api, "second", limitKey="ada") == {"kind": "limit", "queue": "mail", **obstacle}
    if "key" in obstacle:
        assert await send(api, "other", limitKey="bob") is None


async def test_an_execution_waits_for_a_place_in_its_queue(api: Api) -> None:
    await tell(api)
    await api.call("PUT", "queues/mail", {"keyConcurrency": 1})
    await start(api, "first", queue="mail", limitKey="ada")
    await claim(api, "queue.mail")
    assert await start(api, "second", queue="mail", limitKey="ada") == {
        "kind": "limit", "queue": "mail", "limit": "keyConcurrency", "key": "ada", "used": 1, "most": 1,
    }  # fmt: skip


async def test_all_workers_are_busy_or_drained(api: Api) -> None:
    full, free = {"workflows": {"size": 2, "used": 2}}, {"workflows": {"size": 2, "used": 1}}
    await tell(api, slots=full)
    assert await start(api, "e") == {"kind": "busy", "group": "default", "workers": 1}
    await tell(api, "w2", slots=free)
    assert (await api.get("executions/e")).get("obstacle") is None
    await tell(api, slots=free)
    await api.post("workers/w/drain")
    assert (await api.get("executions/e")).get("obstacle") is None
    await api.post("workers/w2/drain")
    assert (await api.get("executions/e"))["obstacle"] == {
        "kind": "drained", "group": "default", "workers": 2,
    }  # fmt: skip


async def test_the_worker_that_holds_it_has_stopped(api: Api) -> None:
    await tell(api)
    await start(api, "e")
    await claim(api, "default")
    held = await api.get("executions/e")
    assert "obstacle" not in held
    assert held["workerSeenAt"] >= held["createdAt"] - 60_000
    await tell(api, isStopped=True)
    held = await api.get("executions/e")
    assert (held["status"], held["obstacle"]["kind"], held["obstacle"]["state"]) == (
        "running", "lost", "stopped",
    )  # fmt: skip
    assert held["obstacle"]["worker"] == "w"


async def test_what_is_over_or_waits_for_something_else_has_none(api: Api) -> None:
    await start(api, "e", group="nobody")
    assert "obstacle" in await api.get("executions/e")
    assert "obstacle" not in await api.post("executions/e/halt")
    assert "obstacle" not in await api.post("executions/e/cancel", {"now": True})


async def test_a_prefix_token_is_told_nothing_about_groups_of_others() -> None:
    async with running(Settings(port=0, store="memory:", tokens=("all-token", "acme acme-token"))) as server:
        tenant = Api(server.url, "acme-token")
        await tenant.post("executions", {"workflow": "pay", "id": "acme-1", "group": "acme-packers"})
        assert (await tenant.get("executions/acme-1"))["obstacle"] == {
            "kind": "unserved", "group": "acme-packers",
        }  # fmt: skip
        admin = Api(server.url, "all-token")
        await admin.post("executions", {"workflow": "pay", "id": "acme-2", "group": "packers"})
        assert "obstacle" in await admin.get("executions/acme-2")
        assert "obstacle" not in await tenant.get("executions/acme-2")
