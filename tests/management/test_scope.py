"""A token with a prefix sees, changes, wakes and attracts nothing but its own, whatever it is called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from holdfast.node import workers
from holdfast.protocol.bulk import BulkSpec, bulk_creation, wanted_by
from holdfast.protocol.requests import ExecutionSearch
from holdfast.server import Settings, running
from holdfast.server.auth import Authenticator
from holdfast.server.errors import Forbidden
from tests.management.client import Api, escaped
from tests.server.http import create, envelope, post, streaming

TOKENS = ("admin-token", "acme acme-token", "acme.eu eu-token", "other other-token", "holdfast node-token")


class Tenants:
    def __init__(self, url: str) -> None:
        self.url = url
        self.admin, self.acme, self.eu, self.other, self.node = (
            Api(url, line.split()[-1]) for line in TOKENS
        )

    async def ask(self, api: Api, kind: str, data: Any) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {api.token}"}
        reply = (await post(self.url, envelope(kind, data), headers)).json
        return reply["head"]["status"], reply["data"]

    async def tell(self, api: Api, worker: str, group: str, **more: Any) -> int:
        report = {"group": group, "startedAt": 1, **more}
        return (await api.call("POST", f"workers/{escaped(worker)}", report)).status

    async def is_drained(self, api: Api, worker: str, group: str) -> bool:
        answer = await api.call("POST", f"workers/{escaped(worker)}", {"group": group, "startedAt": 1})
        assert answer.status == 200, answer.body
        return bool(answer.json.get("drain"))


@pytest.fixture(params=["memory:", "sqlite:///{}/h.db"], ids=["memory", "sqlite"])
async def tenants(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Tenants]:
    async with running(Settings(port=0, store=request.param.format(tmp_path), tokens=TOKENS)) as server:
        yield Tenants(server.url)


# --- events ------------------------------------------------------------------------------------------------


def subscription(of: str, group: str) -> dict[str, Any]:
    tags = {"resonate:target": f"poll://any@{group}"}
    return {"name": group, "id": of, "workflow": "w", "promiseTags": tags, "promiseTimeout": 1_000_000}


async def test_what_an_event_starts_lies_under_the_prefix_of_whoever_subscribed(tenants: Tenants) -> None:
    """Colons and dots of a subscription become underlines in the id of what it starts."""
    for of in ("acme:2", "acme.2", "acme"):
        status, _ = await tenants.ask(tenants.acme, "event.subscribe", subscription(of, "acme"))
        assert status == (200 if of == "acme" else 403), of
    status, _ = await tenants.ask(tenants.eu, "event.subscribe", subscription("acme.eu-x", "acme.eu"))
    assert status == 403, "it would start acme_eu-x-..., which acme.eu does not cover"
    await tenants.ask(tenants.acme, "event.send", {"name": "acme", "id": "order"})
    status, _ = await tenants.ask(tenants.acme, "promise.get", {"id": "acme-order"})
    assert status == 200
    status, _ = await tenants.ask(tenants.admin, "promise.get", {"id": "acme_2-order"})
    assert status == 404


# --- bulk operations ---------------------------------------------------------------------------------------


async def test_no_prefix_has_the_nodes_act_for_everybody(tenants: Tenants) -> None:
    """A bulk operation is an execution whose workers are the nodes; `holdfast` covers their group."""
    foreign = create("other-1", "poll://any@other", tags={"holdfast:workflow": "w"})
    assert (await tenants.ask(tenants.other, "promise.create", foreign))[0] == 200
    spec = BulkSpec("cancel", wanted_by("cancel", ExecutionSearch(), 10**15), now=True)
    creation = msgspec.to_builtins(bulk_creation("holdfast.b", spec))
    assert (await tenants.ask(tenants.node, "promise.create", creation))[0] == 403
    refused = await tenants.node.refused(
        "POST", "bulk", {"action": "cancel", "id": "holdfast.b", "all": True}
    )
    assert refused == (403, "HF3102")
    claim = {"groups": ["holdfast.bulk"], "count": 1, "pid": "p", "ttl": 60_000}
    assert (await tenants.ask(tenants.node, "task.claim", claim))[0] == 403
    async with streaming(tenants.url, "holdfast.readers", "me", "node-token") as stream:
        assert stream.status == 403
    status, found = await tenants.ask(tenants.admin, "promise.get", {"id": "other-1"})
    assert (status, found["promise"]["state"]) == (200, "pending")


def test_the_groups_of_nodes_need_an_admin_and_others_of_the_same_prefix_do_not() -> None:
    grant = Authenticator(Settings(tokens=TOKENS)).grant("node-token")
    grant.require_group("holdfast.workers")
    for group in ("holdfast.bulk", "holdfast.readers"):
        with pytest.raises(Forbidden):
            grant.require_group(group)
        with pytest.raises(Forbidden):
            grant.require_address(f"poll://any@{group}")


# --- workers -----------------------------------------------------------------------------------------------


async def test_nobody_takes_the_name_of_another_tenants_worker_or_drains_it(tenants: Tenants) -> None:
    assert await tenants.tell(tenants.other, "w-1", "other") == 200
    assert await tenants.tell(tenants.acme, "w-1", "acme") == 403
    assert (await tenants.acme.refused("POST", "workers/w-1/drain"))[0] == 404
    assert not await tenants.is_drained(tenants.other, "w-1", "other")
    await tenants.other.post("workers/w-1/drain")
    assert await tenants.is_drained(tenants.other, "w-1", "other")
    [shown] = (await tenants.admin.get("workers"))["workers"]
    assert (shown["group"], shown["state"]) == ("other", "drained")


async def test_a_name_that_only_a_stream_has_is_not_drained_by_another_tenant(tenants: Tenants) -> None:
    """Workers in other languages tell nothing, so their names are free to be told of."""
    async with streaming(tenants.url, "other", "w-1", "other-token") as stream:
        assert await tenants.tell(tenants.acme, "w-1", "acme") == 200
        await tenants.acme.post("workers/w-1/drain")
        task = create("other-1", "poll://any@other")
        assert (await tenants.ask(tenants.other, "promise.create", task))[0] == 200
        assert (await stream.task())[0] == "other-1"


async def test_a_worker_that_is_told_of_by_an_admin_becomes_the_admins(tenants: Tenants) -> None:
    assert await tenants.tell(tenants.acme, "w-1", "acme") == 200
    assert await tenants.tell(tenants.admin, "w-1", "acme") == 200
    assert await tenants.tell(tenants.acme, "w-1", "acme") == 403


def declared(digest: str, queue: str, about: str = "") -> dict[str, Any]:
    told = {"kind": "task", "name": "charge", "version": 9, "queue": queue, "about": about}
    return {"declared": digest, "declarations": [told]}


async def test_declarations_are_replaced_by_nobody_else_under_the_same_digest(tenants: Tenants) -> None:
    assert await tenants.tell(tenants.other, "w-1", "other", **declared("d", "other", "ours")) == 200
    assert await tenants.tell(tenants.acme, "w-2", "acme", **declared("d", "acme", "theirs")) == 200
    [shown] = (await tenants.other.get("declarations"))["declarations"]
    assert (shown["queue"], shown["about"]) == ("other", "ours")
    assert await tenants.tell(tenants.acme, "w-3", "acme", **declared("e", "other")) == 403


async def test_a_tenant_does_not_draw_tasks_of_others_to_its_queue(tenants: Tenants) -> None:
    assert await tenants.tell(tenants.acme, "w-1", "acme", **declared("d", "acme")) == 200
    assert (await tenants.admin.refused("POST", "tasks", {"task": "charge", "args": [100]}))[0] == 400
    sent = await tenants.acme.post("tasks", {"task": "charge", "args": [100]})
    assert sent["group"] == "queue.acme", "its own are sent where its own workers say"
    assert await tenants.tell(tenants.admin, "w-2", "default", **declared("e", "money")) == 200
    sent = await tenants.admin.post("tasks", {"task": "charge", "args": [100]})
    assert sent["group"] == "queue.money"


async def test_a_page_of_workers_is_filled_past_those_of_others(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "workers_page", 2)
    for number in range(5):
        assert await tenants.tell(tenants.other, f"a-{number}", "other") == 200
    for number in range(3):
        assert await tenants.tell(tenants.acme, f"b-{number}", "acme") == 200
    page = await tenants.acme.get("workers", limit=2)
    assert [each["id"] for each in page["workers"]] == ["b-0", "b-1"]
    page = await tenants.acme.get("workers", limit=2, cursor=page["cursor"])
    assert [each["id"] for each in page["workers"]] == ["b-2"]
    assert "cursor" not in page


# --- what workers make grow --------------------------------------------------------------------------------


async def test_the_report_of_a_worker_has_a_bound_in_bytes(tenants: Tenants) -> None:
    slots = {f"slot-{number}": {"size": 1, "used": 0} for number in range(4_000)}
    assert await tenants.tell(tenants.acme, "w-1", "acme", slots=slots) == 400
    assert (await tenants.admin.get("workers"))["workers"] == []


async def test_one_prefix_has_so_many_new_workers_and_takes_the_room_of_no_other(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "known_in_scope_max", 3)
    told = [await tenants.tell(tenants.acme, f"w-{number}", "acme", isStopped=True) for number in range(4)]
    assert told == [200, 200, 200, 429]
    assert await tenants.tell(tenants.acme, "w-1", "acme") == 200, "who is known goes on"
    assert await tenants.tell(tenants.other, "w-9", "other") == 200


async def test_workers_that_were_not_heard_of_for_long_make_room_for_others(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a node that lives long would refuse all new ones, after as many were killed."""
    monkeypatch.setattr(workers, "known_max", 2)
    assert [await tenants.tell(tenants.admin, f"w-{n}", "g") for n in range(3)] == [200, 200, 429]
    monkeypatch.setattr(workers, "known_ms", -1)
    assert await tenants.tell(tenants.admin, "w-3", "g") == 200


async def test_of_the_declarations_of_one_prefix_the_oldest_go(
    tenants: Tenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "declared_in_scope_max", 2)
    assert await tenants.tell(tenants.other, "w-o", "other", **declared("d0", "other")) == 200
    for number in range(4):
        told: dict[str, Any] = {**declared(f"d{number}", "acme"), "host": str(number)}
        told["declarations"][0]["name"] = f"task-{number}"
        assert await tenants.tell(tenants.acme, f"w-{number}", "acme", **told) == 200
    shown = (await tenants.admin.get("declarations"))["declarations"]
    assert [each["name"] for each in shown] == ["charge", "task-2", "task-3"]
